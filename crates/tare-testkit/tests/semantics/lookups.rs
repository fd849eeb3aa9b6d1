//! Lookups by index find what a look at every row finds, and only that is sent.

use mysql::Conn;
use mysql::prelude::Queryable;
use tare_testkit::server::{Server, StartSettings};
use tare_testkit::shared_turn;
use tare_testkit::subject::TestProvider;

/// What stands for the rows of a query whatever their order: how many, and a sum over the columns.
fn digest(columns: &[String]) -> String {
    let marked: Vec<String> = columns.iter().map(|column| format!("IFNULL({column}, '~NULL')")).collect();
    format!("COUNT(*), SUM(CRC32(CONCAT_WS('|', {})))", marked.join(", "))
}

fn one<T: mysql::prelude::FromRow>(conn: &mut Conn, sql: &str) -> T {
    conn.query_first(sql).unwrap_or_else(|error| panic!("{sql}: {error}")).unwrap()
}

/// The columns of each index of each table of tare's, in order: table, index, columns.
fn indexes(conn: &mut Conn) -> Vec<(String, String, Vec<String>)> {
    let sql = "SELECT s.table_name, index_name, GROUP_CONCAT(column_name ORDER BY seq_in_index) \
               FROM information_schema.statistics s JOIN information_schema.tables t USING (table_schema, table_name) \
               WHERE table_schema = 'performance_schema' AND engine = 'FEDERATED' GROUP BY 1, 2 ORDER BY 1, 2";
    let found: Vec<(String, String, String)> = conn.query(sql).unwrap();
    found
        .into_iter()
        .map(|(table, index, columns)| (table, index, columns.split(',').map(str::to_owned).collect()))
        .collect()
}

/// What a row holds in the columns, as SQL literals; `None` is NULL.
fn samples(conn: &mut Conn, columns: &[String]) -> Vec<Vec<Option<String>>> {
    let quoted: Vec<String> = columns.iter().map(|column| format!("QUOTE({column})")).collect();
    let sql = format!("SELECT {} FROM own.copy", quoted.join(", "));
    let all: Vec<mysql::Row> = conn.query(sql).unwrap();
    // The first one is asked for in every way.
    let places = [all.len() / 2, 0, all.len().saturating_sub(1)];
    let mut sampled = Vec::new();
    for at in places.into_iter().filter(|at| *at < all.len()) {
        let literal = |value| match mysql::from_value::<String>(value) {
            null if null == "NULL" => None,
            literal => Some(literal),
        };
        sampled.push(all[at].clone().unwrap().into_iter().map(literal).collect());
    }
    sampled
}

/// What is true of a row, column by column.
fn equalities(columns: &[String], row: &[Option<String>]) -> Vec<String> {
    let equal = |(column, value): (&String, &Option<String>)| match value {
        None => format!("{column} IS NULL"),
        Some(value) => format!("{column} = {value}"),
    };
    columns.iter().zip(row).map(equal).collect()
}

/// Conditions an index of these columns is good for, with the values of a row.
fn conditions(columns: &[String], row: &[Option<String>]) -> Vec<String> {
    let mut all = Vec::new();
    let parts = equalities(columns, row);
    for length in 1..=parts.len() {
        all.push(parts[..length].join(" AND "));
    }
    for (at, (column, value)) in columns.iter().zip(row).enumerate().take(2) {
        let before = parts[..at].iter().map(|part| format!("{part} AND ")).collect::<String>();
        let Some(value) = value else {
            all.push(format!("{before}{column} IS NOT NULL"));
            continue;
        };
        for comparison in
            ["> {}", ">= {}", "< {}", "<= {}", "<> {}", "BETWEEN {} AND {}", "IN ({}, '', 1)", "<=> {}"]
        {
            all.push(format!("{before}{column} {}", comparison.replace("{}", value)));
        }
        let text = value.trim_matches('\'');
        if !text.is_empty() && text.parse::<f64>().is_err() {
            let half: String = text.chars().take(text.chars().count().div_ceil(2)).collect();
            all.push(format!("{before}{column} LIKE '{half}%'"));
            for other in [text.to_uppercase(), text.to_lowercase(), format!("{text}  "), half] {
                all.push(format!("{before}{column} = '{other}'"));
            }
        }
    }
    all
}

/// SELECTs and rows the endpoint has answered.
fn answered(conn: &mut Conn) -> [u64; 2] {
    let rows: Vec<(String, String)> = conn
        .query("SELECT name, value FROM performance_schema.tare_status WHERE name LIKE 'endpoint%'")
        .unwrap();
    ["endpoint_selects", "endpoint_rows"]
        .map(|wanted| rows.iter().find(|(name, _)| name == wanted).unwrap().1.parse().unwrap())
}

/// A server with something in every table that now changes no more, as far as it can be stopped.
fn quiet_server() -> Option<(Server, Conn, Vec<Conn>)> {
    let settings = StartSettings::new(TestProvider::tare()).option("--table-definition-cache=2000");
    let server = Server::start(settings).unwrap();
    if !server.serves_tables() {
        println!("skipped: without FEDERATED the tables have no indexes");
        return None;
    }
    let mut conn = server.client().unwrap();
    for sql in [
        "CREATE DATABASE own",
        "CREATE TABLE own.t (a INT PRIMARY KEY, b INT, KEY (b))",
        "INSERT INTO own.t VALUES (1, 1), (2, 2)",
        "CREATE PROCEDURE own.p() SELECT COUNT(*) FROM own.t",
        "CALL own.p()",
        "CREATE PROCEDURE own.q() SELECT 1",
        "CALL own.q()",
        "CREATE USER Other@localhost",
        "GRANT SELECT ON own.* TO Other@localhost",
        "INSERT INTO performance_schema.setup_objects VALUES ('TABLE', 'Own', 'x', 'YES', 'YES')",
        "PREPARE one FROM 'SELECT 1'",
        "CREATE TABLE own.ids AS SELECT MAX(THREAD_ID) AS THREAD_ID, MAX(DIGEST) AS digest \
         FROM performance_schema.threads, performance_schema.events_statements_summary_by_digest",
        "SET max_statement_time = 30",
    ] {
        conn.query_drop(sql).unwrap();
    }
    let open = (0..6).map(|number| {
        let user = if number % 2 == 0 { "root" } else { "Other" };
        let mut conn = Conn::new(server.client_options().user(Some(user)).db_name(Some("own"))).unwrap();
        conn.query_drop("SELECT * FROM t WHERE b = 2").unwrap();
        conn.query_drop("SELECT 'é', 1 + 1").unwrap();
        // A transaction that stays open holds a metadata lock.
        conn.query_drop("BEGIN").unwrap();
        conn.query_drop("SELECT a FROM t").unwrap();
        conn
    });
    let open = open.collect();
    conn.query_drop(
        "UPDATE performance_schema.setup_consumers SET ENABLED = 'NO' WHERE NAME = 'global_instrumentation'",
    )
    .unwrap();
    Some((server, conn, open))
}

/// A condition on a table's rows that leaves out what only the statement that asks has: a metadata lock of
/// its own is at another address in the next one.
fn lasting(table: &str, thread: u64) -> String {
    if table == "metadata_locks" { format!("OWNER_THREAD_ID <> {thread}") } else { "TRUE".to_owned() }
}

/// Copies the columns of an index; the copy has the same types and collations and no index.
fn copy(conn: &mut Conn, table: &str, columns: &[String], lasting: &str) {
    let columns = columns.join(", ");
    conn.query_drop(format!(
        "CREATE OR REPLACE TEMPORARY TABLE own.copy ENGINE=InnoDB \
         AS SELECT {columns} FROM performance_schema.{table} WHERE {lasting}"
    ))
    .unwrap();
}

#[test]
fn an_index_finds_what_a_look_at_every_row_finds() {
    let _turn = shared_turn();
    let Some((_server, mut conn, _open)) = quiet_server() else { return };
    let indexes = indexes(&mut conn);
    assert!(indexes.len() > 100, "{}", indexes.len());
    let thread = one(
        &mut conn,
        "SELECT THREAD_ID FROM performance_schema.threads WHERE PROCESSLIST_ID = CONNECTION_ID()",
    );
    let (mut compared, mut found, mut empty) = (0, 0, Vec::new());
    for (table, index, columns) in &indexes {
        let lasting = lasting(table, thread);
        copy(&mut conn, table, columns, &lasting);
        let list = digest(columns);
        let samples = samples(&mut conn, columns);
        if samples.is_empty() {
            empty.push(format!("{table}.{index}"));
        }
        let first = &columns[0];
        let join = |operator: &str, of: &str| {
            format!(
                "SELECT STRAIGHT_JOIN {list} FROM (SELECT DISTINCT {first} AS wanted FROM own.copy LIMIT 20) AS w \
                 JOIN {of} ON {first} {operator} wanted"
            )
        };
        let indexed = format!("performance_schema.{table} FORCE INDEX ({index})");
        let mut asked: Vec<(String, String)> = ["=", "<=>"]
            .map(|operator| {
                (format!("{} WHERE {lasting}", join(operator, &indexed)), join(operator, "own.copy"))
            })
            .into();
        let equalities =
            samples.iter().skip(1).map(|row| equalities(columns, row)).map(|all| all.join(" AND "));
        let conditions = samples.iter().take(1).flat_map(|row| conditions(columns, row));
        for condition in conditions.chain(equalities) {
            asked.push((
                format!("SELECT {list} FROM {indexed} WHERE {condition} AND {lasting}"),
                format!("SELECT {list} FROM own.copy WHERE {condition}"),
            ));
        }
        for (by_index, by_looking) in asked {
            let mut answers: [(u64, Option<u64>); 2] =
                [&by_index, &by_looking].map(|sql| one(&mut conn, sql));
            // Files, locks and threads come and go; what is wrong stays wrong.
            for _ in 0..5 {
                if answers[0] == answers[1] {
                    break;
                }
                copy(&mut conn, table, columns, &lasting);
                answers = [&by_index, &by_looking].map(|sql| one(&mut conn, sql));
            }
            assert_eq!(answers[0], answers[1], "{by_index}");
            compared += 1;
            found += usize::from(answers[0].0 > 0);
        }
    }
    println!("{compared} lookups, {found} with rows; empty: {empty:?}");
    assert!(compared > 2000 && found > compared / 2, "{found} of {compared}");
    assert!(empty.len() < 4, "{empty:?}");
}

#[test]
fn only_what_is_looked_up_is_sent() {
    let _turn = shared_turn();
    let Some((_server, mut conn, _open)) = quiet_server() else { return };
    // What asking how much it was costs.
    let own: Vec<u64> =
        answered(&mut conn).into_iter().zip(answered(&mut conn)).map(|(a, b)| b - a).collect();
    let mut sent = |sql: &str| {
        let before = answered(&mut conn);
        let rows: Vec<mysql::Row> = conn.query(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        let after = answered(&mut conn);
        (rows.len() as u64, after[0] - before[0] - own[0], after[1] - before[1] - own[1])
    };
    for (table, condition) in [
        ("threads", "THREAD_ID = (SELECT THREAD_ID FROM own.ids)"),
        ("threads", "PROCESSLIST_ID = CONNECTION_ID()"),
        ("events_statements_history", "THREAD_ID = (SELECT THREAD_ID FROM own.ids)"),
        ("events_waits_summary_by_thread_by_event_name", "THREAD_ID = 1"),
        ("events_waits_summary_by_thread_by_event_name", "EVENT_NAME = 'wait/io/file/sql/FRM'"),
        (
            "memory_summary_by_thread_by_event_name",
            "THREAD_ID = 1 AND EVENT_NAME = 'memory/sql/thd::main_mem_root'",
        ),
        ("memory_summary_by_thread_by_event_name", "THREAD_ID = 1 AND EVENT_NAME LIKE 'memory/sql/%'"),
        ("events_waits_summary_by_account_by_event_name", "EVENT_NAME = 'wait/io/file/sql/FRM'"),
        ("events_waits_summary_by_account_by_event_name", "USER = 'Other' AND HOST = 'localhost'"),
        ("events_waits_summary_global_by_event_name", "EVENT_NAME = 'wait/io/file/sql/FRM'"),
        ("events_statements_summary_by_digest", "DIGEST = (SELECT digest FROM own.ids)"),
        ("objects_summary_global_by_type", "OBJECT_SCHEMA = 'own' AND OBJECT_NAME = 't'"),
        ("table_io_waits_summary_by_table", "OBJECT_SCHEMA = 'own' AND OBJECT_NAME LIKE 't%'"),
        (
            "table_io_waits_summary_by_index_usage",
            "OBJECT_SCHEMA = 'own' AND OBJECT_NAME = 't' AND INDEX_NAME = 'b'",
        ),
        (
            "table_lock_waits_summary_by_table",
            "OBJECT_TYPE = 'TABLE' AND OBJECT_SCHEMA = 'own' AND OBJECT_NAME = 't'",
        ),
        ("events_statements_summary_by_program", "OBJECT_SCHEMA = 'own' AND OBJECT_NAME = 'p'"),
        ("setup_instruments", "NAME = 'wait/io/file/sql/FRM'"),
    ] {
        let sql = format!("SELECT * FROM performance_schema.{table} WHERE {condition}");
        let (rows, selects, over_the_wire) = sent(&sql);
        assert!(rows > 0, "{sql}");
        assert_eq!((selects, over_the_wire), (1, rows), "{sql}");
        let (_, _, all) = sent(&format!("SELECT * FROM performance_schema.{table}"));
        assert!(all > rows, "{table}: {all}");
    }
    // A join asks once for each row of the other table.
    let join = "SELECT * FROM performance_schema.threads t \
                STRAIGHT_JOIN performance_schema.events_statements_current e ON e.THREAD_ID = t.THREAD_ID";
    let (rows, selects, over_the_wire) = sent(join);
    let (threads, _, _) = sent("SELECT * FROM performance_schema.threads");
    assert_eq!((selects, over_the_wire), (1 + threads, threads + rows));
}
