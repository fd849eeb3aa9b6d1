//! The intent of FEDERATED's conditions: the rows that its server asked for.
//!
//! FEDERATED sends keys only: a user's own LIKE, OR or NOT never arrives. Where its SQL differs from the key,
//! the key counts, because the server accepts the rows of a lookup unchecked.

use super::filter::{ComparisonOperator, Constant, RowFilter, Term};

impl RowFilter {
    /// Returns a condition that FEDERATED sent with a SELECT as it was meant. For a range the result may
    /// accept more rows, because the server checks the rows of a range again.
    ///
    /// Each part of a key but the last is sent as `LIKE 'value%'` without escapes and means the value itself.
    ///
    /// A NULL bound is sent as `IS NOT NULL`, whether the range includes NULL or not. So two of them on one
    /// column mean NULL, and one beside other bounds means nothing: `(k IS NOT NULL) AND (k < 3)` stands for
    /// `k < 3` and also for `k IS NULL OR k < 3`.
    pub(crate) fn meant(self) -> Self {
        let filter = self.without_contradictions();
        let parts = filter.conjuncts();
        let bounds: Vec<usize> = parts.iter().filter_map(|part| part.nullness(false)).collect();
        if parts.len() == 1 {
            return filter;
        }
        let says = |part: &&RowFilter| match (part.nullness(false), part) {
            (Some(column), _) => {
                let twice = bounds.iter().filter(|it| **it == column).count() > 1;
                twice.then_some(RowFilter::IsNull(Term::Column(column)))
            }
            (None, RowFilter::Compare { left: Term::Column(column), .. }) if bounds.contains(column) => {
                Some(RowFilter::Any(vec![RowFilter::clone(part), RowFilter::IsNull(Term::Column(*column))]))
            }
            (None, part) => Some(part.whole_value()),
        };
        RowFilter::All(parts.iter().filter_map(says).collect())
    }

    /// Undoes a fault of FEDERATED: for `k IS NULL` in a writing statement it sends `k IS NULL AND k IS NOT
    /// NULL`.
    pub(crate) fn without_contradictions(self) -> Self {
        let null: Vec<usize> = self.conjuncts().into_iter().filter_map(|part| part.nullness(true)).collect();
        if null.is_empty() {
            return self;
        }
        let kept = |part: &&RowFilter| part.nullness(false).is_none_or(|column| !null.contains(&column));
        RowFilter::All(self.conjuncts().into_iter().filter(kept).cloned().collect())
    }

    /// Returns `column = 'value'` for `column LIKE 'value%'`, and everything else unchanged.
    fn whole_value(&self) -> Self {
        match self {
            RowFilter::Like { term, pattern, collation } => match pattern.text().strip_suffix(b"%") {
                Some(value) => RowFilter::Compare {
                    left: term.clone(),
                    operator: ComparisonOperator::Equal,
                    right: Term::Constant(Constant::Text(value.to_vec())),
                    collation: *collation,
                },
                None => self.clone(),
            },
            other => other.clone(),
        }
    }

    /// Returns the column of `IS NULL`, or of `IS NOT NULL`.
    pub(super) fn nullness(&self, null: bool) -> Option<usize> {
        match self {
            RowFilter::IsNull(Term::Column(column)) if null => Some(*column),
            RowFilter::Not(part) if !null => part.nullness(true),
            _ => None,
        }
    }
}
