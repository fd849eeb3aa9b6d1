//! The ledger of decisions: the last ones, numbered.

use std::collections::VecDeque;

use tare_tables::budget::DecisionRow;

/// The number of decisions kept.
const KEPT: usize = 1000;

/// The decisions, oldest first.
#[derive(Debug)]
pub(super) struct Ledger {
    rows: VecDeque<DecisionRow>,
    next: u64,
}

impl Ledger {
    pub(super) const fn new() -> Ledger {
        Ledger { rows: VecDeque::new(), next: 1 }
    }

    /// Adds a decision under the next number.
    pub(super) fn add(&mut self, row: DecisionRow) {
        if self.rows.len() == KEPT {
            self.rows.pop_front();
        }
        self.rows.push_back(DecisionRow { id: self.next, ..row });
        self.next += 1;
    }

    pub(super) fn rows(&self) -> Vec<DecisionRow> {
        self.rows.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_thousand_are_kept() {
        let mut ledger = Ledger::new();
        for time_us in 0..1500 {
            let why = String::new();
            ledger.add(DecisionRow {
                id: 0,
                time_us,
                name: None,
                from: None,
                to: None,
                why,
                share: 0.0,
                budget: 0.0,
            });
        }
        let ids: Vec<u64> = ledger.rows().iter().map(|row| row.id).collect();
        assert_eq!(ids, (501..=1500).collect::<Vec<_>>());
    }
}
