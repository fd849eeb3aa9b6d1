//! Rules of a governor: its budgets, and what may be given up for them.

use std::time::Duration;

use crate::board::{Switch, Switched};
use crate::kind::{Kind, Level};

/// Target when something has to be given up, as a part of the budget.
pub const CUT_TO: f64 = 0.9;
/// Limit when something is given back, as a part of the budget.
pub const RAISE_TO: f64 = 0.8;
/// Minimum time before a raise, and the period in which something changes at most twice.
pub const REST: Duration = Duration::from_secs(60);

/// Whether sums of statements, transactions and errors may be given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatementSumsRule {
    /// Never.
    Kept,
    /// Only where a budget cannot be kept otherwise.
    Last,
    /// Like everything else, according to their worth.
    ByWorth,
}

impl StatementSumsRule {
    /// Returns the lowest level of a switch where statements must be kept.
    pub(crate) fn least(switch: &Switch) -> Level {
        match switch.of {
            Switched::Instrument(Kind::Query | Kind::Statement | Kind::Transaction | Kind::Error) => {
                Level::Sums.min(switch.highest())
            }
            _ => Level::Off,
        }
    }
}

/// Settings of a governor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GovernorRules {
    /// Maximum cost as a share of the server's CPU time: 0.01 is 1%.
    pub budget: f64,
    /// Maximum of the 95th percentile of the slowdown of connections, as a share; `None`: no limit.
    pub budget_p95: Option<f64>,
    /// Whether statements may be given up for the budgets.
    pub statements: StatementSumsRule,
}
