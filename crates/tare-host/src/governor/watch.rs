//! One sample: turns the counts since the last one into an account and, with a budget, into a decision that
//! is carried out.

use std::collections::BTreeMap;
use std::time::Duration;

use tare_budget::account::held_cost;
use tare_budget::board::Switched;
use tare_budget::governor::Slowed;
use tare_budget::{
    Budget, Connections, CostAccount, Decision, Governor, GovernorRules, GovernorSample, Held, Kind, Level,
    Move, Prices, Resampled, SampleChance, StatementSumsRule, Switch, Uncounted, Work, count_table_waits,
    pace,
};
use tare_engine::{Engine, SampleRate, SamplingState};

use super::Governed;
use super::connections::{self, ThreadClock};
use super::counts::EngineCounts;
use super::hand::MovedInstruments;
use crate::process::clock;

/// The CPU time in nanoseconds assumed for a statement if the number of statements is not reported; then all
/// loads are alike.
const UNKNOWN_STATEMENT: f64 = 50_000.0;

/// A budget that is never exceeded, whatever the prices.
const BEYOND_ALL: f64 = 1e9;

/// The time of a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct SampleStart {
    /// The monotonic time.
    pub(super) now: Duration,
    /// The CPU time of the server's process.
    pub(super) cpu: Duration,
}

/// The budgets; `None` is unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Budgets {
    /// The share of the server's CPU time.
    pub(super) all: Option<Budget>,
    /// The share of connections' own CPU time, at the 95th percentile.
    pub(super) p95: Option<Budget>,
    /// Whether statements, transactions and errors may be given up.
    pub(super) is_strict: bool,
}

impl Budgets {
    /// Returns whether there is no budget to keep.
    pub(super) fn are_none(self) -> bool {
        self.all.is_none() && self.p95.is_none()
    }

    fn rules(self) -> GovernorRules {
        GovernorRules {
            budget: self.all.map_or(BEYOND_ALL, Budget::share),
            budget_p95: self.p95.map(Budget::share),
            statements: if self.is_strict { StatementSumsRule::ByWorth } else { StatementSumsRule::Kept },
        }
    }

    /// Returns the budget that pays for the samples: the smaller one.
    fn of_looking(self) -> f64 {
        [self.all, self.p95].into_iter().flatten().min().map_or(1.0, Budget::share)
    }
}

/// The counts at one time.
#[derive(Debug, Default)]
struct CountsReading {
    counts: EngineCounts,
    /// The connections; read only if there is a budget for them.
    connections: Connections,
    /// The statements that had begun, and how many of them were sampled.
    begun: u64,
    chosen: f64,
    at: SampleStart,
}

/// The governor of an engine, with its memory. Its first interval begins at the server's start.
pub(super) struct GovernorWatch {
    governor: Governor,
    hand: MovedInstruments,
    before: CountsReading,
    /// Whether `before` was read; otherwise it is the server's start.
    has_read: bool,
    server: &'static dyn Governed,
    clock: ThreadClock,
    uncounted: Uncounted,
    /// The measure by which prices follow the machine's speed; set at the first sample.
    work: Option<Work>,
    /// The cost of the last sample in nanoseconds.
    own: f64,
}

/// The governor's findings in one sample, and the changes it made.
#[derive(Clone, Debug)]
pub(super) struct SampleFindings {
    pub(super) account: CostAccount,
    pub(super) moves: Vec<Move>,
    /// The change of the sample rate.
    pub(super) resampled: Option<Resampled>,
    /// The predicted total share after that.
    pub(super) predicted: f64,
    /// The slowdown of connections, if there is a budget for it.
    pub(super) slowed: Option<Slowed>,
    /// Whether the budgets can be kept.
    pub(super) can_be_kept: bool,
    /// The share of what is left alone because a person has set it.
    pub(super) by_persons: f64,
    /// The number of instruments below the level they had before the governor moved them, by kind and level.
    pub(super) cut: BTreeMap<(Kind, Level), usize>,
    /// The kinds that sleep.
    pub(super) asleep: Vec<Kind>,
    /// Whether the server was nearly idle, so that nothing is decided.
    pub(super) is_idle: bool,
    /// The time since the sample before.
    pub(super) elapsed: Duration,
}

impl GovernorWatch {
    /// Creates the governor. `start` is when the server started, by the monotonic clock: the first interval
    /// begins there.
    pub(super) fn new(
        prices: Prices,
        server: &'static dyn Governed,
        clock: ThreadClock,
        start: Duration,
    ) -> GovernorWatch {
        let governor = Governor::new(Budgets::default().rules(), prices);
        let at = SampleStart { now: start, cpu: Duration::ZERO };
        let before = CountsReading { at, ..CountsReading::default() };
        GovernorWatch {
            governor,
            hand: MovedInstruments::default(),
            before,
            has_read: false,
            server,
            clock,
            uncounted: Uncounted::default(),
            work: None,
            own: 0.0,
        }
    }

    /// Returns the time of the last sample; `None` if there was none.
    pub(super) fn last(&self) -> Option<SampleStart> {
        self.has_read.then_some(self.before.at)
    }

    /// Records the cost of the last sample, which is known only after it.
    pub(super) fn took(&mut self, time: Duration) {
        self.own = nanoseconds(time);
    }

    /// Returns whether the CPU time used since the last sample pays for another one.
    pub(super) fn is_due(&self, at: SampleStart, budgets: Budgets) -> bool {
        let used = nanoseconds(at.cpu.saturating_sub(self.before.at.cpu));
        pace::is_paid(used, budgets.of_looking(), self.own)
    }

    /// Begins the interval of the next sample.
    pub(super) fn begin(&mut self, engine: &Engine, at: SampleStart, budgets: Budgets) {
        self.before = self.read(engine, at, budgets);
        self.has_read = true;
    }

    fn read(&self, engine: &Engine, at: SampleStart, budgets: Budgets) -> CountsReading {
        self.server.refresh();
        let connections = budgets.p95.map(|_| connections::read(engine, self.clock));
        let SamplingState { begun, chosen, .. } = engine.sampling();
        CountsReading {
            counts: EngineCounts::read(engine, self.server),
            connections: connections.unwrap_or_default(),
            begun,
            chosen,
            at,
        }
    }

    /// Takes a sample; with a budget it also decides, and carries the decision out.
    pub(super) fn look(&mut self, engine: &Engine, at: SampleStart, budgets: Budgets) -> SampleFindings {
        let reading = self.read(engine, at, budgets);
        let elapsed = at.now.saturating_sub(self.before.at.now);
        let mut look = self.since(&reading);
        look.sampling = sampling(&engine.sampling(), &self.before, &reading, look.statements);
        let done = reading.counts.done_since(&self.before.counts);
        self.before = reading;
        self.has_read = true;
        let board = self.hand.board(engine, &look.events);
        if self.server.reports_metadata_locks() {
            self.uncounted.complete(&mut look, &board.switches, done);
        } else if let Some(calls) = done.calls {
            count_table_waits(&mut look, calls);
        }
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
        if !moves.is_empty() {
            self.server.levels_changed();
        }
        if let Some(Resampled { to, .. }) = decision.resampled {
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a rate
            engine.limit_sampling(look.sampling.is_some_and(|it| to < it.most).then_some(to as u32));
        }
        let (cut, asleep) = (cut(&board.switches, &moves), asleep(&board.switches, &moves));
        let Decision { account, resampled, predicted, slowed, can_be_kept, .. } = decision;
        SampleFindings {
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

    /// Restores everything that was moved. Returns the number of instruments.
    pub(super) fn put_back(&mut self, engine: &Engine) -> usize {
        engine.limit_sampling(None);
        let put_back = self.hand.put_back(engine);
        if put_back > 0 {
            self.server.levels_changed();
        }
        put_back
    }

    /// Returns the current duration of a run of work in nanoseconds, if the prices say what it took where
    /// they were measured.
    fn work_ns(&mut self) -> Option<f64> {
        self.governor.prices().work_ns?;
        let work = self.work.get_or_insert_with(Work::new);
        Some(work.time(|| nanoseconds(clock::thread())))
    }

    fn since(&mut self, CountsReading { counts, connections, at, .. }: &CountsReading) -> GovernorSample {
        let cpu = nanoseconds(at.cpu.saturating_sub(self.before.at.cpu));
        let statements = counts.statements_since(&self.before.counts);
        GovernorSample {
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

/// Returns how statements were sampled between two readings with `statements` in between.
fn sampling(
    state: &SamplingState,
    before: &CountsReading,
    now: &CountsReading,
    statements: f64,
) -> Option<SampleChance> {
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
    let sampling = SampleChance { rate: per_second(state.rate_now).min(most), most, chosen, seconds };
    (seconds > 0.0).then_some(sampling)
}

/// Returns the kinds that sleep after these moves.
fn asleep(board: &[Switch], moves: &[Move]) -> Vec<Kind> {
    let sleeping = board.iter().filter_map(|switch| match switch.of {
        Switched::Rest(kind) if switch.after(moves) == Level::Off => Some(kind),
        _ => None,
    });
    sleeping.collect()
}

/// Counts the instruments below their highest level after these moves.
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
