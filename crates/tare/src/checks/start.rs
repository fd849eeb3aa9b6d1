//! Checks of the server's program and options: whether it loads tare, and whether tare disables itself.

use std::ffi::OsString;

use super::Finding;
use crate::provider;
use crate::server::process::{DELETED, ServerProcess};
use crate::server::unit::SystemdUnit;
use crate::server::{FoundServer, PLUGIN, PRELOAD, Prospect, TRIED, has_provider, option_file};

pub(super) fn check(server: &FoundServer, prospect: &Prospect) -> Vec<Finding> {
    let (preload, plugin) = (check_preload(server, provider::FILE), check_plugin(server, prospect));
    let is_whole = preload.is_empty() && plugin.is_empty();
    let options = if is_whole { None } else { unread_options(server) };
    [preload, check_program(prospect), plugin, options.into_iter().collect()].concat()
}

/// Checks whether the server loads the provider, whose file has this name.
pub(super) fn check_preload(server: &FoundServer, file: &str) -> Vec<Finding> {
    let problem = |what: String, remedy: &str| vec![Finding::problem("preload", what, remedy)];
    let told = |value: Option<OsString>| value.is_some_and(|value| has_provider(&value));
    let by_unit = || told(server.unit.as_ref().and_then(SystemdUnit::preload).map(OsString::from));
    let Some(process) = &server.process else {
        if by_unit() {
            return vec![];
        }
        return problem(
            format!("the unit does not load tare: its {PRELOAD} does not name {file}"),
            "tare install",
        );
    };
    match process.provider() {
        Some(_) => outdated(server, process).into_iter().collect(),
        None if told(process.variable(PRELOAD)) => problem(
            "the loader did not take tare into the server, though it was told to".to_owned(),
            "see what else is found; the loader's own word is where the server's standard error went",
        ),
        None if told(process.variable(TRIED)) => problem(
            "the server was started without tare: the trial of its provider before the start failed, or could not be made".to_owned(),
            &match &server.unit {
                Some(unit) => format!(
                    "see what else is found, then restart the server; journalctl -u {} has the trial's word",
                    unit.trial_unit()
                ),
                None => "see what else is found, then restart the server".to_owned(),
            },
        ),
        None if by_unit() => {
            problem("the server runs since before its unit loads tare".to_owned(), "restart the server")
        }
        None => problem(
            format!("tare is not loaded: {PRELOAD} of the server does not name {file}"),
            if server.unit.is_some() {
                "tare install"
            } else {
                "start the server with it, or use its unit and tare install"
            },
        ),
    }
}

/// Returns a finding if another provider was installed since the server loaded its own.
pub(crate) fn outdated(server: &FoundServer, process: &ServerProcess) -> Option<Finding> {
    let loaded = process.provider()?;
    let named = server.provider().unwrap_or_else(|| loaded.trim_end_matches(DELETED).into());
    process.is_outdated(&server.root.at(&named)).then(|| {
        let what = format!(
            "the server runs with an older provider than the installed one, which has replaced it since the server started: \
             it has {loaded}, installed is {}",
            named.display()
        );
        Finding::problem("preload", what, "restart the server, or tare install --restart, which goes back if that fails")
    })
}

/// Checks whether tare supports the program and its options.
pub(super) fn check_program(prospect: &Prospect) -> Vec<Finding> {
    let program = match &prospect.program {
        Ok(program) => program,
        Err(error) => {
            return vec![Finding::unseen(
                "program",
                error.to_string(),
                "look as root, where the server's files are",
            )];
        }
    };
    let mut findings = vec![];
    if let Err(reason) = &prospect.plan {
        let check = match reason {
            tare_mariadb::startup::DisableReason::Options(_) => "options",
            tare_mariadb::startup::DisableReason::BuiltIn { .. } => "performance-schema",
            _ => "program",
        };
        findings.push(Finding::problem(check, format!("tare disables itself: {reason}"), reason.remedy()));
    } else {
        let remedy = "take another build of the server; `tare probe` tells which are served";
        let problem = |hindrance: &String| Finding::problem("program", hindrance.clone(), remedy);
        findings.extend(program.hindrances.iter().map(problem));
    }
    findings
}

/// Checks for a missing plugin before tare is active; later, tare reports it itself.
fn check_plugin(server: &FoundServer, prospect: &Prospect) -> Vec<Finding> {
    let loaded =
        server.process.as_ref().map(|process| process.mapped.iter().any(|path| path.ends_with(PLUGIN)));
    if loaded == Some(true) || server.provider().is_none() {
        return vec![];
    }
    let problem = |what: &str, remedy: &str| vec![Finding::problem("plugin", what, remedy)];
    if server.plugin(prospect).is_none() {
        return vec![no_plugin()];
    }
    if loaded == Some(false) {
        return problem(
            "the plugin ha_federatedx is not loaded",
            "put `plugin-load-add = ha_federatedx` into [mariadbd] of an option file and restart, or INSTALL SONAME \
             'ha_federatedx' and FLUSH TABLES",
        );
    }
    check_asked(server, prospect).into_iter().collect()
}

/// Returns a finding if the server does not read the option file of `tare install`.
pub(crate) fn unread_options(server: &FoundServer) -> Option<Finding> {
    server.unit.as_ref()?;
    let (what, remedy) = option_file::obstacle(server)?;
    Some(Finding::problem("options", what, remedy))
}

/// Returns a finding if no option file loads the plugin.
pub(super) fn check_asked(server: &FoundServer, prospect: &Prospect) -> Option<Finding> {
    let asked = prospect.asks_for_plugin(&server.arguments(), |_| true);
    (!asked).then(|| {
        Finding::problem(
            "plugin",
            "no option file loads the plugin ha_federatedx",
            "put `plugin-load-add = ha_federatedx` into [mariadbd] of an option file (`tare install` does, but for files \
             that are somebody else's)",
        )
    })
}

/// Makes the finding of a missing plugin.
pub(super) fn no_plugin() -> Finding {
    Finding::problem(
        "plugin",
        "the server has no plugin ha_federatedx.so, through which its SQL reads the tables",
        "install the package that holds it (on Debian mariadb-server), or do with `tare status` and tare's socket",
    )
}
