//! `tare doctor`: the reasons why tare is not active in a server, or not complete, and what to do.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use tare_host::options::Root;

use crate::checks::{Diagnosis, FindingKind, diagnose, of_account};
use crate::exit::{FOUND, NOT_LOOKED};
use crate::last_run::VersionUpdate;
use crate::output::CommandOutput;
use crate::server::FoundServer;
use crate::server::process::ServerProcess;

/// Explain why tare is not active in a server, or not complete, and what to do
///
/// Checks the units that start a server and the running servers: whether the provider is loaded and can be,
/// whether tare disables itself and why, whether the server's SQL shows the tables, what was lost and which
/// option makes room for it. Prints a line for each problem. After an update of the server or of tare it says
/// what ran before, and what the changelog says of options that are set; for that it notes versions in its
/// state folder. Nothing else is changed. Root sees everything; --dsn checks a server through its SQL alone.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    tare doctor                             # every server of this machine\n  \
    tare doctor --unit mariadb@a\n  \
    tare doctor --socket /run/mysqld/mysqld.sock --format json\n  \
    tare doctor --dsn mysql://agent:secret@db1:3306")]
pub(crate) struct Doctor {
    /// The server of this systemd unit
    #[arg(long, value_name = "NAME", group = "which")]
    pub(crate) unit: Option<String>,
    /// The server that runs as this process
    #[arg(long, value_name = "PID", group = "which")]
    pub(crate) pid: Option<u32>,
    /// The server that listens on this socket
    #[arg(long, value_name = "PATH", group = "which")]
    pub(crate) socket: Option<PathBuf>,
    /// The server there, through SQL: mysql://ACCOUNT:PASSWORD@HOST:PORT
    #[arg(long, value_name = "URL", group = "which")]
    pub(crate) dsn: Option<String>,
    /// The server's error log [default: where its standard error goes]
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
    /// Look for units and files below this folder, as in an image
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub(crate) root: PathBuf,
    #[command(flatten)]
    pub(crate) answer: CommandOutput,
}

/// Runs the command.
pub(crate) fn doctor(arguments: &Doctor) -> Result<ExitCode> {
    arguments.answer.written(|| show(arguments))
}

fn show(arguments: &Doctor) -> Result<ExitCode> {
    let diagnoses = match look(arguments) {
        Ok(diagnoses) => diagnoses,
        Err(error) => {
            eprintln!("tare: {error:#}");
            return Ok(ExitCode::from(NOT_LOOKED));
        }
    };
    if arguments.answer.format.is_json() {
        println!("{}", serde_json::to_string_pretty(&serde_json::json!({ "servers": diagnoses }))?);
    } else {
        diagnoses.iter().for_each(print);
    }
    let has =
        |kind: FindingKind| diagnoses.iter().flat_map(|it| &it.findings).any(|finding| finding.kind == kind);
    Ok(if has(FindingKind::Problem) {
        ExitCode::from(FOUND)
    } else if has(FindingKind::Unseen) {
        ExitCode::from(NOT_LOOKED)
    } else {
        ExitCode::SUCCESS
    })
}

fn look(arguments: &Doctor) -> Result<Vec<Diagnosis>> {
    let root = Root::new(&arguments.root);
    if let Some(dsn) = &arguments.dsn {
        return Ok(vec![of_account(dsn)?]);
    }
    let process = |pid: u32| {
        ServerProcess::look(pid)
            .map_err(|error| anyhow::anyhow!("process {pid}: {error}; is it a server's, and are you root?"))
    };
    let servers = if let Some(pid) = arguments.pid {
        vec![FoundServer::of_process(process(pid)?)]
    } else if let Some(socket) = &arguments.socket {
        let pid = ServerProcess::listening(socket).map_err(|error| {
            anyhow::anyhow!("{}: {error}; does the server run, and are you root?", socket.display())
        })?;
        vec![FoundServer::of_process(process(pid)?)]
    } else if let Some(unit) = &arguments.unit {
        vec![FoundServer::of_unit(&root, unit, "every server is checked")?]
    } else {
        FoundServer::all(&root)
    };
    if servers.is_empty() {
        anyhow::bail!(
            "no server was found: neither a unit that starts mariadbd nor a process; name one with --pid or --socket"
        );
    }
    Ok(servers.iter().map(|server| diagnose(server, arguments.log.as_deref())).collect())
}

fn print(diagnosis: &Diagnosis) {
    let version = diagnosis.version.as_deref().unwrap_or("version not known");
    let state = if diagnosis.active { "tare is active" } else { "tare is not active" };
    let is_complete = diagnosis.active && diagnosis.findings.is_empty() && diagnosis.does.is_none();
    let complete = if is_complete { " and complete" } else { "" };
    println!("{} ({version}): {state}{complete}", diagnosis.server);
    if let Some(does) = &diagnosis.does {
        println!("  tare's word in the error log: {does}");
    }
    if let Some(update) = &diagnosis.update {
        println!("  update: {}", described(update, diagnosis.active));
        update.settings.iter().for_each(|entry| println!("  changed option, tare {entry}"));
    }
    for finding in &diagnosis.findings {
        println!("  {}: {}. To do: {}", finding.check, finding.what, finding.remedy);
    }
}

/// Describes an update in a sentence.
fn described(VersionUpdate { before, now, .. }: &VersionUpdate, active: bool) -> String {
    let since = if active { "since the start before" } else { "since tare was last active here" };
    let step = |name: &str, before: &str, now: &str| match before == now {
        true => format!("{name} is {now} as before"),
        false => format!("{name} {before} was replaced by {now}"),
    };
    let server = step("the server", &before.server, &now.server);
    format!("{since}, {server}, and {}", step("tare", &before.tare, &now.tare))
}
