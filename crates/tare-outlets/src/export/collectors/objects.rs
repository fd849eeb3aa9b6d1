//! Collectors of tables and indexes: rows read and written, and locks.

use crate::export::collector::{Collector, CollectorGroup, Scrape};
use crate::export::sample::{MetricDescription, MetricNumber};
use crate::source::{Error, Row};

static TABLES: Collector = Collector {
    name: "perf_schema.tableiowaits",
    help: "Rows read and written by table, from table_io_waits_summary_by_table",
    on: true,
    limit: Some(1000),
};

static INDEXES: Collector = Collector {
    name: "perf_schema.indexiowaits",
    help: "Rows read and written by index, from table_io_waits_summary_by_index_usage",
    on: false,
    limit: Some(1000),
};

static LOCKS: Collector = Collector {
    name: "perf_schema.tablelocks",
    help: "Locks by table, from table_lock_waits_summary_by_table",
    on: true,
    limit: Some(1000),
};

/// The group that reads tables.
pub(super) const TABLES_GROUP: CollectorGroup = CollectorGroup { collectors: &[&TABLES], read: read_tables };
/// The group that reads indexes.
pub(super) const INDEXES_GROUP: CollectorGroup =
    CollectorGroup { collectors: &[&INDEXES], read: read_indexes };
/// The group that reads locks.
pub(super) const LOCKS_GROUP: CollectorGroup = CollectorGroup { collectors: &[&LOCKS], read: read_locks };

static TABLE_COUNT: MetricDescription = MetricDescription::counter(
    "mysql_perf_schema_table_io_waits_total",
    "The total number of table I/O wait events for each table and operation.",
);
static TABLE_SECONDS: MetricDescription = MetricDescription::counter(
    "mysql_perf_schema_table_io_waits_seconds_total",
    "The total time of table I/O wait events for each table and operation.",
);
static INDEX_COUNT: MetricDescription = MetricDescription::counter(
    "mysql_perf_schema_index_io_waits_total",
    "The total number of index I/O wait events for each index and operation.",
);
static INDEX_SECONDS: MetricDescription = MetricDescription::counter(
    "mysql_perf_schema_index_io_waits_seconds_total",
    "The total time of index I/O wait events for each index and operation.",
);
static SQL_COUNT: MetricDescription = MetricDescription::counter(
    "mysql_perf_schema_sql_lock_waits_total",
    "The total number of SQL lock wait events for each table and operation.",
);
static SQL_SECONDS: MetricDescription = MetricDescription::counter(
    "mysql_perf_schema_sql_lock_waits_seconds_total",
    "The total time of SQL lock wait events for each table and operation.",
);
static EXTERNAL_COUNT: MetricDescription = MetricDescription::counter(
    "mysql_perf_schema_external_lock_waits_total",
    "The total number of external lock wait events for each table and operation.",
);
static EXTERNAL_SECONDS: MetricDescription = MetricDescription::counter(
    "mysql_perf_schema_external_lock_waits_seconds_total",
    "The total time of external lock wait events for each table and operation.",
);

const OPERATIONS: [&str; 4] = ["fetch", "insert", "update", "delete"];
const OPERATION_COLUMNS: [&str; 8] = [
    "COUNT_FETCH",
    "COUNT_INSERT",
    "COUNT_UPDATE",
    "COUNT_DELETE",
    "SUM_TIMER_FETCH",
    "SUM_TIMER_INSERT",
    "SUM_TIMER_UPDATE",
    "SUM_TIMER_DELETE",
];

/// Returns whether it is a table outside the server's own schemas.
fn is_users(row: &Row, own_schemas: &[&str]) -> bool {
    row.text(0).is_some_and(|schema| !own_schemas.contains(&schema.as_str()))
}

/// Returns the sum of these columns, which is a row's rank.
fn sum(row: &Row, columns: std::ops::Range<usize>) -> u128 {
    columns.fold(0, |sum, at| sum.saturating_add(row.total(at)))
}

fn read_tables(scrape: &mut Scrape<'_>) -> Result<(), Error> {
    let columns = [&["OBJECT_SCHEMA", "OBJECT_NAME"][..], &OPERATION_COLUMNS].concat();
    let rows = scrape.highest(
        &TABLES,
        ("table_io_waits_summary_by_table", &columns),
        |row| is_users(row, &["mysql", "performance_schema"]),
        |row| sum(row, 6..10),
    )?;
    for row in rows {
        let (schema, name) = (row.text(0).unwrap_or_default(), row.text(1).unwrap_or_default());
        for (at, operation) in (2..).zip(OPERATIONS) {
            let labels = [("schema", &*schema), ("name", &*name), ("operation", operation)];
            scrape.samples.add(&TABLE_COUNT, &labels, row.count(at));
            scrape.samples.add(&TABLE_SECONDS, &labels, MetricNumber::seconds(row.total(at + 4)));
        }
    }
    Ok(())
}

fn read_indexes(scrape: &mut Scrape<'_>) -> Result<(), Error> {
    let columns = [&["OBJECT_SCHEMA", "OBJECT_NAME", "INDEX_NAME"][..], &OPERATION_COLUMNS].concat();
    let rows = scrape.highest(
        &INDEXES,
        ("table_io_waits_summary_by_index_usage", &columns),
        |row| is_users(row, &["mysql", "performance_schema"]),
        |row| sum(row, 7..11),
    )?;
    for row in rows {
        let (schema, name) = (row.text(0).unwrap_or_default(), row.text(1).unwrap_or_default());
        let index = row.text(2).unwrap_or_else(|| "NONE".to_owned());
        for (at, operation) in (3..).zip(OPERATIONS) {
            // An insert uses no index.
            if operation == "insert" && index != "NONE" {
                continue;
            }
            let labels =
                [("schema", &*schema), ("name", &*name), ("index", &*index), ("operation", operation)];
            scrape.samples.add(&INDEX_COUNT, &labels, row.count(at));
            scrape.samples.add(&INDEX_SECONDS, &labels, MetricNumber::seconds(row.total(at + 4)));
        }
    }
    Ok(())
}

/// Locks of the server: the operation, and the names of its columns.
const SQL_LOCKS: [(&str, &str, &str); 8] = [
    ("read_normal", "COUNT_READ_NORMAL", "SUM_TIMER_READ_NORMAL"),
    ("read_with_shared_locks", "COUNT_READ_WITH_SHARED_LOCKS", "SUM_TIMER_READ_WITH_SHARED_LOCKS"),
    ("read_high_priority", "COUNT_READ_HIGH_PRIORITY", "SUM_TIMER_READ_HIGH_PRIORITY"),
    ("read_no_insert", "COUNT_READ_NO_INSERT", "SUM_TIMER_READ_NO_INSERT"),
    ("write_normal", "COUNT_WRITE_NORMAL", "SUM_TIMER_WRITE_NORMAL"),
    ("write_allow_write", "COUNT_WRITE_ALLOW_WRITE", "SUM_TIMER_WRITE_ALLOW_WRITE"),
    ("write_concurrent_insert", "COUNT_WRITE_CONCURRENT_INSERT", "SUM_TIMER_WRITE_CONCURRENT_INSERT"),
    ("write_low_priority", "COUNT_WRITE_LOW_PRIORITY", "SUM_TIMER_WRITE_LOW_PRIORITY"),
];
/// Locks of storage engines.
const EXTERNAL_LOCKS: [(&str, &str, &str); 2] = [
    ("read", "COUNT_READ_EXTERNAL", "SUM_TIMER_READ_EXTERNAL"),
    ("write", "COUNT_WRITE_EXTERNAL", "SUM_TIMER_WRITE_EXTERNAL"),
];

fn read_locks(scrape: &mut Scrape<'_>) -> Result<(), Error> {
    let all = || SQL_LOCKS.iter().chain(&EXTERNAL_LOCKS);
    let names = ["OBJECT_SCHEMA", "OBJECT_NAME"];
    let (counts, times) = (all().map(|it| it.1), all().map(|it| it.2));
    let columns: Vec<&str> = names.into_iter().chain(counts).chain(times).collect();
    let operations = SQL_LOCKS.len() + EXTERNAL_LOCKS.len();
    let rows = scrape.highest(
        &LOCKS,
        ("table_lock_waits_summary_by_table", &columns),
        |row| is_users(row, &["mysql", "performance_schema", "information_schema"]),
        |row| sum(row, 2 + operations..2 + 2 * operations),
    )?;
    for row in rows {
        let (schema, name) = (row.text(0).unwrap_or_default(), row.text(1).unwrap_or_default());
        for (number, (operation, ..)) in all().enumerate() {
            let labels = [("schema", &*schema), ("name", &*name), ("operation", *operation)];
            let is_sql = number < SQL_LOCKS.len();
            let (count, seconds) =
                if is_sql { (&SQL_COUNT, &SQL_SECONDS) } else { (&EXTERNAL_COUNT, &EXTERNAL_SECONDS) };
            scrape.samples.add(count, &labels, row.count(2 + number));
            scrape.samples.add(seconds, &labels, MetricNumber::seconds(row.total(2 + operations + number)));
        }
    }
    Ok(())
}
