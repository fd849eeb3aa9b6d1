//! The decision: which levels move, so that the sum of prices stays under the budget and as little as possible is lost.
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

use crate::account::{Account, Entry};
use crate::choice::{Choice, Group, Item, Step, best};
use crate::kind::{Family, Kind, Level};
use crate::memory::{Likeness, Load, Memory};
use crate::price::{Cost, Prices};
use crate::worth;

/// What is aimed at when something has to be given up, as a part of the budget.
pub const CUT_TO: f64 = 0.9;
/// What may be reached by giving something back.
pub const RAISE_TO: f64 = 0.8;
/// How long something rests before it is raised, and in which time it changes at most twice.
pub const REST: Duration = Duration::from_secs(60);
/// What costs less than this part of the budget is not worth a decision.
const NEGLIGIBLE: f64 = 1e-4;
/// Where nothing fits, what saves less than this part of the budget is not given up for it.
const VAIN: f64 = 0.05;

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
    fn highest(&self) -> Level {
        self.levels.last().copied().unwrap_or(self.present).max(self.present)
    }

    fn lowest(&self) -> Level {
        self.levels.first().copied().unwrap_or(self.present)
    }

    fn worth(&self, level: Level) -> u32 {
        match self.of {
            Switched::Instrument(kind) => worth::of_instrument(kind, level),
            Switched::Recording(family) => worth::of_recording(family, level),
        }
    }

    fn loss(&self, level: Level) -> u32 {
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
    /// Of that, what looking took.
    pub own: f64,
    /// Statements of clients.
    pub statements: f64,
    /// Events by instrument.
    pub events: BTreeMap<String, f64>,
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
            Why::Over { saves, .. } | Why::Exchanged { saves } => saves,
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
    /// False where the budget cannot be kept whatever is moved; then everything that saves something is.
    pub can_be_kept: bool,
}

/// What the governor is told at its start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// What all may cost, as a share of the CPU time: 0.01 is 1%.
    pub budget: f64,
}

/// It remembers what it saw and what it changed; the present levels it is told each time.
#[derive(Clone, Debug)]
pub struct Governor {
    rules: Rules,
    prices: Prices,
    memory: Memory,
    changes: BTreeMap<String, VecDeque<Duration>>,
    before: Option<Likeness>,
}

/// Whether something has to go or may come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Course {
    Cut,
    Raise,
}

impl Governor {
    /// With a budget and prices.
    #[must_use]
    pub fn new(rules: Rules, prices: Prices) -> Governor {
        Governor { rules, prices, memory: Memory::default(), changes: BTreeMap::new(), before: None }
    }

    /// Goes by other rules from the next look on.
    pub fn set_rules(&mut self, rules: Rules) {
        self.rules = rules;
    }

    /// The prices it goes by.
    #[must_use]
    pub fn prices(&self) -> &Prices {
        &self.prices
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
        let account = self.account(board, look, load);
        let share = account.share().ns;
        let is_calm = self.before.replace(load.likeness()).is_some_and(|it| it.is_like(load.likeness()));
        let course = if share > self.rules.budget { Course::Cut } else { Course::Raise };
        let mut decision = Decision { account, moves: vec![], predicted: share, can_be_kept: true };
        let may_raise = is_calm && losses(board) > 0;
        if look.cpu <= 0.0 || (course == Course::Raise && !may_raise) {
            return decision;
        }
        let plan = Plan::of(self, board, look, load, course);
        let part = if course == Course::Cut { CUT_TO } else { RAISE_TO };
        let budget = self.rules.budget * look.cpu;
        let choice = best(&plan.groups, budget * part - look.own, budget * VAIN);
        let mut moves = plan.moves(board, &choice, look.cpu, (share, self.rules.budget));
        if course == Course::Cut {
            decision.predicted = (choice.cost + look.own) / look.cpu;
            decision.can_be_kept = decision.predicted <= self.rules.budget;
        } else if !choice.fits || choice.loss >= losses(board) {
            return decision;
        }
        moves.sort_by(|a, b| b.why.share().total_cmp(&a.why.share()));
        for it in &moves {
            self.changes.entry(it.switch.clone()).or_default().push_back(look.now);
        }
        decision.moves = moves;
        decision
    }

    /// The account alone: nothing is remembered or decided.
    #[must_use]
    pub fn account_of(&self, board: &Board, look: &Look) -> Account {
        self.account(board, look, Load { now: look.now, cpu: look.cpu, statements: look.statements })
    }

    /// What every instrument cost: what is on by what it had, what is off by what it would have had.
    fn account(&self, board: &Board, look: &Look, load: Load) -> Account {
        let recording = Recording::of(board);
        let entries = board.iter().filter_map(|switch| {
            let Switched::Instrument(kind) = switch.of else { return None };
            let is_off = switch.present == Level::Off;
            let predicted = || self.memory.predict(&switch.name, load).unwrap_or(0.0);
            let events = if is_off { predicted() } else { events(look, &switch.name) };
            let level = recording.effective(kind, switch.present);
            Some(Entry { name: switch.name.clone(), kind, level, events })
        });
        Account::of(&self.prices, entries.collect(), look.cpu, look.own)
    }

    /// The levels a switch may be given now.
    fn allowed(&mut self, switch: &Switch, now: Duration, course: Course) -> Vec<Level> {
        let only_present = vec![switch.present];
        if switch.held.is_some() {
            return only_present;
        }
        let changes = self.changes.entry(switch.name.clone()).or_default();
        changes.retain(|at| now.saturating_sub(*at) < REST);
        let recent = changes.len();
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

/// How each family is recorded.
struct Recording(BTreeMap<Family, Level>);

impl Recording {
    fn of(board: &Board) -> Recording {
        let of = |switch: &Switch| match switch.of {
            Switched::Recording(family) => Some((family, switch.present)),
            Switched::Instrument(_) => None,
        };
        Recording(board.iter().filter_map(of).collect())
    }

    fn effective(&self, kind: Kind, level: Level) -> Level {
        effective(level, kind.family().and_then(|family| self.0.get(&family)).copied())
    }
}

/// An instrument's events are recorded as its family is, if they are timed at all.
fn effective(level: Level, recording: Option<Level>) -> Level {
    match recording {
        Some(recording) if level >= Level::Sums => recording.max(Level::Sums),
        _ => level,
    }
}

/// The board as a choice: what is left of it after what is held, negligible or not allowed.
struct Plan {
    groups: Vec<Group>,
    /// For each group: its recording's place on the board and levels; places and levels of its items.
    places: Vec<(Option<Place>, Vec<Place>)>,
}

struct Place {
    at: usize,
    levels: Vec<Level>,
}

impl Plan {
    fn of(governor: &mut Governor, board: &Board, look: &Look, load: Load, course: Course) -> Plan {
        let mut plan = Plan { groups: vec![], places: vec![] };
        let families = Family::ALL.into_iter().map(Some).chain([None]);
        for family in families {
            plan.add(governor, board, look, load, course, family);
        }
        plan
    }

    fn add(
        &mut self,
        governor: &mut Governor,
        board: &Board,
        look: &Look,
        load: Load,
        course: Course,
        family: Option<Family>,
    ) {
        let is_recording = |it: &Switch| matches!(it.of, Switched::Recording(of) if Some(of) == family);
        let recording = board.iter().position(is_recording).map(|at| {
            let levels = governor.allowed(&board[at], look.now, course);
            Place { at, levels: levels.into_iter().rev().collect() }
        });
        let ways: Vec<Option<Level>> = match &recording {
            Some(place) => place.levels.iter().copied().map(Some).collect(),
            None => vec![None],
        };
        let losses = match &recording {
            Some(place) => place.levels.iter().map(|level| board[place.at].loss(*level)).collect(),
            None => vec![0],
        };
        let mut group = Group { recording: losses, items: vec![] };
        let mut places = vec![];
        for (at, switch) in board.iter().enumerate() {
            let Switched::Instrument(kind) = switch.of else { continue };
            if kind.family() != family {
                continue;
            }
            let events = governor.expected(switch, look, load, course);
            let mut levels = governor.allowed(switch, look.now, course);
            levels.reverse();
            let cost = |level: Level, way: Option<Level>| {
                governor.prices.cost(kind, effective(level, way)).ns * events
            };
            let dearest = levels.iter().flat_map(|level| ways.iter().map(move |way| cost(*level, *way)));
            if dearest.fold(0.0, f64::max) < NEGLIGIBLE * governor.rules.budget * look.cpu {
                // It stays, or goes up, by what it is worth alone.
                levels.truncate(1);
            }
            let step = |level: &Level| Step {
                loss: switch.loss(*level),
                costs: ways.iter().map(|way| cost(*level, *way)).collect(),
            };
            group.items.push(Item { steps: levels.iter().map(step).collect() });
            places.push(Place { at, levels });
        }
        self.groups.push(group);
        self.places.push((recording, places));
    }

    fn moves(&self, board: &Board, choice: &Choice, cpu: f64, (share, budget): (f64, f64)) -> Vec<Move> {
        let mut moves = vec![];
        for (nth, (recording, places)) in self.places.iter().enumerate() {
            let way = choice.recording[nth];
            let now = recording.iter().map(|it| position(&it.levels, board[it.at].present)).sum::<usize>();
            let items = &self.groups[nth].items;
            if let Some(place) = recording {
                let at_way = |way: usize| -> f64 {
                    let steps = items.iter().zip(&choice.steps[nth]);
                    steps.map(|(item, step)| item.steps[*step].costs[way]).sum()
                };
                let change = at_way(way) - at_way(now);
                moves.extend(moved(&board[place.at], place.levels[way], change / cpu, share, budget));
            }
            for ((place, item), step) in places.iter().zip(items).zip(&choice.steps[nth]) {
                let present = position(&place.levels, board[place.at].present);
                let from = item.steps.get(present).map_or(item.steps[*step].costs[now], |it| it.costs[now]);
                let change = item.steps[*step].costs[now] - from;
                moves.extend(moved(&board[place.at], place.levels[*step], change / cpu, share, budget));
            }
        }
        moves
    }
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

fn position(levels: &[Level], level: Level) -> usize {
    levels.iter().position(|it| *it == level).unwrap_or(0)
}

fn moved(switch: &Switch, to: Level, change: f64, share: f64, budget: f64) -> Option<Move> {
    let from = switch.present;
    let why = match (to < from, share > budget) {
        (true, true) => Why::Over { share, budget, saves: -change },
        (true, false) => Why::Exchanged { saves: -change },
        (false, _) => Why::Room { share, budget, costs: change },
    };
    (to != from).then(|| Move { switch: switch.name.clone(), from, to, why })
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
