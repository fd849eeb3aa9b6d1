//! The endpoint of a running server, and what it tells: tare's state, queried without the server's SQL.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::builder::{PathBufValueParser, TypedValueParser};
use tare_lab::server::LaunchedServer;
use tare_outlets::{Address, Source};

/// Name of the endpoint's socket in the data directory.
pub(crate) const SOCKET: &str = "tare.sock";
/// Mark of tare's lines in the error log.
const LOG_MARK: &str = "] tare: ";

/// Returns the parser of a file to read. An address is none: it may contain a password, which no error may
/// repeat.
pub(crate) fn file_to_read() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| {
        let is_address = path.to_string_lossy().contains("://");
        if is_address {
            Err("this is an address, not a file: a server is named with --dsn")
        } else {
            Ok(path)
        }
    })
}

/// The data of the endpoint.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct EndpointReport {
    pub(crate) active: bool,
    /// Reason why it is not active.
    pub(crate) reason: Option<String>,
    /// Rows of `tare_status`.
    pub(crate) status: Vec<NamedValue>,
    /// Instruments by class: how many are enabled, of how many.
    pub(crate) instruments: Vec<OnOf>,
    /// Consumers, and whether they are enabled.
    pub(crate) consumers: Vec<NamedValue>,
}

/// A row of `tare_status`, or a similar one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NamedValue {
    pub(crate) name: String,
    pub(crate) value: String,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OnOf {
    pub(crate) class: String,
    pub(crate) on: usize,
    pub(crate) timed: usize,
    pub(crate) of: usize,
}

/// Whether an endpoint can be queried.
pub(crate) enum EndpointReach {
    /// It listens.
    Answers,
    /// Nothing listens; the value describes the symptom.
    Absent(String),
}

/// Returns whether something listens; a missing right is an error, as it says nothing about tare.
pub(crate) fn reach(socket: &Path) -> Result<EndpointReach> {
    let at = socket.display();
    match UnixStream::connect(socket).map_err(|e| e.kind()) {
        Ok(_) => Ok(EndpointReach::Answers),
        Err(ErrorKind::NotFound) => Ok(EndpointReach::Absent(format!("there is no {at}"))),
        Err(ErrorKind::ConnectionRefused) => {
            Ok(EndpointReach::Absent(format!("nobody listens on {at}: the server that made it is gone")))
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
pub(crate) fn require_active(server: &LaunchedServer) -> Result<()> {
    if let EndpointReach::Absent(why) = reach(&server.datadir().join(SOCKET))? {
        let said = line_in_log(server.log()).unwrap_or_else(|| "nothing".into());
        bail!("the server runs, but tare does not serve in it: {why}; tare's word in its error log: {said}");
    }
    Ok(())
}

/// Queries everything through an endpoint.
pub(crate) fn ask(socket: &Path) -> Result<EndpointReport> {
    everything(&mut Source::open(Address::Socket(socket.to_owned()))?)
}

/// Queries everything.
pub(crate) fn everything(source: &mut Source) -> Result<EndpointReport> {
    let endpoint = source;
    let instruments: Vec<[String; 3]> = texts(endpoint, "setup_instruments", ["NAME", "ENABLED", "TIMED"])?;
    let named = |[name, value]: [String; 2]| NamedValue { name, value };
    let status = texts(endpoint, "tare_status", ["NAME", "VALUE"])?.into_iter().map(named);
    let consumers = texts(endpoint, "setup_consumers", ["NAME", "ENABLED"])?.into_iter().map(named);
    Ok(EndpointReport {
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

/// Returns tare's last line in an error log, from its mark on.
pub(crate) fn line_in_log(log: &Path) -> Option<String> {
    last_line(&String::from_utf8_lossy(&fs::read(log).ok()?))
}

/// Returns tare's last line in a server's log text.
pub(crate) fn last_line(text: &str) -> Option<String> {
    let line = text.lines().rev().find(|l| l.contains(LOG_MARK))?;
    line.find(LOG_MARK).map(|at| line[at + LOG_MARK.len()..].trim().to_owned())
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
    fn the_last_line_of_tares_in_the_log_tells_why() {
        let folder = tempfile::tempdir().expect("folder");
        let log = folder.path().join("host.err");
        fs::write(&log, "x [Note] tare: old\n2026-01-01 0 [Warning] tare: unknown version 9.9\nready\n")
            .expect("log");
        assert_eq!(line_in_log(&log).as_deref(), Some("unknown version 9.9"));
        assert_eq!(line_in_log(Path::new("/nowhere")), None);
    }

    #[test]
    fn a_socket_nobody_listens_on_is_told_from_none() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join(SOCKET);
        let why = |path: &Path| match reach(path).expect("no error") {
            EndpointReach::Absent(why) => why,
            EndpointReach::Answers => panic!("nobody answers there"),
        };
        assert!(why(&path).contains("there is no"));
        drop(std::os::unix::net::UnixListener::bind(&path).expect("bind"));
        assert!(why(&path).contains("is gone"));
    }
}
