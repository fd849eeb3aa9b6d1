//! A running program, and the operating system's data about it.

use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use tare_server::process;

use crate::{Failure, Result};

/// A process that ends, at the latest, with the test.
#[derive(Debug)]
pub struct TestProcess {
    child: Child,
}

impl TestProcess {
    pub(crate) fn new(child: Child) -> TestProcess {
        TestProcess { child }
    }

    /// Starts a program.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn spawn(command: &mut Command) -> Result<TestProcess> {
        let child = command.spawn().map_err(Failure::io(format!("start {command:?}")))?;
        Ok(TestProcess::new(child))
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
        let sent = kill(process::as_pid(self.id()), signal);
        sent.map_err(|e| Failure::Setup(format!("send {signal} to the server: {e}")))
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// When it has not ended after `limit`.
    pub fn wait(&mut self, limit: Duration) -> Result<ExitStatus> {
        let ended = tare_server::poll(limit, || self.ended().transpose());
        ended.unwrap_or_else(|| Err(Failure::Setup(format!("the server still runs after {limit:?}"))))
    }

    /// Returns its resident memory in bytes (`VmRSS`).
    ///
    /// # Errors
    /// When the process is gone.
    pub fn resident(&self) -> Result<u64> {
        Ok(process::resident(self.id())?)
    }

    /// Returns the paths of the process's mapped files that contain `part`.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn maps(&self, part: &str) -> Result<Vec<String>> {
        Ok(process::maps(self.id(), part)?)
    }

    /// Returns the kernel's numbers of the process's threads whose names start with `begin`. The kernel keeps
    /// 15 bytes of a name.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn threads_named(&self, begin: &str) -> Result<Vec<u32>> {
        Ok(process::threads_named(self.id(), begin)?)
    }

    /// Returns whether there are threads whose names start with `begin`, and none of them runs or wants to.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn are_asleep(&self, begin: &str) -> Result<bool> {
        Ok(process::are_asleep(self.id(), begin)?)
    }
}

impl Drop for TestProcess {
    fn drop(&mut self) {
        // Either may fail only because the process has ended, which is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
