//! A governor beside a server: it reads counts, has `tare_budget` decide, and moves rows of `setup_%`.

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

use tare_budget::{Account, Decision, Governor, Look, Prices, Provider, Rules, Statements, Uncounted};

pub use counts::Counts;
pub use hand::{Hand, Notice, PutBack};
pub use meter::{Find, Machine, Meter, thread_cpu};
pub use session::Session;
pub use state::{Identity, State};

use crate::source::{Address, Error as SourceError, Kind, Source};
use hand::Hold;
use known::Known;
use session::{Past, Reading};

/// So often a lock that is still held is waited for, after a connection was lost.
const BUSY_LOOKS: u32 = 12;

/// What keeps a governor from governing.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server does not answer, or refuses.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// Another governor is there.
    #[error("{address}: another governor is at work (connection {connection}); one is enough")]
    Busy {
        /// The server.
        address: String,
        /// Its connection.
        connection: u64,
    },
    /// The account may not switch.
    #[error(
        "{address}: {why}; a governor needs GRANT SELECT ON performance_schema.*, GRANT UPDATE ON performance_schema.setup_instruments and GRANT UPDATE ON performance_schema.setup_consumers"
    )]
    NoRight {
        /// The server.
        address: String,
        /// What it said.
        why: String,
    },
    /// The server is read-only, and the account may not switch all the same.
    #[error(
        "{address}: {why}; while a MariaDB is read-only a governor also needs GRANT READ_ONLY ADMIN ON *.* (before 10.5: SUPER)"
    )]
    ReadOnly {
        /// The server.
        address: String,
        /// What it said.
        why: String,
    },
    /// There is nothing to govern.
    #[error(
        "{address}: the Performance Schema is off: there is nothing to govern (performance_schema=ON at the server's start)"
    )]
    NoSchema {
        /// The server.
        address: String,
    },
    /// Tare's endpoint has no named locks, and no accounts.
    #[error("{}: a governor goes through the server's own port or socket: --dsn", path.display())]
    Endpoint {
        /// The endpoint.
        path: PathBuf,
    },
    /// What is owed cannot be written down, so nothing is changed.
    #[error("{}: {source}; what is to be put back is kept there, so it must be a file that can be read and written (--state names another folder)", path.display())]
    State {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Nobody tells what the server uses.
    #[error(
        "{address}: the server's CPU time is not known from here: run this on its machine (a socket, or --pid), or say how many processors it has (--cores): the budget is then a share of all they could do"
    )]
    NoClock {
        /// The server.
        address: String,
    },
    /// Nobody tells what connections use.
    #[error(
        "{address}: the CPU time of connections is not known from here, and --budget-p95 is a share of it: run this on the server's machine (a socket, or --pid), not from another container, and where each connection has a thread of its own (no thread pool)"
    )]
    NoThreads {
        /// The server.
        address: String,
    },
    /// It has ended, and not everything is as it was.
    #[error("{error}; what is to be put back is in {}: the same command with --put-back does it", path.display())]
    Owing {
        /// What has ended it, or kept it from putting back.
        error: Box<Error>,
        /// The file.
        path: PathBuf,
    },
}

impl Error {
    /// Whether the server may answer again later.
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
                let why = why.split("; an outlet needs").next().unwrap_or_default().to_owned();
                Error::NoRight { address: with_account(address), why }
            }
            SourceError::ReadOnly { address, why } => Error::ReadOnly { address: with_account(address), why },
            other => Error::Source(other),
        }
    }

    /// With the file that says what is owed, if there is one and the error does not name it itself.
    fn owing(self, path: PathBuf) -> Error {
        if matches!(self, Error::State { .. }) || !path.exists() {
            return self;
        }
        Error::Owing { error: Box::new(self), path }
    }
}

/// What a governor is told.
pub struct Orders {
    /// The server.
    pub address: Address,
    /// What all may cost, as a share of the CPU time.
    pub budget: f64,
    /// What connections may be slowed by, the 95th percentile; `None`: as much as it comes to.
    pub budget_p95: Option<f64>,
    /// Prices; those that ship where none are given.
    pub prices: Option<Prices>,
    /// The shortest time between two looks.
    pub every: Duration,
    /// Patterns of what is left alone.
    pub keep: Vec<String>,
    /// The folder of the file with what is owed.
    pub folder: PathBuf,
    /// Processors, where the server's CPU time is not known.
    pub cores: Option<f64>,
}

/// What a governor tells.
#[derive(Debug)]
pub enum Event {
    /// It begins.
    Began {
        /// The server's version.
        version: String,
        /// Where the prices come from.
        prices: tare_budget::price::Origin,
        /// Instruments that were on.
        instruments: usize,
        /// Of those, such as are left alone, for whatever reason.
        held: usize,
        /// How CPU time is known.
        meter: String,
        /// The file with what is owed.
        state: PathBuf,
    },
    /// Something about the settings.
    Noticed(Notice),
    /// A look, and what follows from it.
    Looked {
        /// The decision.
        decision: Box<Decision>,
        /// What is left alone because a person has set it, as a share.
        by_persons: f64,
        /// What cannot be switched, as a share.
        fixed: f64,
        /// Instruments that are on after that, and all that were on at first, by kind.
        visible: BTreeMap<tare_budget::Kind, (usize, usize)>,
        /// The server did next to nothing: nothing is decided.
        idle: bool,
    },
    /// The server is gone for the moment.
    Lost(String),
    /// It is back.
    Back {
        /// It was started anew, so its settings are its options' again.
        restarted: bool,
    },
    /// Everything is as it was.
    PutBack(PutBack),
    /// The settings stay as they are.
    Left(usize),
}

/// The prices for whatever a server has.
#[must_use]
pub fn provider(kind: Kind) -> Provider {
    match kind {
        Kind::Tare => Provider::Tare,
        Kind::MariaDb => Provider::MariaDb,
        Kind::MySql => Provider::MySql,
    }
}

fn shipped(prices: Option<Prices>, kind: Kind) -> Prices {
    prices.unwrap_or_else(|| match Prices::shipped(provider(kind)) {
        Ok(prices) => prices,
        Err(error) => unreachable!("a test reads the files that ship: {error}"),
    })
}

/// Governs until `wait` says that it is enough, then puts everything back, or leaves it if `leave` says so.
///
/// # Errors
///
/// Whatever does not pass; everything is put back then, as far as the server lets us.
pub fn govern(
    orders: &Orders,
    machine: &Machine,
    leave: bool,
    wait: &mut dyn FnMut(Duration) -> bool,
    tell: &mut dyn FnMut(Event),
) -> Result<(), Error> {
    let session = Session::begin(orders, machine, None, tell)?;
    let path = session.hand.path().to_owned();
    keep_budget(session, orders, machine, leave, wait, tell).map_err(|error| error.owing(path))
}

fn keep_budget(
    mut session: Session,
    orders: &Orders,
    machine: &Machine,
    leave: bool,
    wait: &mut dyn FnMut(Duration) -> bool,
    tell: &mut dyn FnMut(Event),
) -> Result<(), Error> {
    while wait(orders.every) {
        match session.pass(orders, machine, tell) {
            Ok(()) => {}
            Err(error) if error.is_passing() => {
                tell(Event::Lost(error.to_string()));
                let past = session.into_past();
                let Some(again) = come_back(orders, machine, &past, wait, tell)? else {
                    return end_without(orders, past.known, leave, tell);
                };
                let is_same = again.hand.known.identity.is_same_run(&past.known.identity);
                tell(Event::Back { restarted: !is_same });
                session = again;
            }
            Err(error) => {
                // That error is the one to tell; what cannot be put back is in the file.
                let _ = session.hand.put_back();
                return Err(error);
            }
        }
    }
    if leave {
        tell(Event::Left(session.hand.leave()?));
        return Ok(());
    }
    match session.hand.put_back() {
        // The connection may have been lost since the last look; the server need not be.
        Err(error) if error.is_passing() => end_without(orders, session.into_past().known, false, tell),
        done => {
            tell(Event::PutBack(done?));
            Ok(())
        }
    }
}

/// Waits until the server answers again; `None` if that is no longer wanted.
fn come_back(
    orders: &Orders,
    machine: &Machine,
    past: &Past,
    wait: &mut dyn FnMut(Duration) -> bool,
    tell: &mut dyn FnMut(Event),
) -> Result<Option<Session>, Error> {
    let mut busy = 0;
    while wait(orders.every) {
        match Session::begin(orders, machine, Some(past), tell) {
            Ok(session) => return Ok(Some(session)),
            Err(error) if error.is_passing() => {}
            // A server that has just come back may not be found at once.
            Err(Error::NoThreads { .. }) => {}
            // The server may not have noticed yet that our own connection is gone.
            Err(Error::Busy { .. }) if busy < BUSY_LOOKS => busy += 1,
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Ends as usual where the connection is lost: another one is tried, once.
fn end_without(
    orders: &Orders,
    mut known: Known,
    leave: bool,
    tell: &mut dyn FnMut(Event),
) -> Result<(), Error> {
    if leave {
        // Another governor may have made the debts its own meanwhile. A server that is gone has none.
        let hold = match Hold::take(orders.address.clone(), &orders.folder) {
            Err(error) if !error.is_passing() => return Err(error),
            hold => hold.ok(),
        };
        let is_ours = hold.as_ref().is_none_or(|it| known.goes_on(&it.identity, it.state.as_ref()));
        tell(Event::Left(if is_ours { known.leave()? } else { 0 }));
        return Ok(());
    }
    if known.owed.is_empty() {
        tell(Event::PutBack(PutBack::default()));
        return Ok(());
    }
    put_back_over(orders.address.clone(), &orders.folder, Some(&known), tell)
}

/// Puts back what a governor that was killed has left.
///
/// # Errors
///
/// Every [`Error`].
pub fn put_back(address: Address, folder: &Path, tell: &mut dyn FnMut(Event)) -> Result<(), Error> {
    put_back_over(address, folder, None, tell)
}

/// Puts back over a connection of its own: what is known to be owed, or else what the file says.
fn put_back_over(
    address: Address,
    folder: &Path,
    known: Option<&Known>,
    tell: &mut dyn FnMut(Event),
) -> Result<(), Error> {
    let (mut hand, notices) = Hand::new(Hold::take(address, folder)?, &[], known)?;
    notices.into_iter().for_each(|notice| tell(Event::Noticed(notice)));
    tell(Event::PutBack(hand.put_back()?));
    Ok(())
}

/// The account of a server as it is, over some time. Nothing is switched, and no right to is needed.
///
/// # Errors
///
/// Every [`Error`] but those of settings.
pub fn account(
    orders: &Orders,
    machine: &Machine,
    wait: &mut dyn FnMut(Duration) -> bool,
) -> Result<Option<(Account, Prices)>, Error> {
    let mut source = Source::open(orders.address.clone())?;
    let prices = shipped(orders.prices.clone(), source.kind());
    let mut meter = Meter::find(&mut source, machine, orders.cores)?;
    let before = Reading::take(&mut source, &mut meter, machine, false)?;
    if !wait(orders.every) {
        return Ok(None);
    }
    let present = settings::read(&mut source)?;
    let mut board = settings::board(&present, &present, &BTreeMap::new());
    if source.kind() == Kind::Tare {
        board = settings::with_levels(board, &settings::levels(&mut source)?);
    }
    let now = Reading::take(&mut source, &mut meter, machine, false)?;
    let governor = Governor::new(
        Rules { budget: orders.budget, budget_p95: None, statements: Statements::ByWorth },
        prices.clone(),
    );
    let look = Look {
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
        // 10 ms for a look at a budget of 1%: ten seconds of the server's CPU time pay for it.
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
