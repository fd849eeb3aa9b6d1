//! What PMM's query analytics asks of `performance_schema`.

use mysql::prelude::Queryable;
use tare_testkit::turn;

use crate::subject;

const DIGESTS: &str = "SELECT SCHEMA_NAME, DIGEST, DIGEST_TEXT, COUNT_STAR, SUM_TIMER_WAIT, MIN_TIMER_WAIT, AVG_TIMER_WAIT, \
    MAX_TIMER_WAIT, SUM_LOCK_TIME, SUM_ERRORS, SUM_WARNINGS, SUM_ROWS_AFFECTED, SUM_ROWS_SENT, SUM_ROWS_EXAMINED, \
    SUM_CREATED_TMP_DISK_TABLES, SUM_CREATED_TMP_TABLES, SUM_SELECT_FULL_JOIN, SUM_SELECT_FULL_RANGE_JOIN, SUM_SELECT_RANGE, \
    SUM_SELECT_RANGE_CHECK, SUM_SELECT_SCAN, SUM_SORT_MERGE_PASSES, SUM_SORT_RANGE, SUM_SORT_ROWS, SUM_SORT_SCAN, \
    SUM_NO_INDEX_USED, SUM_NO_GOOD_INDEX_USED, FIRST_SEEN, LAST_SEEN \
    FROM performance_schema.events_statements_summary_by_digest WHERE DIGEST IS NOT NULL AND DIGEST_TEXT IS NOT NULL";

#[test]
fn query_analytics_finds_each_query_its_figures_and_an_example() {
    let _turn = turn();
    let Some(server) = subject() else { return };
    let mut admin = server.client().unwrap();
    for sql in ["CREATE DATABASE shop", "CREATE TABLE shop.orders (id INT PRIMARY KEY, total INT)"] {
        admin.query_drop(sql).unwrap();
    }
    for sql in [
        "CREATE USER pmm@localhost WITH MAX_USER_CONNECTIONS 10",
        "GRANT SELECT, PROCESS, REPLICATION CLIENT, RELOAD ON *.* TO pmm@localhost",
    ] {
        admin.query_drop(sql).unwrap();
    }
    let mut shop = mysql::Conn::new(server.client_options().db_name(Some("shop"))).unwrap();
    for id in 0..25 {
        shop.query_drop(format!("INSERT INTO orders VALUES ({id}, {id})")).unwrap();
    }
    shop.query_drop("SELECT total FROM orders WHERE total > 20").unwrap();
    let mut pmm = mysql::Conn::new(server.client_options().user(Some("pmm"))).unwrap();

    let consumers: Vec<(String, String)> =
        pmm.query("SELECT NAME, ENABLED FROM performance_schema.setup_consumers").unwrap();
    for name in ["events_statements_history", "events_statements_history_long", "statements_digest"] {
        assert!(consumers.contains(&(name.into(), "YES".into())), "{name}: {consumers:?}");
    }
    let statements: Vec<(String, String, String)> = pmm
        .query("SELECT NAME, ENABLED, TIMED FROM performance_schema.setup_instruments WHERE NAME LIKE 'statement/%'")
        .unwrap();
    assert!(statements.len() > 150 && statements.iter().all(|(_, on, timed)| on == "YES" && timed == "YES"));
    for name in ["performance_schema_digests_size", "performance_schema_events_statements_history_long_size"]
    {
        let shown: Vec<(String, String)> = pmm.query(format!("SHOW VARIABLES LIKE '{name}'")).unwrap();
        assert_eq!(shown.len(), 1, "{name}");
    }

    let digests: Vec<mysql::Row> = pmm.query(DIGESTS).unwrap();
    let of = |start: &str| {
        let mut found = digests.iter().filter(|row| {
            let text: Option<String> = row.get("DIGEST_TEXT").unwrap();
            row.get::<Option<String>, _>("SCHEMA_NAME").unwrap().as_deref() == Some("shop")
                && text.is_some_and(|text| text.starts_with(start))
        });
        let row = found.next().unwrap_or_else(|| panic!("no digest {start}"));
        assert!(found.next().is_none(), "more than one {start}");
        row
    };
    let number = |row: &mysql::Row, column: &str| row.get::<u64, _>(column).unwrap();
    let insert = of("INSERT INTO `orders`");
    assert_eq!((number(insert, "COUNT_STAR"), number(insert, "SUM_ROWS_AFFECTED")), (25, 25));
    assert!(number(insert, "SUM_TIMER_WAIT") >= 25 * number(insert, "MIN_TIMER_WAIT"));
    let select = of("SELECT `total`");
    let figures =
        ["COUNT_STAR", "SUM_ROWS_SENT", "SUM_ROWS_EXAMINED", "SUM_NO_INDEX_USED", "SUM_SELECT_SCAN"];
    assert_eq!(figures.map(|column| number(select, column)), [1, 4, 25, 1, 1]);

    for table in ["events_statements_history", "events_statements_history_long"] {
        let digest: String = select.get("DIGEST").unwrap();
        let examples: Vec<(String, String, String, String)> = pmm
            .exec(
                format!(
                    "SELECT SQL_TEXT, DIGEST, DIGEST_TEXT, CURRENT_SCHEMA FROM performance_schema.{table} \
                     WHERE DIGEST IS NOT NULL AND SQL_TEXT IS NOT NULL AND DIGEST = ?"
                ),
                (&digest,),
            )
            .unwrap();
        let expected = ("SELECT total FROM orders WHERE total > 20".into(), digest, "shop".into());
        let examples: Vec<_> =
            examples.into_iter().map(|(sql, digest, _, schema)| (sql, digest, schema)).collect();
        assert_eq!(examples, [expected], "{table}");
    }
}
