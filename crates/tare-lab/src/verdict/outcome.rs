//! Whether a difference keeps to a budget.
//!
//! It is judged by intervals, not by estimates. A setting *fails* when the whole interval that its verdict
//! states is above the budget. It *passes* when the intervals of both figures, calm rounds and the mean of
//! all turns, are below it: bursts count, too. Everything else is *unknown*, and is not a pass. A study with
//! a budget runs until every setting has passed or failed, or its blocks or its time are used up. The
//! intervals stay valid however often they are computed.

use std::fmt;

use super::difference::Difference;
use crate::results::budget::Budget;

/// Whether a setting keeps a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BudgetOutcome {
    /// The whole cost is below.
    Passed,
    /// The intervals include the budget, or there are none.
    Unknown,
    /// The whole cost is above.
    Failed,
}

/// A difference and its kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BudgetEvidence {
    /// The difference.
    pub difference: Difference,
    /// Whether it is the mean of all turns rather than that of calm rounds.
    pub of_mean: bool,
}

impl Budget {
    /// Weighs the differences of a setting. `told` is the one that the verdict states.
    pub(crate) fn weigh(
        self,
        told: Option<Difference>,
        calm: Option<Difference>,
        mean: Option<Difference>,
    ) -> (BudgetOutcome, Option<BudgetEvidence>) {
        let evidence =
            |difference: Difference| BudgetEvidence { difference, of_mean: Some(difference) == mean };
        let (Some(told), Some(calm), Some(mean)) = (told, calm, mean) else {
            return (BudgetOutcome::Unknown, told.or(calm).or(mean).map(evidence));
        };
        match (self.place(told), self.place(calm), self.place(mean)) {
            (BudgetOutcome::Failed, ..) => (BudgetOutcome::Failed, Some(evidence(told))),
            (_, BudgetOutcome::Passed, BudgetOutcome::Passed) => {
                let high = |d: Difference| d.interval.map_or(f64::NAN, |(_, high)| high);
                (BudgetOutcome::Passed, Some(evidence(if high(mean) > high(calm) { mean } else { calm })))
            }
            (_, BudgetOutcome::Passed, _) => (BudgetOutcome::Unknown, Some(evidence(mean))),
            _ => (BudgetOutcome::Unknown, Some(evidence(calm))),
        }
    }

    fn place(self, difference: Difference) -> BudgetOutcome {
        match difference.interval {
            Some((low, _)) if low > self.share() => BudgetOutcome::Failed,
            Some((_, high)) if high < self.share() => BudgetOutcome::Passed,
            _ => BudgetOutcome::Unknown,
        }
    }
}

impl fmt::Display for BudgetOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BudgetOutcome::Passed => "passed",
            BudgetOutcome::Unknown => "unknown",
            BudgetOutcome::Failed => "failed",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(low: f64, high: f64) -> Option<Difference> {
        Some(Difference { share: f64::midpoint(low, high), interval: Some((low, high)) })
    }

    fn weighed(calm: Option<Difference>, mean: Option<Difference>) -> (BudgetOutcome, Option<bool>) {
        let budget: Budget = "3%".parse().expect("a budget");
        let (outcome, evidence) = budget.weigh(calm, calm, mean);
        (outcome, evidence.map(|e| e.of_mean))
    }

    #[test]
    fn it_fails_and_passes_by_whole_intervals_only() {
        assert_eq!(weighed(of(0.031, 0.04), of(0.01, 0.05)), (BudgetOutcome::Failed, Some(false)));
        assert_eq!(weighed(of(0.01, 0.02), of(0.0, 0.029)), (BudgetOutcome::Passed, Some(true)));
        assert_eq!(weighed(of(-0.02, 0.029), of(-0.01, 0.02)), (BudgetOutcome::Passed, Some(false)));
        // These intervals include the budget, or end at it.
        assert_eq!(weighed(of(0.02, 0.035), of(0.0, 0.02)), (BudgetOutcome::Unknown, Some(false)));
        assert_eq!(weighed(of(0.02, 0.03), of(0.0, 0.02)), (BudgetOutcome::Unknown, Some(false)));
        assert_eq!(weighed(of(0.03, 0.04), of(0.0, 0.02)), (BudgetOutcome::Unknown, Some(false)));
        // Bursts count, too.
        assert_eq!(weighed(of(0.01, 0.02), of(0.0, 0.05)), (BudgetOutcome::Unknown, Some(true)));
    }

    #[test]
    fn a_cost_in_bursts_fails_though_calm_rounds_are_cheap() {
        let budget: Budget = "3%".parse().expect("a budget");
        let (calm, mean) = (of(0.0, 0.01), of(0.05, 0.08));
        let (outcome, evidence) = budget.weigh(mean, calm, mean);
        assert_eq!((outcome, evidence.map(|e| e.of_mean)), (BudgetOutcome::Failed, Some(true)));
    }

    #[test]
    fn without_an_interval_nothing_is_known() {
        let too_few = Some(Difference { share: 0.5, interval: None });
        assert_eq!(weighed(too_few, too_few).0, BudgetOutcome::Unknown);
        assert_eq!(weighed(None, None), (BudgetOutcome::Unknown, None));
    }
}
