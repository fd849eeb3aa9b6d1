//! A governor in a process of its own: it reads counts, lets `tare_budget` decide, and sets rows of
//! `setup_%`.

mod connections;
mod counts;
mod hand;
mod known;
mod meter;
mod session;
mod settings;
mod state;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tare_budget::{
    CostAccount, Decision, Governor, GovernorRules, GovernorSample, PricedProvider, Prices,
    StatementSumsRule, Uncounted,
};

pub use counts::ServerCounts;
pub use hand::{LockedConnection, Notice, PutBack};
pub use meter::{CpuMeter, Find, ServerMachine, thread_cpu};
pub use session::GovernorSession;
pub use state::{ServerIdentity, StateFile};

use crate::source::{Address, Error as SourceError, Kind, Source};
use hand::Hold;
use known::KnownSettings;
use session::{GovernorReading, Past};

/// How often to wait for a lock that is still held after a connection was lost.
const BUSY_LOOKS: u32 = 12;

/// The reason why a governor cannot work.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server does not answer, or refuses.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// Another governor is active.
    #[error("{address}: another governor is at work (connection {connection}); one is enough")]
    Busy {
        /// Address of the server.
        address: String,
        /// Number of the other governor's connection.
        connection: u64,
    },
    /// The account lacks the right to change settings.
    #[error(
        "{address}: {why}; a governor needs GRANT SELECT ON performance_schema.*, GRANT UPDATE ON performance_schema.setup_instruments and GRANT UPDATE ON performance_schema.setup_consumers"
    )]
    NoRight {
        /// Address of the server.
        address: String,
        /// The server's error.
        why: String,
    },
    /// The server is read-only, and the account lacks the right to change settings in spite of that.
    #[error(
        "{address}: {why}; while a MariaDB is read-only a governor also needs GRANT READ_ONLY ADMIN ON *.* (before 10.5: SUPER)"
    )]
    ReadOnly {
        /// Address of the server.
        address: String,
        /// The server's error.
        why: String,
    },
    /// The Performance Schema is off.
    #[error(
        "{address}: the Performance Schema is off: there is nothing to govern (performance_schema=ON at the server's start)"
    )]
    NoSchema {
        /// Address of the server.
        address: String,
    },
    /// The address is tare's endpoint, which has no named locks and no accounts.
    #[error("{}: a governor goes through the server's own port or socket: --dsn", path.display())]
    Endpoint {
        /// Path of the endpoint.
        path: PathBuf,
    },
    /// The original values cannot be saved, so nothing is changed.
    #[error("{}: {source}; what is to be put back is kept there, so it must be a file that can be read and written (--state names another folder)", path.display())]
    State {
        /// Path of the file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The server's CPU time is unknown.
    #[error(
        "{address}: the server's CPU time is not known from here: run this on its machine (a socket, or --pid), or say how many processors it has (--cores): the budget is then a share of all they could do"
    )]
    NoClock {
        /// Address of the server.
        address: String,
    },
    /// The CPU time of connections is unknown.
    #[error(
        "{address}: the CPU time of connections is not known from here, and --budget-p95 is a share of it: run this on the server's machine (a socket, or --pid), not from another container, and where each connection has a thread of its own (no thread pool)"
    )]
    NoThreads {
        /// Address of the server.
        address: String,
    },
    /// It has ended, but not everything is restored.
    #[error("{error}; what is to be put back is in {}: the same command with --put-back does it", path.display())]
    Owing {
        /// The error that ended it, or prevented restoring.
        error: Box<Error>,
        /// Path of the file with the original values.
        path: PathBuf,
    },
}

impl Error {
    /// Returns whether the server may answer again later.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        match self {
            Error::Source(error) => error.is_passing(),
            Error::Owing { error, .. } => error.is_passing(),
            _ => false,
        }
    }

    fn right(source: &mut Source, error: SourceError) -> Error {
        let mut with_account = |address: String| {
            let account = source.ask("SELECT CURRENT_USER()").ok();
            let account = account.and_then(|rows| rows.first()?.text(0)).unwrap_or_default();
            format!("{address}, {account}")
        };
        match error {
            SourceError::Refused { address, why } => {
                let why = why.split("; this needs").next().unwrap_or_default().to_owned();
                Error::NoRight { address: with_account(address), why }
            }
            SourceError::ReadOnly { address, why } => Error::ReadOnly { address: with_account(address), why },
            other => Error::Source(other),
        }
    }

    /// Adds the file with the original values, if it exists and the error does not name it already.
    fn owing(self, path: PathBuf) -> Error {
        if matches!(self, Error::State { .. }) || !path.exists() {
            return self;
        }
        Error::Owing { error: Box::new(self), path }
    }
}

/// The settings of a governor.
pub struct Orders {
    /// Address of the server.
    pub address: Address,
    /// Highest overhead as a share of the CPU time.
    pub budget: f64,
    /// Highest 95th percentile of the overhead of connections; `None`: no limit.
    pub budget_p95: Option<f64>,
    /// Prices; `None`: those that ship.
    pub prices: Option<Prices>,
    /// Shortest interval between two readings.
    pub every: Duration,
    /// Patterns of the rows to leave alone.
    pub keep: Vec<String>,
    /// Folder of the file with the original values.
    pub folder: PathBuf,
    /// Number of processors, where the server's CPU time is unknown.
    pub cores: Option<f64>,
}

/// An event that a governor reports.
#[derive(Debug)]
pub enum GovernorEvent {
    /// It starts.
    Began {
        /// Version of the server.
        version: String,
        /// Origin of the prices.
        prices: tare_budget::price::PriceOrigin,
        /// Number of instruments that were on.
        instruments: usize,
        /// Number of those that are left alone.
        held: usize,
        /// Description of the source of CPU time.
        meter: String,
        /// Path of the file with the original values.
        state: PathBuf,
    },
    /// An observation about the settings.
    Noticed(Notice),
    /// A reading and its consequences.
    Looked {
        /// The decision.
        decision: Box<Decision>,
        /// Overhead of what a person has set, as a share.
        by_persons: f64,
        /// Overhead of what cannot be switched, as a share.
        fixed: f64,
        /// Instruments that are on after the decision, and those that were on originally, by kind.
        visible: BTreeMap<tare_budget::Kind, (usize, usize)>,
        /// Whether the server was so idle that nothing is decided.
        idle: bool,
    },
    /// The server is unreachable at the moment.
    Lost(String),
    /// The server is reachable again.
    Back {
        /// Whether it was restarted, so that its settings are those of its options.
        restarted: bool,
    },
    /// Everything is restored.
    PutBack(PutBack),
    /// The settings stay as they are.
    Left(usize),
}

/// Returns the provider, and so the prices, of a kind of server.
#[must_use]
pub fn provider(kind: Kind) -> PricedProvider {
    match kind {
        Kind::Tare => PricedProvider::Tare,
        Kind::MariaDb => PricedProvider::MariaDb,
        Kind::MySql => PricedProvider::MySql,
    }
}

fn shipped(prices: Option<Prices>, kind: Kind) -> Prices {
    prices.unwrap_or_else(|| match Prices::shipped(provider(kind)) {
        Ok(prices) => prices,
        Err(error) => unreachable!("a test reads the files that ship: {error}"),
    })
}

/// Governs until `wait` returns false, then restores everything, or leaves it as it is if `leave`.
///
/// # Errors
///
/// Every permanent error; then everything is restored as far as the server allows.
pub fn govern(
    orders: &Orders,
    machine: &ServerMachine,
    leave: bool,
    wait: &mut dyn FnMut(Duration) -> bool,
    tell: &mut dyn FnMut(GovernorEvent),
) -> Result<(), Error> {
    let session = GovernorSession::begin(orders, machine, None, tell)?;
    let path = session.hand.path().to_owned();
    keep_budget(session, orders, machine, leave, wait, tell).map_err(|error| error.owing(path))
}

fn keep_budget(
    mut session: GovernorSession,
    orders: &Orders,
    machine: &ServerMachine,
    leave: bool,
    wait: &mut dyn FnMut(Duration) -> bool,
    tell: &mut dyn FnMut(GovernorEvent),
) -> Result<(), Error> {
    while wait(orders.every) {
        match session.pass(orders, machine, tell) {
            Ok(()) => {}
            Err(error) if error.is_passing() => {
                tell(GovernorEvent::Lost(error.to_string()));
                let past = session.into_past();
                let Some(again) = come_back(orders, machine, &past, wait, tell)? else {
                    return end_without(orders, past.known, leave, tell);
                };
                let is_same = again.hand.known.identity.is_same_run(&past.known.identity);
                tell(GovernorEvent::Back { restarted: !is_same });
                session = again;
            }
            Err(error) => {
                // The first error is reported; what cannot be restored is in the file.
                let _ = session.hand.put_back();
                return Err(error);
            }
        }
    }
    if leave {
        tell(GovernorEvent::Left(session.hand.leave()?));
        return Ok(());
    }
    match session.hand.put_back() {
        // The connection may have been lost since the last reading although the server runs.
        Err(error) if error.is_passing() => end_without(orders, session.into_past().known, false, tell),
        done => {
            tell(GovernorEvent::PutBack(done?));
            Ok(())
        }
    }
}

/// Waits until the server answers again; `None` if that is no longer wanted.
fn come_back(
    orders: &Orders,
    machine: &ServerMachine,
    past: &Past,
    wait: &mut dyn FnMut(Duration) -> bool,
    tell: &mut dyn FnMut(GovernorEvent),
) -> Result<Option<GovernorSession>, Error> {
    let mut busy = 0;
    while wait(orders.every) {
        match GovernorSession::begin(orders, machine, Some(past), tell) {
            Ok(session) => return Ok(Some(session)),
            Err(error) if error.is_passing() => {}
            // A server that has just restarted may not be found at once.
            Err(Error::NoThreads { .. }) => {}
            // The server may not have noticed yet that the governor's old connection is gone.
            Err(Error::Busy { .. }) if busy < BUSY_LOOKS => busy += 1,
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Ends after the connection was lost: tries another one once.
fn end_without(
    orders: &Orders,
    mut known: KnownSettings,
    leave: bool,
    tell: &mut dyn FnMut(GovernorEvent),
) -> Result<(), Error> {
    if leave {
        // Another governor may have taken over the rows to restore. A server that is gone has none.
        let hold = match Hold::take(orders.address.clone(), &orders.folder) {
            Err(error) if !error.is_passing() => return Err(error),
            hold => hold.ok(),
        };
        let is_ours = hold.as_ref().is_none_or(|it| known.goes_on(&it.identity, it.state.as_ref()));
        tell(GovernorEvent::Left(if is_ours { known.leave()? } else { 0 }));
        return Ok(());
    }
    if known.owed.is_empty() {
        tell(GovernorEvent::PutBack(PutBack::default()));
        return Ok(());
    }
    put_back_over(orders.address.clone(), &orders.folder, Some(&known), tell)
}

/// Restores what a killed governor has left.
///
/// # Errors
///
/// Every [`Error`].
pub fn put_back(address: Address, folder: &Path, tell: &mut dyn FnMut(GovernorEvent)) -> Result<(), Error> {
    put_back_over(address, folder, None, tell)
}

/// Restores over a new connection, by the known values or else by the file.
fn put_back_over(
    address: Address,
    folder: &Path,
    known: Option<&KnownSettings>,
    tell: &mut dyn FnMut(GovernorEvent),
) -> Result<(), Error> {
    let (mut hand, notices) = LockedConnection::new(Hold::take(address, folder)?, &[], known)?;
    notices.into_iter().for_each(|notice| tell(GovernorEvent::Noticed(notice)));
    tell(GovernorEvent::PutBack(hand.put_back()?));
    Ok(())
}

/// Accounts for a server's overhead over some time, without switching anything or needing the right to.
///
/// # Errors
///
/// Every [`Error`] except those about settings.
pub fn account(
    orders: &Orders,
    machine: &ServerMachine,
    wait: &mut dyn FnMut(Duration) -> bool,
) -> Result<Option<(CostAccount, Prices)>, Error> {
    let mut source = Source::open(orders.address.clone())?;
    let prices = shipped(orders.prices.clone(), source.kind());
    let mut meter = CpuMeter::find(&mut source, machine, orders.cores)?;
    let before = GovernorReading::take(&mut source, &mut meter, machine, false)?;
    if !wait(orders.every) {
        return Ok(None);
    }
    let present = settings::read(&mut source)?;
    let mut board = settings::board(&present, &present, &BTreeMap::new());
    if source.kind() == Kind::Tare {
        board = settings::with_levels(board, &settings::levels(&mut source)?);
    }
    let now = GovernorReading::take(&mut source, &mut meter, machine, false)?;
    let governor = Governor::new(
        GovernorRules { budget: orders.budget, budget_p95: None, statements: StatementSumsRule::ByWorth },
        prices.clone(),
    );
    let look = GovernorSample {
        is_capacity: meter.is_capacity(),
        work_ns: meter.work_ns(machine),
        ..now.since(&before, &mut Uncounted::default(), &board)
    };
    Ok(Some((governor.account_of(&board, &look), prices)))
}

#[cfg(test)]
mod tests {
    use tare_budget::pace;

    use super::*;

    #[test]
    fn a_look_is_paid_for_by_a_tenth_of_the_budget_however_long_that_takes() {
        // A reading costs 10 ms. A tenth of a budget of 1% pays for it after ten seconds of the server's CPU
        // time.
        assert!(pace::is_paid(10e9, 0.01, 10e6));
        assert!(!pace::is_paid(9.9e9, 0.01, 10e6));
        // A server that used a millisecond in an hour.
        assert!(!pace::is_paid(1e6, 0.01, 10e6));
        assert!(pace::is_paid(0.0, 0.01, 0.0));
    }

    #[test]
    fn who_ends_in_debt_names_the_file_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("govern-db1.json");
        let gone = || SourceError::Gone { address: "db1".to_owned(), why: "no route".to_owned() };
        let nothing = Error::Source(gone()).owing(path.clone());
        assert_eq!(nothing.to_string(), "db1: no answer: no route");
        std::fs::write(&path, "{}").expect("written");
        let owing = Error::Source(gone()).owing(path.clone());
        let said = owing.to_string();
        assert!(said.starts_with("db1: no answer: no route; ") && said.contains("--put-back"), "{said}");
        assert!(said.contains("govern-db1.json") && owing.is_passing(), "{said}");
        let state = Error::State { path: path.clone(), source: std::io::Error::other("full") };
        assert_eq!(state.owing(path).to_string().matches("govern-db1.json").count(), 1);
    }
}
