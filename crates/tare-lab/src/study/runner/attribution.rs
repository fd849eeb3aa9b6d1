//! Events that a Performance Schema counts over a slice, by class of instrument.

use std::collections::BTreeMap;

use mysql::prelude::Queryable;

use crate::results::record::Instruments;
use crate::server::target::ServerTarget;

/// Events since the server's start by class. Waits go by the first three parts of their name
/// (`wait/synch/mutex`). Instructions of programs (`statement/sp`) and statements sent as text
/// (`statement/sql`) are classes of their own.
pub type EventCounts = BTreeMap<String, u64>;

/// Reads the summaries that every MariaDB since 10.5 and every MySQL since 5.7 has.
const COUNTS: &str = "
    SELECT SUBSTRING_INDEX(event_name, '/', 3), CAST(SUM(count_star) AS UNSIGNED)
        FROM performance_schema.events_waits_summary_global_by_event_name GROUP BY 1
    UNION ALL SELECT 'stage', CAST(SUM(count_star) AS UNSIGNED)
        FROM performance_schema.events_stages_summary_global_by_event_name
    UNION ALL SELECT CASE
            WHEN event_name LIKE 'statement/sp/%' THEN 'statement/sp'
            WHEN event_name LIKE 'statement/sql/%' OR event_name = 'statement/com/Query' THEN 'statement/sql'
            ELSE 'statement' END, CAST(SUM(count_star) AS UNSIGNED)
        FROM performance_schema.events_statements_summary_global_by_event_name GROUP BY 1
    UNION ALL SELECT 'transaction', CAST(SUM(count_star) AS UNSIGNED)
        FROM performance_schema.events_transactions_summary_global_by_event_name
    UNION ALL SELECT 'memory', CAST(SUM(count_alloc) + SUM(count_free) AS UNSIGNED)
        FROM performance_schema.memory_summary_global_by_event_name";

const INSTRUMENTS: &str = "
    SELECT CAST(COALESCE(SUM(enabled = 'YES'), 0) AS UNSIGNED), COUNT(*) FROM performance_schema.setup_instruments";

/// Returns how many instruments are enabled; `None` where that cannot be read.
pub fn instruments(target: &ServerTarget) -> Option<Instruments> {
    let (enabled, all) = target.connect().ok()?.query_first(INSTRUMENTS).ok()??;
    Some(Instruments { enabled, all })
}

/// Returns the events so far; `None` where no Performance Schema is on, or it cannot be read.
pub fn counts(target: &ServerTarget) -> Option<EventCounts> {
    let mut connection = target.connect().ok()?;
    let on: Option<u8> = connection.query_first("SELECT @@performance_schema").ok()?;
    on.filter(|on| *on == 1)?;
    let rows: Vec<(String, Option<u64>)> = connection.query(COUNTS).ok()?;
    Some(rows.into_iter().filter_map(|(class, count)| Some((class, count?))).collect())
}

/// Predicts the next count on an idle server, as counting causes events, too. `counts` reads it.
pub fn before(
    target: &ServerTarget,
    counts: fn(&ServerTarget) -> Option<EventCounts>,
) -> Option<EventCounts> {
    let first = counts(target)?;
    Some(expected(&first, &counts(target)?))
}

/// Extrapolates from two counts: the next one grows by the same amount.
fn expected(first: &EventCounts, second: &EventCounts) -> EventCounts {
    let next = |(class, count): (&String, &u64)| {
        let grown = count.saturating_sub(first.get(class).copied().unwrap_or(0));
        (class.clone(), count + grown)
    };
    second.iter().map(next).collect()
}

/// Returns the events per transaction between two counts, without classes that have none.
#[allow(clippy::cast_precision_loss)] // counts of a slice are far below 2^53
pub fn per_transaction(
    before: &EventCounts,
    after: &EventCounts,
    transactions: u64,
) -> BTreeMap<String, f64> {
    let grown = after.iter().map(|(class, count)| {
        let events = count.saturating_sub(before.get(class).copied().unwrap_or(0));
        (class.clone(), events as f64 / transactions as f64)
    });
    grown.filter(|(_, events)| *events > 0.0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_counting_takes_is_no_part_of_what_is_counted() {
        let counts = |n: u64| EventCounts::from([("stage".to_owned(), n)]);
        // A count causes 30 events; 200 transactions with 4 events each follow.
        let after = 100 + 30 + 30 + 200 * 4;
        let per = per_transaction(&expected(&counts(100), &counts(130)), &counts(after), 200);
        assert_eq!(per, BTreeMap::from([("stage".into(), 4.0)]));
    }

    #[test]
    fn growth_is_divided_by_transactions() {
        let counts =
            |pairs: &[(&str, u64)]| -> EventCounts { pairs.iter().map(|&(c, n)| (c.into(), n)).collect() };
        let before = counts(&[("stage", 100), ("idle", 5)]);
        let after = counts(&[("stage", 350), ("idle", 5), ("wait/io/table", 50)]);
        let per = per_transaction(&before, &after, 100);
        assert_eq!(per, BTreeMap::from([("stage".into(), 2.5), ("wait/io/table".into(), 0.5)]));
    }
}
