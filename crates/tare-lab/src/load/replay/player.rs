//! A player: it takes a recorded session, connects, sends its statements, and takes the next.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use mysql::prelude::Queryable;

use super::{Pace, ReplayResult, Stage, raw};
use crate::Result;
use crate::load::recording::SessionStatement;
use crate::load::recording::token::{Dialect, used_schema};

/// How often a waiting player checks for the end.
const STEP: Duration = Duration::from_millis(20);
/// The error number that is counted for a lost connection.
const LOST: u16 = 2013;

/// A connection while it plays a session.
struct Connected {
    connection: mysql::Conn,
    /// Current schema of the connection.
    schema: Option<String>,
}

/// Plays one session after the other.
pub(super) struct Player<'s> {
    stage: &'s Stage,
    outcome: ReplayResult,
}

impl Player<'_> {
    pub(super) fn new(stage: &Stage) -> Player<'_> {
        Player { stage, outcome: ReplayResult::default() }
    }

    /// Plays until no session is left.
    pub(super) fn play(mut self) -> Result<ReplayResult> {
        while let Some((session, repetition)) = self.stage.next() {
            let played = self.session(session, repetition);
            if played.is_err() {
                self.stage.ended.store(true, Ordering::Relaxed);
                played?;
            }
        }
        Ok(self.outcome)
    }

    fn session(&mut self, session: &[(SessionStatement, bool)], repetition: u32) -> Result<()> {
        let offset = self.stage.length * f64::from(repetition);
        let mut connected: Option<Connected> = None;
        // Whether the packet of the previous statement continues.
        let mut goes_on = true;
        for (place, (statement, sent)) in session.iter().enumerate() {
            let due = self.wait_for(offset + statement.at);
            if self.stage.is_over() {
                return Ok(());
            }
            goes_on |= !statement.is_joined;
            if !goes_on {
                self.outcome.not_reached += 1;
            } else if *sent {
                let mut there = match connected.take() {
                    Some(there) => there,
                    None => self.connect(&session[place..])?,
                };
                let answered = self.send(&mut there, statement, due);
                goes_on = answered == Answered::WithRows;
                if answered != Answered::Lost {
                    connected = Some(there);
                }
            } else {
                self.outcome.left_out += 1;
            }
            self.stage.done.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Connects for these statements, in the character set of the first one that has one, unless the session
    /// sets it before.
    fn connect(&self, rest: &[(SessionStatement, bool)]) -> Result<Connected> {
        let mut there = Connected { connection: self.stage.replay.target.connect_quietly()?, schema: None };
        let first = rest.iter().map(|(statement, _)| statement).take_while(|it| !sets_charset(&it.text));
        if let Some(charset) = first.into_iter().find_map(|it| it.charset.as_deref())
            && charset.bytes().all(|byte| byte.is_ascii_alphanumeric())
        {
            // A server that does not know it takes the bytes as they are.
            let _unknown = there.connection.query_drop(format!("SET NAMES {charset}"));
        }
        Ok(there)
    }

    /// Waits until a statement is due, at the recording's times; returns the time from which its latency
    /// counts.
    fn wait_for(&mut self, at: f64) -> Instant {
        if self.stage.replay.pace == Pace::Fast {
            return Instant::now();
        }
        let due = self.stage.begun + Duration::from_secs_f64(at);
        loop {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() || self.stage.is_over() {
                break;
            }
            std::thread::sleep(left.min(STEP));
        }
        self.outcome.behind = self.outcome.behind.max(due.elapsed().as_secs_f64());
        due
    }

    /// Sends a statement.
    fn send(&mut self, there: &mut Connected, statement: &SessionStatement, due: Instant) -> Answered {
        let answered = there.enter(statement.schema.as_deref()).and_then(|()| there.rows_of(&statement.text));
        self.outcome.latencies.take(due.elapsed().as_secs_f64());
        self.outcome.statements += 1;
        let (code, message, answered) = match answered {
            Ok(rows) => {
                self.outcome.rows += rows;
                return Answered::WithRows;
            }
            Err(mysql::Error::MySqlError(error)) => (error.code, error.message, Answered::WithError),
            Err(error) => {
                (LOST, format!("the connection was lost: {}", tare_connect::sentence(&error)), Answered::Lost)
            }
        };
        self.outcome.errors.entry(code).or_insert((0, message)).0 += 1;
        answered
    }
}

/// The answer to a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answered {
    /// Rows, or success without rows.
    WithRows,
    /// An error from the server.
    WithError,
    /// None: the connection is unusable.
    Lost,
}

/// Returns whether a statement sets its session's character set.
fn sets_charset(text: &[u8]) -> bool {
    let usual = Dialect::default();
    let mut all = crate::load::recording::token::tokens(text, usual);
    all.next().is_some_and(|first| first.is("SET"))
        && all.any(|token| token.is_any(&["NAMES", "CHARSET", "CHARACTER", "character_set_client"]))
}

impl Connected {
    /// Changes to a schema. If that fails, the statement fails, because it must not run in another schema.
    fn enter(&mut self, schema: Option<&str>) -> mysql::Result<()> {
        if let Some(schema) = schema.filter(|schema| self.schema.as_deref() != Some(schema)) {
            self.connection.select_db(schema)?;
            self.schema = Some(schema.to_owned());
        }
        Ok(())
    }

    /// Sends a text and reads the whole answer; returns the number of rows.
    fn rows_of(&mut self, text: &[u8]) -> mysql::Result<u64> {
        let rows = match std::str::from_utf8(text) {
            Ok(text) => self.rows_of_text(text)?,
            Err(_) => raw::rows_of(&self.connection, text)?,
        };
        if let Some(schema) = used_schema(text) {
            self.schema = Some(schema);
        }
        Ok(rows)
    }

    fn rows_of_text(&mut self, text: &str) -> mysql::Result<u64> {
        let mut results = self.connection.query_iter(text)?;
        let mut rows = 0;
        while let Some(result) = results.iter() {
            for row in result {
                row?;
                rows += 1;
            }
        }
        Ok(rows)
    }
}
