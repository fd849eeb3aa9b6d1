//! The decision: which levels move, so that the sum of prices stays under the budget, that of the connections which are
//! slowed most under theirs, and as little as possible is lost.
//!
//! Hysteresis, so that nothing flaps:
//!
//! - Over the budget, levels are lowered until the prediction is [`CUT_TO`] of it.
//! - Under it, they are raised only as far as the prediction stays below [`RAISE_TO`] of it, only under a load like the look's
//!   before, and only what has rested for a minute. A prediction takes the highest rate of the last ten minutes.
//! - An instrument changes at most twice a minute: what has changed once in the last minute can only go to its lowest
//!   level, so that no third change is ever needed.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::time::Duration;

use crate::account::{Account, Entry, distance};
use crate::asleep;
use crate::begun::{self, Vain};
use crate::choice::{self, Choice};
use crate::connection::{Connection, Crowd, SECOND};
use crate::kind::{Family, Kind, Level};
use crate::machine::Machine;
use crate::memory::{Likeness, Load, Memory};
use crate::plan::{Course, Plan, View};
use crate::price::{Cost, Prices};
use crate::recording::{self, Recording, effective};
use crate::worth;

/// What is aimed at when something has to be given up, as a part of the budget.
pub const CUT_TO: f64 = 0.9;
/// What may be reached by giving something back.
pub const RAISE_TO: f64 = 0.8;
/// How long something rests before it is raised, and in which time it changes at most twice.
pub const REST: Duration = Duration::from_secs(60);
/// So often a choice is tried anew, when it leaves other connections over their budget than those it was made for.
const TRIES: u32 = 4;

/// Why a switch is left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// A person has set it.
    Person,
    /// It cannot be switched while the server runs.
    Fixed,
}

/// What a switch is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switched {
    /// An instrument.
    Instrument(Kind),
    /// How a family's events are recorded (a built-in's consumers).
    Recording(Family),
    /// All that is on of a kind besides what has levels of its own.
    Rest(Kind),
}

/// Something that has a level.
#[derive(Clone, Debug, PartialEq)]
pub struct Switch {
    /// The instrument's name, or the consumers' pattern.
    pub name: String,
    /// What it is of.
    pub of: Switched,
    /// The levels it can have, the lowest first, up to the one it had when nothing had been moved.
    pub levels: Vec<Level>,
    /// The level it has.
    pub present: Level,
    /// Whether it is left alone.
    pub held: Option<Held>,
}

impl Switch {
    pub(crate) fn highest(&self) -> Level {
        self.levels.last().copied().unwrap_or(self.present).max(self.present)
    }

    pub(crate) fn lowest(&self) -> Level {
        self.levels.first().copied().unwrap_or(self.present)
    }

    /// Its level once these moves are made.
    #[must_use]
    pub fn after(&self, moves: &[Move]) -> Level {
        moves.iter().find(|it| it.switch == self.name).map_or(self.present, |it| it.to)
    }

    fn worth(&self, level: Level) -> u32 {
        match self.of {
            Switched::Instrument(kind) => worth::of_instrument(kind, level),
            Switched::Recording(family) => worth::of_recording(family, level),
            Switched::Rest(_) => 0,
        }
    }

    pub(crate) fn loss(&self, level: Level) -> u32 {
        self.worth(self.highest()).saturating_sub(self.worth(level))
    }
}

/// Everything that has a level. The order means nothing.
pub type Board = [Switch];

/// What was seen since the last look.
#[derive(Clone, Debug, Default)]
pub struct Look {
    /// A clock that only rises.
    pub now: Duration,
    /// CPU time of the server in nanoseconds, or all it could have used.
    pub cpu: f64,
    /// Whether it is what it could have used: it says nothing of how far apart events are.
    pub is_capacity: bool,
    /// Of that, what looking took.
    pub own: f64,
    /// Statements of clients.
    pub statements: f64,
    /// Connections that were made.
    pub connected: f64,
    /// What a run of [`Work`](crate::Work) took, in nanoseconds, if the server is on this machine.
    pub work_ns: Option<f64>,
    /// Events by instrument.
    pub events: BTreeMap<String, f64>,
    /// What each connection did; nothing where there is no budget for them.
    pub connections: Vec<Connection>,
}

/// A change of level.
#[derive(Clone, Debug, PartialEq)]
pub struct Move {
    /// The switch.
    pub switch: String,
    /// Its level so far.
    pub from: Level,
    /// Its level from now on.
    pub to: Level,
    /// The reason.
    pub why: Why,
}

/// The reason of a move.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Why {
    /// The budget is exceeded, and this saves so much of the CPU time for the least loss.
    Over {
        /// The share of all.
        share: f64,
        /// The budget.
        budget: f64,
        /// What the move saves, as a share.
        saves: f64,
    },
    /// Connections are slowed by more than their budget, and this saves them so much for the least loss.
    Slow {
        /// What the 95th percentile is slowed by.
        share: f64,
        /// Their budget.
        budget: f64,
        /// What the move saves, as a share of the CPU time of those that are slowed most.
        saves: f64,
    },
    /// There is room, for this, too.
    Room {
        /// The share of all.
        share: f64,
        /// The budget.
        budget: f64,
        /// What it is to cost, as a share.
        costs: f64,
    },
    /// To make room for what is worth more.
    Exchanged {
        /// What it saves, as a share.
        saves: f64,
    },
}

impl Why {
    /// What the move saves or costs, as a share of the CPU time.
    #[must_use]
    pub fn share(self) -> f64 {
        match self {
            Why::Over { saves, .. } | Why::Slow { saves, .. } | Why::Exchanged { saves } => saves,
            Why::Room { costs, .. } => costs,
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Why::Over { share, budget, saves } => write!(
                f,
                "over budget: {} of {}; this saves {}",
                percent(share),
                percent(budget),
                percent(saves)
            ),
            Why::Slow { share, budget, saves } => write!(
                f,
                "over budget-p95: {} of {}; this saves {}",
                percent(share),
                percent(budget),
                percent(saves)
            ),
            Why::Room { share, budget, costs } => {
                write!(f, "room: {} of {}; this costs {}", percent(share), percent(budget), percent(costs))
            }
            Why::Exchanged { saves } => write!(f, "makes room for what is worth more: {}", percent(saves)),
        }
    }
}

/// A share as people read it: two digits that count, `0.016` as `1.6%`.
#[must_use]
pub fn percent(share: f64) -> String {
    let value = share * 100.0;
    let places = match value.abs() {
        v if v < 0.00005 => 0,
        v if v < 0.01 => 4,
        v if v < 0.995 => 2,
        v if v < 9.95 => 1,
        _ => 0,
    };
    format!("{value:.places$}%")
}

/// What a look came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The account it is made on.
    pub account: Account,
    /// What is to be done.
    pub moves: Vec<Move>,
    /// The share once that is done, as predicted.
    pub predicted: f64,
    /// What connections are slowed by; `None`: there is no budget for that, or none did anything.
    pub slowed: Option<Slowed>,
    /// False where a budget cannot be kept whatever is moved; then everything that saves something is.
    pub can_be_kept: bool,
}

/// What watching slows connections by: the 95th percentile, weighed by the CPU time they used themselves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slowed {
    /// A connection's price as a part of its CPU time.
    pub share: f64,
    /// That once the moves are done, as predicted.
    pub predicted: f64,
}

/// What the governor is told at its start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// What all may cost, as a share of the CPU time: 0.01 is 1%.
    pub budget: f64,
    /// What connections may be slowed by: the 95th percentile. `None`: as much as it comes to.
    pub budget_p95: Option<f64>,
}

/// It remembers what it saw and what it changed; the present levels it is told each time.
#[derive(Clone, Debug)]
pub struct Governor {
    rules: Rules,
    machine: Machine,
    /// Those of events as far apart as at this look.
    now: Prices,
    memory: Memory,
    /// That of connections which were slowed most, of a second of their CPU time.
    slow: Memory,
    changes: BTreeMap<String, VecDeque<Duration>>,
    before: Option<Likeness>,
}

/// What a look sees.
struct Sight<'a> {
    board: &'a Board,
    look: &'a Look,
    load: Load,
    /// Where there is a budget for connections.
    crowd: Option<&'a Crowd>,
}

/// What a look asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Cause {
    /// All cost more than their budget.
    Over { share: f64, budget: f64 },
    /// Connections are slowed by more than theirs.
    Slow { share: f64, budget: f64 },
    /// Neither.
    Room { share: f64, budget: f64 },
}

impl Cause {
    fn course(self) -> Course {
        if matches!(self, Cause::Room { .. }) { Course::Raise } else { Course::Cut }
    }
}

impl Governor {
    /// With a budget and prices.
    #[must_use]
    pub fn new(rules: Rules, prices: Prices) -> Governor {
        let (memory, slow) = (Memory::default(), Memory::default());
        let (now, machine) = (prices.clone(), Machine::new(prices));
        Governor { rules, machine, now, memory, slow, changes: BTreeMap::new(), before: None }
    }

    /// Goes by other rules from the next look on.
    pub fn set_rules(&mut self, rules: Rules) {
        self.rules = rules;
    }

    /// The prices it was given.
    #[must_use]
    pub fn prices(&self) -> &Prices {
        self.machine.measured()
    }

    /// Takes what was seen, and says what to do. That its moves are carried out is taken for granted in that they count
    /// as changes; what a switch really has the next board says.
    pub fn look(&mut self, board: &Board, look: &Look) -> Decision {
        let load = Load { now: look.now, cpu: look.cpu, statements: look.statements };
        for switch in board.iter().filter(|it| it.present > Level::Off) {
            if let Switched::Instrument(_) = switch.of {
                self.memory.learn(&switch.name, events(look, &switch.name), load);
            }
        }
        self.machine.learn(look.work_ns);
        self.now = self.prices_of(board, look, load);
        let account = self.account(&self.now, board, look, load);
        let share = account.share().ns;
        let crowd = self.rules.budget_p95.and_then(|_| Crowd::of(board, &look.connections, look.cpu));
        let slowed = crowd.as_ref().map(|crowd| crowd.slowed(&self.prices_at(board, &present(board))).0);
        let is_calm = self.before.replace(load.likeness()).is_some_and(|it| it.is_like(load.likeness()));
        let cause = self.cause(share, slowed);
        let slowed = slowed.map(|share| Slowed { share, predicted: share });
        let mut decision = Decision { account, moves: vec![], predicted: share, slowed, can_be_kept: true };
        if look.cpu <= 0.0 {
            return decision;
        }
        let sight = Sight { board, look, load, crowd: crowd.as_ref() };
        if cause.course() == Course::Cut {
            self.cut(&sight, cause, &mut decision);
        }
        // Where what keeps connections slow cannot be helped, what does not may come back all the same.
        let is_over = matches!(cause, Cause::Over { .. });
        if !is_over && decision.moves.is_empty() && is_calm && losses(board) > 0 {
            self.raise(&sight, Cause::Room { share, budget: self.rules.budget }, &mut decision);
        }
        let follow = self.followers(&sight, &decision);
        decision.moves.extend(follow);
        decision.moves.sort_by(|a, b| b.why.share().total_cmp(&a.why.share()));
        for it in &decision.moves {
            self.changes.entry(it.switch.clone()).or_default().push_back(look.now);
        }
        decision
    }

    /// What follows from a decision for the instruments that begin statements, and for kinds of which hardly anything is left.
    fn followers(&mut self, sight: &Sight<'_>, decision: &Decision) -> Vec<Move> {
        let Sight { board, look, load, .. } = *sight;
        let counted = |it: &Switch| self.memory.predict(&it.name, load).unwrap_or(0.0);
        let costs = begun::cost(self.machine.prices(), board, counted) * look.statements / look.cpu;
        let vain = Vain { costs, budget: self.rules.budget, statements: look.statements };
        let mut moves = begun::moves(board, decision, vain, counted);
        moves.extend(asleep::moves(&self.now, board, decision, (vain.budget, look.cpu), counted));
        moves.retain(|it| self.recent_changes(&it.switch, look.now) < if it.to > it.from { 1 } else { 2 });
        moves
    }

    /// Gives up what has to go.
    fn cut(&mut self, sight: &Sight<'_>, cause: Cause, decision: &mut Decision) {
        let Sight { board, look, crowd, .. } = *sight;
        let (plan, choice) = self.choose(sight, cause);
        decision.moves = plan.moves(board, &choice, cause);
        decision.predicted = (choice.cost + self.fixed(look)) / look.cpu;
        decision.can_be_kept = decision.predicted <= self.rules.budget;
        if let (Some(slowed), Some(crowd)) = (&mut decision.slowed, crowd) {
            slowed.predicted = crowd.slowed(&self.prices_at(board, &plan.levels(board, &choice))).0;
            let is_kept = self.rules.budget_p95.is_none_or(|budget| slowed.predicted <= budget);
            // Where some are left that were not thought of, the next look thinks of them.
            decision.can_be_kept &= is_kept || choice.fits;
        }
    }

    /// Gives back what there is room for.
    fn raise(&mut self, sight: &Sight<'_>, cause: Cause, decision: &mut Decision) {
        let (plan, choice) = self.choose(sight, cause);
        if choice.fits && choice.loss < losses(sight.board) {
            decision.moves = plan.moves(sight.board, &choice, cause);
        }
    }

    /// What has to be done, and why.
    fn cause(&self, share: f64, slowed: Option<f64>) -> Cause {
        let budget = self.rules.budget;
        match (slowed, self.rules.budget_p95) {
            _ if share > budget => Cause::Over { share, budget },
            (Some(share), Some(budget)) if share > budget => Cause::Slow { share, budget },
            _ => Cause::Room { share, budget },
        }
    }

    /// The choice, made anew for more connections while it leaves some over their budget.
    fn choose(&mut self, sight: &Sight<'_>, cause: Cause) -> (Plan, Choice) {
        let Sight { board, look, load, crowd } = *sight;
        let course = cause.course();
        let allowed: Vec<Vec<Level>> =
            board.iter().map(|switch| self.allowed(switch, look.now, course)).collect();
        let expected = board.iter().map(|switch| self.expected(switch, look, load, course)).collect();
        let (cpu, fixed, connected) = (look.cpu, self.fixed(look), look.connected);
        let all = View { cpu, fixed, connected, budget: self.rules.budget, events: expected };
        let part = if course == Course::Cut { CUT_TO } else { RAISE_TO };
        let mut views = vec![all];
        let Some(budget) = self.rules.budget_p95 else {
            return self.planned(board, &views, &allowed, part, cause);
        };
        let mut slowest = crowd.map(|it| it.slowed(&self.prices_at(board, &present(board))));
        let now = slowest.filter(|_| course == Course::Raise).map_or(0.0, |it| it.0);
        let limit = (budget * part).max(now);
        let mut tries = 0;
        loop {
            let events = self.events_of_slowest(board, load, crowd.zip(slowest), course);
            views.push(View { cpu: SECOND, fixed: 0.0, connected: 0.0, budget, events });
            let (plan, choice) = self.planned(board, &views, &allowed, part, cause);
            let prices = self.prices_at(board, &plan.levels(board, &choice));
            slowest = crowd.map(|it| it.slowed(&prices)).filter(|it| it.0 > limit);
            tries += 1;
            if slowest.is_none() || !choice.fits {
                return (plan, choice);
            }
            if tries == TRIES {
                // Nothing is given back that is known to be too much.
                return (plan, Choice { fits: course == Course::Cut, ..choice });
            }
        }
    }

    /// What there is to choose, and the choice.
    fn planned(
        &self,
        board: &Board,
        views: &[View],
        allowed: &[Vec<Level>],
        part: f64,
        cause: Cause,
    ) -> (Plan, Choice) {
        let plan = Plan::new(&asleep::prices(&self.now, board, cause.course()), board, views, allowed);
        let choice = choice::best_of(&plan.bounds(board, part, cause));
        (plan, choice)
    }

    /// What a connection that is slowed too much has of events in a second of its CPU time, and when something is to be raised
    /// the most that such connections had of late. What it has is remembered.
    fn events_of_slowest(
        &mut self,
        board: &Board,
        load: Load,
        slowest: Option<(&Crowd, (f64, usize))>,
        course: Course,
    ) -> Vec<f64> {
        let load = load.of_a_second();
        let seen = slowest.map(|(crowd, (_, nth))| crowd.in_a_second(nth, board.len()));
        let mut events = seen.unwrap_or_else(|| vec![0.0; board.len()]);
        for (switch, events) in board.iter().zip(&mut events) {
            if switch.present > Level::Off && slowest.is_some() {
                self.slow.learn(&switch.name, *events, load);
            }
            if course == Course::Raise {
                *events = events.max(self.slow.predict(&switch.name, load).unwrap_or(0.0));
            }
        }
        events
    }

    /// The account alone: nothing is remembered or decided.
    #[must_use]
    pub fn account_of(&self, board: &Board, look: &Look) -> Account {
        let load = Load { now: look.now, cpu: look.cpu, statements: look.statements };
        self.account(&self.prices_of(board, look, load), board, look, load)
    }

    /// The prices of events as far apart as they are, or would be if all were on: that is the load's, whatever is off by now.
    fn prices_of(&self, board: &Board, look: &Look, load: Load) -> Prices {
        let had = |switch: &Switch| match switch.of {
            Switched::Instrument(kind) if switch.present > Level::Off => {
                Some((kind, events(look, &switch.name)))
            }
            Switched::Instrument(kind) => Some((kind, self.memory.recall(&switch.name, load)?)),
            Switched::Recording(_) | Switched::Rest(_) => None,
        };
        let apart = distance(board.iter().filter_map(had), look.cpu);
        let here = self.machine.at(look.work_ns);
        let prices = if look.is_capacity { here } else { here.at_distance(apart) };
        begun::prices(prices, board)
    }

    /// What no level saves: looking, and what connections cost with everything off.
    fn fixed(&self, look: &Look) -> f64 {
        look.own + self.now.connection.off.ns * look.connected
    }

    /// What every instrument cost: what is on by what it had, what is off by what it would have had.
    fn account(&self, prices: &Prices, board: &Board, look: &Look, load: Load) -> Account {
        let recording = Recording::of(board, &present(board));
        let entries = board.iter().filter_map(|switch| {
            let Switched::Instrument(kind) = switch.of else { return None };
            let is_off = switch.present == Level::Off;
            let predicted = || self.memory.predict(&switch.name, load).unwrap_or(0.0);
            let events = if is_off { predicted() } else { events(look, &switch.name) };
            let recording = recording.of_kind(kind);
            let level = effective(switch.present, recording);
            Some(Entry { name: switch.name.clone(), kind, level, recording, events })
        });
        let prices = asleep::prices(prices, board, Course::Cut);
        Account::of(&prices, entries.collect(), look.connected, look.cpu, look.own)
    }

    /// Nanoseconds an event costs at these levels, by place on the board; nothing where it is off.
    fn prices_at(&self, board: &Board, levels: &[Level]) -> Vec<f64> {
        let recording = Recording::of(board, levels);
        let of = |(switch, level): (&Switch, &Level)| match switch.of {
            Switched::Instrument(kind) if *level > Level::Off => {
                recording::cost(&self.now, kind, *level, recording.of_kind(kind)).ns
            }
            _ => 0.0,
        };
        board.iter().zip(levels).map(of).collect()
    }

    /// How often a switch has changed in the last minute.
    fn recent_changes(&mut self, switch: &str, now: Duration) -> usize {
        let Some(changes) = self.changes.get_mut(switch) else { return 0 };
        changes.retain(|at| now.saturating_sub(*at) < REST);
        changes.len()
    }

    /// The levels a switch may be given now.
    fn allowed(&mut self, switch: &Switch, now: Duration, course: Course) -> Vec<Level> {
        let only_present = vec![switch.present];
        if switch.held.is_some() || begun::is_beginning(&switch.name) {
            return only_present;
        }
        let recent = self.recent_changes(&switch.name, now);
        let levels = switch.levels.iter().copied();
        let mut levels: Vec<Level> = match (course, recent) {
            (_, 0) if course == Course::Raise => levels.collect(),
            (Course::Cut, 0) => levels.filter(|it| *it < switch.present).collect(),
            (Course::Cut, 1) => levels.filter(|it| *it < switch.present && *it == switch.lowest()).collect(),
            _ => vec![],
        };
        levels.push(switch.present);
        levels.sort_unstable();
        levels.dedup();
        levels
    }
}

fn events(look: &Look, name: &str) -> f64 {
    look.events.get(name).copied().unwrap_or(0.0)
}

/// The levels there are.
fn present(board: &Board) -> Vec<Level> {
    board.iter().map(|switch| switch.present).collect()
}

impl Governor {
    /// Events that a switch is judged by: when something is to be raised, the most there were of late.
    fn expected(&self, switch: &Switch, look: &Look, load: Load, course: Course) -> f64 {
        let seen = events(look, &switch.name);
        let remembered = || self.memory.predict(&switch.name, load).unwrap_or(0.0);
        match (switch.present, course) {
            (Level::Off, _) => remembered(),
            (_, Course::Raise) => seen.max(remembered()),
            (_, Course::Cut) => seen,
        }
    }
}

/// What is cut: the switches below their highest level, by what that loses.
#[must_use]
pub fn losses(board: &Board) -> u32 {
    board.iter().map(|switch| switch.loss(switch.present)).sum()
}

/// What is left on, as worth.
#[must_use]
pub fn left(board: &Board) -> u32 {
    board.iter().map(|switch| switch.worth(switch.present)).sum()
}

/// What the held switches cost, each kind of reason for itself: so one can say why a budget cannot be kept.
#[must_use]
pub fn held_cost(board: &Board, account: &Account, held: Held) -> Cost {
    let is_held = |name: &str| board.iter().any(|it| it.name == name && it.held == Some(held));
    let shares = account.shares.iter().filter(|share| is_held(&share.entry.name));
    shares.fold(Cost::NOTHING, |sum, share| sum.plus(share.cost))
}
