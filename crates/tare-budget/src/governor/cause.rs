//! Why the governor moves something, and in which direction.

use crate::board::Why;

/// Direction of a decision: something has to go, or may come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Cut,
    Raise,
}

/// What a sample asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Cause {
    /// The total cost exceeds the budget.
    Over { share: f64, budget: f64 },
    /// Connections are slowed by more than their budget.
    Slow { share: f64, budget: f64 },
    /// No budget is exceeded.
    Room { share: f64, budget: f64 },
}

impl Cause {
    pub(crate) fn course(self) -> Direction {
        if matches!(self, Cause::Room { .. }) { Direction::Raise } else { Direction::Cut }
    }

    /// Returns the reason of a change that costs `change` more.
    pub(crate) fn why(self, change: f64) -> Why {
        match self {
            Cause::Over { share, budget } if change <= 0.0 => Why::Over { share, budget, saves: -change },
            Cause::Slow { share, budget } if change <= 0.0 => Why::Slow { share, budget, saves: -change },
            Cause::Room { .. } if change < 0.0 => Why::Exchanged { saves: -change },
            Cause::Over { share, budget } | Cause::Slow { share, budget } | Cause::Room { share, budget } => {
                Why::Room { share, budget, costs: change }
            }
        }
    }
}
