//! A governor's session on one connection, and what it remembers when that is lost.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tare_budget::account::held_cost;
use tare_budget::board::visible;
use tare_budget::{
    Board, Connections, Decision, Governor, GovernorRules, GovernorSample, Held, Level, StatementSumsRule,
    Switch, Uncounted, counted_since, pace,
};

use super::hand::{Hold, LockedConnection};
use super::known::KnownSettings;
use super::meter::{self, CpuMeter, ServerMachine};
use super::{Error, GovernorEvent, Orders, ServerCounts, connections, shipped};
use crate::source::{Kind, Source};

/// Longest interval between two readings where only the server itself counts its CPU time, and longest
/// silence.
const LONGEST: Duration = Duration::from_secs(60);
/// Passes without a reading after which the server is queried anyway, if that is sooner.
const SILENT: u32 = 12;
/// Events between two readings above which a disabled instrument is considered not to be off.
const ALIVE: f64 = 1000.0;

/// A governor's session.
pub struct GovernorSession {
    pub(super) hand: LockedConnection,
    meter: CpuMeter,
    memory: GovernorMemory,
    /// Whether there is a budget for connections.
    is_p95: bool,
    before: GovernorReading,
    /// Cost of the last reading in nanoseconds.
    own: f64,
    /// Time of the last query.
    asked: Instant,
}

/// A governor's memory of a run of the server.
#[derive(Clone)]
struct GovernorMemory {
    governor: Governor,
    begun: Instant,
    /// Number of readings since each instrument was switched off.
    off: BTreeMap<String, u32>,
    uncounted: Uncounted,
    /// CPU time of the server before the last reading, in nanoseconds per second.
    rate: f64,
}

impl GovernorMemory {
    fn new(orders: &Orders, kind: Kind) -> GovernorMemory {
        let rules = GovernorRules {
            budget: orders.budget,
            budget_p95: orders.budget_p95,
            statements: StatementSumsRule::Last,
        };
        let governor = Governor::new(rules, shipped(orders.prices.clone(), kind));
        let uncounted = Uncounted::default();
        GovernorMemory { governor, begun: Instant::now(), off: BTreeMap::new(), uncounted, rate: 0.0 }
    }
}

/// The rest of a session whose connection is lost.
pub(super) struct Past {
    pub(super) known: KnownSettings,
    memory: GovernorMemory,
}

/// Counts and clocks at one time.
pub(super) struct GovernorReading {
    pub(super) counts: ServerCounts,
    /// Read only with a budget for connections.
    connections: Connections,
    pub(super) cpu: f64,
    pub(super) own: f64,
    at: Instant,
}

impl GovernorSession {
    /// Connects, and continues if it is the remembered run of the server. Changes nothing.
    ///
    /// # Errors
    ///
    /// Every [`Error`].
    pub(super) fn begin(
        orders: &Orders,
        machine: &ServerMachine,
        past: Option<&Past>,
        tell: &mut dyn FnMut(GovernorEvent),
    ) -> Result<GovernorSession, Error> {
        let mut hold = Hold::take(orders.address.clone(), &orders.folder)?;
        hold.try_writing()?;
        let goes_on = past.is_some_and(|past| past.known.goes_on(&hold.identity, hold.state.as_ref()));
        let (mut hand, notices) = LockedConnection::new(hold, &orders.keep, past.map(|past| &past.known))?;
        let mut meter = CpuMeter::find(&mut hand.source, machine, orders.cores)?;
        let is_p95 = orders.budget_p95.is_some();
        if is_p95 && !knows_threads(&mut hand.source, &meter, machine)? {
            return Err(Error::NoThreads { address: hand.source.address().to_string() });
        }
        let spent = meter.own();
        let before = GovernorReading::take(&mut hand.source, &mut meter, machine, is_p95)?;
        let own = (meter.own() - spent) * 1e9;
        let memory = match past {
            Some(past) if past.known.identity.is_same_run(&hand.known.identity) => past.memory.clone(),
            _ => GovernorMemory::new(orders, hand.source.kind()),
        };
        let session = GovernorSession { hand, meter, memory, is_p95, before, own, asked: Instant::now() };
        if !goes_on {
            tell(session.began());
        }
        notices.into_iter().for_each(|notice| tell(GovernorEvent::Noticed(notice)));
        Ok(session)
    }

    fn began(&self) -> GovernorEvent {
        let board = self.hand.board();
        GovernorEvent::Began {
            version: self.hand.source.version().to_owned(),
            prices: self.memory.governor.prices().origin.clone(),
            instruments: board.len(),
            held: board.iter().filter(|it| it.held.is_some()).count(),
            meter: self.meter.to_string(),
            state: self.hand.path().to_owned(),
        }
    }

    /// Closes the connection, which releases the lock.
    pub(super) fn into_past(self) -> Past {
        Past { known: self.hand.known, memory: self.memory }
    }

    /// Takes a reading if it is affordable. If not, sends a query now and then, because the server closes
    /// silent connections.
    ///
    /// # Errors
    ///
    /// Those of [`GovernorSession::look`].
    pub(super) fn pass(
        &mut self,
        orders: &Orders,
        machine: &ServerMachine,
        tell: &mut dyn FnMut(GovernorEvent),
    ) -> Result<(), Error> {
        let is_due = self.is_due(machine, orders);
        if !is_due && self.asked.elapsed() < LONGEST.min(orders.every.saturating_mul(SILENT)) {
            return Ok(());
        }
        self.asked = Instant::now();
        if is_due {
            self.look(machine, tell)
        } else {
            self.hand.source.execute("DO 1").map_err(Error::Source)
        }
    }

    /// Returns whether the server has used enough CPU time since the last reading that its part of the
    /// smaller budget pays for another one.
    #[must_use]
    pub fn is_due(&self, machine: &ServerMachine, orders: &Orders) -> bool {
        let budget = orders.budget.min(orders.budget_p95.unwrap_or(f64::INFINITY));
        let since = self.before.at.elapsed();
        match self.meter.peek(machine) {
            Some(cpu) => pace::is_paid((cpu - self.before.cpu) * 1e9, budget, self.own),
            // Querying the server costs, too: its load is assumed to be unchanged.
            None => {
                since >= LONGEST || pace::is_paid(self.memory.rate * since.as_secs_f64(), budget, self.own)
            }
        }
    }

    /// Takes a reading, decides, and carries the decision out.
    ///
    /// # Errors
    ///
    /// When the server is gone, or refuses; then everything is restored as far as possible.
    pub fn look(
        &mut self,
        machine: &ServerMachine,
        tell: &mut dyn FnMut(GovernorEvent),
    ) -> Result<(), Error> {
        self.hand.refresh()?.into_iter().for_each(|notice| tell(GovernorEvent::Noticed(notice)));
        let now = GovernorReading::take(&mut self.hand.source, &mut self.meter, machine, self.is_p95)?;
        let board = self.hand.board();
        let GovernorMemory { begun, uncounted, .. } = &mut self.memory;
        let look = GovernorSample {
            now: now.at - *begun,
            is_capacity: self.meter.is_capacity(),
            work_ns: self.meter.work_ns(machine),
            ..now.since(&self.before, uncounted, &board)
        };
        self.memory.rate = look.cpu / (now.at - self.before.at).as_secs_f64().max(1e-9);
        let idle = pace::is_idle(self.memory.rate, Duration::from_secs(1));
        self.own = look.own;
        self.before = now;
        self.fix_what_goes_on(&look, &board, tell)?;
        let board = self.hand.board();
        let governor = &mut self.memory.governor;
        let decision = if idle { undecided(&board, &look, governor) } else { governor.look(&board, &look) };
        let share = |held| decision.account.share_of(held_cost(&board, &decision.account, held)).ns;
        let (by_persons, fixed) = (share(Held::Person), share(Held::Fixed));
        let moves = decision.moves.clone();
        let visible = visible(&board, &moves);
        tell(GovernorEvent::Looked { decision: Box::new(decision), by_persons, fixed, visible, idle });
        if !moves.is_empty() {
            self.hand
                .apply(&board, &moves)?
                .into_iter()
                .for_each(|notice| tell(GovernorEvent::Noticed(notice)));
        }
        Ok(())
    }

    /// Marks instruments as fixed that have been off for a whole interval and still have events.
    fn fix_what_goes_on(
        &mut self,
        look: &GovernorSample,
        board: &Board,
        tell: &mut dyn FnMut(GovernorEvent),
    ) -> Result<(), Error> {
        self.memory.off.retain(|name, _| board.iter().any(|it| it.name == *name && it.present == Level::Off));
        for switch in board.iter().filter(|it| it.present == Level::Off && it.held.is_none()) {
            let looks = self.memory.off.entry(switch.name.clone()).or_default();
            *looks += 1;
            if *looks > 1 && look.events.get(&switch.name).is_some_and(|events| *events > ALIVE) {
                self.hand
                    .fix(&switch.name)?
                    .into_iter()
                    .for_each(|notice| tell(GovernorEvent::Noticed(notice)));
            }
        }
        Ok(())
    }
}

impl GovernorReading {
    /// Takes a reading, with that of each connection if it is wanted and possible.
    pub(super) fn take(
        source: &mut Source,
        meter: &mut CpuMeter,
        machine: &ServerMachine,
        with_connections: bool,
    ) -> Result<GovernorReading, Error> {
        let begin = Instant::now();
        let process = meter.process().filter(|_| with_connections);
        let connections = process.map(|process| connections::read(source, machine, process)).transpose()?;
        let mut counts = ServerCounts::read(source)?;
        if meter.is_the_servers() {
            counts.read_cpu(source)?;
        }
        meter.spent(begin.elapsed());
        let at = Instant::now();
        let cpu = meter.read(machine, &counts, at)?;
        Ok(GovernorReading {
            cpu,
            own: meter.own(),
            counts,
            connections: connections.unwrap_or_default(),
            at,
        })
    }

    /// Returns the differences from an earlier reading, with estimates of uncounted events. The caller adds
    /// the time, the machine's speed, and whether the CPU time is a capacity.
    pub(super) fn since(
        &self,
        before: &GovernorReading,
        uncounted: &mut Uncounted,
        board: &Board,
    ) -> GovernorSample {
        let mut look = GovernorSample {
            cpu: (self.cpu - before.cpu).max(0.0) * 1e9,
            own: (self.own - before.own).max(0.0) * 1e9,
            statements: self.counts.statements_since(&before.counts),
            connected: counted_since(self.counts.connected, Some(before.counts.connected)),
            events: self.counts.since(&before.counts),
            connections: self.connections.since(&before.connections),
            ..GovernorSample::default()
        };
        uncounted.complete(&mut look, board, self.counts.done_since(&before.counts));
        look
    }
}

/// Returns whether the CPU time of the connection's thread is known, and so that of every connection.
fn knows_threads(source: &mut Source, meter: &CpuMeter, machine: &ServerMachine) -> Result<bool, Error> {
    let Some(process) = meter.process() else { return Ok(false) };
    let own = meter::thread_of(source)?;
    Ok(own.and_then(|own| (machine.thread_cpu)(process, own)).is_some_and(|time| time > Duration::ZERO))
}

fn undecided(board: &[Switch], look: &GovernorSample, governor: &Governor) -> Decision {
    Decision::nothing(governor.account_of(board, look), None)
}
