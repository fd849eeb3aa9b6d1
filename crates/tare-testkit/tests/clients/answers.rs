//! What the recipes answer that `recipes` only runs: the right rows and figures, on statements that are
//! known.

use std::collections::HashMap;

use mysql::prelude::Queryable;
use mysql::{Conn, Row};
use tare_testkit::server::Server;
use tare_testkit::turn;

use crate::recipes::{background, execute, recipe, run, text, until};
use crate::subject;

/// The values of some columns; "NULL" for NULL.
fn values<const N: usize>(row: &Row, columns: [&str; N]) -> [String; N] {
    columns.map(|column| text(row, column).unwrap_or("NULL".to_owned()).trim().to_owned())
}

fn number(row: &Row, column: &str) -> f64 {
    text(row, column).unwrap().parse().unwrap()
}

/// The one row whose column has this value.
fn row<'r>(rows: &'r [Row], column: &str, value: &str) -> &'r Row {
    let is_it = |row: &&Row| text(row, column).is_some_and(|it| it.trim() == value);
    let found: Vec<&Row> = rows.iter().filter(is_it).collect();
    assert_eq!(found.len(), 1, "rows with {column} {value} in {rows:?}");
    found[0]
}

fn has(rows: &[Row], column: &str, value: &str) -> bool {
    rows.iter().any(|row| text(row, column).is_some_and(|it| it.trim() == value))
}

/// A schema with a table of 1,000 rows; `a` has no index and ten values, `b` has an index.
fn shop(server: &Server) -> Conn {
    let mut conn = server.client().unwrap();
    let statements = [
        "CREATE DATABASE shop",
        "USE shop",
        "CREATE TABLE orders (id INT PRIMARY KEY, a INT, b INT, note TEXT, KEY b (b))",
        "INSERT INTO orders SELECT seq, seq % 10, seq, 'x' FROM seq_1_to_1000",
    ];
    execute(&mut conn, &statements);
    conn
}

#[test]
fn what_runs_and_which_transactions_are_open() {
    let _turn = turn();
    let Some(server) = subject() else { return };
    let mut conn = server.client().unwrap();
    shop(&server);
    let mut holder = server.client().unwrap();
    let update = "UPDATE shop.orders SET a = 1 WHERE id = 1";
    execute(&mut holder, &["BEGIN", update]);
    let holder_id = holder.connection_id().to_string();
    let (sleeping, sleeper) = background(&server, "DO SLEEP(100)");
    let sleeping_id = sleeping.to_string();

    let now = &recipe("What runs right now")[0];
    let is_there = |rows: &[Row]| {
        rows.iter().any(|row| {
            values(row, ["PROCESSLIST_ID", "stage"]) == [sleeping_id.as_str(), "stage/sql/User sleep"]
        })
    };
    let rows = until(&mut conn, now, is_there);
    assert_eq!(rows.len(), 1, "the idle one runs nothing, and the asker is left out: {rows:?}");
    assert_eq!(values(&rows[0], ["SQL_TEXT", "PROCESSLIST_USER"]), ["DO SLEEP(100)", "root"]);

    let open = &recipe("Which transactions are open")[0];
    let columns = ["PROCESSLIST_COMMAND", "ACCESS_MODE", "ISOLATION_LEVEL", "AUTOCOMMIT"];
    let wanted = ["Sleep", "READ WRITE", "REPEATABLE READ", "NO"];
    // A statement ends a moment after its answer.
    let idle = |rows: &[Row]| {
        rows.iter().any(|row| {
            text(row, "PROCESSLIST_ID").as_ref() == Some(&holder_id) && values(row, columns) == wanted
        })
    };
    until(&mut conn, open, idle);

    let left = &recipe("Who left a transaction open")[0];
    let rows = run(&mut conn, left);
    assert_eq!(values(&rows[0], ["PROCESSLIST_ID", "last_statement"]), [holder_id.as_str(), update]);
    assert!(!has(&rows, "PROCESSLIST_ID", &sleeping_id), "it works: {rows:?}");
    execute(&mut holder, &["COMMIT"]);
    for block in [open, left] {
        until(&mut conn, block, |rows| !has(rows, "PROCESSLIST_ID", &holder_id));
    }
    execute(&mut conn, &[&format!("KILL QUERY {sleeping}")]);
    sleeper.join().unwrap();
}

#[test]
fn statements_are_found_by_what_they_do() {
    let _turn = turn();
    let Some(server) = subject() else { return };
    let mut conn = server.client().unwrap();
    let mut shop = shop(&server);
    for _ in 0..11 {
        execute(&mut shop, &["SELECT COUNT(*) FROM orders WHERE a = 5"]);
    }
    execute(
        &mut shop,
        &["SELECT id FROM orders WHERE b = 7", "SELECT note, COUNT(*) FROM orders GROUP BY note"],
    );
    let failing = "SELECT nothing FROM orders";
    shop.query_drop(failing).unwrap_err();
    execute(&mut shop, &["SELECT 2"]);

    let scan = "SELECT COUNT ( * ) FROM `orders` WHERE `a` = ?";
    let without_index = run(&mut conn, &recipe("Which statements use no index")[0]);
    let columns = ["calls", "without_index", "without_good_index", "examined"];
    assert_eq!(values(row(&without_index, "DIGEST_TEXT", scan), columns), ["11", "11", "0", "11000"]);
    assert!(
        !has(&without_index, "DIGEST_TEXT", "SELECT ID FROM `orders` WHERE `b` = ?"),
        "{without_index:?}"
    );

    let wasteful = run(&mut conn, &recipe("Which statements read far more rows than they send")[0]);
    let columns = ["calls", "examined", "sent", "examined_per_sent"];
    assert_eq!(values(row(&wasteful, "DIGEST_TEXT", scan), columns), ["11", "11000", "11", "1000"]);

    let grouped = "SELECT `note` , COUNT ( * ) FROM `orders` GROUP BY `note`";
    let on_disk = run(&mut conn, &recipe("Which statements write temporary tables to disk")[0]);
    let columns = ["calls", "temporary_tables", "on_disk"];
    assert_eq!(values(row(&on_disk, "DIGEST_TEXT", grouped), columns), ["1", "1", "1"]);

    let [by_digest, last] = &recipe("Which statements fail")[..] else { panic!("two blocks") };
    let failed = run(&mut conn, by_digest);
    let columns = ["calls", "errors"];
    assert_eq!(values(row(&failed, "DIGEST_TEXT", "SELECT `nothing` FROM `orders`"), columns), ["1", "1"]);
    let last = run(&mut conn, last);
    let columns = ["CURRENT_SCHEMA", "MYSQL_ERRNO", "RETURNED_SQLSTATE", "SQL_TEXT"];
    assert_eq!(values(&last[0], columns), ["shop", "1054", "42S22", failing]);
    assert!(text(&last[0], "MESSAGE_TEXT").unwrap().contains("nothing"), "{last:?}");

    let new = run(&mut conn, &recipe("Which statements are new")[0]);
    assert_eq!(values(row(&new, "DIGEST_TEXT", scan), ["calls"]), ["11"]);
}

#[test]
fn programs_and_prepared_statements_are_counted() {
    let _turn = turn();
    let Some(server) = subject() else { return };
    let mut conn = server.client().unwrap();
    let mut shop = shop(&server);
    shop.query_drop("CREATE PROCEDURE twice() BEGIN DO 1; DO 2; END").unwrap();
    execute(&mut shop, &["CALL twice()", "CALL twice()", "CALL twice()"]);
    execute(&mut shop, &["PREPARE plus FROM 'SELECT ? + 1'", "SET @x = 1"]);
    execute(&mut shop, &["EXECUTE plus USING @x", "EXECUTE plus USING @x", "DO 3"]);

    let programs = run(&mut conn, &recipe("Which stored programs take the most time")[0]);
    let columns = ["OBJECT_TYPE", "OBJECT_SCHEMA", "calls", "statements"];
    assert_eq!(values(row(&programs, "OBJECT_NAME", "twice"), columns), ["PROCEDURE", "shop", "3", "6"]);

    let prepared = run(&mut conn, &recipe("Which prepared statements are there")[0]);
    let columns = ["PROCESSLIST_ID", "PROCESSLIST_USER", "SQL_TEXT", "executions", "prepared_again"];
    let id = shop.connection_id().to_string();
    let wanted = [id.as_str(), "root", "SELECT ? + 1", "2", "0"];
    assert_eq!(values(row(&prepared, "STATEMENT_NAME", "plus"), columns), wanted);
}

#[test]
fn tables_indexes_and_files_are_found_by_their_use() {
    let _turn = turn();
    let Some(server) = subject() else { return };
    let mut conn = server.client().unwrap();
    let mut shop = shop(&server);
    execute(
        &mut shop,
        &[
            "UPDATE orders SET a = 3 WHERE id <= 20",
            "DELETE FROM orders WHERE id = 1000",
            "SELECT id FROM orders WHERE b = 7",
            "SELECT id FROM orders WHERE b = 8",
            "DO 1",
        ],
    );
    let tables = run(&mut conn, &recipe("Which tables are busiest")[0]);
    let orders = row(&tables, "OBJECT_NAME", "orders");
    assert_eq!(
        values(orders, ["OBJECT_SCHEMA", "inserted", "updated", "deleted"]),
        ["shop", "1000", "20", "1"]
    );
    assert!(tables.windows(2).all(|pair| number(&pair[0], "total_s") >= number(&pair[1], "total_s")));

    let indexes = run(&mut conn, &recipe("Which index serves a table")[0]);
    let of_orders: Vec<Row> =
        indexes.into_iter().filter(|row| text(row, "OBJECT_NAME").as_deref() == Some("orders")).collect();
    let by_key = row(&of_orders, "INDEX_NAME", "PRIMARY");
    assert_eq!(values(by_key, ["updated", "deleted"]), ["20", "1"]);
    let by_b = number(row(&of_orders, "INDEX_NAME", "b"), "fetched");
    // A row each, and in each search perhaps the next one, which is no longer it.
    assert!((2.0..=4.0).contains(&by_b), "{by_b}");

    let files = run(&mut conn, &recipe("Which files are read and written most")[0]);
    let bytes = |row: &Row| number(row, "bytes_read") + number(row, "bytes_written");
    assert!(files.windows(2).all(|pair| bytes(&pair[0]) >= bytes(&pair[1])), "{files:?}");
    assert!(files.iter().any(|row| text(row, "FILE_NAME").unwrap().contains("ibdata1")), "{files:?}");
}

#[test]
fn waits_and_stages_are_in_order_of_their_time() {
    let _turn = turn();
    let Some(server) = subject() else { return };
    let mut conn = server.client().unwrap();
    execute(&mut conn, &["DO SLEEP(0.7)", "DO SLEEP(0.7)", "DO 1"]);
    let stages = run(&mut conn, &recipe("In which stages do statements spend their time")[0]);
    let sleep = row(&stages, "EVENT_NAME", "stage/sql/User sleep");
    assert_eq!(values(sleep, ["times"]), ["2"]);
    assert!(number(sleep, "total_s") >= 1.4 && number(sleep, "average_us") >= 700_000.0, "{sleep:?}");
    let mut holder = server.client().unwrap();
    execute(&mut holder, &["DO GET_LOCK('till', 1)"]);
    // Waits a second for what the other has.
    execute(&mut conn, &["DO GET_LOCK('till', 1)"]);
    let waits = run(&mut conn, &recipe("What does the server wait for")[0]);
    for rows in [&stages, &waits] {
        assert!(
            rows.windows(2).all(|pair| number(&pair[0], "total_s") >= number(&pair[1], "total_s")),
            "{rows:?}"
        );
    }
    let lock = row(&waits, "EVENT_NAME", "wait/lock/metadata/sql/mdl");
    assert!(number(lock, "maximum_ms") >= 900.0, "{waits:?}");
    let is_idle = |row: &Row| text(row, "EVENT_NAME").is_some_and(|it| it == "idle" || it.contains("/cond/"));
    assert!(!waits.iter().any(is_idle), "{waits:?}");
}

#[test]
fn clients_are_told_apart() {
    let _turn = turn();
    let Some(server) = subject() else { return };
    let mut conn = server.client().unwrap();
    let mut shop = shop(&server);
    shop.query_drop("CREATE PROCEDURE slow() BEGIN DO SLEEP(0.5); DO SLEEP(0.5); END").unwrap();
    execute(
        &mut shop,
        &["CREATE USER worker@localhost IDENTIFIED BY 'w'", "GRANT ALL ON shop.* TO worker@localhost"],
    );
    let worker = || {
        let attributes = HashMap::from([("program_name".to_owned(), "shop-worker".to_owned())]);
        let options = server.client_options().user(Some("worker")).pass(Some("w"));
        Conn::new(options.connect_attrs(Some(attributes))).unwrap()
    };
    drop(worker());
    let mut one = worker();
    let mut other = worker();
    execute(&mut one, &["CALL shop.slow()", "SELECT 1", "SELECT 2"]);
    execute(&mut other, &["SELECT REPEAT('x', 5000000)"]);
    one.query_drop("SELECT nothing").unwrap_err();
    execute(&mut one, &["DO 1"]);

    let connected = &recipe("Who connects, and how often")[0];
    let two = |rows: &[Row]| {
        rows.iter()
            .any(|row| values(row, ["USER", "HOST", "open_now", "made"]) == ["worker", "localhost", "2", "3"])
    };
    until(&mut conn, connected, two);

    let programs = run(&mut conn, &recipe("With which programs do clients connect")[0]);
    assert_eq!(values(row(&programs, "program", "shop-worker"), ["connections"]), ["2"]);

    let bytes = run(&mut conn, &recipe("Which connections send and receive most")[0]);
    let id = other.connection_id().to_string();
    assert_eq!(values(&bytes[0], ["PROCESSLIST_ID", "PROCESSLIST_USER"]), [id.as_str(), "worker"]);
    assert!(number(&bytes[0], "sent") >= 5e6 && number(&bytes[0], "received") < 1e6, "{bytes:?}");

    // Time within a procedure is part of the CALL's: it counts once.
    let accounts = run(&mut conn, &recipe("Which accounts load the server")[0]);
    let total = number(row(&accounts, "USER", "worker"), "total_s");
    let sql = "SELECT SUM_TIMER_WAIT / 1e12 FROM performance_schema.events_statements_summary_by_digest \
               WHERE DIGEST_TEXT LIKE 'CALL%'";
    let call: f64 = conn.query_first(sql).unwrap().unwrap();
    assert!(
        call >= 1.0 && total >= call && total < 1.9 * call,
        "{total} with a call of {call}: {accounts:?}"
    );
    assert_eq!(values(row(&accounts, "USER", "worker"), ["errors"]), ["1"]);
}
