//! Checks of a server of MySQL's. Its state is known by tare's socket, and by its line in the error log.

use std::fs;
use std::path::{Path, PathBuf};

use super::service::EndpointAnswer;
use super::{Diagnosis, Finding, check_kind, object, service, start, surroundings};
use crate::endpoint::line_in_log;
use crate::provider::MYSQL_FILE;
use crate::server::process::ServerProcess;
use crate::server::{FoundServer, Prospect};

/// How tare's line in the error log begins if it has left the server to itself.
const STANDS_BACK: &str = "does nothing";
/// What tare's line in the error log has after an internal error.
const SWITCHED_OFF: &str = "instrumentation is off";

/// What tare is doing in a server of MySQL's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MysqlState {
    /// It takes events; its line in the error log.
    Active(String),
    /// It does not; its line in the error log.
    Inactive(String),
    /// The error log has no line of it, or is not known.
    Untold,
}

impl MysqlState {
    /// Returns what the last line in an error log tells.
    fn told(line: Option<String>) -> MysqlState {
        match line {
            None => MysqlState::Untold,
            Some(line) if line.starts_with(STANDS_BACK) || line.contains(SWITCHED_OFF) => {
                MysqlState::Inactive(line)
            }
            Some(line) => MysqlState::Active(line),
        }
    }
}

/// A running server of MySQL's that has loaded tare.
pub(crate) struct LoadedServer {
    pub(crate) pid: u32,
    pub(crate) state: MysqlState,
}

/// Returns the server of MySQL's that has loaded tare and has this data directory; `logs` are looked at if
/// its standard error is no file.
pub(crate) fn in_folder(data: &Path, logs: &[PathBuf]) -> Option<LoadedServer> {
    let data = fs::canonicalize(data).ok()?;
    let processes = ServerProcess::all().into_iter().filter_map(|pid| ServerProcess::look(pid).ok());
    let mut loaded = processes.filter(has_loaded);
    let process = loaded.find(|process| process.folder.as_ref() == Some(&data))?;
    let own = process.log.iter().map(|log| process.root().at(log));
    let line = own.chain(logs.iter().cloned()).find_map(|log| line_in_log(&log));
    Some(LoadedServer { pid: process.pid, state: MysqlState::told(line) })
}

fn has_loaded(process: &ServerProcess) -> bool {
    process
        .provider()
        .and_then(|path| path.rsplit('/').next())
        .is_some_and(|name| name.starts_with(MYSQL_FILE))
}

/// Runs all checks.
pub(super) fn diagnose(server: &FoundServer, prospect: Prospect, log: Option<&Path>) -> Diagnosis {
    let loaded = server.process.as_ref().is_some_and(has_loaded);
    let answer = service::ask(server, &prospect);
    let state = server.process.as_ref().map(|process| {
        let log = log.map(Path::to_owned).or_else(|| Some(server.root.at(process.log.as_ref()?)));
        MysqlState::told(log.as_deref().and_then(line_in_log))
    });
    let does = match &state {
        Some(MysqlState::Active(line)) if loaded => Some(line.clone()),
        _ => None,
    };
    let active = answer.is_active() || does.is_some();
    let mut findings = check_preload(server);
    findings.extend(check_start(server, &prospect));
    findings.extend(object::check(server));
    findings.extend(surroundings::check(server, &prospect, active));
    if let EndpointAnswer::Rows(rows) = &answer {
        let is_set =
            |name: &str| prospect.files.in_groups(&["tare"]).any(|entry| entry.key.replace('_', "-") == name);
        findings.extend(service::check_rows(rows, is_set));
    } else {
        findings.extend(check_state(state.as_ref(), loaded, findings.is_empty()));
    }
    let version = prospect.program.ok().and_then(|program| program.version);
    Diagnosis { server: server.name(), version, active, update: None, does, findings }
}

/// Makes a finding of what the error log tells, if the socket answers nobody; `unexplained`: there are no
/// other findings.
fn check_state(state: Option<&MysqlState>, loaded: bool, unexplained: bool) -> Option<Finding> {
    match state {
        Some(MysqlState::Inactive(line)) if loaded => {
            let what = format!("tare does not serve; its last word in the error log: {line}");
            Some(Finding::problem("log", what, "what it says"))
        }
        Some(MysqlState::Untold) if loaded => {
            let what = "tare is loaded, and the error log has no word of it";
            Some(Finding::unseen("log", what, "name the error log with --log FILE"))
        }
        None if unexplained => {
            let what = "the server does not run, so what tare does in it is not known";
            Some(Finding::unseen("process", what, "start the server"))
        }
        _ => None,
    }
}

/// Checks whether the server loads the provider that is for it.
fn check_preload(server: &FoundServer) -> Vec<Finding> {
    let named = match &server.process {
        Some(process) => process.provider().map(PathBuf::from),
        None => server.provider(),
    };
    let wrong = named.and_then(|path| check_kind(&path, true));
    wrong.map_or_else(|| start::check_preload(server, MYSQL_FILE), |finding| vec![finding])
}

/// Checks whether tare supports the server's program and options.
pub(super) fn check_start(server: &FoundServer, prospect: &Prospect) -> Vec<Finding> {
    let mut findings = check_program(prospect);
    if prospect.has_switched_off_schema(&server.arguments()) {
        let what = "MySQL's own Performance Schema is off; on MySQL tare works inside it";
        let remedy = "take performance_schema=OFF away, and restart";
        findings.push(Finding::problem("performance-schema", what, remedy));
    }
    findings.extend(prospect.obstacle_in_options().map(|why| {
        let remedy = "correct it in the group [tare] of the option files, or in TARE_OPTIONS, and restart";
        Finding::problem("options", format!("tare disables itself: {why}"), remedy)
    }));
    findings
}

/// Checks whether tare supports the program, and which families of events it can take.
fn check_program(prospect: &Prospect) -> Vec<Finding> {
    let Ok(program) = &prospect.program else { return vec![] };
    let remedy = "take another build of the server; `tare probe` tells what can be taken from it";
    let mut findings: Vec<Finding> =
        program.hindrances.iter().map(|hindrance| Finding::problem("program", hindrance, remedy)).collect();
    let stay: Vec<&str> =
        program.families.iter().filter(|it| it.hindrance.is_some()).map(|it| it.family).collect();
    if findings.is_empty() && !stay.is_empty() {
        let what =
            format!("these families of events stay with MySQL's own Performance Schema: {}", stay.join(", "));
        findings.push(Finding::problem("program", what, remedy));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_in_the_log_tells_the_state() {
        let told = |line: &str| MysqlState::told(Some(line.to_owned()));
        assert!(matches!(
            told("0.1.0 (experimental) counts waits; all else is the server's own"),
            MysqlState::Active(_)
        ));
        assert!(matches!(told("does nothing, the server runs without it: x"), MysqlState::Inactive(_)));
        assert!(matches!(
            told("instrumentation is off, the server goes on: internal error: x"),
            MysqlState::Inactive(_)
        ));
        assert_eq!(MysqlState::told(None), MysqlState::Untold);
    }
}
