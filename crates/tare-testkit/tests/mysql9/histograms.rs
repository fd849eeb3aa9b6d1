//! Histograms of statements on MySQL 9 and on MariaDB with tare: buckets, sums and what resets them.

use mysql::Conn;
use mysql::prelude::Queryable;
use tare_testkit::mysql_server::Mysql;
use tare_testkit::schema::SchemaConnection;
use tare_testkit::turn;

/// Number and bounds of every bucket.
fn buckets(schema: &mut SchemaConnection) -> Vec<String> {
    let rows = schema.rows("events_statements_histogram_global").unwrap();
    let columns = ["BUCKET_NUMBER", "BUCKET_TIMER_LOW", "BUCKET_TIMER_HIGH"];
    rows.iter().map(|row| columns.map(|column| row.text(column)).join(" ")).collect()
}

/// Statements like no others, twenty of them.
fn work(conn: &mut Conn) {
    for n in 0..20 {
        conn.query_drop(format!("SELECT {n} + 0 AS told")).unwrap();
    }
    // The end of the last one follows its answer.
    conn.query_drop("DO 0").unwrap();
}

/// Of the statements of [`work`] by digest: how many are counted, in how many rows and with which sum the
/// histogram is, and whether its quantiles are of buckets that hold something; and whether the histogram of
/// all has as many at least.
fn state(schema: &mut SchemaConnection) -> String {
    let rows = schema.rows("events_statements_summary_by_digest").unwrap();
    let digest = rows.iter().find(|row| row.text("DIGEST_TEXT").to_lowercase().contains("told"));
    let of_digest = digest.map(|row| {
        let filter = [("DIGEST", row.text("DIGEST"))];
        let buckets = schema.rows_where("events_statements_histogram_by_digest", &filter).unwrap();
        let sum: u64 = buckets.iter().filter_map(|row| row.number("COUNT_BUCKET")).sum();
        // Each quantile is the upper bound of a bucket that holds something.
        let held = |column: &str| {
            let bound = row.text(column);
            let holds = |it: &&tare_testkit::schema::SchemaRow| it.text("BUCKET_TIMER_HIGH") == bound;
            buckets.iter().find(holds).is_some_and(|it| it.text("COUNT_BUCKET") != "0")
        };
        let held = ["QUANTILE_95", "QUANTILE_99", "QUANTILE_999"].map(held).map(u8::from);
        format!("{} counted, {} rows, sum {sum}, {held:?}", row.text("COUNT_STAR"), buckets.len())
    });
    let all = schema.sum("events_statements_histogram_global", &[], "COUNT_BUCKET").unwrap();
    format!("{of_digest:?}, of all {}", if all >= 20 { "too" } else { "not" })
}

#[test]
fn histograms_are_mysqls() {
    let _turn = turn();
    let Some(server) = super::extended() else { return };
    let Some(mysql) = Mysql::start(&[]).unwrap() else { return };
    let mut ours = (server.client().unwrap(), server.schema().unwrap());
    let mut theirs = (mysql.client().unwrap(), mysql.schema().unwrap());
    assert_eq!(buckets(&mut ours.1), buckets(&mut theirs.1));
    for table in [
        "events_statements_summary_by_digest",
        "events_statements_histogram_by_digest",
        "events_statements_histogram_global",
        "events_statements_summary_by_thread_by_event_name",
        "events_statements_summary_by_account_by_event_name",
        "events_statements_summary_global_by_event_name",
    ] {
        let states = [&mut ours, &mut theirs].map(|(conn, schema)| {
            schema.truncate("events_statements_summary_by_digest").unwrap();
            schema.truncate("events_statements_histogram_global").unwrap();
            work(conn);
            let before = state(schema);
            schema.truncate(table).unwrap();
            let truncated = state(schema);
            work(conn);
            [before, truncated, state(schema)]
        });
        println!("{table}: {:#?}", states[0]);
        assert_eq!(states[0], states[1], "TRUNCATE {table}");
    }
}
