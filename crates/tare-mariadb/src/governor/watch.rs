//! One look: what was counted since the last one becomes an account, and with a budget a decision that is carried out.

use std::collections::BTreeMap;
use std::time::Duration;

use tare_budget::account::held_cost;
use tare_budget::board::Switched;
use tare_budget::governor::Slowed;
use tare_budget::{
    Account, Budget, Connections, Decision, Governor, Held, Kind, Level, Look, Move, Prices, Resampled,
    Rules, Sampling, Statements, Switch, Uncounted, Work, pace,
};
use tare_engine::{Engine, SampleRate, SamplingState};

use super::clock;
use super::connections::{self, ThreadClock};
use super::counts::Counts;
use super::hand::Hand;

/// CPU time a statement takes where nobody says how many there are: all loads are alike then.
const UNKNOWN_STATEMENT: f64 = 50_000.0;

/// A budget that is never exceeded, whatever prices say.
const BEYOND_ALL: f64 = 1e9;

/// When a look is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Moment {
    /// A clock that only rises.
    pub(super) now: Duration,
    /// CPU time of the server's process.
    pub(super) cpu: Duration,
}

/// What may be spent; `None`: as much as it comes to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Budgets {
    /// Of the CPU time of the server.
    pub(super) all: Option<Budget>,
    /// Of that of connections, the 95th percentile.
    pub(super) p95: Option<Budget>,
    /// Statements, transactions and errors may be given up for that.
    pub(super) is_strict: bool,
}

impl Budgets {
    /// There is nothing to keep.
    pub(super) fn are_none(self) -> bool {
        self.all.is_none() && self.p95.is_none()
    }

    fn rules(self) -> Rules {
        Rules {
            budget: self.all.map_or(BEYOND_ALL, Budget::share),
            budget_p95: self.p95.map(Budget::share),
            statements: if self.is_strict { Statements::ByWorth } else { Statements::Kept },
        }
    }

    /// What looking is paid from: the smaller one.
    fn of_looking(self) -> f64 {
        [self.all, self.p95].into_iter().flatten().min().map_or(1.0, Budget::share)
    }
}

/// What there was at a moment.
#[derive(Debug, Default)]
struct Reading {
    counts: Counts,
    /// Read where there is a budget for them.
    connections: Connections,
    /// Statements that had begun, and how many of them were chosen.
    begun: u64,
    chosen: f64,
    at: Moment,
}

/// The governor of an engine, with its memory. What is before its first look is the server's start.
pub(super) struct Watch {
    governor: Governor,
    hand: Hand,
    before: Reading,
    /// Whether `before` was read; it is the server's start else.
    has_read: bool,
    clock: ThreadClock,
    uncounted: Uncounted,
    /// By which prices follow the machine, once somebody has looked.
    work: Option<Work>,
    /// What the last look took, in nanoseconds.
    own: f64,
}

/// What a look saw and did.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) account: Account,
    /// The levels that were moved.
    pub(super) moves: Vec<Move>,
    /// How the rate of samples was changed.
    pub(super) resampled: Option<Resampled>,
    /// The share all will have after that, as predicted.
    pub(super) predicted: f64,
    /// What connections are slowed by, where there is a budget for that.
    pub(super) slowed: Option<Slowed>,
    /// False where a budget cannot be kept.
    pub(super) can_be_kept: bool,
    /// What is left alone because a person has set it, as a share.
    pub(super) by_persons: f64,
    /// What is below the level it had before the governor moved it, by kind and level.
    pub(super) cut: BTreeMap<(Kind, Level), usize>,
    /// Kinds that sleep.
    pub(super) asleep: Vec<Kind>,
    /// The server did next to nothing: nothing is decided.
    pub(super) is_idle: bool,
    /// Since the look before.
    pub(super) elapsed: Duration,
}

impl Watch {
    /// `start` is when the server started, by the clock that only rises: a first look is as long as the server is up.
    pub(super) fn new(prices: Prices, clock: ThreadClock, start: Duration) -> Watch {
        let governor = Governor::new(Budgets::default().rules(), prices);
        let at = Moment { now: start, cpu: Duration::ZERO };
        let before = Reading { at, ..Reading::default() };
        Watch {
            governor,
            hand: Hand::default(),
            before,
            has_read: false,
            clock,
            uncounted: Uncounted::default(),
            work: None,
            own: 0.0,
        }
    }

    /// When the last look was taken; `None`: nobody has looked yet.
    pub(super) fn last(&self) -> Option<Moment> {
        self.has_read.then_some(self.before.at)
    }

    /// What the last look took is known when it is over.
    pub(super) fn took(&mut self, time: Duration) {
        self.own = nanoseconds(time);
    }

    /// Whether the CPU time used since the last look pays for another one.
    pub(super) fn is_due(&self, at: Moment, budgets: Budgets) -> bool {
        let used = nanoseconds(at.cpu.saturating_sub(self.before.at.cpu));
        pace::is_paid(used, budgets.of_looking(), self.own)
    }

    /// What happens from now on is what the next look sees.
    pub(super) fn begin(&mut self, engine: &Engine, at: Moment, budgets: Budgets) {
        self.before = self.read(engine, at, budgets);
        self.has_read = true;
    }

    fn read(&self, engine: &Engine, at: Moment, budgets: Budgets) -> Reading {
        let connections = budgets.p95.map(|_| connections::read(engine, self.clock));
        let SamplingState { begun, chosen, .. } = engine.sampling();
        Reading {
            counts: Counts::read(engine),
            connections: connections.unwrap_or_default(),
            begun,
            chosen,
            at,
        }
    }

    /// Looks; with a budget it decides, too, and carries that out.
    pub(super) fn look(&mut self, engine: &Engine, at: Moment, budgets: Budgets) -> Seen {
        let reading = self.read(engine, at, budgets);
        let elapsed = at.now.saturating_sub(self.before.at.now);
        let mut look = self.since(&reading);
        look.sampling = sampling(&engine.sampling(), &self.before, &reading, look.statements);
        let done = reading.counts.done_since(&self.before.counts);
        self.before = reading;
        self.has_read = true;
        let board = self.hand.board(engine, &look.events);
        self.uncounted.complete(&mut look, &board.switches, done);
        let is_idle = pace::is_idle(look.cpu, elapsed);
        let decision = if is_idle || budgets.are_none() {
            Decision::nothing(self.governor.account_of(&board.switches, &look), None)
        } else {
            self.governor.set_rules(budgets.rules());
            self.governor.look(&board.switches, &look)
        };
        let by_persons = held_cost(&board.switches, &decision.account, Held::Person);
        let by_persons = decision.account.share_of(by_persons).ns;
        let moves = self.hand.apply(engine, &board, decision.moves);
        if let Some(Resampled { to, .. }) = decision.resampled {
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a rate
            engine.limit_sampling(look.sampling.is_some_and(|it| to < it.most).then_some(to as u32));
        }
        let (cut, asleep) = (cut(&board.switches, &moves), asleep(&board.switches, &moves));
        let Decision { account, resampled, predicted, slowed, can_be_kept, .. } = decision;
        Seen {
            account,
            moves,
            resampled,
            predicted,
            slowed,
            can_be_kept,
            by_persons,
            cut,
            asleep,
            is_idle,
            elapsed,
        }
    }

    /// Gives everything back that was moved.
    pub(super) fn put_back(&mut self, engine: &Engine) -> usize {
        engine.limit_sampling(None);
        self.hand.put_back(engine)
    }

    /// What a run of work takes now, in nanoseconds, if the prices say what it took where they were measured.
    fn work_ns(&mut self) -> Option<f64> {
        self.governor.prices().work_ns?;
        let work = self.work.get_or_insert_with(Work::new);
        Some(work.time(|| nanoseconds(clock::thread())))
    }

    fn since(&mut self, Reading { counts, connections, at, .. }: &Reading) -> Look {
        let cpu = nanoseconds(at.cpu.saturating_sub(self.before.at.cpu));
        let statements = counts.questions_since(&self.before.counts);
        Look {
            now: at.now,
            cpu,
            is_capacity: false,
            own: self.own,
            statements: statements.unwrap_or(cpu / UNKNOWN_STATEMENT),
            connected: counts.connected_since(&self.before.counts),
            work_ns: self.work_ns(),
            events: counts.since(&self.before.counts),
            connections: connections.since(&self.before.connections),
            sampling: None,
        }
    }
}

/// How statements were sampled between two readings, in which there were so many.
fn sampling(state: &SamplingState, before: &Reading, now: &Reading, statements: f64) -> Option<Sampling> {
    let seconds = now.at.now.saturating_sub(before.at.now).as_secs_f64();
    let per_second = |rate: SampleRate| match rate {
        SampleRate::PerSecond(rate) => f64::from(rate),
        SampleRate::OneIn(weight) => statements / seconds / f64::from(weight),
    };
    let most = per_second(state.rate);
    #[allow(clippy::cast_precision_loss)] // a part
    let chosen = match now.begun.saturating_sub(before.begun) {
        0 => 1.0 / f64::from(state.weight),
        begun => ((now.chosen - before.chosen) / begun as f64).clamp(0.0, 1.0),
    };
    let sampling = Sampling { rate: per_second(state.rate_now).min(most), most, chosen, seconds };
    (seconds > 0.0).then_some(sampling)
}

/// Kinds that sleep once these moves are made.
fn asleep(board: &[Switch], moves: &[Move]) -> Vec<Kind> {
    let sleeping = board.iter().filter_map(|switch| match switch.of {
        Switched::Rest(kind) if switch.after(moves) == Level::Off => Some(kind),
        _ => None,
    });
    sleeping.collect()
}

/// What is below its highest level once these moves are made.
fn cut(board: &[Switch], moves: &[Move]) -> BTreeMap<(Kind, Level), usize> {
    let mut cut = BTreeMap::new();
    for switch in board {
        let level = switch.after(moves);
        if let Switched::Instrument(kind) = switch.of
            && switch.levels.last().is_some_and(|highest| level < *highest)
        {
            *cut.entry((kind, level)).or_default() += 1;
        }
    }
    cut
}

fn nanoseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e9
}
