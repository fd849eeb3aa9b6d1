//! Lines for people, on standard error.
//!
//! Standard error may be a disk that is full, or a pipe that nobody reads any more. `eprintln!` panics then, which ends what
//! goes on well otherwise: a task without a word. So what nobody can be told is left out here.

use std::fmt::Display;
use std::io::{self, Write as _};

/// Writes a line.
pub fn write(line: impl Display) {
    let _nobody_hears = io::stderr().write_all(format!("{line}\n").as_bytes());
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::process::Command;

    use super::*;

    /// Set for the child of the test below.
    const CHILD: &str = "TARE_TEST_NOTICE";

    #[test]
    fn what_nobody_can_be_told_is_left_out() {
        if std::env::var_os(CHILD).is_some() {
            return write("somebody hears this");
        }
        let program = std::env::current_exe().expect("this program");
        let child = || {
            let mut child = Command::new(&program);
            let name = "notice::tests::what_nobody_can_be_told_is_left_out";
            child.args(["--exact", name, "--nocapture"]).env(CHILD, "");
            child
        };
        let heard = child().output().expect("a child");
        assert_eq!((heard.status.success(), &*heard.stderr), (true, &b"somebody hears this\n"[..]));
        let full = OpenOptions::new().write(true).open("/dev/full").expect("the device");
        let unheard = child().stderr(full).output().expect("a child");
        assert!(unheard.status.success(), "{unheard:?}");
        assert!(String::from_utf8_lossy(&unheard.stdout).contains("1 passed"), "{unheard:?}");
    }
}
