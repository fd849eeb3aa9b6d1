//! TRUNCATE empties histories and digests, and sets summaries to zero with their rows kept.

use tare_testkit::schema::SchemaConnection;
use tare_testkit::shared_turn;

use crate::{Watched, server};

/// What is left after TRUNCATE.
#[derive(Clone, Copy, PartialEq)]
enum Left {
    /// No row of what was there.
    Nothing,
    /// The rows, with every count zero.
    Zeros,
}

/// A table, the row of it that only the watched connection fills, and what is left after TRUNCATE.
type TruncatedTable = (&'static str, &'static [(&'static str, &'static str)], Left);

const TRUNCATED: &[TruncatedTable] = &[
    ("events_statements_history_long", &[("EVENT_NAME", "statement/sql/do")], Left::Nothing),
    ("events_statements_history", &[("EVENT_NAME", "statement/sql/do")], Left::Nothing),
    ("events_stages_history_long", &[("EVENT_NAME", "stage/sql/User sleep")], Left::Nothing),
    ("events_waits_history_long", &[("EVENT_NAME", "wait/io/file/csv/data")], Left::Nothing),
    ("events_transactions_history_long", &[("EVENT_NAME", "transaction")], Left::Nothing),
    ("events_statements_summary_global_by_event_name", &[("EVENT_NAME", "statement/sql/do")], Left::Zeros),
    ("events_stages_summary_global_by_event_name", &[("EVENT_NAME", "stage/sql/User sleep")], Left::Zeros),
    ("events_waits_summary_global_by_event_name", &[("EVENT_NAME", "wait/io/file/csv/data")], Left::Zeros),
    ("events_transactions_summary_global_by_event_name", &[("EVENT_NAME", "transaction")], Left::Zeros),
    ("events_statements_summary_by_digest", &[("DIGEST_TEXT", "DO ?")], Left::Nothing),
    ("file_summary_by_event_name", &[("EVENT_NAME", "wait/io/file/csv/data")], Left::Zeros),
    ("file_summary_by_instance", &[("EVENT_NAME", "wait/io/file/csv/data")], Left::Zeros),
    ("table_io_waits_summary_by_index_usage", &[("OBJECT_NAME", "t"), ("OBJECT_SCHEMA", "t")], Left::Zeros),
    ("table_io_waits_summary_by_table", &[("OBJECT_NAME", "t"), ("OBJECT_SCHEMA", "t")], Left::Zeros),
    ("table_lock_waits_summary_by_table", &[("OBJECT_NAME", "t"), ("OBJECT_SCHEMA", "t")], Left::Zeros),
    ("objects_summary_global_by_type", &[("OBJECT_NAME", "t"), ("OBJECT_SCHEMA", "t")], Left::Zeros),
];

/// By-thread tables, and an instrument the watched connection passes, but not while it rests.
const BY_THREAD: &[(&str, &str)] = &[
    ("events_statements_summary_by_thread_by_event_name", "statement/sql/do"),
    ("events_stages_summary_by_thread_by_event_name", "stage/sql/User sleep"),
    ("events_waits_summary_by_thread_by_event_name", "wait/io/file/csv/data"),
    ("events_transactions_summary_by_thread_by_event_name", "transaction"),
];

fn work(watched: &mut Watched) {
    for sql in [
        "DO 1",
        "DO SLEEP(0.001)",
        "INSERT INTO t.c VALUES (1)",
        "SELECT * FROM t.c",
        "INSERT INTO t.t VALUES (NULL)",
        "SELECT * FROM t.t WHERE a = 1",
        "SELECT 2",
    ] {
        watched.run(sql);
    }
}

/// The sum of everything that counts in some rows.
fn counts(schema: &mut SchemaConnection, table: &str, filter: &[(&str, &str)]) -> (usize, u64) {
    let rows = schema.rows_where(table, filter).unwrap();
    let counts = rows.iter().flat_map(|row| {
        row.columns()
            .iter()
            .filter(|c| c.starts_with("COUNT_") || c.starts_with("SUM_"))
            .map(|c| row.number(c))
    });
    (rows.len(), counts.flatten().sum())
}

#[test]
fn truncate_does_what_the_manual_says() {
    let _turn = shared_turn();
    let server = server();
    let mut schema = server.schema().unwrap();
    let mut watched = Watched::connect(&server, &mut schema);
    watched.run("CREATE DATABASE t");
    watched.run("CREATE TABLE t.c (a INT NOT NULL) ENGINE=CSV");
    watched.run("CREATE TABLE t.t (a INT AUTO_INCREMENT PRIMARY KEY) ENGINE=InnoDB");
    for (table, filter, left) in TRUNCATED {
        // Other connections begin transactions too: only the watched one's are looked at where that is
        // possible.
        let thread = watched.thread.clone();
        let mut filter = filter.to_vec();
        if *table == "events_transactions_history_long" {
            filter.push(("THREAD_ID", &thread));
        }
        work(&mut watched);
        let (rows, sum) = counts(&mut schema, table, &filter);
        assert!(rows > 0, "{table} has rows before");
        assert!(sum > 0 || *left == Left::Nothing, "{table} has counts before");
        schema.truncate(table).unwrap();
        let (rows_after, sum_after) = counts(&mut schema, table, &filter);
        match left {
            Left::Nothing => assert_eq!(rows_after, 0, "{table}"),
            Left::Zeros if *table == "events_transactions_summary_global_by_event_name" => {
                assert!(sum_after < sum, "{table}: {sum_after} of {sum} are left");
            }
            Left::Zeros => assert_eq!((rows_after, sum_after), (rows, 0), "{table}"),
        }
    }
}

#[test]
fn truncate_by_thread_resets_every_thread() {
    let _turn = shared_turn();
    let server = server();
    let mut schema = server.schema().unwrap();
    let mut watched = Watched::connect(&server, &mut schema);
    watched.run("CREATE DATABASE t");
    watched.run("CREATE TABLE t.c (a INT NOT NULL) ENGINE=CSV");
    watched.run("CREATE TABLE t.t (a INT AUTO_INCREMENT PRIMARY KEY) ENGINE=InnoDB");
    for (table, name) in BY_THREAD {
        work(&mut watched);
        let filter = [("THREAD_ID", watched.thread.as_str()), ("EVENT_NAME", name)];
        let (rows, sum) = counts(&mut schema, table, &filter);
        assert!(rows > 0 && sum > 0, "{table} has counts before");
        schema.truncate(table).unwrap();
        assert_eq!(counts(&mut schema, table, &filter), (rows, 0), "{table}");
    }
}

#[test]
fn truncate_of_memory_keeps_what_is_in_use() {
    let _turn = shared_turn();
    let server = server();
    let mut schema = server.schema().unwrap();
    let mut watched = Watched::connect(&server, &mut schema);
    watched.run("SET @kept = REPEAT('x', 100000)");
    let filter = [("THREAD_ID", watched.thread.as_str()), ("EVENT_NAME", "memory/sql/user_var_entry::value")];
    let table = "memory_summary_by_thread_by_event_name";
    let used = |schema: &mut SchemaConnection, column: &str| -> i64 {
        schema.value(table, &filter, column).unwrap().unwrap().parse().unwrap()
    };
    let before = used(&mut schema, "CURRENT_NUMBER_OF_BYTES_USED");
    assert!(before >= 100_000, "{before}");
    schema.truncate(table).unwrap();
    assert_eq!(used(&mut schema, "CURRENT_NUMBER_OF_BYTES_USED"), before);
    assert_eq!(used(&mut schema, "HIGH_NUMBER_OF_BYTES_USED"), before);
    assert_eq!(used(&mut schema, "LOW_NUMBER_OF_BYTES_USED"), before);
    let counted = used(&mut schema, "COUNT_ALLOC") - used(&mut schema, "COUNT_FREE");
    assert_eq!(counted, used(&mut schema, "CURRENT_COUNT_USED"));
}
