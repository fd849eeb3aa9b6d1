//! A running program, and the operating system's data about it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::{Failure, Result};

/// A process that ends, at the latest, with the test.
#[derive(Debug)]
pub struct Process {
    child: Child,
}

impl Process {
    pub(crate) fn new(child: Child) -> Process {
        Process { child }
    }

    /// Starts a program.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn spawn(command: &mut Command) -> Result<Process> {
        let child = command.spawn().map_err(Failure::io(format!("start {command:?}")))?;
        Ok(Process::new(child))
    }

    /// Returns its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns its exit status, if it has ended.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        self.child.try_wait().map_err(Failure::io("ask for the server's state"))
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let id = Pid::from_raw(i32::try_from(self.id()).unwrap_or(i32::MAX));
        kill(id, signal).map_err(|e| Failure::Setup(format!("send {signal} to the server: {e}")))
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// When it has not ended after `limit`.
    pub fn wait(&mut self, limit: Duration) -> Result<ExitStatus> {
        let begin = Instant::now();
        loop {
            if let Some(status) = self.ended()? {
                return Ok(status);
            }
            if begin.elapsed() > limit {
                return Err(Failure::Setup(format!("the server still runs after {limit:?}")));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Returns its resident memory in bytes (`VmRSS`).
    ///
    /// # Errors
    /// When the process is gone.
    pub fn resident(&self) -> Result<u64> {
        let status = self.proc_file("status")?;
        let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = kib.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok());
        kib.map(|kib| kib * 1024).ok_or_else(|| Failure::Setup("no VmRSS: the server is gone".into()))
    }

    /// Returns the CPU time used so far, user and system.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn cpu(&self) -> Result<Duration> {
        let stat = self.proc_file("stat")?;
        // The name in parentheses may contain blanks; user and system time are fields 14 and 15 of the whole.
        let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        let ticks: u64 = fields.skip(11).take(2).filter_map(|f| f.parse::<u64>().ok()).sum();
        // Linux reports in hundredths of a second on every architecture.
        Ok(Duration::from_millis(ticks * 10))
    }

    /// Returns the names of its mapped files that contain `part`.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn maps(&self, part: &str) -> Result<Vec<String>> {
        Ok(mapped(&self.proc_file("maps")?, part))
    }

    /// Returns the number of its threads.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn threads(&self) -> Result<usize> {
        let path = format!("/proc/{}/task", self.id());
        Ok(std::fs::read_dir(&path).map_err(Failure::io(path))?.count())
    }

    /// Returns the folders in `/proc` of its threads whose names, of at most 15 bytes, start with `begin`.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn threads_named(&self, begin: &str) -> Result<Vec<PathBuf>> {
        let path = format!("/proc/{}/task", self.id());
        let tasks = std::fs::read_dir(&path).map_err(Failure::io(path))?;
        // A thread that cannot be read has just ended.
        let name = |task: &Path| std::fs::read_to_string(task.join("comm")).unwrap_or_default();
        let named = tasks.flatten().map(|task| task.path()).filter(|task| name(task).starts_with(begin));
        Ok(named.collect())
    }

    fn proc_file(&self, name: &str) -> Result<String> {
        let path = format!("/proc/{}/{name}", self.id());
        std::fs::read_to_string(&path).map_err(Failure::io(path))
    }
}

fn mapped(maps: &str, part: &str) -> Vec<String> {
    let mut names: Vec<String> = maps
        .lines()
        .filter_map(|line| line.split_whitespace().nth(5))
        .filter(|name| name.contains(part))
        .map(str::to_owned)
        .collect();
    names.dedup();
    names
}

impl Drop for Process {
    fn drop(&mut self) {
        // Either may fail only because the process has ended, which is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
