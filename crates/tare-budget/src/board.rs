//! The board: everything that has a level, the moves on it, and what they lose.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::kind::{HistoryFamily, Kind, Level, is_beginning, worth};

/// Reason why a switch is left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// A person has set it.
    Person,
    /// It cannot be switched while the server runs.
    Fixed,
}

/// Target of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switched {
    /// One instrument.
    Instrument(Kind),
    /// The recording of a family's events (the built-in's consumers).
    Recording(HistoryFamily),
    /// Everything of a kind that is on and has no switch of its own.
    Rest(Kind),
}

/// Something that has a level.
#[derive(Clone, Debug, PartialEq)]
pub struct Switch {
    /// Name of the instrument, or pattern of the consumers.
    pub name: String,
    /// Target of the switch.
    pub of: Switched,
    /// The possible levels in ascending order, up to the one before any move.
    pub levels: Vec<Level>,
    /// The present level.
    pub present: Level,
    /// Reason why the switch is left alone; `None`: it is not.
    pub held: Option<Held>,
}

impl Switch {
    pub(crate) fn highest(&self) -> Level {
        self.levels.last().copied().unwrap_or(self.present).max(self.present)
    }

    pub(crate) fn lowest(&self) -> Level {
        self.levels.first().copied().unwrap_or(self.present)
    }

    /// Returns the switch's level after these moves.
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

/// All switches, in any order.
pub type Board = [Switch];

/// A change of level.
#[derive(Clone, Debug, PartialEq)]
pub struct Move {
    /// Name of the switch.
    pub switch: String,
    /// Level before the move.
    pub from: Level,
    /// Level after the move.
    pub to: Level,
    /// The reason.
    pub why: Why,
}

/// Reason of a move.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Why {
    /// The budget is exceeded. This move saves enough for the least loss.
    Over {
        /// Total cost as a share of the CPU time.
        share: f64,
        /// The budget as a share.
        budget: f64,
        /// Saving of the move as a share.
        saves: f64,
    },
    /// Connections are slowed by more than their budget. This move saves enough for the least loss.
    Slow {
        /// The 95th percentile of the slowdown of connections, as a share.
        share: f64,
        /// Budget of connections as a share.
        budget: f64,
        /// Saving of the move as a share of the CPU time of the slowest connections.
        saves: f64,
    },
    /// There is room for this.
    Room {
        /// Total cost as a share of the CPU time.
        share: f64,
        /// The budget as a share.
        budget: f64,
        /// Expected cost of the move as a share.
        costs: f64,
    },
    /// The move makes room for something worth more.
    Exchanged {
        /// Saving of the move as a share.
        saves: f64,
    },
    /// A trial: the move shows how many events the instrument has by now.
    Tried {
        /// Time since its events were last seen.
        ago: Duration,
        /// Cost of the move as a share, if there are as many events as then.
        costs: f64,
    },
}

impl Why {
    /// Returns the saving or the cost of the move as a share of the CPU time.
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
                "over budget: {}, allowed {}; this saves {}",
                percent(share),
                percent(budget),
                percent(saves)
            ),
            Why::Slow { share, budget, saves } => write!(
                f,
                "over budget-p95: {}, allowed {}; this saves {}",
                percent(share),
                percent(budget),
                percent(saves)
            ),
            Why::Room { share, budget, costs } => {
                write!(
                    f,
                    "room: {}, allowed {}; this costs {}",
                    percent(share),
                    percent(budget),
                    percent(costs)
                )
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

/// Formats a share with two significant digits: `0.016` as `1.6%`.
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

/// Returns the present levels.
pub(crate) fn present(board: &Board) -> Vec<Level> {
    board.iter().map(|switch| switch.present).collect()
}

/// Returns the total loss of all switches below their highest level.
#[must_use]
pub fn losses(board: &Board) -> u32 {
    board.iter().map(|switch| switch.loss(switch.present)).sum()
}

/// Returns the total worth of what is on.
#[must_use]
pub fn left(board: &Board) -> u32 {
    board.iter().map(|switch| switch.worth(switch.present)).sum()
}

/// Returns the number of instruments that are on after these moves, and of all, by kind.
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
