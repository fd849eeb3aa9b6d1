//! Histograms and quantiles of the shape `extended`, beside what was recorded and counted.

use std::collections::BTreeMap;

use mysql::prelude::Queryable;
use tare_testkit::load::SysbenchLoad;
use tare_testkit::schema::{SchemaConnection, SchemaRow};
use tare_testkit::server::{Server, StartSettings};
use tare_testkit::subject::{TestProvider, setting};
use tare_testkit::turn;

/// A server in the shape `extended`, with all of a load's statements in the long history; `None`, with a
/// word, under the built-in.
fn extended() -> Option<Server> {
    if !TestProvider::under_test().is_tare() {
        println!("skipped: the built-in has no histograms");
        return None;
    }
    let option = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let options = vec![
        option("shape", "extended"),
        option("events_statements_history_long_size", "100000"),
        option("memory_max", "256M"),
    ];
    let settings = StartSettings::new(TestProvider::Tare(options)).option("--max-connections=300");
    Some(Server::start(settings.option("--innodb-flush-log-at-trx-commit=2")).unwrap())
}

fn number(row: &SchemaRow, column: &str) -> u64 {
    row.number(column).unwrap_or_else(|| panic!("{column} of {row:?}"))
}

/// COUNT_BUCKET by digest and bucket, with the bucket's bounds.
fn by_digest(schema: &mut SchemaConnection) -> BTreeMap<String, Vec<(u64, u64, u64)>> {
    let mut histograms: BTreeMap<String, Vec<(u64, u64, u64)>> = BTreeMap::new();
    for row in schema.rows_where("events_statements_histogram_by_digest", &[("SCHEMA_NAME", "h")]).unwrap() {
        let buckets = histograms.entry(row.text("DIGEST").to_owned()).or_default();
        assert_eq!(number(&row, "BUCKET_NUMBER"), buckets.len() as u64, "every bucket, in their order");
        let [low, high, count] =
            ["BUCKET_TIMER_LOW", "BUCKET_TIMER_HIGH", "COUNT_BUCKET"].map(|it| number(&row, it));
        buckets.push((low, high, count));
    }
    histograms
}

/// Counts of the digests of schema `h`.
fn counts(schema: &mut SchemaConnection) -> BTreeMap<String, u64> {
    let rows = schema.rows_where("events_statements_summary_by_digest", &[("SCHEMA_NAME", "h")]).unwrap();
    rows.iter().map(|row| (row.text("DIGEST").to_owned(), number(row, "COUNT_STAR"))).collect()
}

/// Statements that take very different times.
const STATEMENTS: [&str; 5] = [
    "SELECT a FROM t WHERE a = 7",
    "SELECT COUNT(*) FROM t WHERE b < 40",
    "SELECT SLEEP(0.002)",
    "SELECT BENCHMARK(3000, MD5('a'))",
    "UPDATE t SET b = b + 1 WHERE a = 3",
];

fn load(server: &Server, threads: usize, rounds: usize) {
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let mut conn = server.client().unwrap();
            scope.spawn(move || {
                conn.query_drop("USE h").unwrap();
                for round in 0..rounds {
                    let sql = STATEMENTS[(thread + round) % STATEMENTS.len()];
                    conn.query_drop(sql).unwrap();
                }
                // The end of the last statement follows its answer; one more statement is answered after it.
                conn.query_drop("DO 0").unwrap();
            });
        }
    });
}

fn make_schema(server: &Server) {
    let mut admin = server.client().unwrap();
    for sql in [
        "CREATE DATABASE h",
        "USE h",
        "CREATE TABLE t (a INT PRIMARY KEY, b INT) ENGINE = InnoDB",
        "INSERT INTO t SELECT seq, seq FROM seq_1_to_500",
    ] {
        admin.query_drop(sql).unwrap();
    }
}

#[test]
fn quantiles_lie_in_the_bucket_of_what_was_recorded() {
    let _turn = turn();
    let Some(server) = extended() else { return };
    make_schema(&server);
    let mut schema = server.schema().unwrap();
    load(&server, 16, 250);

    let mut times: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for row in schema.rows_where("events_statements_history_long", &[("CURRENT_SCHEMA", "h")]).unwrap() {
        if !row.text("DIGEST").is_empty() {
            times.entry(row.text("DIGEST").to_owned()).or_default().push(number(&row, "TIMER_WAIT"));
        }
    }
    let histograms = by_digest(&mut schema);
    let rows = schema.rows_where("events_statements_summary_by_digest", &[("SCHEMA_NAME", "h")]).unwrap();
    let mut compared = 0;
    for row in &rows {
        let (text, digest) = (row.text("DIGEST_TEXT"), row.text("DIGEST"));
        let mut times = times.remove(digest).unwrap_or_default();
        times.sort_unstable();
        assert_eq!(times.len() as u64, number(row, "COUNT_STAR"), "all of {text} are recorded");
        let histogram = &histograms[digest];
        assert_eq!(histogram.len(), 450, "{text}");
        for (low, high, count) in histogram {
            let inside = times.iter().filter(|time| low <= *time && *time < high).count();
            assert_eq!(inside as u64, *count, "{text}: from {low} to {high}");
        }
        for (column, per_mille) in [("QUANTILE_95", 950), ("QUANTILE_99", 990), ("QUANTILE_999", 999)] {
            let truth = times[(times.len() * per_mille).div_ceil(1000) - 1];
            let shown = number(row, column);
            let (low, ..) = histogram.iter().find(|(_, high, _)| *high == shown).expect("a bucket's bound");
            assert!(*low <= truth && truth < shown, "{column} of {text}: {truth} is from {low} to {shown}");
        }
        compared += times.len();
    }
    assert!(compared >= 4000 && rows.len() >= STATEMENTS.len(), "{compared} of {}", rows.len());

    // Of all statements: those of this connection go on meanwhile.
    let total = |schema: &mut SchemaConnection| {
        schema.sum("events_statements_histogram_global", &[], "COUNT_BUCKET").unwrap()
    };
    let sum = |schema: &mut SchemaConnection, table: &str| schema.sum(table, &[], "COUNT_STAR").unwrap();
    let before = sum(&mut schema, "events_statements_summary_global_by_event_name");
    let shown = total(&mut schema);
    let after = sum(&mut schema, "events_statements_summary_global_by_event_name");
    assert!(before <= shown && shown <= after, "{before} <= {shown} <= {after}");
    let status = schema.tare_status().unwrap();
    assert_eq!(status["histogram_lost"], "0");
}

#[test]
fn histograms_of_other_events_add_up_to_their_counts() {
    let _turn = turn();
    let Some(server) = extended() else { return };
    make_schema(&server);
    let mut schema = server.schema().unwrap();
    load(&server, 4, 100);
    for (events, name) in [
        ("waits", "wait/io/table/sql/handler"),
        ("waits", "wait/io/file/sql/FRM"),
        ("waits", "wait/synch/mutex/sql/THD::LOCK_thd_data"),
        ("waits", "wait/io/socket/sql/client_connection"),
        ("stages", "stage/sql/User sleep"),
        ("transactions", "transaction"),
        ("statements", "statement/sql/update"),
    ] {
        let filter = [("EVENT_NAME", name)];
        let summary = format!("events_{events}_summary_global_by_event_name");
        let histogram = format!("events_{events}_histogram_global_by_event_name");
        let before = schema.sum(&summary, &filter, "COUNT_STAR").unwrap();
        let rows = schema.rows_where(&histogram, &filter).unwrap();
        let after = schema.sum(&summary, &filter, "COUNT_STAR").unwrap();
        let shown: u64 = rows.iter().map(|row| number(row, "COUNT_BUCKET")).sum();
        assert!(before <= shown && shown <= after && shown > 0, "{name}: {before} <= {shown} <= {after}");
        assert!(rows.iter().all(|row| number(row, "COUNT_BUCKET") > 0), "{name}: no empty buckets");
        let last = rows.last().unwrap();
        assert_eq!(number(last, "COUNT_BUCKET_AND_LOWER"), shown, "{name}");
        assert_eq!(last.text("BUCKET_QUANTILE"), "1.000000", "{name}");
        let is_wide = name.starts_with("stage/") || name.contains("/socket/");
        let (end_ps, next) = if is_wide { (100_000_000, 51) } else { (10_000_000, 1) };
        for row in &rows {
            let lowest = number(row, "BUCKET_NUMBER") == 0;
            assert!(lowest || number(row, "BUCKET_NUMBER") >= next, "{name}: {row:?}");
            assert_eq!(number(row, "BUCKET_TIMER_HIGH") == end_ps, lowest, "{name}: {row:?}");
        }
    }
    for events in ["waits", "stages", "transactions", "statements"] {
        let summary = format!("events_{events}_summary_global_by_event_name");
        let histogram = format!("events_{events}_histogram_global_by_event_name");
        let before = schema.sum(&summary, &[], "COUNT_STAR").unwrap();
        schema.truncate(&histogram).unwrap();
        let left = schema.sum(&histogram, &[], "COUNT_BUCKET").unwrap();
        let counted = schema.sum(&summary, &[], "COUNT_STAR").unwrap();
        assert!(left <= counted - before && counted >= before, "{events}: {left} left");
    }
    // Two milliseconds of sleep are no less. They begin before the stage does, and after the statement has
    // begun.
    let digests = schema.rows_where("events_statements_summary_by_digest", &[("SCHEMA_NAME", "h")]).unwrap();
    let slept = digests.iter().find(|row| row.text("DIGEST_TEXT").contains("SLEEP"));
    assert!(number(slept.unwrap(), "MIN_TIMER_WAIT") >= 2_000_000_000);
}

#[test]
fn under_64_threads_histograms_add_up_to_the_counts_of_their_digests() {
    const LOAD: SysbenchLoad =
        SysbenchLoad { workload: "oltp_point_select", threads: 64, tables: 2, rows: 1000, prepared: false };
    let _turn = turn();
    let Some(server) = extended() else { return };
    LOAD.prepare(&server).unwrap();
    let mut schema = server.schema().unwrap();
    let mut running = LOAD.start(&server, setting("TARE_LOAD_SECONDS", 10)).unwrap();
    let mut compared = 0;
    // One client asks what another one counts: a histogram read between two counts is between them.
    while running.is_running() {
        let counts = |schema: &mut SchemaConnection| -> BTreeMap<String, u64> {
            let rows = schema.rows("events_statements_summary_by_digest").unwrap();
            rows.iter().map(|row| (row.text("DIGEST").to_owned(), number(row, "COUNT_STAR"))).collect()
        };
        let before = counts(&mut schema);
        let mut totals: BTreeMap<String, u64> = BTreeMap::new();
        for row in schema.rows("events_statements_histogram_by_digest").unwrap() {
            *totals.entry(row.text("DIGEST").to_owned()).or_default() += number(&row, "COUNT_BUCKET");
        }
        let after = counts(&mut schema);
        for (digest, before) in before {
            let (total, after) = (totals[&digest], after[&digest]);
            assert!(before <= total && total <= after, "{digest}: {before} <= {total} <= {after}");
            compared += 1;
        }
    }
    let outcome = running.finish().unwrap();
    assert!(outcome.transactions > 0 && compared > 0, "{compared}: {}", outcome.text);
    assert_eq!(schema.tare_status().unwrap()["histogram_lost"], "0");
}

#[test]
fn truncate_resets_histograms_as_mysql_does() {
    let _turn = turn();
    let Some(server) = extended() else { return };
    make_schema(&server);
    let mut schema = server.schema().unwrap();
    let global = |schema: &mut SchemaConnection| {
        schema.sum("events_statements_histogram_global", &[], "COUNT_BUCKET").unwrap()
    };
    let of_digests = |schema: &mut SchemaConnection| -> u64 {
        by_digest(schema).values().flatten().map(|(.., count)| count).sum()
    };
    load(&server, 2, 100);
    let (all, digests) = (global(&mut schema), of_digests(&mut schema));
    assert!(all >= 200 && digests >= 200, "{all}, {digests}");
    for level in ["by_thread", "by_account", "by_user", "by_host"] {
        schema.truncate(&format!("events_statements_summary_{level}_by_event_name")).unwrap();
        assert!(global(&mut schema) >= all, "{level}");
    }
    schema.truncate("events_statements_histogram_by_digest").unwrap();
    assert_eq!(of_digests(&mut schema), 0);
    assert_eq!(counts(&mut schema).values().sum::<u64>(), digests, "what is counted stays");
    let rows = schema.rows_where("events_statements_summary_by_digest", &[("SCHEMA_NAME", "h")]).unwrap();
    assert!(rows.iter().all(|row| row.text("QUANTILE_95") == "0" && row.text("QUANTILE_999") == "0"));
    load(&server, 2, 50);
    // The end of a connection's last statement follows its answer.
    let digests = crate::until(|| of_digests(&mut schema), |count| *count >= 102);
    assert_eq!(digests, 102, "with two of DO");
    schema.truncate("events_statements_summary_by_digest").unwrap();
    assert_eq!(of_digests(&mut schema), 0);
    assert!(global(&mut schema) >= all);
    schema.truncate("events_statements_summary_global_by_event_name").unwrap();
    assert!(global(&mut schema) < all, "with the summary of all");
    load(&server, 2, 100);
    assert!(global(&mut schema) >= 200);
    schema.truncate("events_statements_histogram_global").unwrap();
    assert!(global(&mut schema) < 200);
    let counted = schema.sum("events_statements_summary_global_by_event_name", &[], "COUNT_STAR").unwrap();
    assert!(counted >= 200, "by itself, it leaves the summary alone");
}
