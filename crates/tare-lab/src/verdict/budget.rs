//! A budget: the highest cost that settings may have, and whether they keep it.
//!
//! It is judged by intervals, not by estimates. A setting *fails* when the whole interval that its verdict
//! states is above the budget. It *passes* when the intervals of both figures, calm rounds and the mean of
//! all turns, are below it: bursts count, too. Everything else is *unknown*, and is not a pass. A study with
//! a budget runs until every setting has passed or failed, or its blocks or its time are used up. The
//! intervals stay valid however often they are computed.

use crate::results::record::Cell;
use crate::verdict::analysis::{Analysis, SettingAnalysis};

pub use super::outcome::{BudgetEvidence, BudgetOutcome};
pub use crate::results::budget::Budget;

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
    pub outcome: BudgetOutcome,
    /// The difference that decided, or left it open; `None` where nothing has been measured.
    pub evidence: Option<BudgetEvidence>,
}

impl Budget {
    /// Judges every setting of every cell that has a base, without A/A controls, in the study's order.
    pub fn judge(self, analysis: &Analysis) -> Vec<Judgement> {
        let of_cell = analysis.cells.iter().flat_map(|cell| cell.settings.iter().map(|s| (&cell.cell, s)));
        let compared = of_cell.filter(|(_, s)| s.name != s.base && !s.control);
        let judgement = |(cell, s): (&Cell, &SettingAnalysis)| {
            let (outcome, evidence) = self.weigh(s.told(), s.cost, s.mean);
            Judgement { cell: cell.clone(), setting: s.name.clone(), base: s.base.clone(), outcome, evidence }
        };
        compared.map(judgement).collect()
    }
}

/// Returns the outcome of all judgements: one failure fails, and nothing passes while one is unknown.
pub fn outcome(judgements: &[Judgement]) -> BudgetOutcome {
    judgements.iter().map(|j| j.outcome).max().unwrap_or(BudgetOutcome::Unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_passes_without_a_judgement() {
        assert_eq!(outcome(&[]), BudgetOutcome::Unknown);
    }
}
