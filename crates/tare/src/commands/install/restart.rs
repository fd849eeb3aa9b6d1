//! The restart of a server, and the check that it starts correctly.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tare_lab::interrupt::Interrupt;

use super::Servers;
use crate::checks;
use crate::endpoint::{self, EndpointReach};
use crate::server::FoundServer;
use crate::server::process::ServerProcess;
use crate::server::unit::SystemdUnit;

/// Interval of checks.
const PAUSE: Duration = Duration::from_millis(100);
/// Least time limit of a restart that undoes changes: a server that is killed while it starts would be worse.
const AGAIN: Duration = Duration::from_secs(60);
/// How long a command may take to end before it is killed.
const GRACE: Duration = Duration::from_secs(5);
/// Most bytes of a command's output that are shown.
const TOLD: u64 = 2000;

/// How a server is restarted, and what to wait for.
pub(super) struct Restart {
    unit: String,
    /// The unit that tries what it is to preload.
    trial: Option<String>,
    command: Option<String>,
    limit: Duration,
    endpoint: PathBuf,
    /// The process in which tare was active at first.
    before: Option<u32>,
    interrupt: Interrupt,
}

impl Restart {
    /// Prepares the restart of a server in its present state.
    pub(super) fn new(server: &FoundServer, arguments: &Servers, interrupt: &Interrupt) -> Restart {
        let endpoint = server.endpoint(&server.prospect());
        Restart {
            unit: server.name(),
            trial: server.unit.as_ref().map(SystemdUnit::trial_unit),
            command: arguments.restart_command.clone(),
            limit: arguments.limit,
            before: serving(&endpoint),
            endpoint,
            interrupt: interrupt.clone(),
        }
    }

    /// Returns whether tare is active, or not, as wanted.
    pub(super) fn is_as_wanted(&self, active: bool) -> bool {
        self.before.is_some() == active
    }

    /// Returns whether systemd knows that the server is stopped. That may be on purpose, and a restart would
    /// start it.
    pub(super) fn is_stopped(&self) -> bool {
        if self.command.is_some() {
            return false;
        }
        // If systemd cannot be queried, the restart will fail with the reason.
        let asked = Command::new("systemctl").args(["is-active", &self.unit]).output();
        let state = asked.map(|said| String::from_utf8_lossy(&said.stdout).trim().to_owned());
        state.is_ok_and(|state| ["inactive", "failed", "deactivating"].contains(&&*state))
    }

    /// Returns the process in which tare is active.
    pub(super) fn process(&self) -> Option<ServerProcess> {
        ServerProcess::look(self.before?).ok()
    }

    /// Restarts the server and waits until tare answers in it, or is gone. The time limit covers both.
    pub(super) fn run(&self, active: bool) -> Result<()> {
        let begin = Instant::now();
        self.restart(self.limit, &self.interrupt)?;
        loop {
            let now = serving(&self.endpoint);
            if if active { now.is_some() && now != self.before } else { now.is_none() } {
                return Ok(());
            }
            self.interrupt.check()?;
            if begin.elapsed() > self.limit {
                let what = if active { "did not answer" } else { "still answered" };
                bail!(
                    "tare {what} at {} within {} s of the restart; `tare doctor --unit {}` before that says why",
                    self.endpoint.display(),
                    self.limit.as_secs(),
                    self.unit
                );
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Notes what the restarted server runs with, for `tare doctor` after the next update.
    pub(super) fn note(&self, server: &FoundServer) {
        let process = serving(&self.endpoint).and_then(|pid| ServerProcess::look(pid).ok());
        checks::note(&FoundServer { process, ..server.clone() });
    }

    /// Restarts the server as it was. It cannot be interrupted.
    pub(super) fn again(&self) -> Result<()> {
        self.restart(self.limit.max(AGAIN), &Interrupt::default())
    }

    /// Restarts the server. At the time limit only the command ends: systemd continues its job.
    fn restart(&self, limit: Duration, interrupt: &Interrupt) -> Result<()> {
        let end = Instant::now() + limit;
        let run = |command: &mut Command| {
            let left = end.saturating_duration_since(Instant::now());
            let ended = run(command, left, interrupt)?;
            ended.with_context(|| format!("{command:?} did not end within {} s", limit.as_secs()))
        };
        match &self.command {
            Some(command) => run(Command::new("sh").args(["-c", command]).env("TARE_UNIT", &self.unit)),
            None => {
                run(Command::new("systemctl").arg("daemon-reload"))?;
                // Otherwise systemd would still list a failed trial, even of a unit that is gone; usually
                // there is none.
                if let Some(trial) = &self.trial {
                    let _ = run(Command::new("systemctl").args(["reset-failed", trial]));
                }
                run(Command::new("systemctl").args(["restart", &self.unit]))
            }
        }
    }
}

/// Returns the process in which tare answers, if any.
fn serving(endpoint: &std::path::Path) -> Option<u32> {
    if !matches!(endpoint::reach(endpoint), Ok(EndpointReach::Answers)) {
        return None;
    }
    let rows = endpoint::ask(endpoint).ok()?.status;
    rows.into_iter().find(|row| row.name == "pid")?.value.parse().ok()
}

/// Runs a command; `None` if it did not end in time, and was killed. Processes that it leaves running are not
/// waited for, as its standard error is a file, not a pipe.
fn run(command: &mut Command, limit: Duration, interrupt: &Interrupt) -> Result<Option<()>> {
    let shown = format!("{command:?}");
    let mut said = tempfile::tempfile().context("making a temporary file")?;
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said.try_clone()?);
    // Ctrl-C in a terminal goes to the whole process group, but this process ends the command with everything
    // it started.
    let mut child = command.process_group(0).spawn().with_context(|| format!("running {shown}"))?;
    let waited = wait(&mut child, limit, interrupt);
    if !matches!(waited, Ok(Some(_))) {
        end(&mut child);
    }
    match waited? {
        Some(status) if !status.success() => bail!("{shown} failed ({status}): {}", tail(&mut said)),
        ended => Ok(ended.map(drop)),
    }
}

fn wait(child: &mut Child, limit: Duration, interrupt: &Interrupt) -> tare_lab::Result<Option<ExitStatus>> {
    // A child that cannot be waited for is gone.
    interrupt.wait_for(limit, || Ok(child.try_wait().ok().flatten()))
}

/// Ends a command and what it has started.
fn end(child: &mut Child) {
    let group = Pid::from_raw(child.id().cast_signed());
    let _ = killpg(group, Signal::SIGTERM);
    if !matches!(wait(child, GRACE, &Interrupt::default()), Ok(Some(_))) {
        let _ = killpg(group, Signal::SIGKILL);
        let _ = child.wait();
    }
}

/// Returns the end of a command's output.
fn tail(said: &mut File) -> String {
    let mut bytes = vec![];
    let begin = said.metadata().map_or(0, |file| file.len().saturating_sub(TOLD));
    let _ = said.seek(SeekFrom::Start(begin)).and_then(|_| said.read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).trim().to_owned()
}
