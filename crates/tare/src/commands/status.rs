//! `tare status`: queries the endpoint of a running server, without the server's SQL.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::{Map, Value, json};
use tare_outlets::{Address, Kind, Source, units};

use crate::checks::{self, MysqlState};
use crate::endpoint::{EndpointReach, EndpointReport, NamedValue, ask, everything, line_in_log, reach};
use crate::exit::NOT_ACTIVE;
use crate::outlet;
use crate::output::CommandOutput;
use crate::page::{self, Column, Grid};
use crate::provider;

/// Show the state of tare in a running server
///
/// Tells whether tare is loaded, in which server and with which ABI, the memory it uses, what was lost for
/// lack of room, and what is enabled. It is queried through the socket `tare.sock` in the server's data
/// directory, which only the server's own account and root may open; the server's SQL is not involved.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    tare status                                  # the server in /var/lib/mysql\n  \
    tare status --datadir /srv/try --format json | jq .status.lost\n  \
    tare status --log /var/log/mysql/error.log   # also tells why it is not loaded\n\n\
    In SQL: SELECT * FROM performance_schema.tare_status;")]
pub(crate) struct Status {
    #[command(flatten)]
    pub(crate) reach: outlet::Reach,
    /// The server's error log, to find out why tare is not active [default: *.err and error.log beside the
    /// socket]
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) answer: CommandOutput,
}

/// Runs the command.
pub(crate) fn status(arguments: &Status) -> Result<ExitCode> {
    arguments.answer.written(|| show(arguments))
}

fn show(arguments: &Status) -> Result<ExitCode> {
    let report = match arguments.reach.address()? {
        Address::Socket(socket) => match reach(&socket)? {
            EndpointReach::Answers => {
                ask(&socket).with_context(|| format!("asking tare at {}", socket.display()))?
            }
            EndpointReach::Absent(why) => absent(&why, &socket, arguments.log.as_deref()),
        },
        account => of_account(account)?,
    };
    if arguments.answer.format.is_json() {
        println!("{}", serde_json::to_string_pretty(&object(&report))?);
    } else {
        print(&report);
    }
    Ok(if report.active { ExitCode::SUCCESS } else { ExitCode::from(NOT_ACTIVE) })
}

/// Returns the state as an object, with the rows of tables by their names.
fn object(report: &EndpointReport) -> Value {
    let value = |row: &NamedValue| match row.value.parse::<i64>() {
        Ok(number) if number.to_string() == row.value => json!(number),
        _ => json!(row.value),
    };
    let status: Map<String, Value> = report.status.iter().map(|row| (row.name.clone(), value(row))).collect();
    let instruments: Map<String, Value> = report
        .instruments
        .iter()
        .map(|it| (it.class.clone(), json!({ "on": it.on, "timed": it.timed, "of": it.of })))
        .collect();
    let consumers: Map<String, Value> =
        report.consumers.iter().map(|row| (row.name.clone(), json!(row.value == "YES"))).collect();
    json!({
        "active": report.active,
        "reason": report.reason,
        "status": status,
        "instruments": instruments,
        "consumers": consumers,
    })
}

/// Queries everything through a server's SQL.
fn of_account(address: Address) -> Result<EndpointReport> {
    let at = address.to_string();
    let mut server = Source::open(address)?;
    if server.kind() == Kind::MySql {
        let reason = format!(
            "the server at {at} ({}) is MySQL's, where tare has no table tare_status: `tare doctor` on its machine says whether \
             it is loaded there",
            server.version()
        );
        return Ok(EndpointReport { reason: Some(reason), ..EndpointReport::default() });
    }
    if server.kind() != Kind::Tare {
        let reason = format!(
            "the server at {at} ({}) shows no performance_schema.tare_status to this account: tare is not loaded there or disabled itself \
             (`tare doctor` on its machine says why), or the account needs GRANT SELECT ON performance_schema.*",
            server.version()
        );
        return Ok(EndpointReport { reason: Some(reason), ..EndpointReport::default() });
    }
    everything(&mut server).with_context(|| format!("asking the server at {at}"))
}

/// Returns the state where nothing listens: that of a server of MySQL's by its error log, or the reason why
/// tare is not active.
fn absent(seen: &str, socket: &Path, log: Option<&Path>) -> EndpointReport {
    let logs = log.map_or_else(|| logs_beside(socket), |log| vec![log.to_owned()]);
    let mysql = socket.parent().and_then(|data| checks::in_folder(data, &logs));
    let Some(mysql) = mysql else {
        return EndpointReport { reason: Some(explain(seen, socket, log)), ..EndpointReport::default() };
    };
    let (active, said) = match mysql.state {
        MysqlState::Active(line) => (true, format!("the error log says: {line}")),
        MysqlState::Inactive(line) => (false, format!("the error log says: {line}")),
        MysqlState::Untold => {
            (false, "no error log with a line of tare's was found (name it with --log FILE)".to_owned())
        }
    };
    let reason = format!(
        "it is loaded into the server of MySQL's that is process {}, where its socket does not answer, and its figures are in \
         performance_schema; {said}",
        mysql.pid
    );
    EndpointReport { active, reason: Some(reason), ..EndpointReport::default() }
}

/// Explains why tare is not active, by its own messages in the error log.
fn explain(seen: &str, socket: &Path, log: Option<&Path>) -> String {
    let logs = log.map_or_else(|| logs_beside(socket), |log| vec![log.to_owned()]);
    if let Some(line) = logs.iter().find_map(|log| line_in_log(log)) {
        return format!("{seen}; the error log says: {line}");
    }
    format!(
        "{seen}, and no error log with a line of tare's was found (name it with --log FILE). Either the server does not \
         run, or it was started without LD_PRELOAD={}, or its data directory is another one (--datadir DIR)",
        provider::FILE
    )
}

fn logs_beside(socket: &Path) -> Vec<PathBuf> {
    let entries =
        socket.parent().map(fs::read_dir).into_iter().flatten().flatten().flatten().map(|e| e.path());
    entries.filter(|p| p.ends_with("error.log") || p.extension().is_some_and(|e| e == "err")).collect()
}

fn print(report: &EndpointReport) {
    if let Some(reason) = &report.reason {
        let state = if report.active { "active" } else { "not active" };
        page::paragraph(&format!("tare is {state}: {reason}."));
        return;
    }
    page::heading("tare is active", "tare_status");
    let mut facts = Grid::new(&[("NAME", Column::Left), ("VALUE", Column::CutEnd)]);
    report.status.iter().filter(|n| tells(n)).for_each(|n| facts.row([n.name.clone(), shown(n)]));
    facts.print();
    if let Some(why) = unserved(report) {
        page::paragraph(&format!(
            "The server's SQL does not show the tables: {why}. What they hold can be read at the socket named above, by root \
             and the server's own account: mariadb --socket=SOCKET --user=tare performance_schema"
        ));
    }

    page::heading("Instruments", "setup_instruments");
    let columns =
        [("CLASS", Column::Left), ("ON", Column::Right), ("TIMED", Column::Right), ("OF", Column::Right)];
    let mut classes = Grid::new(&columns);
    for class in &report.instruments {
        let counts = [class.on, class.timed, class.of].map(|n| units::count(n as u64));
        classes.row(std::iter::once(class.class.clone()).chain(counts));
    }
    classes.print();

    page::heading("Consumers", "setup_consumers");
    let mut consumers = Grid::new(&[("NAME", Column::Left), ("ENABLED", Column::Left)]);
    report.consumers.iter().for_each(|n| consumers.row([n.name.clone(), n.value.clone()]));
    consumers.print();
}

/// Returns why the server does not show the tables to its sessions.
fn unserved(report: &EndpointReport) -> Option<&str> {
    report.status.iter().find(|row| row.name == "tables")?.value.strip_prefix("OFF: ")
}

/// Returns whether to show it to people: consumers are shown separately, and a counter that is 0 adds
/// nothing to the sum `lost`.
fn tells(row: &NamedValue) -> bool {
    let lost_nothing = row.name.ends_with("_lost") && row.value == "0";
    !lost_nothing && !row.name.starts_with("consumer_")
}

/// Formats its value, with a unit if the name says that it is in bytes.
fn shown(row: &NamedValue) -> String {
    let bytes = row.name.starts_with("memory_").then(|| row.value.parse().ok()).flatten();
    bytes.map_or_else(|| row.value.clone(), units::bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::OnOf;

    #[test]
    fn a_person_sees_what_tells_something() {
        let named = |name: &str, value: &str| NamedValue { name: name.into(), value: value.into() };
        assert!(tells(&named("lost", "0")));
        assert!(tells(&named("digest_lost", "3")));
        assert!(!tells(&named("digest_lost", "0")));
        assert!(!tells(&named("consumer_statements_digest", "YES")));
        assert_eq!(shown(&named("memory_used", "2097152")), "2.00 MiB");
        assert_eq!(shown(&named("version", "0.1.0")), "0.1.0");
    }

    #[test]
    fn programs_get_rows_by_their_names() {
        let named = |name: &str, value: &str| NamedValue { name: name.into(), value: value.into() };
        let report = EndpointReport {
            active: true,
            status: vec![named("lost", "0"), named("version", "0.1.0"), named("sample", "007")],
            instruments: vec![OnOf { class: "stage".into(), on: 1, timed: 1, of: 2 }],
            consumers: vec![named("thread_instrumentation", "YES"), named("events_stages_current", "NO")],
            ..EndpointReport::default()
        };
        let object = object(&report);
        assert_eq!(object["status"], json!({ "lost": 0, "version": "0.1.0", "sample": "007" }));
        assert_eq!(object["instruments"]["stage"]["of"], 2);
        assert_eq!(
            object["consumers"],
            json!({ "thread_instrumentation": true, "events_stages_current": false })
        );
        assert_eq!(object["reason"], Value::Null);
    }

    #[test]
    fn logs_are_found_beside_the_socket() {
        let folder = tempfile::tempdir().expect("folder");
        let log = folder.path().join("host.err");
        fs::write(&log, "ready\n").expect("log");
        assert_eq!(logs_beside(&folder.path().join("tare.sock")), [log]);
    }
}
