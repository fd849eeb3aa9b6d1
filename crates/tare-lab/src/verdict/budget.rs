//! A budget: the highest cost that settings may have, and whether they keep it.
//!
//! It is judged by intervals, not by estimates. A setting *fails* when the whole interval that its verdict
//! states is above the budget. It *passes* when the intervals of both figures, calm rounds and the mean of
//! all turns, are below it: bursts count, too. Everything else is *unknown*, and is not a pass. A study with
//! a budget runs until every setting has passed or failed, or its blocks or its time are used up. The
//! intervals stay valid however often they are computed.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::report::unit::chosen;
use crate::results::record::Cell;
use crate::verdict::analysis::{Analysis, Difference, SettingAnalysis};

/// The highest cost that a setting may have, as a share of its base: 0.03 is 3%.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Budget(f64);

/// Whether a setting keeps a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// The whole cost is below.
    Passed,
    /// The intervals include the budget, or there are none.
    Unknown,
    /// The whole cost is above.
    Failed,
}

/// The judgement on a setting of a cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// The load.
    pub cell: Cell,
    /// Name of the setting.
    pub setting: String,
    /// Name of the setting it is compared with.
    pub base: String,
    /// The outcome.
    pub outcome: Outcome,
    /// The difference that decided, or left it open; `None` where nothing has been measured.
    pub evidence: Option<Evidence>,
}

/// A difference and its kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Evidence {
    /// The difference.
    pub difference: Difference,
    /// Whether it is the mean of all turns rather than that of calm rounds.
    pub of_mean: bool,
}

impl Budget {
    /// Returns the budget as a share of the base.
    pub fn share(self) -> f64 {
        self.0
    }

    /// Judges every setting of every cell that has a base, without A/A controls, in the study's order.
    pub fn judge(self, analysis: &Analysis) -> Vec<Judgement> {
        let of_cell = analysis.cells.iter().flat_map(|cell| cell.settings.iter().map(|s| (&cell.cell, s)));
        let compared = of_cell.filter(|(_, s)| s.name != s.base && !s.twin);
        let judgement = |(cell, s): (&Cell, &SettingAnalysis)| {
            let (outcome, evidence) = self.weigh(s.told(), s.cost, s.mean);
            Judgement { cell: cell.clone(), setting: s.name.clone(), base: s.base.clone(), outcome, evidence }
        };
        compared.map(judgement).collect()
    }

    /// Weighs the differences of a setting. `told` is the one that the verdict states.
    pub(crate) fn weigh(
        self,
        told: Option<Difference>,
        calm: Option<Difference>,
        mean: Option<Difference>,
    ) -> (Outcome, Option<Evidence>) {
        let evidence = |difference: Difference| Evidence { difference, of_mean: Some(difference) == mean };
        let (Some(told), Some(calm), Some(mean)) = (told, calm, mean) else {
            return (Outcome::Unknown, told.or(calm).or(mean).map(evidence));
        };
        match (self.place(told), self.place(calm), self.place(mean)) {
            (Outcome::Failed, ..) => (Outcome::Failed, Some(evidence(told))),
            (_, Outcome::Passed, Outcome::Passed) => {
                let high = |d: Difference| d.interval.map_or(f64::NAN, |(_, high)| high);
                (Outcome::Passed, Some(evidence(if high(mean) > high(calm) { mean } else { calm })))
            }
            (_, Outcome::Passed, _) => (Outcome::Unknown, Some(evidence(mean))),
            _ => (Outcome::Unknown, Some(evidence(calm))),
        }
    }

    fn place(self, difference: Difference) -> Outcome {
        match difference.interval {
            Some((low, _)) if low > self.0 => Outcome::Failed,
            Some((_, high)) if high < self.0 => Outcome::Passed,
            _ => Outcome::Unknown,
        }
    }
}

/// Returns the outcome of all judgements: one failure fails, and nothing passes while one is unknown.
pub fn outcome(judgements: &[Judgement]) -> Outcome {
    judgements.iter().map(|j| j.outcome).max().unwrap_or(Outcome::Unknown)
}

impl FromStr for Budget {
    type Err = String;

    fn from_str(text: &str) -> Result<Budget, String> {
        let percent = text.strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
        percent
            .filter(|percent| (0.0..=1000.0).contains(percent))
            .map(|percent| Budget(percent / 100.0))
            .ok_or_else(|| "a percentage from 0% to 1000% is allowed, such as 3% or 0.5%".into())
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&chosen(self.0))
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Outcome::Passed => "passed",
            Outcome::Unknown => "unknown",
            Outcome::Failed => "failed",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(low: f64, high: f64) -> Option<Difference> {
        Some(Difference { share: f64::midpoint(low, high), interval: Some((low, high)) })
    }

    fn weighed(calm: Option<Difference>, mean: Option<Difference>) -> (Outcome, Option<bool>) {
        let budget: Budget = "3%".parse().expect("a budget");
        let (outcome, evidence) = budget.weigh(calm, calm, mean);
        (outcome, evidence.map(|e| e.of_mean))
    }

    #[test]
    fn it_fails_and_passes_by_whole_intervals_only() {
        assert_eq!(weighed(of(0.031, 0.04), of(0.01, 0.05)), (Outcome::Failed, Some(false)));
        assert_eq!(weighed(of(0.01, 0.02), of(0.0, 0.029)), (Outcome::Passed, Some(true)));
        assert_eq!(weighed(of(-0.02, 0.029), of(-0.01, 0.02)), (Outcome::Passed, Some(false)));
        // These intervals include the budget, or end at it.
        assert_eq!(weighed(of(0.02, 0.035), of(0.0, 0.02)), (Outcome::Unknown, Some(false)));
        assert_eq!(weighed(of(0.02, 0.03), of(0.0, 0.02)), (Outcome::Unknown, Some(false)));
        assert_eq!(weighed(of(0.03, 0.04), of(0.0, 0.02)), (Outcome::Unknown, Some(false)));
        // Bursts count, too.
        assert_eq!(weighed(of(0.01, 0.02), of(0.0, 0.05)), (Outcome::Unknown, Some(true)));
    }

    #[test]
    fn a_cost_in_bursts_fails_though_calm_rounds_are_cheap() {
        let budget: Budget = "3%".parse().expect("a budget");
        let (calm, mean) = (of(0.0, 0.01), of(0.05, 0.08));
        let (outcome, evidence) = budget.weigh(mean, calm, mean);
        assert_eq!((outcome, evidence.map(|e| e.of_mean)), (Outcome::Failed, Some(true)));
    }

    #[test]
    fn without_an_interval_nothing_is_known() {
        let too_few = Some(Difference { share: 0.5, interval: None });
        assert_eq!(weighed(too_few, too_few).0, Outcome::Unknown);
        assert_eq!(weighed(None, None), (Outcome::Unknown, None));
        assert_eq!(outcome(&[]), Outcome::Unknown);
    }

    #[test]
    fn a_budget_is_a_percentage() {
        for (text, shown) in [("3%", "3%"), ("0.50%", "0.5%"), ("7%", "7%"), ("0%", "0%"), ("100 %", "100%")]
        {
            assert_eq!(text.parse::<Budget>().expect("a budget").to_string(), shown);
        }
        for text in ["3", "0.03", "-1%", "%", "three%", "NaN%", "inf%"] {
            assert!(text.parse::<Budget>().expect_err("refused").contains("such as 3%"), "{text}");
        }
    }
}
