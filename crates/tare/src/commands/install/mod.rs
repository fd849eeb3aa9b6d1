//! `tare install` and `tare uninstall`: they write and remove the files that make a unit's server load tare.

mod plan;
mod restart;

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Error, Result, anyhow, bail};
use clap::Args;
use serde::Serialize;
use tare_host::options::Root;
use tare_lab::interrupt::Interrupt;

use crate::change::{FileChange, Undo};
use crate::checks::{self, Finding};
use crate::durations;
use crate::exit::{INTERRUPTED, REFUSED};
use crate::last_run;
use crate::output::CommandOutput;
use crate::provider;
use crate::server::FoundServer;
use restart::Restart;

/// Make the servers of this machine load tare
///
/// Finds the systemd units that start a server, including instances such as mariadb@a, and checks each as
/// `tare doctor` does. If nothing is in the way it writes a drop-in, which makes the loader preload the
/// provider, before other preloaded objects; a unit that tries that before each start, so that a provider
/// that breaks later keeps no server from starting; and an option file, which loads the plugin ha_federatedx
/// and has room for the group `tare`. Without --restart it takes effect at the server's next start. With it
/// the server is restarted, also if it runs with an older provider than the installed one, and everything is
/// undone if tare does not answer within the limit.
///
/// A server of MySQL's (experimental) gets the provider for MySQL, and needs no plugin.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    tare install --dry-run                # what would be written, and what is in the way\n  \
    tare install --restart\n  \
    tare install --unit mariadb@a --restart --format json")]
pub(crate) struct Install {
    #[command(flatten)]
    pub(crate) servers: Servers,
    /// The provider to load [default: libtare_mariadb.so, or for MySQL libtare_mysql.so, beside this program
    /// or in ../lib/tare]
    #[arg(long, value_name = "PATH", env = "TARE_PROVIDER")]
    pub(crate) provider: Option<PathBuf>,
}

/// Remove what `tare install` has written
///
/// Removes the drop-in, the unit of the trial, the option file including later settings in it, and files that
/// earlier versions of tare left in the data directory. Nothing else is touched. Without --restart the server
/// continues with tare until it is restarted.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    tare uninstall --dry-run\n  \
    tare uninstall --restart\n  \
    tare uninstall --unit mariadb@a")]
pub(crate) struct Uninstall {
    #[command(flatten)]
    pub(crate) servers: Servers,
}

/// The servers to change, and how.
#[derive(Args, Debug)]
pub(crate) struct Servers {
    /// Only the server of this unit; may be repeated [default: every unit that starts a server]
    #[arg(long = "unit", value_name = "NAME")]
    pub(crate) units: Vec<String>,
    /// Only show what would be written or removed
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Restart the servers that need it, and check that they start correctly
    #[arg(long)]
    pub(crate) restart: bool,
    /// What restarts a server instead of systemctl: a shell command; the unit's name is in TARE_UNIT
    #[arg(long, value_name = "COMMAND", requires = "restart")]
    pub(crate) restart_command: Option<String>,
    /// Time a server may take to restart before everything is undone
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = durations::between("1s", "1d"))]
    pub(crate) limit: Duration,
    /// Find units and files below this folder, as in an image
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub(crate) root: PathBuf,
    #[command(flatten)]
    pub(crate) answer: CommandOutput,
}

/// The message if a loaded provider cannot be read.
const UNREAD: &str = "could not be read";

/// Usual paths of this program.
const PROGRAMS: [&str; 2] = ["/usr/bin/tare", "/usr/local/bin/tare"];

/// What was done, or would be done, for a server.
#[derive(Debug, Serialize)]
struct InstallOutcome {
    server: String,
    /// `planned`, `changed`, `unchanged`, `refused`, `put-back` or `failed`.
    state: InstallState,
    /// Files that are written or removed, with their new content.
    changes: Vec<FileChange>,
    /// Problems that are in the way, or will remain.
    findings: Vec<Finding>,
    /// Whether the server was restarted and answered.
    restarted: bool,
    /// Tables whose files an earlier version had left in the data directory, and that were removed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    leftovers: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum InstallState {
    Planned,
    Changed,
    Unchanged,
    Refused,
    PutBack,
    Failed,
}

impl InstallState {
    fn has_failed(self) -> bool {
        matches!(self, InstallState::Refused | InstallState::PutBack | InstallState::Failed)
    }
}

/// Runs `tare install`.
pub(crate) fn install(arguments: &Install, interrupt: &Interrupt) -> Result<ExitCode> {
    let root = Root::new(&arguments.servers.root);
    // A wrong path is no matter of the servers.
    if let Some(named) = &arguments.provider {
        named_within(&arguments.servers.root, &provider::find(Some(named))?)?;
    }
    let program = program(&arguments.servers.root)?;
    each(&arguments.servers, &root, interrupt, |server| {
        let provider = match provider_for(server, arguments) {
            Ok(provider) => provider,
            Err(error) => {
                let remedy = "install tare's package anew, or name the file";
                return InstallOutcome::refused(
                    server,
                    vec![Finding::problem("provider", format!("{error:#}"), remedy)],
                );
            }
        };
        let (changes, findings) = plan::install(server, &provider, &program);
        if findings.iter().any(plan::is_in_the_way) {
            return InstallOutcome::refused(server, findings);
        }
        apply(server, &arguments.servers, changes, findings, Aim { provider: Some(&provider), interrupt })
    })
}

/// Finds the provider that is for a server, as seen below the root.
fn provider_for(server: &FoundServer, arguments: &Install) -> Result<PathBuf> {
    let is_mysql = server.next().prospect().is_mysql();
    let provider = provider::find_for(is_mysql, arguments.provider.as_deref())?;
    named_within(&arguments.servers.root, &provider)
}

/// Runs `tare uninstall`.
pub(crate) fn uninstall(arguments: &Uninstall, interrupt: &Interrupt) -> Result<ExitCode> {
    let root = Root::new(&arguments.servers.root);
    let all = FoundServer::all(&root);
    each(&arguments.servers, &root, interrupt, |server| {
        let (changes, findings) = plan::uninstall(server, &all);
        let mut outcome =
            apply(server, &arguments.servers, changes, findings, Aim { provider: None, interrupt });
        if !arguments.servers.dry_run && !outcome.state.has_failed() {
            outcome.leftovers = leftovers(server);
            last_run::forget(server);
        }
        outcome
    })
}

/// Removes what earlier versions left in the data directory, if it exists and is readable.
fn leftovers(server: &FoundServer) -> Vec<String> {
    let data = server.root.at(&server.data(&server.prospect()));
    match tare_mariadb::install::list(&data) {
        Ok(left) if !left.is_empty() => tare_mariadb::install::remove(&data).unwrap_or_default(),
        _ => vec![],
    }
}

/// The purpose of a restart.
struct Aim<'a> {
    /// The provider that is to be active afterwards; `None`: tare is to be gone.
    provider: Option<&'a Path>,
    /// Ends the wait for it; then everything is undone.
    interrupt: &'a Interrupt,
}

/// Runs the work for each chosen server until interrupted, and reports the outcomes.
fn each(
    arguments: &Servers,
    root: &Root,
    interrupt: &Interrupt,
    act: impl Fn(&FoundServer) -> InstallOutcome,
) -> Result<ExitCode> {
    arguments.answer.written(|| every(arguments, root, interrupt, act))
}

fn every(
    arguments: &Servers,
    root: &Root,
    interrupt: &Interrupt,
    act: impl Fn(&FoundServer) -> InstallOutcome,
) -> Result<ExitCode> {
    let servers = meant(arguments, root)?;
    let outcomes: Vec<InstallOutcome> = servers.iter().take_while(|_| !interrupt.is_set()).map(act).collect();
    if arguments.answer.format.is_json() {
        println!("{}", serde_json::to_string_pretty(&serde_json::json!({ "servers": outcomes }))?);
    } else {
        outcomes.iter().for_each(InstallOutcome::print);
    }
    let failed = outcomes.iter().any(|outcome| outcome.state.has_failed());
    let left: Vec<String> = servers[outcomes.len()..].iter().map(FoundServer::name).collect();
    if !left.is_empty() {
        eprintln!("interrupted; nothing was done to {}", left.join(", "));
    }
    Ok(match () {
        () if interrupt.is_set() && (failed || !left.is_empty()) => ExitCode::from(INTERRUPTED),
        () if failed => ExitCode::from(REFUSED),
        () => ExitCode::SUCCESS,
    })
}

/// Returns the servers of the named units, or all.
fn meant(arguments: &Servers, root: &Root) -> Result<Vec<FoundServer>> {
    let unit = |name: &String| FoundServer::of_unit(root, name, "every server's is taken");
    if !arguments.units.is_empty() {
        return arguments.units.iter().map(unit).collect();
    }
    let servers: Vec<FoundServer> =
        FoundServer::all(root).into_iter().filter(|server| server.unit.is_some()).collect();
    if servers.is_empty() {
        bail!(
            "no systemd unit that starts mariadbd or mysqld was found; name one with --unit, and for a server that is started otherwise \
             see docs/how-to/install.md"
        );
    }
    Ok(servers)
}

/// Returns the path of this program below a root, which may have another program of the same name.
fn program(root: &Path) -> Result<PathBuf> {
    let own =
        std::env::current_exe().and_then(|path| path.canonicalize()).context("looking for this program")?;
    let below = Root::new(root);
    let found = named_within(root, &own)
        .ok()
        .or_else(|| PROGRAMS.iter().map(PathBuf::from).find(|path| below.at(path).is_file()));
    found.with_context(|| {
        format!(
            "there is no tare below --root {}, which tries the provider before each start: put it at {}",
            root.display(),
            PROGRAMS[0]
        )
    })
}

/// Returns a path as seen below a root.
fn named_within(root: &Path, path: &Path) -> Result<PathBuf> {
    if root == Path::new("/") {
        return Ok(path.to_owned());
    }
    let root = root.canonicalize().with_context(|| format!("--root {}", root.display()))?;
    let inner = path.strip_prefix(&root);
    let inner =
        inner.with_context(|| format!("{} does not lie below --root {}", path.display(), root.display()))?;
    Ok(Path::new("/").join(inner))
}

fn apply(
    server: &FoundServer,
    arguments: &Servers,
    mut changes: Vec<FileChange>,
    findings: Vec<Finding>,
    aim: Aim<'_>,
) -> InstallOutcome {
    changes.retain(|change| !change.is_done(&server.root));
    let mut outcome = InstallOutcome { findings, ..InstallOutcome::new(server, changes) };
    let anything = !outcome.changes.is_empty();
    let restart = Restart::new(server, arguments, aim.interrupt);
    let outdated = aim.provider.and_then(|_| checks::outdated(server, &restart.process()?));
    let wanted = anything || outdated.is_some() || !restart.is_as_wanted(aim.provider.is_some());
    if arguments.dry_run || !arguments.restart {
        outcome.findings.extend(outdated.clone());
    }
    if arguments.dry_run {
        outcome.state = if anything { InstallState::Planned } else { InstallState::Unchanged };
        return outcome;
    }
    let mut undo = Undo::default();
    let written = outcome.changes.iter().try_for_each(|change| change.apply(&server.root, &mut undo));
    if let Err(error) = written {
        outcome.put_back(&error, &mut undo, None);
        return outcome;
    }
    outcome.state = if anything { InstallState::Changed } else { InstallState::Unchanged };
    if arguments.restart && wanted && restart.is_stopped() {
        outcome.why = Some("the unit is not active, and was not started".into());
    } else if arguments.restart && wanted {
        let replaced = aim.provider.filter(|_| outdated.is_some());
        outcome.restart(server, &restart, aim.provider.is_some(), replaced, undo);
    }
    outcome
}

/// Saves what a start of the server changes, and keeps its loaded provider if `replaced` takes its place. The
/// result is reported if it has to be undone.
fn keep(
    server: &FoundServer,
    restart: &Restart,
    replaced: Option<&Path>,
    undo: &mut Undo,
) -> Result<Option<String>> {
    if let Some(unit) = &server.unit {
        undo.note(&server.root.at(&unit.trial()))?;
    }
    let Some(path) = replaced else { return Ok(None) };
    let kept = loaded(restart).and_then(|file| {
        // Through the opened file, as the process may have another one in its memory by now.
        let file = format!("/proc/self/fd/{}", file.as_raw_fd());
        undo.keep(&server.root.at(path), Path::new(&file)).map_err(|_| UNREAD)
    });
    let path = path.display();
    Ok(Some(match kept {
        Ok(()) => format!(
            "; {path} is again what the server had loaded before: install the newer one anew to try it again"
        ),
        Err(why) => format!("; {path} is the newer one still: what the server had loaded before {why}"),
    }))
}

/// Opens the provider's file that the server has loaded. Undoing makes it root's, so a file that others could
/// write to is refused.
fn loaded(restart: &Restart) -> Result<File, &'static str> {
    let file = restart.process().and_then(|process| process.open_provider().ok()).ok_or(UNREAD)?;
    let is_root_s = file.metadata().is_ok_and(|it| it.is_file() && it.uid() == 0 && it.mode() & 0o022 == 0);
    is_root_s.then_some(file).ok_or("belongs to somebody else than root, or can be written by others")
}

impl InstallOutcome {
    fn new(server: &FoundServer, changes: Vec<FileChange>) -> InstallOutcome {
        let (findings, leftovers) = (vec![], vec![]);
        let (server, state) = (server.name(), InstallState::Unchanged);
        InstallOutcome { server, state, changes, findings, restarted: false, leftovers, why: None }
    }

    fn refused(server: &FoundServer, findings: Vec<Finding>) -> InstallOutcome {
        InstallOutcome { findings, state: InstallState::Refused, ..InstallOutcome::new(server, vec![]) }
    }

    /// Restarts the server, too; undoes everything if it does not start correctly.
    fn restart(
        &mut self,
        server: &FoundServer,
        restart: &Restart,
        active: bool,
        replaced: Option<&Path>,
        mut undo: Undo,
    ) {
        let kept = match keep(server, restart, replaced, &mut undo) {
            Ok(kept) => kept.unwrap_or_default(),
            Err(error) => return self.put_back(&error, &mut undo, None),
        };
        match restart.run(active) {
            Ok(()) => {
                self.restarted = true;
                if active {
                    restart.note(server);
                }
            }
            Err(error) => self.put_back(&anyhow!("{error:#}{kept}"), &mut undo, Some(restart)),
        }
    }

    /// Undoes the changes after an error, and restarts the server as it was if it had been restarted.
    fn put_back(&mut self, error: &Error, undo: &mut Undo, restarted: Option<&Restart>) {
        let put = undo.put_back();
        let again = restarted.map_or(Ok(()), Restart::again).context("restarting it as it was failed, too");
        self.state = if put.is_ok() { InstallState::PutBack } else { InstallState::Failed };
        let errors = [put, again].into_iter().filter_map(Result::err).map(|error| format!("; {error:#}"));
        self.why = Some(format!("{error:#}{}", errors.collect::<String>()));
    }

    fn print(&self) {
        let state = match self.state {
            InstallState::Planned => "would be changed",
            InstallState::Changed if self.restarted => "changed, restarted and as it should be",
            InstallState::Changed => "changed; what is written counts from the next start on",
            InstallState::Unchanged if self.restarted => "restarted and as it should be",
            InstallState::Unchanged if !self.findings.is_empty() => "nothing to write",
            InstallState::Unchanged => "is as it should be",
            InstallState::Refused => "left alone: something is in the way",
            InstallState::PutBack => "put back as it was",
            InstallState::Failed => "failed, and could not be put back as it was",
        };
        println!("{}: {state}", self.server);
        self.changes.iter().for_each(|change| print!("{change}"));
        for finding in &self.findings {
            println!("  {}: {}. To do: {}", finding.check, finding.what, finding.remedy);
        }
        if !self.leftovers.is_empty() {
            println!(
                "  {} files of an earlier version's removed from the data directory",
                self.leftovers.len()
            );
        }
        if let Some(why) = &self.why {
            println!("  {why}");
        }
    }
}
