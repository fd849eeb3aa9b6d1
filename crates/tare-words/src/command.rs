//! Commands of the client protocol, as process lists and general logs name them.

/// The names of MariaDB's commands, by number.
const FIRST: [&str; 32] = [
    "Sleep",
    "Quit",
    "Init DB",
    "Query",
    "Field List",
    "Create DB",
    "Drop DB",
    "Refresh",
    "Shutdown",
    "Statistics",
    "Processlist",
    "Connect",
    "Kill",
    "Debug",
    "Ping",
    "Time",
    "Delayed insert",
    "Change user",
    "Binlog Dump",
    "Table Dump",
    "Connect Out",
    "Register Slave",
    "Prepare",
    "Execute",
    "Long Data",
    "Close stmt",
    "Reset stmt",
    "Set option",
    "Fetch",
    "Daemon",
    "Unimpl get tid",
    "Reset connection",
];
/// The number of the first of [`LAST`].
const FIRST_OF_LAST: i32 = 250;
/// The names of MariaDB's highest numbers.
const LAST: [&str; 4] = ["Bulk_execute", "Slave_worker", "Slave_IO", "Slave_SQL"];
/// The name of any other number.
const UNKNOWN: &str = "Error";
/// Names that other servers have: MySQL, and MariaDB before 10.6.
const OTHERS: [&str; 9] = [
    "Binlog Dump GTID",
    "Clone",
    "Com_multi",
    "Group Replication Data Stream subscription",
    "Multi",
    "Register Replica",
    "Reset Connection",
    "Subscribe Group Replication Stream",
    "clone",
];

/// Returns MariaDB's name of the command with this number, as the process list shows it; `Error` for a number
/// that no command has.
///
/// # Examples
///
/// ```
/// use tare_words::command;
///
/// assert_eq!([command::name(0), command::name(3), command::name(250)], ["Sleep", "Query", "Bulk_execute"]);
/// assert_eq!(command::name(99), "Error");
/// ```
#[must_use]
#[allow(clippy::cast_sign_loss)] // from 0 on
pub const fn name(number: i32) -> &'static str {
    match number {
        0..32 => FIRST[number as usize],
        FIRST_OF_LAST..=253 => LAST[(number - FIRST_OF_LAST) as usize],
        _ => UNKNOWN,
    }
}

/// Returns a command's name if MariaDB or MySQL have one of this name.
#[must_use]
pub fn known(name: &[u8]) -> Option<&'static str> {
    let all = FIRST.iter().chain(&LAST).chain(&OTHERS).chain([&UNKNOWN]);
    all.copied().find(|known| known.as_bytes() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_have_the_names_of_the_process_list() {
        let names = [0, 3, 17, 29, 31, 250, 253].map(name);
        let expected =
            ["Sleep", "Query", "Change user", "Daemon", "Reset connection", "Bulk_execute", "Slave_SQL"];
        assert_eq!(names, expected);
        assert_eq!([-1, 32, 99, 249, 254, i32::MAX, i32::MIN].map(name), ["Error"; 7]);
    }

    #[test]
    fn names_are_known_whoever_has_them() {
        for it in ["Query", "Slave_IO", "Binlog Dump GTID", "Reset Connection", "Error"] {
            assert_eq!(known(it.as_bytes()), Some(it));
        }
        assert_eq!([known(b"query"), known(b""), known(b"Query ")], [None; 3]);
    }
}
