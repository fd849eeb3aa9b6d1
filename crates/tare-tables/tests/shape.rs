//! Every declared table has the built-in's shape, and says what it is.

use std::collections::{BTreeMap, BTreeSet};

use tare_tables::{Access, ColumnSet, STREAMS, Shape, TABLES, Table, ddl, mysql};

/// Facts about the built-in's columns; regenerate with `reference/regenerate.sh`.
const FACTS: &str = include_str!("reference/10.11.tsv");

/// Tables of tare's own, which the built-in does not have.
const OWN: [&str; 5] =
    ["tare_active_session_history", "tare_decisions", "tare_levels", "tare_prices", "tare_status"];

/// The built-in's `CREATE TABLE` of each table, put together from the facts.
fn reference() -> BTreeMap<&'static str, String> {
    let mut columns: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for line in FACTS.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let &[table, position, name, sql_type, nullable, collation, default] = fields.as_slice() else {
            panic!("not seven fields: {line}");
        };
        let columns = columns.entry(table).or_default();
        columns.push(declaration(name, sql_type, nullable, collation, default));
        assert_eq!(position, columns.len().to_string(), "{line}");
    }
    let create = |(table, columns): (&'static str, Vec<String>)| {
        (table, format!("CREATE TABLE `{table}` (\n{}\n)", columns.join(",\n")))
    };
    columns.into_iter().map(create).collect()
}

fn declaration(name: &str, sql_type: &str, nullable: &str, collation: &str, default: &str) -> String {
    let collate = match collation {
        "-" | "utf8mb3_general_ci" => String::new(),
        other => format!(" CHARACTER SET utf8mb3 COLLATE {other}"),
    };
    let not_null = if nullable == "NO" { " NOT NULL" } else { "" };
    let default = if default == "-" { String::new() } else { format!(" DEFAULT {default}") };
    format!("  `{name}` {sql_type}{collate}{not_null}{default}")
}

#[test]
fn ddl_is_the_references() {
    let reference = reference();
    for table in TABLES {
        match reference.get(table.name()) {
            Some(wanted) => assert_eq!(&ddl(*table), wanted),
            None => assert!(OWN.contains(&table.name()), "{} is not in the built-in", table.name()),
        }
    }
}

/// Every column of MySQL's table is there, in its order, and what MariaDB has besides comes behind.
#[test]
fn extended_columns_stand_in_mysqls_order() {
    for table in Shape::Extended.tables() {
        let mysqls: Vec<&str> = mysql::columns(table.name()).iter().map(|it| it.name).collect();
        let of_mysqls = |name: &&str| mysqls.contains(name);
        let names = || table.columns().iter().map(|it| it.name);
        let wanted: Vec<&str> = mysqls.iter().copied().filter(|name| names().any(|it| it == *name)).collect();
        assert_eq!(names().take(wanted.len()).collect::<Vec<_>>(), wanted, "{}", table.name());
        assert!(!names().skip(wanted.len()).any(|it| of_mysqls(&it)), "{}", table.name());
    }
}

/// MySQL's, with the widths MariaDB prints and without its primary key, which is the installer's.
#[test]
fn setup_threads_is_mysqls() {
    let wanted = "CREATE TABLE `setup_threads` (\n  `NAME` varchar(128) NOT NULL,\n  `ENABLED` enum('YES','NO') NOT NULL,\n  \
                  `HISTORY` enum('YES','NO') NOT NULL,\n  `PROPERTIES` set('singleton','user') NOT NULL,\n  \
                  `VOLATILITY` int(11) NOT NULL,\n  `DOCUMENTATION` longtext DEFAULT NULL\n)";
    let is_it = |table: &&&dyn Table| table.name() == "setup_threads";
    assert_eq!(ddl(*Shape::Extended.tables().iter().find(is_it).expect("the table")), wanted);
    assert!(!TABLES.iter().any(|table| is_it(&table)), "the built-in does not have it");
}

#[test]
fn names_are_unique() {
    let mut names = BTreeSet::new();
    for table in Shape::Extended.tables() {
        assert!(names.insert(table.name()), "two tables {}", table.name());
        assert_eq!(table.name(), table.name().to_lowercase());
        let columns: BTreeSet<&str> = table.columns().iter().map(|column| column.name).collect();
        assert_eq!(columns.len(), table.columns().len(), "two columns of one name in {}", table.name());
    }
}

/// A sentence that says more than the name does.
fn says_something(doc: &str, name: &str) -> bool {
    let words = |text: &str| text.to_lowercase().replace(|it: char| !it.is_alphanumeric(), " ");
    let more = words(doc).split_whitespace().any(|word| word.len() > 3 && !words(name).contains(word));
    more && doc.ends_with('.') && doc.starts_with(|it: char| it.is_uppercase() || it.is_numeric())
}

#[test]
fn everything_is_documented() {
    for table in Shape::Extended.tables() {
        assert!(says_something(table.doc(), table.name()) && table.doc().len() > 30, "{}", table.name());
        assert!(!table.doc().contains('|') && !table.doc().contains("  "), "{}", table.name());
        for column in table.columns() {
            let at = format!("{}.{}: {}", table.name(), column.name, column.doc);
            let is_absent = column.doc == mysql::ABSENT;
            assert!(says_something(column.doc, column.name) || is_absent, "{at}");
            assert!(!column.doc.contains(['|', '\n']) && !column.doc.contains("  "), "{at}");
        }
    }
}

#[test]
fn indexes_begin_with_what_is_asked_for() {
    for table in Shape::Extended.tables() {
        for index in table.indexes() {
            assert!(!index.is_empty(), "{}", table.name());
            assert!(index.iter().all(|column| *column < table.columns().len()), "{}", table.name());
        }
    }
    // Many events have one name, so they are found by their thread only; tables of replication are empty.
    let apart = |table: &str, column: &str| {
        let events = ["_current", "_history", "_history_long"].iter().any(|suffix| table.ends_with(suffix));
        events && column != "THREAD_ID" || table.starts_with("replication_")
    };
    for column in ["THREAD_ID", "EVENT_NAME", "DIGEST", "OBJECT_SCHEMA"] {
        for table in Shape::Extended.served() {
            let has = table.columns().iter().position(|it| it.name == column);
            let Some(at) = has.filter(|_| !apart(table.name(), column)) else { continue };
            assert!(table.indexes().iter().any(|index| index[0] == at), "{} by {column}", table.name());
        }
    }
    let first = |name: &str| {
        let table = Shape::Extended.tables().iter().find(|table| table.name() == name).expect(name);
        let columns = table.indexes()[0].iter().map(|column| table.columns()[*column].name);
        columns.collect::<Vec<_>>().join(", ")
    };
    assert_eq!(first("events_statements_current"), "THREAD_ID, EVENT_ID");
    assert_eq!(first("events_waits_history_long"), "THREAD_ID, EVENT_ID");
    assert_eq!(first("events_waits_summary_by_thread_by_event_name"), "THREAD_ID, EVENT_NAME");
    assert_eq!(first("events_statements_summary_by_digest"), "SCHEMA_NAME, DIGEST");
    assert_eq!(first("table_io_waits_summary_by_table"), "OBJECT_TYPE, OBJECT_SCHEMA, OBJECT_NAME");
}

/// What the built-in answered when each command was tried on it, table by table.
#[test]
fn access_is_the_references() {
    let editable = ["setup_actors", "setup_objects"];
    let updatable = [
        "tare_levels",
        "tare_status",
        "setup_instruments",
        "setup_consumers",
        "setup_timers",
        "setup_threads",
        "threads",
    ];
    let read_only = [
        "tare_prices",
        "tare_decisions",
        "session_connect_attrs",
        "performance_timers",
        "file_instances",
        "socket_instances",
        "mutex_instances",
        "rwlock_instances",
        "cond_instances",
        "metadata_locks",
        "table_handles",
        "global_status",
        "session_status",
        "user_variables_by_thread",
        "session_account_connect_attrs",
        "replication_connection_configuration",
        "replication_applier_configuration",
        "replication_applier_status",
        "replication_applier_status_by_coordinator",
        "replication_applier_status_by_worker",
        // The built-in empties its cache of host names, under a lock of the host's: TRUNCATE is refused, and
        // says so.
        "host_cache",
    ];
    for table in TABLES {
        let wanted = match table.name() {
            name if editable.contains(&name) => Access::Edit,
            name if updatable.contains(&name) => Access::Update,
            name if read_only.contains(&name) => Access::Read,
            _ => Access::Truncate,
        };
        assert_eq!(table.access(), wanted, "{}", table.name());
    }
}

#[test]
fn every_column_can_be_asked_for() {
    let all =
        Shape::Extended.tables().iter().chain(TABLES).map(|table| (table.name(), table.columns().len()));
    let streams = STREAMS.iter().map(|stream| (stream.name(), stream.columns().len()));
    for (name, columns) in all.chain(streams) {
        assert!(columns <= ColumnSet::MOST, "{name} has {columns} columns");
    }
}
