//! General logs: every command a server was sent, when it came. Times are in whole seconds on MariaDB, where what came in a second is
//! spread over it evenly, in its order.

use std::collections::BTreeMap;
use std::io::BufRead;

use super::line::lines;
use super::moment::{Moment, Spread, moment_of};
use super::take::{Sighting, Take};
use super::token::{tokens, used_schema};

/// Commands as the log names them, other than those below.
const OTHERS: [&str; 22] = [
    "Sleep",
    "Field List",
    "Create DB",
    "Drop DB",
    "Refresh",
    "Shutdown",
    "Statistics",
    "Processlist",
    "Connect Out",
    "Kill",
    "Debug",
    "Ping",
    "Time",
    "Delayed insert",
    "Binlog Dump",
    "Table Dump",
    "Register Slave",
    "Long Data",
    "Close stmt",
    "Reset stmt",
    "Fetch",
    "Reset connection",
];
/// Commands that matter.
const KNOWN: [&str; 7] = ["Query", "Execute", "Prepare", "Connect", "Init DB", "Change user", "Quit"];

/// Reads a log; `None` if it is no general log.
pub fn read(log: impl BufRead) -> std::io::Result<Option<Take>> {
    let mut reader = Reader::default();
    let (mut is_general_log, mut is_whole) = (false, true);
    for line in lines(log) {
        let line = line?;
        is_whole = line.is_whole;
        let line = line.text;
        if let Some(command) = command_of(&line) {
            is_general_log = true;
            reader.end_command();
            reader.time = command.time.or(reader.time);
            reader.command = Some(command);
        } else if line.ends_with(b"started with:") && line.windows(11).any(|part| part == b", Version: ") {
            reader.end_command();
            reader.command = None;
            reader.take.end_all();
            reader.sessions.clear();
        } else if let Some(command) = &mut reader.command {
            command.argument.push(b'\n');
            command.argument.extend_from_slice(&line);
        }
    }
    if let Some(last) = &mut reader.command {
        last.is_cut = !is_whole;
    }
    reader.end_command();
    for (at, seen) in reader.spread.rest() {
        reader.take.add(at, seen);
    }
    Ok(is_general_log.then_some(reader.take))
}

/// A command, as far as it was read.
#[derive(Debug)]
struct Command {
    time: Option<Moment>,
    connection: u64,
    name: &'static str,
    argument: Vec<u8>,
    /// Whether the log ends within a line of it.
    is_cut: bool,
}

/// What is known of a connection.
#[derive(Debug, Default)]
struct Session {
    schema: Option<String>,
    /// Whether its last query was an EXECUTE, for which the server logs a command of its own.
    executes: bool,
}

#[derive(Debug, Default)]
struct Reader {
    take: Take,
    spread: Spread<Sighting>,
    time: Option<Moment>,
    sessions: BTreeMap<u64, Session>,
    command: Option<Command>,
}

impl Reader {
    fn end_command(&mut self) {
        let Some(command) = self.command.take() else { return };
        let argument = String::from_utf8_lossy(&command.argument).trim_end().to_owned();
        let session = self.sessions.entry(command.connection).or_default();
        match command.name {
            "Connect" | "Change user" => session.schema = schema_of(&argument),
            "Init DB" => session.schema = Some(argument),
            "Quit" => {
                self.take.end(command.connection);
                self.sessions.remove(&command.connection);
            }
            "Query" => {
                let first = tokens(&argument).next();
                session.executes = first.is_some_and(|t| t.is("EXECUTE"));
                let schema = session.schema.clone();
                session.schema = used_schema(&argument).or(schema.clone());
                self.see(&command, schema);
            }
            "Execute" if std::mem::take(&mut session.executes) => {}
            "Execute" => {
                let schema = session.schema.clone();
                self.see(&command, schema);
            }
            _ => {}
        }
    }

    fn see(&mut self, command: &Command, schema: Option<String>) {
        if command.is_cut {
            return self.take.leave_out_cut();
        }
        let Some(time) = self.time else { return self.take.leave_out("when they ran is not told", 1) };
        let session = self.take.session(command.connection);
        let seen = Sighting { session, took: None, schema, text: command.argument.clone() };
        let placed = self.spread.add(time, seen);
        placed.into_iter().for_each(|(at, seen)| self.take.add(at, seen));
    }
}

/// Reads `261123  9:54:29\t     3 Query\tselect 1`, in which the time may be missing.
fn command_of(line: &[u8]) -> Option<Command> {
    let tab = line.iter().position(|b| *b == b'\t')?;
    let time = std::str::from_utf8(&line[..tab]).ok()?.trim();
    let time = if time.is_empty() { None } else { Some(moment_of(time)?) };
    let rest = line[tab..].trim_ascii_start();
    let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    let connection = std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()?;
    let rest = rest[digits..].strip_prefix(b" ")?;
    let (name, argument) = match rest.iter().position(|b| *b == b'\t') {
        Some(end) => (&rest[..end], &rest[end + 1..]),
        None => (rest, &rest[rest.len()..]),
    };
    let name = KNOWN.iter().chain(&OTHERS).find(|known| known.as_bytes() == name)?;
    Some(Command { time, connection, name, argument: argument.to_vec(), is_cut: false })
}

/// Of `root@localhost on shop using Socket`.
fn schema_of(connected: &str) -> Option<String> {
    let behind = connected.rsplit_once(" on ")?.1;
    let schema = behind.split(" using ").next()?.trim();
    (!schema.is_empty() && !behind.starts_with("using ")).then(|| schema.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::Recording;

    fn recording(log: &str) -> Recording {
        read(log.as_bytes()).expect("it is read").expect("a general log").finish("a test".into(), true)
    }

    fn texts(recording: &Recording) -> Vec<(u32, Option<&str>, &str)> {
        recording.statements.iter().map(|s| (s.session, s.schema.as_deref(), s.text.as_str())).collect()
    }

    #[test]
    fn mariadbs_log_is_read() {
        let log = "mariadbd, Version: 10.11.19-MariaDB-log (Debian 12). started with:
Tcp port: 0  Unix socket: /tmp/s
Time\t\t    Id Command\tArgument
261123  9:54:29\t     3 Connect\troot@localhost on  using Socket
\t\t     3 Query\tcreate database shop
\t\t     3 Init DB\tshop
\t\t     4 Connect\troot@localhost on other using TCP/IP
\t\t     3 Query\tselect 'x
\ty'
\t\t     3 Query\tprepare s from 'select ?'
\t\t     3 Prepare\tselect ?
\t\t     3 Query\texecute s using @a
\t\t     3 Execute\tselect 1
\t\t     3 Prepare\tselect ? + 1
261123  9:54:30\t     3 Execute\tselect 7 + 1
\t\t     4 Query\tuse shop
\t\t     4 Query\tselect 2
\t\t     3 Close stmt\t
\t\t     3 Quit\t
\t\t     3 Connect\troot@localhost on  using Socket
\t\t     3 Query\tselect 3
";
        let recording = recording(log);
        assert_eq!(
            texts(&recording),
            [
                (1, None, "create database shop"),
                (1, Some("shop"), "select 'x\n\ty'"),
                (1, Some("shop"), "prepare s from 'select ?'"),
                (1, Some("shop"), "execute s using @a"),
                (1, Some("shop"), "select 7 + 1"),
                (2, Some("other"), "use shop"),
                (2, Some("shop"), "select 2"),
                (3, None, "select 3"),
            ]
        );
        let at: Vec<f64> = recording.statements.iter().map(|s| s.at).collect();
        assert_eq!(at, [0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75], "{at:?}");
    }

    #[test]
    fn mysqls_log_is_read() {
        let log = "/usr/sbin/mysqld, Version: 8.0.36 (MySQL Community Server - GPL). started with:
Tcp port: 3306  Unix socket: /tmp/s
Time                 Id Command    Argument
2026-11-23T09:54:29.250000Z\t    8 Connect\tapp@web1 on shop using SSL/TLS
2026-11-23T09:54:29.300000Z\t    8 Query\tselect 1
2026-11-23T09:54:29.400000Z\t    8 Query\tcommit
";
        let recording = recording(log);
        assert_eq!(texts(&recording), [(1, Some("shop"), "select 1"), (1, Some("shop"), "commit")]);
        assert_eq!((recording.begun, recording.statements[1].at), (Some(1_795_427_669.3), 0.1));
    }

    #[test]
    fn the_last_statement_of_a_log_that_is_cut_off_is_left_out() {
        let log = "261123  9:54:29\t     3 Query\tselect 1
\t\t     3 Query\tselect 'x
y'
\t\t     3 Query\tdelete from orders where id = 7
";
        let whole = ["select 1", "select 'x\ny'", "delete from orders where id = 7"];
        for end in 0..=log.len() {
            let Some(take) = read(&log.as_bytes()[..end]).expect("it is read") else { continue };
            let recording = take.finish("a test".into(), true);
            let texts: Vec<&str> = recording.statements.iter().map(|s| s.text.as_str()).collect();
            // What ends with a line cannot be told from a whole statement.
            let told = whole.starts_with(&texts) || log[..end].ends_with("select 'x\n");
            assert!(told, "{:?}: {texts:?}", &log[..end]);
        }
        let cut = recording(log.split_once(" where").expect("a condition").0);
        assert_eq!(texts(&cut), [(1, None, "select 1"), (1, None, "select 'x\ny'")]);
        assert_eq!(cut.left_out, BTreeMap::from([("their text was cut short".to_owned(), 1)]));
        assert_eq!(texts(&recording(log)).len(), 3);
    }

    #[test]
    fn another_file_is_no_general_log() {
        for other in ["", "select 1;\n", "# Time: 261123  9:54:29\n# User@Host: x\n", "a\t1 Query\tx\n"] {
            assert!(read(other.as_bytes()).expect("it is read").is_none(), "{other:?}");
        }
    }
}
