//! `tare ash`: the active session history of any server, in a file.
//!
//! A server with tare keeps its history itself, and is only read (`copier`). Any other server is sampled by
//! one query (`seen`) at regular intervals (`sampler`). What each thread does is judged from what the query
//! saw of it (`judge`, `class`); only if some wait for locks, the server is asked who blocks them
//! (`blockers`).
//!
//! The file has rows of `tare_active_session_history` as JSON Lines in the snapshot's format ([`columns`],
//! `writer`).
//! [`mod@file`] reads it back.

mod blockers;
mod class;
pub mod columns;
mod copier;
mod cost;
mod coverage;
pub mod file;
mod holders;
mod judge;
mod late;
mod sampler;
mod seen;
mod session;
mod shape;
mod tools;
mod writer;

use std::collections::HashSet;
use std::io;
use std::time::{Duration, Instant};

use crate::destination::NAP;
pub use crate::destination::{Control, Destination, Rotation};
use crate::snapshot::{self, Value};
use crate::source::{Address, Error};
pub(crate) use class::is_active;
use holders::Holder;
use session::Session;
use writer::Writer;

/// How often to retry a server that does not answer.
const RETRY: Duration = Duration::from_millis(250);
/// How often to say what sampling costs.
const REPORT: Duration = Duration::from_secs(600);

/// The address that is sampled, how often, and where the samples go.
#[derive(Clone, Debug)]
pub struct Options {
    /// The server.
    pub address: Address,
    /// Time from one sample to the next.
    pub interval: Duration,
    /// The destination.
    pub destination: Destination,
}

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Samples written: those in which a session was active.
    pub samples: u64,
    /// Their rows.
    pub rows: u64,
    /// Samples that could not be written for want of room or of a reader.
    pub unwritten: u64,
}

/// The reason why there is no history, or why it ends.
#[derive(Debug, thiserror::Error)]
pub enum AshError {
    /// The server cannot be queried.
    #[error(transparent)]
    Source(#[from] Error),
    /// The header of the file could not be made.
    #[error(transparent)]
    Header(snapshot::Error),
    /// There is nothing to sample.
    #[error(
        "{0}: the server's Performance Schema is off, so nothing tells what its sessions do: start the server with \
         performance_schema = ON in its option file, or load tare into it (tare install)"
    )]
    Off(String),
    /// Tare's socket, which does not answer the query that samples.
    #[error(
        "{0}: tare keeps no history in this server: switch it on (UPDATE performance_schema.tare_status SET VALUE = '1s' WHERE \
         NAME = 'ash_interval'), or name an account (-u, --dsn), through which the server is sampled from outside"
    )]
    NoHistory(String),
    /// The destination with rotation is a device, a pipe or a link.
    #[error(
        "{0}: no regular file, so it is not rotated: leave --rotate-size and --rotate-every out, or name a regular file"
    )]
    NoRotation(String),
    /// The destination has something else in it.
    #[error("{0}: no active session history, so nothing is added to it: name another file")]
    Foreign(String),
    /// The destination has another writer.
    #[error(
        "{0}: another process records into it, and a history has one writer: name another file, or end that process"
    )]
    Busy(String),
    /// The destination cannot be opened.
    #[error("{place}: {error}")]
    Destination {
        /// The destination.
        place: String,
        /// The system's error, which the text has already.
        error: io::Error,
    },
}

impl From<snapshot::Error> for AshError {
    fn from(error: snapshot::Error) -> Self {
        match error {
            snapshot::Error::Source(error) => AshError::Source(error),
            error => AshError::Header(error),
        }
    }
}

/// A sample: rows in the order of [`columns::COLUMNS`], and texts of digests in them.
#[derive(Clone, Debug, Default, PartialEq)]
struct Sample {
    rows: Vec<Vec<Value>>,
    /// Digests and their texts.
    texts: Vec<(String, String)>,
    /// Digests of statements of this sample or earlier ones.
    late: Vec<LateDigest>,
    /// Accounts of sessions that others wait for.
    holders: Vec<Holder>,
}

/// The digest of a statement that had none when it was sampled.
#[derive(Clone, Debug, Default, PartialEq)]
struct LateDigest {
    thread: u64,
    event_id: u64,
    schema: Option<String>,
    digest: String,
    text: String,
}

/// Samples until `control` ends it; waits for a server that does not answer.
///
/// # Errors
/// When the first connection fails, the server refuses or has nothing to sample, or the destination cannot be
/// opened or rotated.
pub fn run(options: &Options, control: &dyn Control) -> Result<Totals, AshError> {
    let mut session = Session::open(&options.address, options.interval)?;
    let Some(writer) = Writer::open(&options.destination, control)? else { return Ok(Totals::default()) };
    control.tell(&session.said());
    let mut recorder = Recorder { options, control, writer, said: HashSet::new() };
    loop {
        recorder.writer.begin(session.header.clone(), session.status.clone());
        match recorder.follow(&mut session) {
            Ok(()) => break,
            // What fails right after a connection was made would fail again.
            Err(error) if error.is_passing() || session.answers > 0 => {
                control.tell(&format!("{error}; waiting for the server"));
            }
            Err(error) => return Err(error.into()),
        }
        let Some(again) = recorder.wait_for_server()? else { break };
        session = again;
        control.tell(&format!("{} answers again", options.address));
    }
    recorder.writer.end();
    // Without a connection nobody tells.
    if let Ok(costs) = session.costs() {
        control.tell(&costs);
    }
    let Writer { samples, all_rows: rows, unwritten, .. } = recorder.writer;
    Ok(Totals { samples, rows, unwritten })
}

struct Recorder<'a> {
    options: &'a Options,
    control: &'a dyn Control,
    writer: Writer<'a>,
    /// What the user has been told of what is missing.
    said: HashSet<String>,
}

impl Recorder<'_> {
    /// Samples and writes until the end.
    fn follow(&mut self, session: &mut Session) -> Result<(), Error> {
        let mut due = Instant::now();
        loop {
            let (begun, is_over) = (Instant::now(), self.control.is_over());
            for sample in session.samples(is_over)? {
                self.writer.write(&sample);
            }
            session.events().iter().for_each(|event| self.control.tell(event));
            for note in session.notes() {
                if self.said.insert(note.clone()) {
                    self.control.tell(&note);
                }
            }
            if is_over || self.writer.is_gone() {
                return Ok(());
            }
            if session.reported.elapsed() >= REPORT {
                self.control.tell(&session.costs()?);
            }
            // Samples that were missed are not made up for: they would all see the same. And a server that
            // takes long for them has at least as long a rest.
            due = (due + self.options.interval).max(Instant::now() + begun.elapsed());
            self.wait(due);
        }
    }

    /// Waits for the next sample, or the end.
    fn wait(&self, due: Instant) {
        while !self.control.is_over() {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(NAP));
        }
    }

    /// Connects again once the server answers; `None`: the end came first.
    fn wait_for_server(&mut self) -> Result<Option<Session>, AshError> {
        while !self.control.is_over() {
            match Session::open(&self.options.address, self.options.interval) {
                Err(AshError::Source(error)) if error.is_passing() => std::thread::sleep(RETRY),
                opened => return opened.map(Some),
            }
        }
        Ok(None)
    }
}
