//! Followers: what costs something without having events. It is switched off if the budget cannot be kept
//! otherwise and hardly anything needs it. It comes back when something needs it, or when there is room.

use super::decision::Decision;
use super::rules::RAISE_TO;
use crate::board::Why;

/// Part of all events below which the counted ones are few.
pub(crate) const FEW: f64 = 0.1;

/// Something whose state follows from a decision.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Follower {
    pub(crate) is_off: bool,
    /// Whether more than [`FEW`] of the events that need it are counted after the decision, or a person wants
    /// some of them.
    pub(crate) is_wanted: bool,
    /// Its cost while it is on, as a share.
    pub(crate) costs: f64,
}

impl Follower {
    /// Returns why it is to be switched off, or on again; `None`: it stays as it is.
    pub(crate) fn why(self, decision: &Decision, budget: f64) -> Option<Why> {
        let Follower { is_off, is_wanted, costs } = self;
        let share = decision.account.share().ns;
        match is_off {
            false if !is_wanted && decision.predicted > budget => {
                Some(Why::Over { share, budget, saves: costs })
            }
            true if is_wanted || share + costs <= budget * RAISE_TO => {
                Some(Why::Room { share, budget, costs })
            }
            _ => None,
        }
    }
}
