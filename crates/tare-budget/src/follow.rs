//! What follows from a decision for what costs without having events: it goes where the budget cannot be kept otherwise and hardly
//! anything needs it, and comes back when something does, or there is room.

use crate::board::Why;
use crate::governor::{Decision, RAISE_TO};

/// Those that are counted are few if they are less than this part of all.
pub(crate) const FEW: f64 = 0.1;

/// Something that follows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Follower {
    pub(crate) is_off: bool,
    /// Whether more than [`FEW`] of what needs it is counted once the decision is carried out, or a person wants some of that.
    pub(crate) is_wanted: bool,
    /// What it costs while it is on, as a share.
    pub(crate) costs: f64,
}

impl Follower {
    /// Why it is to go if it is on, or to come back if it is off; `None`: it stays as it is.
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
