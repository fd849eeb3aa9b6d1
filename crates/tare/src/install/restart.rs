//! A server's restart, and whether it comes up as it should.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tare_lab::interrupt::Interrupt;

use crate::arguments::Servers;
use crate::server::Server;
use crate::server::process::Process;
use crate::server::unit::Unit;
use crate::status::{self, Reach};

/// How often is looked.
const PAUSE: Duration = Duration::from_millis(100);

/// How a server is restarted, and what is waited for.
pub(super) struct Restart {
    unit: String,
    /// The unit that tries what it is to preload.
    trial: Option<String>,
    command: Option<String>,
    limit: Duration,
    endpoint: PathBuf,
    /// The process in which tare served when all began.
    before: Option<u32>,
    interrupt: Interrupt,
}

impl Restart {
    /// Of a server as it is now.
    pub(super) fn new(server: &Server, arguments: &Servers, interrupt: &Interrupt) -> Restart {
        let endpoint = server.endpoint(&server.prospect());
        Restart {
            unit: server.name(),
            trial: server.unit.as_ref().map(Unit::trial_unit),
            command: arguments.restart_command.clone(),
            limit: Duration::from_secs(arguments.limit.into()),
            before: serving(&endpoint),
            endpoint,
            interrupt: interrupt.clone(),
        }
    }

    /// Whether tare serves, or does not, as it should.
    pub(super) fn is_as_wanted(&self, active: bool) -> bool {
        self.before.is_some() == active
    }

    /// The process in which tare serves as yet.
    pub(super) fn process(&self) -> Option<Process> {
        Process::look(self.before?).ok()
    }

    /// Restarts the server and waits until tare answers in it, or is gone.
    pub(super) fn run(&self, active: bool) -> Result<()> {
        self.again()?;
        let begin = Instant::now();
        loop {
            let now = serving(&self.endpoint);
            if if active { now.is_some() && now != self.before } else { now.is_none() } {
                return Ok(());
            }
            if self.interrupt.is_set() {
                bail!("interrupted");
            }
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

    /// Restarts the server.
    pub(super) fn again(&self) -> Result<()> {
        match &self.command {
            Some(command) => run(Command::new("sh").args(["-c", command]).env("TARE_UNIT", &self.unit)),
            None => {
                run(Command::new("systemctl").arg("daemon-reload"))?;
                // A trial that failed is listed until then, also where its unit is gone; mostly there is none.
                if let Some(trial) = &self.trial {
                    let _ = run(Command::new("systemctl").args(["reset-failed", trial]));
                }
                run(Command::new("systemctl").args(["restart", &self.unit]))
            }
        }
    }
}

/// The process that answers for tare, if one does.
fn serving(endpoint: &std::path::Path) -> Option<u32> {
    if !matches!(status::reach(endpoint), Ok(Reach::Answers)) {
        return None;
    }
    let rows = status::ask(endpoint).ok()?.status;
    rows.into_iter().find(|row| row.name == "pid")?.value.parse().ok()
}

fn run(command: &mut Command) -> Result<()> {
    let shown = format!("{command:?}");
    let output = command.output().with_context(|| format!("running {shown}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        bail!("{shown} failed ({}): {said}", output.status);
    }
    Ok(())
}
