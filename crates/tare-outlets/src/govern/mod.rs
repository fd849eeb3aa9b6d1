//! A governor beside a server: it reads counts, has `tare_budget` decide, and moves rows of `setup_%`.

mod connections;
mod counts;
mod hand;
mod meter;
mod settings;
mod state;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tare_budget::governor::held_cost;
use tare_budget::{
    Account, Connections, Decision, Governor, Held, Level, Look, Prices, Provider, Rules, Switch,
    counted_since, pace,
};

pub use counts::Counts;
pub use hand::{Hand, Notice, PutBack};
pub use meter::{Find, Machine, Meter, thread_cpu};
pub use state::{Identity, State};

use crate::source::{Address, Error as SourceError, Kind, Source};

/// The longest time between two looks where only the server itself knows what it used.
const LONGEST: Duration = Duration::from_secs(60);
/// An instrument that is off and has more events than this between two looks is not off.
const ALIVE: f64 = 1000.0;

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
}

impl Error {
    /// Whether the server may answer again later.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        matches!(self, Error::Source(error) if error.is_passing())
    }

    fn right(source: &mut Source, error: SourceError) -> Error {
        match error {
            SourceError::Refused { address, why } => {
                let why = why.split("; an outlet needs").next().unwrap_or_default().to_owned();
                let account = source.ask("SELECT CURRENT_USER()").ok();
                let account = account.and_then(|rows| rows.first()?.text(0)).unwrap_or_default();
                Error::NoRight { address: format!("{address}, {account}"), why }
            }
            other => Error::Source(other),
        }
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

/// A governor at work.
pub struct Session {
    hand: Hand,
    meter: Meter,
    governor: Governor,
    /// Whether there is a budget for connections.
    is_p95: bool,
    before: Reading,
    /// What the last look took, in nanoseconds.
    own: f64,
    /// What the server used before it, in nanoseconds a second.
    rate: f64,
    begun: Instant,
    /// For how many looks each instrument has been off.
    off: BTreeMap<String, u32>,
}

/// Counts and clocks at a moment.
struct Reading {
    counts: Counts,
    /// Read where there is a budget for them.
    connections: Connections,
    cpu: f64,
    own: f64,
    at: Instant,
}

impl Session {
    /// Takes hold of the server. Nothing is changed.
    ///
    /// # Errors
    ///
    /// Every [`Error`].
    pub fn begin(orders: &Orders, machine: &Machine, tell: &mut dyn FnMut(Event)) -> Result<Session, Error> {
        let (mut hand, notices) = Hand::new(orders.address.clone(), &orders.folder, &orders.keep)?;
        let prices = shipped(orders.prices.clone(), hand.source.kind());
        let mut meter = Meter::find(&mut hand.source, machine, orders.cores)?;
        let is_p95 = orders.budget_p95.is_some();
        if is_p95 && !knows_threads(&mut hand.source, &meter, machine)? {
            return Err(Error::NoThreads { address: hand.source.address().to_string() });
        }
        let board = hand.board();
        tell(Event::Began {
            version: hand.source.version().to_owned(),
            prices: prices.origin.clone(),
            instruments: board.len(),
            held: board.iter().filter(|it| it.held.is_some()).count(),
            meter: meter.to_string(),
            state: hand.path().to_owned(),
        });
        notices.into_iter().for_each(|notice| tell(Event::Noticed(notice)));
        let spent = meter.own();
        let before = Reading::take(&mut hand.source, &mut meter, machine, is_p95)?;
        let own = (meter.own() - spent) * 1e9;
        let rules = Rules { budget: orders.budget, budget_p95: orders.budget_p95 };
        let governor = Governor::new(rules, prices);
        let begun = Instant::now();
        Ok(Session { hand, meter, governor, is_p95, before, own, rate: 0.0, begun, off: BTreeMap::new() })
    }

    /// Whether the server has used so much since the last look that another one is paid for, of the smaller budget.
    #[must_use]
    pub fn is_due(&self, machine: &Machine, orders: &Orders) -> bool {
        let budget = orders.budget.min(orders.budget_p95.unwrap_or(f64::INFINITY));
        let since = self.before.at.elapsed();
        match self.meter.peek(machine) {
            Some(cpu) => pace::is_paid((cpu - self.before.cpu) * 1e9, budget, self.own),
            // To ask the server costs, too: it is taken to have gone on as it did.
            None => since >= LONGEST || pace::is_paid(self.rate * since.as_secs_f64(), budget, self.own),
        }
    }

    /// Looks, decides, and carries it out.
    ///
    /// # Errors
    ///
    /// When the server is gone, or refuses; then everything is put back as far as that goes.
    pub fn look(&mut self, machine: &Machine, tell: &mut dyn FnMut(Event)) -> Result<(), Error> {
        self.hand.refresh()?.into_iter().for_each(|notice| tell(Event::Noticed(notice)));
        let now = Reading::take(&mut self.hand.source, &mut self.meter, machine, self.is_p95)?;
        let look = self.between(&now);
        self.rate = look.cpu / (now.at - self.before.at).as_secs_f64().max(1e-9);
        let idle = pace::is_idle(self.rate, Duration::from_secs(1));
        self.own = look.own;
        self.before = now;
        self.fix_what_goes_on(&look, tell)?;
        let board = self.hand.board();
        let decision =
            if idle { undecided(&board, &look, &self.governor) } else { self.governor.look(&board, &look) };
        let share = |held| decision.account.share_of(held_cost(&board, &decision.account, held)).ns;
        let (by_persons, fixed) = (share(Held::Person), share(Held::Fixed));
        let moves = decision.moves.clone();
        tell(Event::Looked { decision: Box::new(decision), by_persons, fixed, idle });
        if !moves.is_empty() {
            self.hand.apply(&board, &moves)?.into_iter().for_each(|notice| tell(Event::Noticed(notice)));
        }
        Ok(())
    }

    fn between(&self, now: &Reading) -> Look {
        let before = &self.before;
        let statements = now.counts.statements.saturating_sub(before.counts.statements);
        #[allow(clippy::cast_precision_loss)] // prices are rough
        let statements = statements as f64;
        Look {
            now: now.at - self.begun,
            cpu: (now.cpu - before.cpu).max(0.0) * 1e9,
            is_capacity: self.meter.is_capacity(),
            own: (now.own - before.own).max(0.0) * 1e9,
            statements,
            connected: counted_since(now.counts.connected, Some(before.counts.connected)),
            events: now.counts.since(&before.counts),
            connections: now.connections.since(&before.connections),
        }
    }

    /// What has been off for a whole look and still has events cannot be switched.
    fn fix_what_goes_on(&mut self, look: &Look, tell: &mut dyn FnMut(Event)) -> Result<(), Error> {
        let board = self.hand.board();
        self.off.retain(|name, _| board.iter().any(|it| it.name == *name && it.present == Level::Off));
        for switch in board.iter().filter(|it| it.present == Level::Off && it.held.is_none()) {
            let looks = self.off.entry(switch.name.clone()).or_default();
            *looks += 1;
            if *looks > 1 && look.events.get(&switch.name).is_some_and(|events| *events > ALIVE) {
                self.hand.fix(&switch.name)?.into_iter().for_each(|notice| tell(Event::Noticed(notice)));
            }
        }
        Ok(())
    }
}

impl Reading {
    /// With what each connection did, if that is wanted and can be known.
    fn take(
        source: &mut Source,
        meter: &mut Meter,
        machine: &Machine,
        with_connections: bool,
    ) -> Result<Reading, Error> {
        let begin = Instant::now();
        let process = meter.process().filter(|_| with_connections);
        let connections = process.map(|process| connections::read(source, machine, process)).transpose()?;
        let mut counts = Counts::read(source)?;
        if meter.is_the_servers() {
            counts.read_cpu(source)?;
        }
        meter.spent(begin.elapsed());
        let at = Instant::now();
        let cpu = meter.read(machine, &counts, at)?;
        Ok(Reading { cpu, own: meter.own(), counts, connections: connections.unwrap_or_default(), at })
    }
}

/// Whether the CPU time of the thread that serves us is known, as it then is of every connection.
fn knows_threads(source: &mut Source, meter: &Meter, machine: &Machine) -> Result<bool, Error> {
    let Some(process) = meter.process() else { return Ok(false) };
    let own = meter::thread_of(source)?;
    Ok(own.and_then(|own| (machine.thread_cpu)(process, own)).is_some_and(|time| time > Duration::ZERO))
}

fn shipped(prices: Option<Prices>, kind: Kind) -> Prices {
    prices.unwrap_or_else(|| match Prices::shipped(provider(kind)) {
        Ok(prices) => prices,
        Err(error) => unreachable!("a test reads the files that ship: {error}"),
    })
}

fn undecided(board: &[Switch], look: &Look, governor: &Governor) -> Decision {
    let account = governor.account_of(board, look);
    let predicted = account.share().ns;
    Decision { account, moves: vec![], predicted, slowed: None, can_be_kept: true }
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
    let mut session = Session::begin(orders, machine, tell)?;
    while wait(orders.every) {
        if !session.is_due(machine, orders) {
            continue;
        }
        match session.look(machine, tell) {
            Ok(()) => {}
            Err(error) if error.is_passing() => {
                tell(Event::Lost(error.to_string()));
                let identity = session.hand.identity.clone();
                // The lock goes with the connection.
                drop(session);
                let Some(again) = come_back(orders, machine, wait, tell)? else { return Ok(()) };
                tell(Event::Back { restarted: !again.hand.identity.is_same_run(&identity) });
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
        Err(error) if error.is_passing() => {
            drop(session);
            put_back(orders.address.clone(), &orders.folder, tell)
        }
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
    wait: &mut dyn FnMut(Duration) -> bool,
    tell: &mut dyn FnMut(Event),
) -> Result<Option<Session>, Error> {
    let mut busy = 0;
    while wait(orders.every) {
        match Session::begin(orders, machine, tell) {
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

/// Puts back what a governor that was killed has left.
///
/// # Errors
///
/// Every [`Error`].
pub fn put_back(address: Address, folder: &Path, tell: &mut dyn FnMut(Event)) -> Result<(), Error> {
    let (mut hand, notices) = Hand::new(address, folder, &[])?;
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
    let board = settings::board(&present, &present, &BTreeMap::new());
    let now = Reading::take(&mut source, &mut meter, machine, false)?;
    let governor = Governor::new(Rules { budget: orders.budget, budget_p95: None }, prices.clone());
    let look = Look {
        cpu: (now.cpu - before.cpu).max(0.0) * 1e9,
        is_capacity: meter.is_capacity(),
        own: (now.own - before.own).max(0.0) * 1e9,
        connected: counted_since(now.counts.connected, Some(before.counts.connected)),
        events: now.counts.since(&before.counts),
        ..Look::default()
    };
    Ok(Some((governor.account_of(&board, &look), prices)))
}

#[cfg(test)]
mod tests {
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
}
