//! Groups of tables: a page each, by what is asked of them.

/// A group of tables that share a page of the documentation.
pub(super) struct TableGroup {
    /// Name of its page, without `.md`.
    pub(super) file: &'static str,
    pub(super) title: &'static str,
    /// What a reader finds there, as the end of the page's third line.
    pub(super) about: &'static str,
    /// A query to begin with.
    pub(super) example: &'static str,
}

const REST: &str = "server";

/// All groups in the order of the index.
pub(super) static GROUPS: &[TableGroup] = &[
    TableGroup {
        file: "tare",
        title: "tare itself",
        about: "what tare says of itself: its state, what it costs, what it lost, what it decided.",
        example: "SELECT * FROM performance_schema.tare_status WHERE NAME IN ('state', 'level', 'lost', 'budget_share');",
    },
    TableGroup {
        file: "setup",
        title: "what is recorded",
        about: "what is recorded, of whom, and how to change it.",
        example: "UPDATE performance_schema.setup_instruments SET ENABLED = 'NO' WHERE NAME LIKE 'stage/%';",
    },
    TableGroup {
        file: "statements",
        title: "statements",
        about: "which statements ran, how long they took, and what they read: one by one, and summed.",
        example: "SELECT DIGEST_TEXT, COUNT_STAR, SUM_TIMER_WAIT FROM performance_schema.events_statements_summary_by_digest\n \
                  ORDER BY SUM_TIMER_WAIT DESC LIMIT 10;",
    },
    TableGroup {
        file: "transactions",
        title: "transactions",
        about: "which transactions are open, and how long transactions took.",
        example: "SELECT THREAD_ID, TIMER_WAIT FROM performance_schema.events_transactions_current WHERE STATE = 'ACTIVE';",
    },
    TableGroup {
        file: "stages",
        title: "stages",
        about: "which steps of the server's work statements go through, and how long they stay in each.",
        example: "SELECT EVENT_NAME, COUNT_STAR, SUM_TIMER_WAIT FROM performance_schema.events_stages_summary_global_by_event_name\n \
                  ORDER BY SUM_TIMER_WAIT DESC LIMIT 10;",
    },
    TableGroup {
        file: "waits",
        title: "waits",
        about: "what threads wait for: locks, files, sockets, rows of tables.",
        example: "SELECT EVENT_NAME, COUNT_STAR, SUM_TIMER_WAIT FROM performance_schema.events_waits_summary_global_by_event_name\n \
                  ORDER BY SUM_TIMER_WAIT DESC LIMIT 10;",
    },
    TableGroup {
        file: "locks",
        title: "locks",
        about: "who holds which lock, and who waits for it.",
        example: "SELECT OBJECT_SCHEMA, OBJECT_NAME, LOCK_TYPE, LOCK_STATUS, OWNER_THREAD_ID FROM performance_schema.metadata_locks;",
    },
    TableGroup {
        file: "table-io",
        title: "use of tables and indexes",
        about: "which tables and indexes are read and written, and how long that takes.",
        example: "SELECT OBJECT_SCHEMA, OBJECT_NAME, COUNT_READ, COUNT_WRITE FROM performance_schema.table_io_waits_summary_by_table\n \
                  ORDER BY SUM_TIMER_WAIT DESC LIMIT 10;",
    },
    TableGroup {
        file: "files-and-sockets",
        title: "files and sockets",
        about: "which files and connections are read and written, how much, and how long it takes.",
        example: "SELECT FILE_NAME, COUNT_READ, COUNT_WRITE FROM performance_schema.file_summary_by_instance\n \
                  ORDER BY SUM_TIMER_WAIT DESC LIMIT 10;",
    },
    TableGroup {
        file: "memory",
        title: "memory",
        about: "what the server's memory is used for, and by whom.",
        example: "SELECT EVENT_NAME, CURRENT_NUMBER_OF_BYTES_USED FROM performance_schema.memory_summary_global_by_event_name\n \
                  ORDER BY CURRENT_NUMBER_OF_BYTES_USED DESC LIMIT 10;",
    },
    TableGroup {
        file: "errors",
        title: "errors",
        about: "which errors statements met, how often, and what the server wrote into its error log.",
        example: "SELECT ERROR_NAME, SUM_ERROR_RAISED FROM performance_schema.events_errors_summary_global_by_error\n \
                  WHERE SUM_ERROR_RAISED > 0;      -- shape = extended",
    },
    TableGroup {
        file: "connections",
        title: "threads, connections and accounts",
        about: "who is connected, from where, with which program, and what each thread does.",
        example: "SELECT PROCESSLIST_ID, PROCESSLIST_USER, PROCESSLIST_STATE, PROCESSLIST_INFO FROM performance_schema.threads;",
    },
    TableGroup {
        file: "status-and-variables",
        title: "status and variables",
        about: "status counters and variables, of the server and of each connection.",
        example: "SELECT * FROM performance_schema.global_status WHERE VARIABLE_NAME LIKE 'Threads%';",
    },
    TableGroup {
        file: "replication",
        title: "replication",
        about: "how a replica is set up and what its threads do.",
        example: "SELECT CHANNEL_NAME, SERVICE_STATE FROM performance_schema.replication_applier_status;",
    },
    TableGroup {
        file: REST,
        title: "MySQL's other tables",
        about: "tables of the shape `extended` that agents written for MySQL look for. Most are empty on MariaDB.",
        example: "SELECT * FROM performance_schema.innodb_redo_log_files;      -- shape = extended",
    },
];

/// Which group a name belongs to: the first part that it begins with. Names that end with `_` stand for all
/// that begin so.
static NAMES: &[(&str, &[&str])] = &[
    ("tare", &["tare_"]),
    (
        "setup",
        &[
            "setup_instruments",
            "setup_consumers",
            "setup_actors",
            "setup_objects",
            "setup_threads",
            "setup_timers",
            "performance_timers",
        ],
    ),
    ("statements", &["events_statements_", "prepared_statements_"]),
    ("transactions", &["events_transactions_"]),
    ("stages", &["events_stages_"]),
    ("waits", &["events_waits_"]),
    ("locks", &["metadata_locks", "table_handles", "data_lock", "mutex_", "rwlock_", "cond_"]),
    ("table-io", &["table_io_", "table_lock_", "objects_summary_"]),
    ("files-and-sockets", &["file_", "socket_"]),
    ("memory", &["memory_"]),
    ("errors", &["events_errors_", "error_log"]),
    (
        "connections",
        &[
            "threads",
            "processlist",
            "accounts",
            "users",
            "hosts",
            "session_connect_",
            "session_account_",
            "host_cache",
            "tls_",
        ],
    ),
    (
        "status-and-variables",
        &[
            "global_",
            "session_status",
            "session_variables",
            "status_by_",
            "variables_",
            "user_variables_",
            "persisted_",
        ],
    ),
    ("replication", &["replication_", "binary_log_", "log_status"]),
];

/// Returns the group of a table: its page, without `.md`.
pub(super) fn of(table: &str) -> &'static str {
    let is_of = |names: &[&str]| names.iter().any(|name| table.starts_with(name));
    NAMES.iter().find(|(_, names)| is_of(names)).map_or(REST, |(group, _)| group)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::{Shape, TABLES};

    #[test]
    fn no_group_is_empty_and_no_name_is_of_none() {
        for group in GROUPS {
            assert!(Shape::Extended.tables().iter().any(|it| of(it.name()) == group.file), "{}", group.file);
        }
        for (group, names) in NAMES {
            assert!(GROUPS.iter().any(|it| it.file == *group), "{group}");
            for name in *names {
                assert!(Shape::Extended.tables().iter().any(|it| it.name().starts_with(name)), "{name}");
            }
        }
    }

    #[test]
    fn examples_name_tables_of_their_group_and_columns_that_are_there() {
        for group in GROUPS {
            let named = group.example.split("performance_schema.").nth(1).unwrap_or_default();
            let name =
                named.split(|it: char| !it.is_ascii_lowercase() && it != '_').next().unwrap_or_default();
            assert_eq!(of(name), group.file, "{}", group.example);
            let table = Shape::Extended.tables().iter().find(|it| it.name() == name).expect(name);
            let words = group.example.split(|it: char| !it.is_ascii_uppercase() && it != '_');
            for word in words.filter(|word| word.contains('_') && word.len() > 1) {
                assert!(table.columns().iter().any(|it| it.name == word), "{word}: {}", group.example);
            }
        }
    }

    /// Tables that only MySQL has are left over.
    #[test]
    fn every_table_of_mariadb_has_a_group() {
        let rest: Vec<&str> = TABLES.iter().map(|it| it.name()).filter(|name| of(name) == REST).collect();
        assert!(rest.is_empty(), "{rest:?} belong to a group of `NAMES`");
    }
}
