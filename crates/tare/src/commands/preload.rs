//! `tare preload`: tries what a server is to preload, in a process of its own. What crashes the dynamic
//! loader, such as a truncated object, would end the server before its first instruction.

use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use nix::unistd::Uid;
use tare_host::options::Root;

use crate::exit::FAILED;
use crate::server::unit::SystemdUnit;
use crate::server::{FoundServer, PRELOAD, TRIED, WITHOUT, is_provider, preloads};
use crate::{change, checks};

/// Try to load what a unit's server will preload, before it starts
///
/// The unit tare-preload@.service, which `tare install` writes, runs this before each start of a server. A
/// program that does nothing loads what the server is to load, as the server's account. If it succeeds,
/// /run/tare/UNIT.env sets LD_PRELOAD for the server; if not, that file has the reason, and the server starts
/// without tare.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    tare preload mariadb                  # as mariadb would be started now\n  \
    tare preload mariadb@a.service")]
pub(crate) struct Preload {
    /// The server's unit
    #[arg(value_name = "UNIT")]
    pub(crate) unit: String,
    /// Find units and files below this folder, as in an image
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub(crate) root: PathBuf,
}

/// A program that does nothing.
const PROGRAM: &str = "/bin/true";
/// Time limit of the program; the unit of the trial has a longer one.
const LIMIT: Duration = Duration::from_secs(10);
/// Interval of checks.
const PAUSE: Duration = Duration::from_millis(5);

/// Runs `tare preload`: tries what a unit's server would preload, and writes the result for its next start.
pub(crate) fn preload(arguments: &Preload) -> Result<ExitCode> {
    let root = Root::new(&arguments.root);
    let unit = SystemdUnit::read(&root, &arguments.unit);
    let unit = unit.with_context(|| format!("there is no unit {}, or it is masked", arguments.unit))?;
    let list = unit.environment().remove(TRIED).map(|variable| variable.value);
    let list = list.with_context(|| {
        format!("{} has nothing to try: no drop-in of `tare install` sets {TRIED}", unit.name)
    })?;
    let server = FoundServer { unit: Some(unit.clone()), process: None, root };
    let failed = check(&server, &unit, &list).err();
    let said =
        failed.as_ref().map_or_else(|| format!("{PRELOAD}={list}\n"), |why| format!("{WITHOUT}{why}\n"));
    // Only root may write there.
    let trial = unit.trial();
    change::write(&server.root.at(&trial), said.as_bytes())
        .with_context(|| format!("{} (are you root?)", trial.display()))?;
    let Some(why) = failed else { return Ok(ExitCode::SUCCESS) };
    eprintln!(
        "tare: {} starts without tare: {why}; `tare doctor --unit {}` says what to do",
        unit.name,
        unit.stem()
    );
    Ok(ExitCode::from(FAILED))
}

/// Returns the reason, in one line, why the server must not load it.
fn check(server: &FoundServer, unit: &SystemdUnit, list: &str) -> Result<(), String> {
    let objects = preloads(list.as_ref());
    let providers = objects.iter().filter(|path| is_provider(path));
    // What would not be installed is not loaded either.
    if let Some(finding) = providers.flat_map(|path| checks::provider(server, path)).next() {
        return Err(finding.what);
    }
    let objects: Vec<PathBuf> = objects.iter().map(|path| server.root.at(path)).collect();
    run(server, unit, &objects)
}

/// Starts a program that preloads it, as the server's account, and checks its exit status.
fn run(server: &FoundServer, unit: &SystemdUnit, objects: &[PathBuf]) -> Result<(), String> {
    let list: Vec<String> = objects.iter().map(|path| path.display().to_string()).collect();
    let mut command = Command::new(PROGRAM);
    let variables = unit.environment().into_iter().map(|(name, variable)| (name, variable.value));
    command.env_clear().envs(variables).env(PRELOAD, list.join(":"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    if let Some(user) = server.user().filter(|_| Uid::effective().is_root()) {
        command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
    }
    let mut child = command.spawn().map_err(|error| format!("{PROGRAM} could not be started: {error}"))?;
    let status = wait(&mut child).map_err(|error| format!("{PROGRAM} cannot be waited for: {error}"))?;
    let mut said = String::new();
    let _ = child.stderr.take().map(|mut stderr| stderr.read_to_string(&mut said));
    let said = said.lines().last().map(|line| format!(": {line}")).unwrap_or_default();
    match status {
        None => Err(format!("a program that loaded it did not end within {} s", LIMIT.as_secs())),
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(match status.signal() {
            Some(signal) => format!("a program that loaded it was ended by signal {signal}{said}"),
            None => format!("a program that was to load it did not start{said}"),
        }),
    }
}

/// Returns its exit status; `None` if it did not end and was killed.
fn wait(child: &mut Child) -> std::io::Result<Option<ExitStatus>> {
    let begin = Instant::now();
    while begin.elapsed() < LIMIT {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        std::thread::sleep(PAUSE);
    }
    child.kill()?;
    child.wait()?;
    Ok(None)
}
