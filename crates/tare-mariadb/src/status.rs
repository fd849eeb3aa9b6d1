//! What became of tare in this process, for `tare status` and the tables that show it.

use std::fmt;
use std::sync::RwLock;

use crate::abi::Series;
use crate::startup::StandBack;

/// What tare does in this process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// The program is not a server: tare was loaded into it by inheritance, and does nothing.
    #[default]
    NotAServer,
    /// The hook is set; the server has not asked for its provider yet.
    Waiting,
    /// The server has its provider from tare.
    Active,
    /// The server runs as if tare were absent.
    StoodBack(StandBack),
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            State::NotAServer => f.write_str("not a server"),
            State::Waiting => f.write_str("waiting for the server to ask"),
            State::Active => f.write_str("active"),
            State::StoodBack(reason) => write!(f, "stood back: {reason}"),
        }
    }
}

/// State and server, as far as known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// What tare does.
    pub state: State,
    /// The server's version as it was compiled in (`--version=` may make the server claim another).
    pub server_version: Option<String>,
    /// The server's series, when known.
    pub series: Option<Series>,
}

impl Status {
    /// Version of this library.
    pub const TARE_VERSION: &'static str = env!("CARGO_PKG_VERSION");
}

static STATUS: RwLock<Status> =
    RwLock::new(Status { state: State::NotAServer, server_version: None, series: None });

/// The status now.
pub fn current() -> Status {
    STATUS.read().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
}

pub(crate) fn set_server(version: Option<String>, series: Option<Series>) {
    let mut status = STATUS.write().unwrap_or_else(|poisoned| poisoned.into_inner());
    status.server_version = version;
    status.series = series;
}

pub(crate) fn set_state(state: State) {
    STATUS.write().unwrap_or_else(|poisoned| poisoned.into_inner()).state = state;
}
