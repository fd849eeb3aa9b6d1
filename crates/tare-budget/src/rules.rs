//! What a governor is told: its budgets, and what may be given up for them.

use crate::board::{Switch, Switched};
use crate::kind::{Kind, Level};

/// Whether statements, transactions and errors may be given up: that they are counted, and how long they take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statements {
    /// Never.
    Kept,
    /// Where a budget cannot be kept otherwise.
    Last,
    /// As anything else, by what they are worth.
    ByWorth,
}

impl Statements {
    /// The least level of a switch, unless statements may be given up.
    pub(crate) fn least(switch: &Switch) -> Level {
        match switch.of {
            Switched::Instrument(Kind::Query | Kind::Statement | Kind::Transaction | Kind::Error) => {
                Level::Sums.min(switch.highest())
            }
            _ => Level::Off,
        }
    }
}

/// What the governor is told at its start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// What all may cost, as a share of the CPU time: 0.01 is 1%.
    pub budget: f64,
    /// What connections may be slowed by: the 95th percentile. `None`: as much as it comes to.
    pub budget_p95: Option<f64>,
    /// Whether statements may be given up for that.
    pub statements: Statements,
}
