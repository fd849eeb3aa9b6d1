//! Replay of a recording's statements: each session in its order on a connection of its own, several at a
//! time.
//!
//! [`play`] does it in this process; [`printed`] formats the outcome as the load driver does, so that a
//! study's driver can run it ([`study`]).

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::load::recording::kind::{Sent, StatementEffect};
use crate::load::recording::{SessionStatement, StatementRecording};
use crate::load::sysbench::DriverSecond;
use crate::process::interrupt::Interrupt;
use crate::server::target::ServerTarget;
use crate::{Error, Result};

mod latencies;
mod player;
pub mod printed;
mod raw;
pub mod study;

pub use latencies::Latencies;
use player::Player;

/// How often the end of a replay is checked.
const STEP: Duration = Duration::from_millis(10);

/// The times at which statements are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// Each when the previous one of its session has ended.
    #[default]
    Fast,
    /// The times of the recording.
    Own,
}

impl FromStr for Pace {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Pace, String> {
        match text {
            "fast" => Ok(Pace::Fast),
            "own" => Ok(Pace::Own),
            _ => Err("`own` is allowed, the times of the recording, or `fast`, without waiting".into()),
        }
    }
}

impl fmt::Display for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Pace::Own { "own" } else { "fast" })
    }
}

/// A replay: what, where and how.
#[derive(Clone, Debug)]
pub struct Replay {
    /// The statements.
    pub recording: StatementRecording,
    /// The server.
    pub target: ServerTarget,
    /// Number of concurrent sessions.
    pub users: u32,
    /// Times of the statements.
    pub pace: Pace,
    /// Kinds of statements to send.
    pub sent: Sent,
    /// Duration in seconds, for which the recording is repeated; `None`: once.
    pub seconds: Option<u32>,
}

/// The result of a replay.
#[derive(Clone, Debug, Default)]
pub struct ReplayResult {
    /// Statements sent.
    pub statements: u64,
    /// Rows received.
    pub rows: u64,
    /// Errors by number, with a message of each.
    pub errors: BTreeMap<u16, (u64, String)>,
    /// Statements left out because of their kind.
    pub left_out: u64,
    /// Statements of packets in which a previous one failed.
    pub not_reached: u64,
    /// Duration in seconds.
    pub seconds: f64,
    /// Number of passes through the recording.
    pub times: f64,
    /// Greatest delay of a statement, in seconds; only with the recording's times.
    pub behind: f64,
    /// Latencies of statements; with the recording's times, from when they were due.
    pub latencies: Latencies,
}

impl ReplayResult {
    /// Adds the outcome of another session.
    fn add(&mut self, other: ReplayResult) {
        self.statements += other.statements;
        self.rows += other.rows;
        self.left_out += other.left_out;
        self.not_reached += other.not_reached;
        self.behind = self.behind.max(other.behind);
        self.latencies.add(&other.latencies);
        for (code, (count, message)) in other.errors {
            self.errors.entry(code).or_insert((0, message)).0 += count;
        }
    }

    /// Returns the number of all errors.
    pub fn errors(&self) -> u64 {
        self.errors.values().map(|(count, _)| count).sum()
    }
}

/// The state that players share.
#[derive(Debug)]
struct Stage {
    replay: Replay,
    /// Statements of each session, in the order of the sessions' starts, and whether each is sent.
    sessions: Vec<Vec<(SessionStatement, bool)>>,
    /// Length of the recording in seconds.
    length: f64,
    begun: Instant,
    /// Next session to play, counted through all repetitions.
    next: AtomicU64,
    ended: AtomicBool,
    /// Statements that have been answered or left out.
    done: AtomicU64,
}

impl Stage {
    fn new(mut replay: Replay) -> Stage {
        let mut sessions: BTreeMap<u32, Vec<(SessionStatement, bool)>> = BTreeMap::new();
        let length = replay.recording.seconds();
        for statement in std::mem::take(&mut replay.recording.statements) {
            let sent = replay.sent.has(StatementEffect::of(&statement.text));
            sessions.entry(statement.session).or_default().push((statement, sent));
        }
        let mut sessions: Vec<_> = sessions.into_values().collect();
        sessions.sort_by(|a, b| a[0].0.at.total_cmp(&b[0].0.at));
        Stage {
            replay,
            sessions,
            length,
            begun: Instant::now(),
            next: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            done: AtomicU64::new(0),
        }
    }

    /// Returns whether no more statements are to be sent.
    fn is_over(&self) -> bool {
        let limit = self.replay.seconds.map(|seconds| Duration::from_secs(seconds.into()));
        self.ended.load(Ordering::Relaxed) || limit.is_some_and(|limit| self.begun.elapsed() >= limit)
    }

    /// Returns the next session to play, and its repetition.
    fn next(&self) -> Option<(&[(SessionStatement, bool)], u32)> {
        let all = self.sessions.len() as u64;
        let place = self.next.fetch_add(1, Ordering::Relaxed);
        let repetition = u32::try_from(place / all.max(1)).ok()?;
        if all == 0 || self.is_over() || (self.replay.seconds.is_none() && repetition > 0) {
            return None;
        }
        let session = usize::try_from(place % all).ok()?;
        Some((&self.sessions[session], repetition))
    }
}

/// Replays; passes the progress to `second`. Errors of statements are counted; a missing server is an error.
pub fn play(
    replay: Replay,
    interrupt: &Interrupt,
    second: &mut dyn FnMut(DriverSecond),
) -> Result<ReplayResult> {
    drop(replay.target.connect()?); // what is wrong with the account is said at once
    let users = replay.users;
    let stage = Arc::new(Stage::new(replay));
    let all: usize = stage.sessions.iter().map(Vec::len).sum();
    let mut players = vec![];
    for _ in 0..users {
        let stage = Arc::clone(&stage);
        let player = std::thread::Builder::new().stack_size(512 << 10);
        let player = player.spawn(move || Player::new(&stage).play());
        players.push(player.map_err(|source| Error::Io { what: "starting a session".into(), source })?);
    }
    let watched = watch(&stage, interrupt, &players, second);
    if watched.is_err() {
        // A player that waits for its server is not waited for.
        stage.ended.store(true, Ordering::Relaxed);
        watched?;
    }
    let mut outcome =
        ReplayResult { seconds: stage.begun.elapsed().as_secs_f64(), ..ReplayResult::default() };
    for player in players {
        let played = player.join().map_err(|_| Error::Io {
            what: "replaying a session".into(),
            source: std::io::Error::other("it panicked"),
        })?;
        outcome.add(played?);
    }
    #[allow(clippy::cast_precision_loss)] // counts of a replay
    {
        outcome.times = stage.done.load(Ordering::Relaxed) as f64 / all.max(1) as f64;
    }
    Ok(outcome)
}

/// Waits until all players have ended.
fn watch<T>(
    stage: &Stage,
    interrupt: &Interrupt,
    players: &[std::thread::JoinHandle<T>],
    second: &mut dyn FnMut(DriverSecond),
) -> Result<()> {
    let (mut seconds, mut before) = (0, 0);
    while players.iter().any(|player| !player.is_finished()) {
        interrupt.check()?;
        std::thread::sleep(STEP);
        if stage.begun.elapsed().as_secs() > seconds {
            seconds = stage.begun.elapsed().as_secs();
            let done = stage.done.load(Ordering::Relaxed);
            #[allow(clippy::cast_precision_loss)] // statements of a second
            let rate = (done - before) as f64;
            before = done;
            second(DriverSecond { second: seconds, transactions_per_second: rate, queries_per_second: rate });
        }
    }
    Ok(())
}
