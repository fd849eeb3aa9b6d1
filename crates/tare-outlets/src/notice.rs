//! Messages on standard error.
//!
//! Standard error may be a full disk, or a pipe that nobody reads any more. Then `eprintln!` panics, which
//! would silently end a working task. So failures are ignored here.

use std::fmt::Display;
use std::io::{self, Write as _};

/// Writes a line to standard error; ignores failures.
pub fn write(line: impl Display) {
    let _nobody_hears = io::stderr().write_all(format!("{line}\n").as_bytes());
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::process::Command;

    use super::*;

    /// Environment variable of the child process in the test below.
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
