//! `tare doctor`: the reasons why tare is not active in a server, or not complete, and what to do.

mod object;
mod owner;
mod service;
mod sql;
mod start;
mod surroundings;

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use serde::Serialize;
use tare_mariadb::options::Root;

use crate::arguments::Doctor;
use crate::server::Server;
use crate::server::process::Process;

pub(crate) use start::{outdated, unread_options};

/// Exit status if a problem was found.
const FOUND: u8 = 1;
/// Exit status if no problem was found, but not everything could be checked.
const NOT_LOOKED: u8 = 2;

/// A problem, or something that could not be checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    /// Name of the check, in a word.
    pub(crate) check: &'static str,
    pub(crate) kind: Kind,
    pub(crate) what: String,
    pub(crate) remedy: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    /// tare is not active because of it, or not complete.
    Problem,
    /// It could not be checked.
    Unseen,
}

impl Finding {
    pub(crate) fn problem(
        check: &'static str,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Finding {
        Finding { check, kind: Kind::Problem, what: what.into(), remedy: remedy.into() }
    }

    pub(crate) fn unseen(check: &'static str, what: impl Into<String>, remedy: impl Into<String>) -> Finding {
        Finding { check, kind: Kind::Unseen, what: what.into(), remedy: remedy.into() }
    }
}

/// The findings about a server.
#[derive(Debug, Serialize)]
struct Diagnosis {
    server: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    /// Whether tare answers in it.
    active: bool,
    findings: Vec<Finding>,
}

/// Runs the command.
pub(crate) fn doctor(arguments: &Doctor) -> Result<ExitCode> {
    let diagnoses = match look(arguments) {
        Ok(diagnoses) => diagnoses,
        Err(error) => {
            eprintln!("tare: {error:#}");
            return Ok(ExitCode::from(NOT_LOOKED));
        }
    };
    if arguments.output.is_json() {
        println!("{}", serde_json::to_string_pretty(&serde_json::json!({ "servers": diagnoses }))?);
    } else {
        diagnoses.iter().for_each(print);
    }
    let has = |kind: Kind| diagnoses.iter().flat_map(|it| &it.findings).any(|finding| finding.kind == kind);
    Ok(if has(Kind::Problem) {
        ExitCode::from(FOUND)
    } else if has(Kind::Unseen) {
        ExitCode::from(NOT_LOOKED)
    } else {
        ExitCode::SUCCESS
    })
}

fn look(arguments: &Doctor) -> Result<Vec<Diagnosis>> {
    let root = Root::new(&arguments.root);
    if let Some(dsn) = &arguments.dsn {
        return Ok(vec![sql::look(dsn)?]);
    }
    let process = |pid: u32| {
        Process::look(pid)
            .map_err(|error| anyhow::anyhow!("process {pid}: {error}; is it a server's, and are you root?"))
    };
    let servers = if let Some(pid) = arguments.pid {
        vec![Server::of_process(process(pid)?)]
    } else if let Some(socket) = &arguments.socket {
        let pid = Process::listening(socket).map_err(|error| {
            anyhow::anyhow!("{}: {error}; does the server run, and are you root?", socket.display())
        })?;
        vec![Server::of_process(process(pid)?)]
    } else if let Some(unit) = &arguments.unit {
        let server = Server::of_unit(&root, unit);
        vec![server.ok_or_else(|| anyhow::anyhow!("there is no unit {unit}, or it is masked"))?]
    } else {
        Server::all(&root)
    };
    if servers.is_empty() {
        anyhow::bail!(
            "no server was found: neither a unit that starts mariadbd nor a process; name one with --pid or --socket"
        );
    }
    Ok(servers.iter().map(|server| diagnose(server, arguments.log.as_deref())).collect())
}

/// Runs all checks; leaves out findings that follow from others.
fn diagnose(server: &Server, log: Option<&Path>) -> Diagnosis {
    let prospect = server.prospect();
    let answer = service::ask(server, &prospect);
    let mut findings = start::check(server, &prospect);
    findings.extend(object::check(server));
    findings.extend(surroundings::check(server, &prospect, answer.is_active()));
    findings.extend(service::check(server, &prospect, &answer, log, findings.is_empty()));
    let version = prospect.program.ok().and_then(|program| program.version);
    Diagnosis { server: server.name(), version, active: answer.is_active(), findings }
}

/// Returns what prevents a server without tare from loading this provider at its next start, after this
/// program has tried it.
pub(crate) fn before(server: &Server, provider: &Path, program: &Path) -> Vec<Finding> {
    let server = &server.next();
    let prospect = server.prospect();
    let mut findings = start::check_program(&prospect);
    findings.extend(object::check_file(provider, server));
    findings.extend(object::check_trial_program(program, server));
    findings.extend(server.unit.iter().flat_map(|unit| surroundings::check_unit(unit, provider)));
    findings.extend(surroundings::check_confinement(server, provider));
    findings.extend(surroundings::check_data(server, &prospect));
    findings.extend(server.plugin(&prospect).is_none().then(start::no_plugin));
    findings
}

/// Returns the problems of a provider's file that a server is to load; empty if it could not be checked.
pub(crate) fn provider(server: &Server, provider: &Path) -> Vec<Finding> {
    let mut findings = object::check_file(provider, server);
    findings.retain(|finding| finding.kind == Kind::Problem);
    findings
}

/// Returns a problem if no option file loads the plugin.
pub(crate) fn unasked_plugin(server: &Server) -> Option<Finding> {
    let server = &server.next();
    start::check_asked(server, &server.prospect())
}

fn print(diagnosis: &Diagnosis) {
    let version = diagnosis.version.as_deref().unwrap_or("version not known");
    let state = if diagnosis.active { "tare is active" } else { "tare is not active" };
    let complete = if diagnosis.active && diagnosis.findings.is_empty() { " and complete" } else { "" };
    println!("{} ({version}): {state}{complete}", diagnosis.server);
    for finding in &diagnosis.findings {
        println!("  {}: {}. To do: {}", finding.check, finding.what, finding.remedy);
    }
}
