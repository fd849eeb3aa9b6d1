//! Sample rows made by hand, and tests of every table's getters on them.

mod event;
mod getter;
mod instance;
mod refusal;
mod session;
mod setup;

use tare_engine::snapshot::*;

/// Sample rows of a type: a full one, and one without anything optional.
trait Sample: Sized + 'static {
    fn full() -> Self;
    fn bare() -> Self;
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

fn head(full: bool) -> EventHead {
    EventHead {
        thread_id: 7,
        event_id: 11,
        end_event_id: full.then_some(13),
        name: "stage/sql/init",
        source: full.then(|| "sql_parse.cc:1".to_owned()),
        timer: Timer {
            start_ps: full.then_some(100),
            end_ps: full.then_some(300),
            wait_ps: full.then_some(200),
        },
        nesting: full.then_some((5, EventType::Statement)),
    }
}

fn object(full: bool) -> ObjectName {
    if !full {
        return ObjectName::default();
    }
    ObjectName { object_type: Some("TABLE"), schema: some("test"), name: some("t"), index: some("PRIMARY") }
}

/// Distinct numbers in the order of the columns, so that a wrong getter is noticed.
pub(crate) const COUNTERS: StatementCounters = StatementCounters {
    lock_time_ps: 1,
    errors: 2,
    warnings: 3,
    rows_affected: 4,
    rows_sent: 5,
    rows_examined: 6,
    created_tmp_disk_tables: 7,
    created_tmp_tables: 8,
    select_full_join: 9,
    select_full_range_join: 10,
    select_range: 11,
    select_range_check: 12,
    select_scan: 13,
    sort_merge_passes: 14,
    sort_range: 15,
    sort_rows: 16,
    sort_scan: 17,
    no_index_used: 18,
    no_good_index_used: 19,
    cpu_time_ps: 20,
    max_total_memory: 21,
    max_controlled_memory: 0,
};

/// Returns a statistic with `count` events of 20 on average, between 10 and 30.
const fn stat(count: u64) -> Stat {
    Stat { count, sum_ps: count as u128 * 20, min_ps: 10, max_ps: 30 }
}

const IO: IoStat = IoStat {
    read: ByteStat { stat: stat(1), bytes: 100 },
    write: ByteStat { stat: stat(2), bytes: 200 },
    misc: ByteStat { stat: stat(4), bytes: 0 },
};

const TABLE_IO: TableIoStat =
    TableIoStat { fetch: stat(1), insert: stat(2), update: stat(4), delete: stat(8) };

fn digest() -> DigestText {
    DigestText { digest: "0123456789abcdef0123456789abcdef".to_owned(), text: "SELECT ?".to_owned() }
}
