//! Differences of two samples. Counters of the Performance Schema only grow, until a table is truncated, the
//! server restarts, or a row is reused; none of that may become a negative rate.

use std::collections::HashMap;

use super::look::{Counted, View};
use crate::counter;

/// Share of the remaining rows that must have been reset for the table to count as truncated.
const WHOLE: f64 = 0.5;

/// The growth of a table's rows between two samples.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Between {
    /// Seconds between the samples on the server's clock.
    pub seconds: f64,
    /// Whether the table was truncated, or the server restarted, in between: `rows` lack what was counted
    /// before that.
    pub reset: bool,
    /// Present rows, with counters since the previous sample.
    pub rows: Vec<Counted>,
}

/// Returns the growth of a view's rows between two samples.
///
/// A row with smaller counters was reset: all its counts are new. If most remaining rows were, the table was
/// truncated, and all rows were reset, even those that have counted more since than before. Prepared
/// statements have a table of their own, which is not affected when digests are truncated.
#[must_use]
pub fn between(view: View, earlier: &[Counted], later: &[Counted], seconds: f64) -> Between {
    let before: HashMap<_, _> = earlier.iter().map(|row| (&row.key, row)).collect();
    let reset = was_emptied(view, earlier, later);
    let is_anew = |then: &Counted, now: &Counted| reset && !now.is_prepared() || began_anew(then, now);
    let difference = |row: &Counted| match before.get(&row.key) {
        Some(before) if !is_anew(before, row) => {
            let counters =
                row.counters.iter().zip(&before.counters).map(|(now, then)| now.wrapping_sub(*then));
            Counted { counters: counters.collect(), ..row.clone() }
        }
        _ => row.clone(),
    };
    Between { seconds, reset, rows: later.iter().map(difference).collect() }
}

/// Returns whether a table was truncated, judged by the remaining rows that had counted something. Missing
/// rows tell nothing: tables are dropped, threads end. No digest remains after a TRUNCATE; rows of other
/// tables stay, and count from 0.
fn was_emptied(view: View, earlier: &[Counted], later: &[Counted]) -> bool {
    let now: HashMap<_, _> = later.iter().map(|row| (&row.key, row)).collect();
    let counting = earlier.iter().filter(|row| !row.is_prepared() && row.counters.iter().any(|it| *it > 0));
    let (mut all, mut left, mut anew) = (0_u32, 0_u32, 0_u32);
    for row in counting {
        all += 1;
        if let Some(now) = now.get(&row.key) {
            left += 1;
            anew += u32::from(began_anew(row, now));
        }
    }
    if left == 0 {
        return all > 0 && view == View::Statements;
    }
    f64::from(anew) > f64::from(left) * WHOLE
}

fn began_anew(before: &Counted, now: &Counted) -> bool {
    now.counters.iter().zip(&before.counters).any(|(now, then)| counter::was_emptied(*then, *now))
}

/// Returns the value below which `part` of the events are, given a histogram's buckets: upper bound and count
/// each.
#[must_use]
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // counts below 2^53
pub fn quantile(buckets: &[(u64, u64)], part: f64) -> Option<u64> {
    let total: u64 = buckets.iter().map(|(_, count)| count).sum();
    let wanted = ((total as f64) * part).ceil() as u64;
    let mut seen = 0;
    let found = buckets.iter().find(|(_, count)| {
        seen += count;
        seen >= wanted
    });
    found.filter(|_| total > 0).map(|(bound, _)| *bound)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::look::PREPARED_MARK;

    fn row(key: &str, counters: [u64; 2]) -> Counted {
        Counted { key: vec![Some(key.to_owned())], counters: counters.to_vec(), gauges: vec![] }
    }

    fn prepared(owner: &str, counters: [u64; 2]) -> Counted {
        let key = vec![None, Some(PREPARED_MARK.to_owned()), Some(format!("{owner}/1"))];
        Counted { key, ..row("", counters) }
    }

    fn counts(between: &Between) -> Vec<[u64; 2]> {
        between.rows.iter().map(|row| [row.counters[0], row.counters[1]]).collect()
    }

    #[test]
    fn rates_are_differences() {
        let earlier = [row("a", [10, 100]), row("b", [5, 50])];
        let later = [row("a", [12, 150]), row("b", [5, 50]), row("new", [3, 30])];
        let between = between(View::Statements, &earlier, &later, 2.0);
        assert!(!between.reset);
        assert_eq!(counts(&between), [[2, 50], [0, 0], [3, 30]]);
    }

    #[test]
    fn a_sum_that_went_on_over_its_end_is_no_row_that_began_anew() {
        let (earlier, later) = ([row("a", [10, u64::MAX - 9])], [row("a", [12, 40])]);
        let between = between(View::Statements, &earlier, &later, 1.0);
        assert!(!between.reset);
        assert_eq!(counts(&between), [[2, 50]]);
    }

    #[test]
    fn a_row_that_began_anew_has_what_it_counted_since() {
        let earlier = [row("dropped", [1000, 9]), row("b", [5, 50]), row("c", [1, 1])];
        let later = [row("dropped", [3, 30]), row("b", [6, 60]), row("c", [1, 1])];
        let between = between(View::Statements, &earlier, &later, 1.0);
        assert!(!between.reset, "one of three");
        assert_eq!(counts(&between), [[3, 30], [1, 10], [0, 0]]);
    }

    #[test]
    fn an_emptied_table_is_noticed_and_nothing_is_negative() {
        let earlier = [row("a", [1000, 1000]), row("b", [5, 50]), row("quiet", [0, 0]), row("c", [7, 7])];
        // `b` has counted more since than it had before.
        let later = [row("a", [3, 3]), row("b", [9, 90]), row("c", [1, 1])];
        for view in [View::Statements, View::Waits] {
            let emptied = between(view, &earlier, &later, 1.0);
            assert!(emptied.reset, "two of three counting rows began anew");
            assert_eq!(counts(&emptied), [[3, 3], [9, 90], [1, 1]]);
        }
        assert!(!between(View::Statements, &[], &later, 1.0).reset, "nothing was there before");
    }

    #[test]
    fn rows_that_are_gone_tell_of_no_emptied_table() {
        let earlier = ["a", "b", "c", "d"].map(|key| row(key, [1000, 1000]));
        let later = [row("a", [1002, 1004])];
        for view in [View::Statements, View::Tables] {
            let dropped = between(view, &earlier, &later, 1.0);
            assert!(!dropped.reset, "{view:?}: three of four are gone");
            assert_eq!(counts(&dropped), [[2, 4]]);
        }
        // Some rows of a truncated table come back.
        let back = [row("a", [3, 3]), row("b", [1001, 1001])];
        assert!(!between(View::Statements, &earlier, &back, 1.0).reset, "one of two");
        let back = [row("a", [3, 3]), row("b", [1001, 1001]), row("c", [1, 1])];
        let emptied = between(View::Statements, &earlier, &back, 1.0);
        assert!(emptied.reset, "two of the three that are left");
        assert_eq!(counts(&emptied), [[3, 3], [1001, 1001], [1, 1]]);
        let others = [row("new", [1, 1])];
        assert!(between(View::Statements, &earlier, &others, 1.0).reset, "digests go with a TRUNCATE only");
        assert!(!between(View::Tables, &earlier, &others, 1.0).reset, "tables are dropped");
    }

    #[test]
    fn prepared_statements_tell_nothing_of_digests_and_keep_their_counts() {
        let pool = ["5", "6", "7"].map(|owner| prepared(owner, [500, 500]));
        let earlier = [&[row("a", [1000, 1000])][..], &pool].concat();
        let ended = between(View::Statements, &earlier, &[row("a", [1002, 1004])], 1.0);
        assert!(!ended.reset, "their connections ended");
        assert_eq!(counts(&ended), [[2, 4]]);
        let later = [row("a", [3, 3]), prepared("5", [510, 530]), prepared("6", [4, 4])];
        let emptied = between(View::Statements, &earlier, &later, 1.0);
        assert!(emptied.reset, "the only digest began anew");
        assert_eq!(counts(&emptied), [[3, 3], [10, 30], [4, 4]]);
        for later in [vec![], vec![prepared("6", [4, 4])]] {
            let detail = between(View::Statements, &pool, &later, 1.0);
            assert!(!detail.reset, "{later:?}");
            assert_eq!(detail.rows, later, "one that was prepared anew has what it counted since");
        }
    }

    #[test]
    fn quantiles_are_upper_bounds() {
        let buckets = [(10, 90), (20, 5), (30, 5)];
        assert_eq!(quantile(&buckets, 0.9), Some(10));
        assert_eq!(quantile(&buckets, 0.95), Some(20));
        assert_eq!(quantile(&buckets, 0.999), Some(30));
        assert_eq!(quantile(&[(10, 0)], 0.5), None);
    }
}
