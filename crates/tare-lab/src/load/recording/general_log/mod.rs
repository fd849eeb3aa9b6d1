//! Parser of general logs: every command that a server received, with its time. MariaDB logs whole seconds,
//! so commands of a second are spread over it evenly, in their order.
//!
//! A statement may contain lines that look like the log's own, byte by byte. It ends where its quotes and
//! comments end and a command follows. If they do not end, it was invalid, or it quotes what follows; the log
//! does not say which. Then what follows is left out and counted, unless it is too long for a quotation.
//!
//! Statements of stored programs stand next to the statement that runs them, without a mark (`programs`).

use std::collections::BTreeMap;
use std::io::{BufRead, Result};

use super::boundary::split;
use super::line::{Lines, LogLine};
use super::moment::{LogTime, Spread};
use super::slow_log::is_banner;
use super::take::{QUOTED, Sighting, Take};
use super::token::{Dialect, Lexer, used_schema};
use command::{LoggedCommand, schema_of};
use programs::ProgramScope;
pub use programs::Programs;

mod command;
mod programs;

/// Number of commands after an unterminated text from which it counts as invalid, not as a quotation.
const QUOTATION: u64 = 100;
/// Reason for leaving out statements that no client sent.
const EVENTS: &str = "the server's event scheduler ran them";
/// Reason for leaving out statements that also belong to a stored program.
const PROGRAM: &str = "a stored program runs them itself";

/// Parses a log; `dialect` is how the server's `sql_mode` treats quotes. `None` if it is no general log.
/// `programs` are known stored programs besides those that the log creates.
pub fn read(log: impl BufRead, dialect: Dialect, programs: Programs) -> Result<Option<Take>> {
    let mut reader = GeneralLogParser {
        lines: Lines::new(log),
        take: Take::default(),
        spread: Spread::default(),
        time: None,
        sessions: BTreeMap::new(),
        connected: None,
        dialect,
        programs,
    };
    let mut is_general_log = false;
    while let Some(line) = reader.next()? {
        if let Some(mut command) = LoggedCommand::of(&line.text) {
            is_general_log = true;
            command.is_cut = !line.is_whole;
            reader.time = command.time.or(reader.time);
            if reader.rest(&mut command)? {
                reader.end(command);
            }
        } else if is_banner(&line.text) {
            reader.take.end_all();
            reader.sessions.clear();
            reader.connected = None;
        }
    }
    for (at, seen) in reader.spread.rest() {
        reader.take.add(at, seen);
    }
    Ok(is_general_log.then_some(reader.take))
}

/// The state of a connection.
#[derive(Debug, Default)]
struct LoggedSession {
    schema: Option<String>,
    /// Whether its last query was an EXECUTE, for which the server logs another command.
    executes: bool,
    dialect: Dialect,
    /// Stored programs that its last statement may have run.
    scope: ProgramScope,
    /// Whether it belongs to the server, not to a client.
    is_servers: bool,
}

struct GeneralLogParser<R> {
    lines: Lines<R>,
    take: Take,
    spread: Spread<Sighting>,
    time: Option<LogTime>,
    sessions: BTreeMap<u64, LoggedSession>,
    /// Highest connection number seen to connect.
    connected: Option<u64>,
    dialect: Dialect,
    programs: Programs,
}

/// Returns whether a command or the server's banner starts with this line.
fn is_boundary(line: &[u8]) -> bool {
    is_banner(line) || LoggedCommand::of(line).is_some()
}

impl<R: BufRead> GeneralLogParser<R> {
    fn next(&mut self) -> Result<Option<LogLine>> {
        self.lines.next(is_boundary)
    }

    /// Reads the lines after a command's first one; returns false if it is left out, which has been counted.
    fn rest(&mut self, command: &mut LoggedCommand) -> Result<bool> {
        let session = self.sessions.get(&command.connection);
        let mut lexer = Lexer::new(session.map_or(self.dialect, |session| session.dialect));
        let has_text = command.has_text();
        // The text up to where a command may start, what follows, and the number of commands in that.
        let mut doubt: Option<(usize, Vec<LogLine>, u64)> = None;
        command.argument.push(b'\n');
        while let Some(line) = self.next()? {
            if is_boundary(&line.text) {
                while has_text && lexer.next(&command.argument).is_some() {}
                if !has_text || !lexer.is_open() {
                    self.lines.give_back(line);
                    break;
                }
                let (length, lines, commands) =
                    doubt.get_or_insert_with(|| (command.argument.len(), vec![], 0));
                *commands += 1;
                if *commands > QUOTATION {
                    command.argument.truncate(*length);
                    std::mem::take(lines)
                        .into_iter()
                        .chain([line])
                        .rev()
                        .for_each(|line| self.lines.give_back(line));
                    return Ok(true);
                }
            }
            command.is_cut = !line.is_whole;
            command.argument.extend_from_slice(&line.text);
            command.argument.push(b'\n');
            if let Some((_, lines, _)) = &mut doubt {
                lines.push(line);
            }
        }
        while has_text && lexer.next(&command.argument).is_some() {}
        let quoted = doubt.map_or(0, |(.., commands)| commands);
        if quoted > 0 {
            self.take.leave_out(QUOTED, quoted);
        }
        if lexer.is_open() {
            self.take.leave_out_cut();
        }
        Ok(!lexer.is_open())
    }

    /// Processes a complete command.
    fn end(&mut self, command: LoggedCommand) {
        let Some(name) = command.name else { return };
        let argument = command.argument.trim_ascii_end();
        let is_new = !self.sessions.contains_key(&command.connection);
        let is_servers =
            is_new && name != "Connect" && self.connected.is_some_and(|highest| command.connection > highest);
        let dialect = self.dialect;
        let made = || LoggedSession { dialect, is_servers, ..LoggedSession::default() };
        let session = self.sessions.entry(command.connection).or_insert_with(made);
        let said = String::from_utf8_lossy(argument);
        match name {
            "Connect" | "Change user" => {
                *session = LoggedSession { schema: schema_of(&said), dialect, ..LoggedSession::default() };
                self.take.end(command.connection);
                if name == "Connect" {
                    self.connected = self.connected.max(Some(command.connection));
                }
            }
            "Reset connection" | "Reset Connection" => {
                *session =
                    LoggedSession { schema: session.schema.take(), dialect, ..LoggedSession::default() };
                self.take.end(command.connection);
            }
            "Init DB" => session.schema = Some(said.into_owned()),
            "Quit" => {
                self.take.end(command.connection);
                self.sessions.remove(&command.connection);
            }
            "Query" | "Execute" => self.statement(&command, name == "Execute"),
            _ => {}
        }
    }

    /// Records a client's statement; leaves out those of the server.
    fn statement(&mut self, command: &LoggedCommand, is_execute: bool) {
        let text = command.argument.trim_ascii_end();
        let Some(session) = self.sessions.get_mut(&command.connection) else { return };
        if session.is_servers {
            return self.take.leave_out(EVENTS, 1);
        }
        if programs::is_inner(text, session.dialect) {
            return;
        }
        if session.scope.has(text, session.dialect) {
            return self.take.leave_out(PROGRAM, 1);
        }
        let was_executed = std::mem::take(&mut session.executes) && is_execute;
        let statements = split(text, session.dialect);
        let statements = if is_execute || statements.is_empty() { vec![text] } else { statements };
        session.scope = self.programs.scope(&statements, session.dialect);
        if was_executed {
            return;
        }
        if command.is_cut {
            return self.take.leave_out_cut();
        }
        for (place, text) in statements.into_iter().enumerate() {
            self.send(command.connection, place > 0, text);
        }
    }

    /// Records a statement of a packet.
    fn send(&mut self, connection: u64, is_joined: bool, text: &[u8]) {
        let Some(session) = self.sessions.get_mut(&connection) else { return };
        let (schema, dialect) = (session.schema.clone(), session.dialect);
        session.schema = used_schema(text).or_else(|| schema.clone());
        session.dialect = dialect.after(text);
        session.executes = programs::executes(text, dialect);
        self.programs.learn(text, dialect);
        let Some(time) = self.time else { return self.take.leave_out("when they ran is not told", 1) };
        let session = self.take.session(connection);
        let seen =
            Sighting { session, schema, is_joined, dialect, text: text.to_owned(), ..Sighting::default() };
        let placed = self.spread.add(time, seen);
        placed.into_iter().for_each(|(at, seen)| self.take.add(at, seen));
    }
}

#[cfg(test)]
mod tests;
