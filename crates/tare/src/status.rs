//! `tare status`: queries the endpoint of a running server, without the server's SQL.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use serde::Serialize;
use tare_lab::server::Server;
use tare_outlets::{Address, Kind, Source};

use crate::arguments::Status;
use crate::page::{self, Column, Grid};
use crate::units;

/// Name of the endpoint's socket in the data directory.
pub(crate) const SOCKET: &str = "tare.sock";
/// Mark of tare's lines in the error log.
const LOG_MARK: &str = "] tare: ";
/// Exit status if tare is not active, different from errors, for scripts.
const NOT_ACTIVE: u8 = 3;

/// The data of the endpoint.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Report {
    active: bool,
    /// Reason why it is not active.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// Rows of `tare_status`.
    pub(crate) status: Vec<Named>,
    /// Instruments by class: how many are enabled, of how many.
    instruments: Vec<OnOf>,
    /// Consumers, and whether they are enabled.
    consumers: Vec<Named>,
}

impl Report {
    /// Returns why the server does not show the tables to its sessions.
    fn unserved(&self) -> Option<&str> {
        self.status.iter().find(|row| row.name == "tables")?.value.strip_prefix("OFF: ")
    }
}

/// A row of `tare_status`, or a similar one.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) value: String,
}

impl Named {
    /// Returns whether to show it to people: consumers are shown separately, and a counter that is 0 adds
    /// nothing to the sum `lost`.
    fn tells(&self) -> bool {
        let lost_nothing = self.name.ends_with("_lost") && self.value == "0";
        !lost_nothing && !self.name.starts_with("consumer_")
    }

    /// Formats its value, with a unit if the name says that it is in bytes.
    fn shown(&self) -> String {
        let bytes = self.name.starts_with("memory_").then(|| self.value.parse().ok()).flatten();
        bytes.map_or_else(|| self.value.clone(), units::bytes)
    }
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct OnOf {
    class: String,
    on: usize,
    timed: usize,
    of: usize,
}

/// Runs the command.
pub(crate) fn status(arguments: &Status) -> Result<ExitCode> {
    let report = match arguments.reach.address()? {
        Address::Socket(socket) => match reach(&socket)? {
            Reach::Answers => ask(&socket).with_context(|| format!("asking tare at {}", socket.display()))?,
            Reach::Absent(why) => {
                Report { reason: Some(explain(&why, &socket, arguments.log.as_deref())), ..Report::default() }
            }
        },
        account => of_account(account)?,
    };
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print(&report);
    }
    Ok(if report.active { ExitCode::SUCCESS } else { ExitCode::from(NOT_ACTIVE) })
}

/// Whether an endpoint can be queried.
pub(crate) enum Reach {
    /// It listens.
    Answers,
    /// Nothing listens; the value describes the symptom.
    Absent(String),
}

/// Returns whether something listens; a missing right is an error, as it says nothing about tare.
pub(crate) fn reach(socket: &Path) -> Result<Reach> {
    let at = socket.display();
    match UnixStream::connect(socket).map_err(|e| e.kind()) {
        Ok(_) => Ok(Reach::Answers),
        Err(ErrorKind::NotFound) => Ok(Reach::Absent(format!("there is no {at}"))),
        Err(ErrorKind::ConnectionRefused) => {
            Ok(Reach::Absent(format!("nobody listens on {at}: the server that made it is gone")))
        }
        Err(ErrorKind::PermissionDenied) => bail!(
            "{at} may only be opened by the server's own account and root: try `sudo tare status …`, or in SQL \
             `SELECT * FROM performance_schema.tare_status`"
        ),
        Err(kind) => bail!("{at}: {kind}"),
    }
}

/// Returns an error with tare's own message, unless tare is active in the server. Otherwise a server in which
/// tare has disabled itself would be measured or shown as one with tare.
pub(crate) fn require_active(server: &Server) -> Result<()> {
    if let Reach::Absent(why) = reach(&server.datadir().join(SOCKET))? {
        let said = line_in_log(server.log()).unwrap_or_else(|| "nothing".into());
        bail!("the server runs, but tare does not serve in it: {why}; tare's word in its error log: {said}");
    }
    Ok(())
}

/// Queries everything through a server's SQL.
fn of_account(address: Address) -> Result<Report> {
    let at = address.to_string();
    let mut server = Source::open(address)?;
    if server.kind() != Kind::Tare {
        let reason = format!(
            "the server at {at} ({}) shows no performance_schema.tare_status to this account: tare is not loaded there or stood back \
             (`tare doctor` on its machine says why), or the account needs GRANT SELECT ON performance_schema.*",
            server.version()
        );
        return Ok(Report { reason: Some(reason), ..Report::default() });
    }
    everything(&mut server).with_context(|| format!("asking the server at {at}"))
}

/// Queries everything through an endpoint.
pub(crate) fn ask(socket: &Path) -> Result<Report> {
    everything(&mut Source::open(Address::Socket(socket.to_owned()))?)
}

fn everything(source: &mut Source) -> Result<Report> {
    let endpoint = source;
    let instruments: Vec<[String; 3]> = texts(endpoint, "setup_instruments", ["NAME", "ENABLED", "TIMED"])?;
    let named = |[name, value]: [String; 2]| Named { name, value };
    let status = texts(endpoint, "tare_status", ["NAME", "VALUE"])?.into_iter().map(named);
    let consumers = texts(endpoint, "setup_consumers", ["NAME", "ENABLED"])?.into_iter().map(named);
    Ok(Report {
        active: true,
        reason: None,
        status: status.collect(),
        instruments: by_class(&instruments),
        consumers: consumers.collect(),
    })
}

/// Returns columns of a table; NULL is empty.
fn texts<const N: usize>(source: &mut Source, table: &str, columns: [&str; N]) -> Result<Vec<[String; N]>> {
    let rows = source.rows(table, &columns, "")?;
    Ok(rows.iter().map(|row| std::array::from_fn(|at| row.text(at).unwrap_or_default())).collect())
}

/// Counts instruments by the first parts of their names (`wait/synch`, `stage`), in their order.
fn by_class(instruments: &[[String; 3]]) -> Vec<OnOf> {
    let mut classes: Vec<OnOf> = vec![];
    for [name, enabled, timed] in instruments {
        let parts = if name.starts_with("wait/") { 2 } else { 1 };
        let class = name.split('/').take(parts).collect::<Vec<_>>().join("/");
        let place = classes.iter().position(|c| c.class == class).unwrap_or_else(|| {
            classes.push(OnOf { class, on: 0, timed: 0, of: 0 });
            classes.len() - 1
        });
        let entry = &mut classes[place];
        entry.of += 1;
        entry.on += usize::from(enabled == "YES");
        entry.timed += usize::from(enabled == "YES" && timed == "YES");
    }
    classes
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
        crate::provider::FILE
    )
}

fn logs_beside(socket: &Path) -> Vec<PathBuf> {
    let entries =
        socket.parent().map(fs::read_dir).into_iter().flatten().flatten().flatten().map(|e| e.path());
    entries.filter(|p| p.ends_with("error.log") || p.extension().is_some_and(|e| e == "err")).collect()
}

/// Returns tare's last line in an error log, from its mark on.
pub(crate) fn line_in_log(log: &Path) -> Option<String> {
    last_line(&String::from_utf8_lossy(&fs::read(log).ok()?))
}

/// Returns tare's last line in a server's log text.
pub(crate) fn last_line(text: &str) -> Option<String> {
    let line = text.lines().rev().find(|l| l.contains(LOG_MARK))?;
    line.find(LOG_MARK).map(|at| line[at + LOG_MARK.len()..].trim().to_owned())
}

fn print(report: &Report) {
    if let Some(reason) = &report.reason {
        page::paragraph(&format!("tare is not active: {reason}."));
        return;
    }
    page::heading("tare is active", "tare_status");
    let mut facts = Grid::new(&[("NAME", Column::Left), ("VALUE", Column::CutEnd)]);
    report.status.iter().filter(|n| n.tells()).for_each(|n| facts.row([n.name.clone(), n.shown()]));
    facts.print();
    if let Some(why) = report.unserved() {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instruments_are_counted_by_class() {
        let classes = by_class(&[
            ["wait/synch/mutex/sql/LOCK_open", "YES", "YES"].map(str::to_owned),
            ["wait/synch/cond/sql/COND", "YES", "NO"].map(str::to_owned),
            ["wait/io/file/sql/FRM", "NO", "YES"].map(str::to_owned),
            ["idle", "YES", "YES"].map(str::to_owned),
        ]);
        let entry = |class: &str, on, timed, of| OnOf { class: class.into(), on, timed, of };
        assert_eq!(
            classes,
            [entry("wait/synch", 2, 1, 2), entry("wait/io", 0, 0, 1), entry("idle", 1, 1, 1)]
        );
    }

    #[test]
    fn a_person_sees_what_tells_something() {
        let named = |name: &str, value: &str| Named { name: name.into(), value: value.into() };
        assert!(named("lost", "0").tells());
        assert!(named("digest_lost", "3").tells());
        assert!(!named("digest_lost", "0").tells());
        assert!(!named("consumer_statements_digest", "YES").tells());
        assert_eq!(named("memory_used", "2097152").shown(), "2.00 MiB");
        assert_eq!(named("version", "0.1.0").shown(), "0.1.0");
    }

    #[test]
    fn the_last_line_of_tares_in_the_log_tells_why() {
        let folder = tempfile::tempdir().expect("folder");
        let log = folder.path().join("host.err");
        fs::write(&log, "x [Note] tare: old\n2026-01-01 0 [Warning] tare: unknown version 9.9\nready\n")
            .expect("log");
        assert_eq!(line_in_log(&log).as_deref(), Some("unknown version 9.9"));
        assert_eq!(logs_beside(&folder.path().join(SOCKET)), [log]);
        assert_eq!(line_in_log(Path::new("/nowhere")), None);
    }

    #[test]
    fn a_socket_nobody_listens_on_is_told_from_none() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join(SOCKET);
        let why = |path: &Path| match reach(path).expect("no error") {
            Reach::Absent(why) => why,
            Reach::Answers => panic!("nobody answers there"),
        };
        assert!(why(&path).contains("there is no"));
        drop(std::os::unix::net::UnixListener::bind(&path).expect("bind"));
        assert!(why(&path).contains("is gone"));
    }
}
