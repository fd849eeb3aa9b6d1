//! The board: everything that has a level, moves on it, and what they lose.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::account::Account;
use crate::begun::is_beginning;
use crate::kind::{Family, Kind, Level};
use crate::price::Cost;
use crate::worth;

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
    /// To see how many events it has by now.
    Tried {
        /// How long ago they were seen last.
        ago: Duration,
        /// What it costs if they are as many, as a share.
        costs: f64,
    },
}

impl Why {
    /// What the move saves or costs, as a share of the CPU time.
    #[must_use]
    pub fn share(self) -> f64 {
        match self {
            Why::Over { saves, .. } | Why::Slow { saves, .. } | Why::Exchanged { saves } => saves,
            Why::Room { costs, .. } | Why::Tried { costs, .. } => costs,
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
            Why::Tried { ago, costs } => {
                let minutes = ago.as_secs() / 60;
                write!(
                    f,
                    "a trial: not seen for {minutes} minutes; this costs {} if it is as it was",
                    percent(costs)
                )
            }
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

/// The levels there are.
pub(crate) fn present(board: &Board) -> Vec<Level> {
    board.iter().map(|switch| switch.present).collect()
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

/// Counts the instruments that are on once these moves are made, and all there are, by kind.
#[must_use]
pub fn visible(board: &Board, moves: &[Move]) -> BTreeMap<Kind, (usize, usize)> {
    let mut visible: BTreeMap<Kind, (usize, usize)> = BTreeMap::new();
    for switch in board.iter().filter(|it| !is_beginning(&it.name)) {
        if let Switched::Instrument(kind) = switch.of {
            let (on, all) = visible.entry(kind).or_default();
            *on += usize::from(switch.after(moves) > Level::Off);
            *all += 1;
        }
    }
    visible
}

/// What the held switches cost, each kind of reason for itself: so one can say why a budget cannot be kept.
#[must_use]
pub fn held_cost(board: &Board, account: &Account, held: Held) -> Cost {
    let is_held = |name: &str| board.iter().any(|it| it.name == name && it.held == Some(held));
    let shares = account.shares.iter().filter(|share| is_held(&share.entry.name));
    shares.fold(Cost::NOTHING, |sum, share| sum.plus(share.cost))
}
