//! Checks of a server: the reasons why tare is not active in it, or not complete, and what to do.

mod mysql;
mod object;
mod owner;
mod service;
mod sql;
mod start;
mod surroundings;

use std::path::Path;

use serde::Serialize;

use crate::last_run::{self, VersionUpdate};
use crate::provider::file_for;
use crate::server::FoundServer;

pub(crate) use mysql::{MysqlState, in_folder};
pub(crate) use sql::of_account;
pub(crate) use start::{outdated, unread_options};

/// A problem, or something that could not be checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    /// Name of the check, in a word.
    pub(crate) check: &'static str,
    pub(crate) kind: FindingKind,
    pub(crate) what: String,
    pub(crate) remedy: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum FindingKind {
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
        Finding { check, kind: FindingKind::Problem, what: what.into(), remedy: remedy.into() }
    }

    pub(crate) fn unseen(check: &'static str, what: impl Into<String>, remedy: impl Into<String>) -> Finding {
        Finding { check, kind: FindingKind::Unseen, what: what.into(), remedy: remedy.into() }
    }
}

/// The findings about a server.
#[derive(Debug, Serialize)]
pub(crate) struct Diagnosis {
    pub(crate) server: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<String>,
    /// Whether tare answers in it.
    pub(crate) active: bool,
    /// What differs from the last life in which tare was seen active.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) update: Option<VersionUpdate>,
    /// What tare does there, in its own words, where that is not everything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) does: Option<String>,
    pub(crate) findings: Vec<Finding>,
}

/// Runs all checks; leaves out findings that follow from others. Notes the versions of a server in which tare
/// is active.
pub(crate) fn diagnose(server: &FoundServer, log: Option<&Path>) -> Diagnosis {
    let prospect = server.prospect();
    if prospect.is_mysql() {
        return mysql::diagnose(server, prospect, log);
    }
    let answer = service::ask(server, &prospect);
    let mut findings = start::check(server, &prospect);
    findings.extend(object::check(server));
    findings.extend(surroundings::check(server, &prospect, answer.is_active()));
    findings.extend(service::check(server, &prospect, &answer, log, findings.is_empty()));
    findings.extend(service::check_leftovers(server, &prospect));
    let update = last_run::compare(server, &prospect, answer.version());
    let version = prospect.program.ok().and_then(|program| program.version);
    Diagnosis { server: server.name(), version, active: answer.is_active(), update, does: None, findings }
}

/// Notes the versions of a server that was restarted, for the next update.
pub(crate) fn note(server: &FoundServer) {
    let prospect = server.prospect();
    if prospect.is_mysql() {
        return;
    }
    let answer = service::ask(server, &prospect);
    last_run::compare(server, &prospect, answer.version());
}

/// Returns what prevents a server without tare from loading this provider at its next start, after this
/// program has tried it.
pub(crate) fn before(server: &FoundServer, provider: &Path, program: &Path) -> Vec<Finding> {
    let server = &server.next();
    let prospect = server.prospect();
    let mut findings = match prospect.is_mysql() {
        true => mysql::check_start(server, &prospect),
        false => start::check_program(&prospect),
    };
    findings.extend(check_kind(provider, prospect.is_mysql()));
    findings.extend(object::check_file(provider, server));
    findings.extend(object::check_trial_program(program, server));
    findings.extend(server.unit.iter().flat_map(|unit| surroundings::check_unit(unit, provider)));
    findings.extend(surroundings::check_confinement(server, provider));
    findings.extend(surroundings::check_data(server, &prospect));
    let lacks_plugin = !prospect.is_mysql() && server.plugin(&prospect).is_none();
    findings.extend(lacks_plugin.then(start::no_plugin));
    findings
}

/// Returns a finding if a provider is the one for the other product's servers.
fn check_kind(provider: &Path, is_mysql: bool) -> Option<Finding> {
    let name = provider.file_name()?;
    let (wanted, other) = (file_for(is_mysql), file_for(!is_mysql));
    let whose = if is_mysql { "MariaDB's" } else { "MySQL's" };
    (name == other).then(|| {
        let what = format!("{} is for {whose} servers and does nothing in this one", provider.display());
        Finding::problem("provider", what, format!("name {wanted} instead, or none: it is found by itself"))
    })
}

/// Returns the problems of a provider's file that a server is to load; empty if it could not be checked.
pub(crate) fn provider(server: &FoundServer, provider: &Path) -> Vec<Finding> {
    let mut findings = object::check_file(provider, server);
    findings.retain(|finding| finding.kind == FindingKind::Problem);
    findings
}

/// Returns a problem if no option file loads the plugin.
pub(crate) fn unasked_plugin(server: &FoundServer) -> Option<Finding> {
    let server = &server.next();
    start::check_asked(server, &server.prospect())
}
