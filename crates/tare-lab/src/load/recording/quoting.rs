//! Random statements that quote logs, equal for equal seeds, for tests of log parsers.

use tare_server::sql;

/// Lines that look like a log's own.
const LINES: [&str; 22] = [
    "# Time: 261123  9:54:29",
    "# Time: 2026-11-23T09:54:29.250000Z",
    "# User@Host: root[root] @ localhost []",
    "# User@Host: app[app] @ web1 [10.0.0.7]  Id:    12",
    "# Thread_id: 3  Schema: a shop  QC_hit: No",
    "# Query_time: 0.000290  Lock_time: 0.000000  Rows_sent: 0  Rows_examined: 0",
    "# Rows_affected: 0  Bytes_sent: 11",
    "# Text_bytes: 3",
    "# Stored_routine: shop.p",
    "Schema: shop  Last_errno: 0  Killed: 0",
    "use shop;",
    "SET timestamp=1795427669;",
    "delete from t;",
    "# administrator command: Quit;",
    "mariadbd, Version: 10.11.19-MariaDB-log (Debian 12). started with:",
    "Tcp port: 0  Unix socket: /tmp/s",
    "261123  9:54:29\t     3 Query\tdelete from t",
    "\t\t     3 Query\tdrop table t",
    "2026-11-23T09:54:29.250000Z\t    8 Query\tdelete from t",
    "\t\t     3 Quit\t",
    "\t\t     3 Connect\troot@localhost on shop using Socket",
    "\t\t     3 Execute\tdelete from t where a = 'x'",
];
/// A record of each kind of log, quoted as a whole.
const RECORDS: [&str; 3] = [
    "# User@Host: root[root] @ localhost []\n# Thread_id: 3  Schema: shop  QC_hit: No\n\
     # Query_time: 0.000290  Lock_time: 0.000000  Rows_sent: 1  Rows_examined: 9\nSET timestamp=1795427669;\ndelete from t;\n",
    "# Time: 2026-11-23T09:54:29.250000Z\n# User@Host: a[a] @ h []  Id:    12\n\
     # Query_time: 0.1  Lock_time: 0.0 Rows_sent: 1  Rows_examined: 1\nSET timestamp=1795427669;\ndrop table t;\n",
    "\t\t     3 Query\tdelete from t\n261123  9:54:29\t     4 Quit\t\n",
];
/// Other pieces of texts.
const PIECES: [&str; 14] =
    [" ", "x", ";", "'", "\"", "\\", "--", "#", "/*", "...", "\r\n", "\n", "\u{fc}", "?"];

/// Returns a text that a client may put between quotes.
pub(super) fn literal(random: &mut fastrand::Rng) -> String {
    let mut text = String::new();
    for _ in 0..random.usize(0..7) {
        match random.u8(0..4) {
            0 => text.push_str(RECORDS[random.usize(0..RECORDS.len())]),
            1 => text.push_str(PIECES[random.usize(0..PIECES.len())]),
            _ => {
                text.push_str(if random.bool() { "\n" } else { "\r\n" });
                text.push_str(LINES[random.usize(0..LINES.len())]);
                text.push_str(if random.bool() { "\n" } else { ";\n" });
            }
        }
    }
    text
}

/// Returns a valid statement that quotes something.
pub(super) fn statement(random: &mut fastrand::Rng) -> String {
    let text = literal(random);
    let quoted = sql::literal(&text);
    let comment = text.replace("*/", "").replace("/*", "");
    match random.u8(0..6) {
        0 => format!("insert into t values (\"{}\")", text.replace('\\', "\\\\").replace('"', "\\\"")),
        1 => format!("select /* {comment} */ 1"),
        2 => format!("begin not atomic select {quoted}; select 2; end"),
        3 => format!("select 1 as {}", sql::identifier(&text)),
        _ => format!("select {quoted}, 'end'"),
    }
}
