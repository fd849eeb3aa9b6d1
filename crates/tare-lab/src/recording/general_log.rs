//! General logs: every command a server was sent, when it came. Times are in whole seconds on MariaDB, where what came in a second is
//! spread over it evenly, in its order.

use std::collections::BTreeMap;
use std::io::BufRead;

use super::moment::{Moment, Spread, moment_of};
use super::take::{Sighting, Take};
use super::token::{tokens, used_schema};

/// Commands as the log names them, other than those below.
const OTHERS: [&str; 22] = [
    "Sleep", "Field List", "Create DB", "Drop DB", "Refresh", "Shutdown", "Statistics", "Processlist", "Connect Out",
    "Kill", "Debug", "Ping", "Time", "Delayed insert", "Binlog Dump", "Table Dump", "Register Slave", "Long Data",
    "Close stmt", "Reset stmt", "Fetch", "Reset connection",
];
/// Commands that matter.
const KNOWN: [&str; 7] = ["Query", "Execute", "Prepare", "Connect", "Init DB", "Change user", "Quit"];

/// Reads a log; `None` if it is no general log.
pub fn read(log: impl BufRead) -> std::io::Result<Option<Take>> {
    let mut reader = Reader::default();
    let mut is_general_log = false;
    for line in log.split(b'\n') {
        let line = line?;
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
}

/// What is known of a connection.
#[derive(Debug, Default)]
struct Session {
    schema: Option<String>,
    /// Whether its last query was PREPARE or EXECUTE, for which the server logs a command of its own.
    prepares: bool,
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
                session.prepares = first.is_some_and(|t| t.is("PREPARE") || t.is("EXECUTE"));
                let schema = session.schema.clone();
                session.schema = used_schema(&argument).or(schema.clone());
                self.see(&command, schema);
            }
            "Execute" if !session.prepares => {
                let schema = session.schema.clone();
                self.see(&command, schema);
            }
            _ => {}
        }
    }

    fn see(&mut self, command: &Command, schema: Option<String>) {
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
    Some(Command { time, connection, name, argument: argument.to_vec() })
}

/// Of `root@localhost on shop using Socket`.
fn schema_of(connected: &str) -> Option<String> {
    let behind = connected.rsplit_once(" on ")?.1;
    let schema = behind.split(" using ").next()?.trim();
    (!schema.is_empty() && !behind.starts_with("using ")).then(|| schema.to_owned())
}
