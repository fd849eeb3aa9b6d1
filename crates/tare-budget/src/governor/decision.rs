//! What the governor is asked, and what it answers.

use std::collections::BTreeMap;
use std::time::Duration;

use super::sampling::{Resampled, SampleChance};
use crate::account::CostAccount;
use crate::board::Move;
use crate::connection::ConnectionEvents;

/// One sample: what was seen since the previous one.
#[derive(Clone, Debug, Default)]
pub struct GovernorSample {
    /// Time of a monotonic clock.
    pub now: Duration,
    /// CPU time of the server in nanoseconds, or all it could have used.
    pub cpu: f64,
    /// Whether `cpu` is what it could have used. Then it says nothing about the distance of events.
    pub is_capacity: bool,
    /// Part of `cpu` that the sample took, in nanoseconds.
    pub own: f64,
    /// Number of clients' statements.
    pub statements: f64,
    /// Number of connections that were made.
    pub connected: f64,
    /// Time of a run of [`Work`](crate::Work) in nanoseconds, if the server is on this machine.
    pub work_ns: Option<f64>,
    /// Number of events by instrument.
    pub events: BTreeMap<String, f64>,
    /// Activity of each connection; empty without a budget for connections.
    pub connections: Vec<ConnectionEvents>,
    /// State of statement sampling; `None`: not sampled.
    pub sampling: Option<SampleChance>,
}

/// Result of a sample.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The account the decision is based on.
    pub account: CostAccount,
    /// Level changes to make.
    pub moves: Vec<Move>,
    /// Change of the rate of chosen statements, if any.
    pub resampled: Option<Resampled>,
    /// Predicted share after the changes.
    pub predicted: f64,
    /// Slowdown of connections; `None`: no budget for it, or none was active.
    pub slowed: Option<Slowed>,
    /// False if a budget cannot be kept whatever is moved. Then everything that saves something is moved.
    pub can_be_kept: bool,
}

/// Slowdown of connections: the 95th percentile, weighed by the CPU time they used themselves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slowed {
    /// Cost of a connection as a part of its CPU time.
    pub share: f64,
    /// Predicted value after the moves.
    pub predicted: f64,
}

impl Decision {
    /// Creates a decision to do nothing.
    #[must_use]
    pub fn nothing(account: CostAccount, slowed: Option<Slowed>) -> Decision {
        let predicted = account.share().ns;
        Decision { account, moves: vec![], resampled: None, predicted, slowed, can_be_kept: true }
    }
}
