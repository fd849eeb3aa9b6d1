//! The verdict on a setting, and the evidence for it.

use schemars::JsonSchema;
use serde::Serialize;

use crate::results::record::{Header, SettingFacts};
use crate::verdict::difference::Difference;
use crate::verdict::outcome::BudgetOutcome;

/// A statement about a cost.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    /// It differs from the base by more than noise explains: *costs X% ± Y* (a negative share is a gain).
    Costs {
        /// The cost as a share; 0.01 is 1%.
        share: f64,
        /// Half the width of its interval.
        plus_minus: f64,
        /// Whether it comes in bursts: the mean of all turns contradicts the calm rounds, and `share` is the
        /// mean.
        bursty: bool,
    },
    /// It is equivalent to the base within the margin, in calm rounds and by the mean of all turns: *no more
    /// than X%*.
    NoMoreThan {
        /// The higher of the two intervals' upper ends.
        share: f64,
    },
    /// *inconclusive: needs about N more minutes*.
    Inconclusive {
        /// Minutes of the same study until another verdict can be expected; `None` while there is no
        /// estimate.
        needs_minutes: Option<f64>,
    },
}

/// The differences that a verdict rests on.
#[derive(Clone, Copy, Debug)]
pub(super) struct VerdictEvidence {
    /// The difference in calm rounds.
    pub(super) calm: Difference,
    /// The difference by the mean of all turns.
    pub(super) mean: Difference,
}

impl VerdictEvidence {
    /// Returns whether the cost comes in bursts, as far as the intervals show.
    pub(super) fn is_bursty(&self) -> bool {
        self.calm.contradicts(&self.mean)
    }

    /// Returns the difference to report: the calm rounds, unless the mean of all turns contradicts them.
    pub(super) fn told(&self) -> Difference {
        if self.is_bursty() { self.mean } else { self.calm }
    }

    pub(super) fn verdict(&self, header: &Header, units: usize, seconds: f64) -> Verdict {
        let (told, bursty) = (self.told(), self.is_bursty());
        let Some(plus_minus) = told.plus_minus() else {
            return Verdict::Inconclusive { needs_minutes: None };
        };
        if told.is_significant() {
            return Verdict::Costs { share: told.share, plus_minus, bursty };
        }
        if self.is_equivalent(header) {
            let high = |d: Difference| d.interval.map_or(f64::NAN, |(_, high)| high);
            return Verdict::NoMoreThan { share: high(self.calm).max(high(self.mean)) };
        }
        let awaited = if self.calm.is_within(header.margin) { self.mean } else { told };
        Verdict::Inconclusive { needs_minutes: minutes(header, awaited, units, seconds) }
    }

    fn is_equivalent(&self, header: &Header) -> bool {
        self.calm.is_within(header.margin) && self.mean.is_within(header.margin)
    }

    /// Returns whether no more blocks are needed. With a budget: whether its outcome is known. Without:
    /// whether the interval is precise, and that of the mean as well where only it is missing for a *no more
    /// than*.
    pub(super) fn is_enough(&self, header: &Header, facts: &SettingFacts) -> bool {
        let told = self.told();
        if let Some(budget) = header.budget {
            let outcome = budget.weigh(Some(told), Some(self.calm), Some(self.mean)).0;
            return facts.control || outcome != BudgetOutcome::Unknown;
        }
        let awaits_mean = !told.is_significant() && self.calm.is_within(header.margin);
        self.is_equivalent(header)
            || (told.is_precise(header) && (!awaits_mean || self.mean.is_precise(header)))
    }
}

/// Estimates the minutes until the interval excludes 0 or lies within the margin, whichever is closer. The
/// interval narrows with the square root of the number of observations.
fn minutes(header: &Header, awaited: Difference, units: usize, seconds: f64) -> Option<f64> {
    let wanted = awaited.share.abs().max(header.margin - awaited.share.abs());
    #[allow(clippy::cast_precision_loss)] // few
    let units = units as f64;
    let more = units * ((awaited.plus_minus()? / wanted).powi(2) - 1.0).max(0.0);
    Some(more * seconds / units / 60.0)
}
