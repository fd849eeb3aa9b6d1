//! Errors of a command, as protocol error packets.

use std::fmt::Display;

use tare_tables::TableError;

/// An error packet. Number, SQLSTATE and text are those that the built-in uses for the same mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ErrorPacket {
    pub(crate) code: u16,
    pub(crate) state: &'static str,
    pub(crate) message: String,
}

/// The hint for clients that use unsupported SQL.
const SUPPORTED: &str = "tare's endpoint answers SELECT columns or COUNT/SUM/MIN/MAX FROM one table, with WHERE, ORDER BY \
                         and LIMIT, UNION ALL of such for digests, and the writes the table allows; for more, query \
                         performance_schema through the server";

impl ErrorPacket {
    pub(crate) fn new(code: u16, state: &'static str, message: impl Into<String>) -> Self {
        ErrorPacket { code, state, message: message.into() }
    }

    /// Refuses the creation of another table that leads here, in the words of the built-in.
    pub(crate) fn not_another_table() -> Self {
        let text = "Can't create table like one of performance_schema (errno: 131 \"Command not supported by the engine\")";
        ErrorPacket::new(1005, "HY000", text)
    }

    pub(crate) fn too_many_connections() -> Self {
        ErrorPacket::new(1040, "08004", "Too many connections")
    }

    pub(crate) fn bad_handshake() -> Self {
        ErrorPacket::new(1043, "08S01", "Bad handshake")
    }

    pub(crate) fn not_a_peer() -> Self {
        ErrorPacket::new(1045, "28000", "Access denied: this socket serves the server's own user only")
    }

    /// Refuses a table name used by a session of a server. The session may have been directed here without a
    /// grant.
    pub(crate) fn not_by_this_name() -> Self {
        let text = "Access denied: only the tables installed in performance_schema lead to its rows (if this is one of \
                    them, it was installed anew: FLUSH TABLES)";
        ErrorPacket::new(1045, "28000", text)
    }

    pub(crate) fn unknown_command(command: u8) -> Self {
        let text = format!("Unknown command {command}: tare's endpoint speaks the text protocol only");
        ErrorPacket::new(1047, "08S01", text)
    }

    pub(crate) fn null_value(column: &str) -> Self {
        ErrorPacket::new(1048, "23000", format!("Column '{column}' cannot be null"))
    }

    pub(crate) fn unknown_database(name: &str) -> Self {
        ErrorPacket::new(1049, "42000", format!("Unknown database '{name}'"))
    }

    pub(crate) fn unknown_column(name: &str) -> Self {
        ErrorPacket::new(1054, "42S22", format!("Unknown column '{name}'"))
    }

    pub(crate) fn syntax(message: impl Display) -> Self {
        ErrorPacket::new(
            1064,
            "42000",
            format!("You have an error in your SQL syntax: {message}; {SUPPORTED}"),
        )
    }

    pub(crate) fn no_thread() -> Self {
        ErrorPacket::new(1135, "HY000", "Can't create a new thread")
    }

    pub(crate) fn value_count(row: usize) -> Self {
        ErrorPacket::new(1136, "21S01", format!("Column count doesn't match value count at row {row}"))
    }

    pub(crate) fn unknown_table(schema: &str, table: &str) -> Self {
        ErrorPacket::new(1146, "42S02", format!("Table '{schema}.{table}' doesn't exist"))
    }

    pub(crate) fn packet_too_big() -> Self {
        ErrorPacket::new(1153, "08S01", "Got a packet bigger than 'max_allowed_packet' bytes")
    }

    pub(crate) fn out_of_order() -> Self {
        ErrorPacket::new(1156, "08S01", "Got packets out of order")
    }

    pub(crate) fn read_timeout() -> Self {
        ErrorPacket::new(1159, "08S01", "Got timeout reading communication packets")
    }

    pub(crate) fn unknown_variable(name: &str) -> Self {
        ErrorPacket::new(1193, "HY000", format!("Unknown system variable '{name}'"))
    }

    pub(crate) fn unsupported(what: impl Display) -> Self {
        ErrorPacket::new(1235, "42000", format!("{what} is not supported here: {SUPPORTED}"))
    }

    /// Refuses a SELECT from a stream that would need to hold or discard rows.
    pub(crate) fn only_forwards() -> Self {
        let text = "A stream is read forwards, each row once: SELECT columns FROM it, with WHERE, but without ORDER BY, LIMIT, \
                    COUNT and the like";
        ErrorPacket::new(1235, "42000", text)
    }

    /// Refuses a transaction to the sessions of servers. Writes through installed tables need none.
    pub(crate) fn no_transactions() -> Self {
        let text = "Transactions are not supported: only the tables installed in performance_schema can be written (if this is \
                    one of them, the error log says why it cannot)";
        ErrorPacket::new(1235, "42000", text)
    }

    pub(crate) fn out_of_range(column: &str) -> Self {
        ErrorPacket::new(1264, "22003", format!("Out of range value for column '{column}' at row 1"))
    }

    pub(crate) fn bad_value(column: &str) -> Self {
        ErrorPacket::new(1265, "01000", format!("Data truncated for column '{column}' at row 1"))
    }

    pub(crate) fn different_counts() -> Self {
        ErrorPacket::new(1222, "21000", "The used SELECT statements have a different number of columns")
    }

    pub(crate) fn unknown_time_zone(name: &str) -> Self {
        ErrorPacket::new(
            1298,
            "HY000",
            format!("Unknown or incorrect time zone: '{name}' (tables are served in UTC)"),
        )
    }

    pub(crate) fn no_default(column: &str) -> Self {
        ErrorPacket::new(1364, "HY000", format!("Field '{column}' doesn't have a default value"))
    }

    pub(crate) fn too_much_to_hold() -> Self {
        ErrorPacket::new(
            1038,
            "HY001",
            "Out of memory for rows held at once; add a LIMIT or a narrower WHERE",
        )
    }

    pub(crate) fn stopping() -> Self {
        ErrorPacket::new(1053, "08S01", "Server shutdown in progress")
    }

    pub(crate) fn internal() -> Self {
        ErrorPacket::new(
            1815,
            "HY000",
            "Internal error: the table's reader failed, its reason is in the server's error log",
        )
    }

    /// Converts a table's refusal of a write.
    pub(crate) fn of_table(error: &TableError, table: &str, user: &str) -> Self {
        match error {
            TableError::WrongUsage => ErrorPacket::new(1683, "HY000", "Invalid performance_schema usage"),
            TableError::Denied(command) => {
                let text = format!(
                    "{command} command denied to user '{user}'@'localhost' for table `performance_schema`.`{table}`"
                );
                ErrorPacket::new(1142, "42000", text)
            }
            TableError::Duplicate => ErrorPacket::new(
                1062,
                "23000",
                format!("Duplicate entry in table 'performance_schema.{table}'"),
            ),
            TableError::Full => ErrorPacket::new(1114, "HY000", format!("The table '{table}' is full")),
            TableError::NoReference => {
                let text = "Cannot add or update a child row: a foreign key constraint fails";
                ErrorPacket::new(1452, "23000", text)
            }
            TableError::BadValue(column) => ErrorPacket::bad_value(column),
            TableError::WrongValue { name, value, allowed } => {
                let value: String = value.chars().take(64).collect();
                let text = format!("Variable '{name}' can't be set to the value of '{value}': {allowed}");
                ErrorPacket::new(1231, "42000", text)
            }
        }
    }
}
