//! Cleanup after this process is killed: a shell that waits for its end.
//!
//! A program that is killed with -9 cannot stop its servers. So a shell, in a process group of its own, reads
//! from a pipe that only this process holds open. When the pipe ends, every process with the scratch folder
//! as its `TMPDIR` is killed, and the folder is removed. (The parent-death signal would be lost where a
//! server started by root changes its account.)

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::Result;
use crate::error::Tried;

/// `$1` is the folder. The scan is repeated, because a server may be about to start another process.
const SCRIPT: &str = r#"
trap '' HUP INT TERM
read -r _
for round in 1 2 3; do
    for file in $(grep -lzxF "TMPDIR=$1" /proc/[0-9]*/environ 2>/dev/null); do
        pid=${file#/proc/}
        kill -9 "${pid%/environ}" 2>/dev/null
    done
done
rm -rf -- "$1"
"#;

/// A shell that kills the processes of a folder and removes the folder, when this process ends or the value
/// is dropped. If the folder is gone by then, it has nothing to do.
#[derive(Debug)]
pub struct Watchdog {
    shell: Child,
}

impl Watchdog {
    /// Watches a folder and every process that has it as `TMPDIR`.
    pub fn over(folder: &Path) -> Result<Watchdog> {
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT, "watchdog"]).arg(folder).env_remove("TMPDIR");
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        Ok(Watchdog { shell: command.spawn().tried(|| "starting a shell".into())? })
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        // A failure cannot be reported any more.
        let _ = self.shell.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ours_ends_with_us_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder").keep();
        let mut ours = Command::new("sleep").arg("600").env("TMPDIR", &folder).spawn().expect("sleep");
        let mut other = Command::new("sleep").arg("600").spawn().expect("sleep");
        drop(Watchdog::over(&folder).expect("a shell"));
        assert!(!ours.wait().expect("it ends").success());
        assert!(!folder.exists());
        assert!(other.try_wait().expect("its state").is_none(), "another process was killed");
        other.kill().and_then(|()| other.wait()).expect("it ends");
    }
}
