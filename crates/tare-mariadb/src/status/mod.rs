//! The state of tare in this process, for `tare status` and the tables that show it.

mod disable_reason;

use std::fmt;
use std::sync::{OnceLock, RwLock};

use tare_host::options::Options;

use crate::abi::Series;
pub use disable_reason::DisableReason;

/// The state of tare in this process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ProviderState {
    /// The program is not a server: tare was loaded by inheritance and does nothing.
    #[default]
    NotAServer,
    /// The hook is set; the server has not yet asked for its provider.
    Waiting,
    /// The server uses tare as its provider.
    Active,
    /// Tare has disabled itself; the server runs as if tare were absent.
    Disabled(DisableReason),
}

impl fmt::Display for ProviderState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProviderState::NotAServer => f.write_str("not a server"),
            ProviderState::Waiting => f.write_str("waiting for the server to ask"),
            ProviderState::Active => f.write_str("active"),
            ProviderState::Disabled(reason) => write!(f, "disabled: {reason}"),
        }
    }
}

/// Tare's state and the server, as far as known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TareStatus {
    /// The state of tare.
    pub state: ProviderState,
    /// The server's compiled-in version (`--version=` may make the server report another one).
    pub server_version: Option<String>,
    /// The server's series, if known.
    pub series: Option<Series>,
}

impl TareStatus {
    /// The version of this library.
    pub const TARE_VERSION: &'static str = env!("CARGO_PKG_VERSION");
}

static STATUS: RwLock<TareStatus> =
    RwLock::new(TareStatus { state: ProviderState::NotAServer, server_version: None, series: None });

/// Returns the current status.
pub fn current() -> TareStatus {
    STATUS.read().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
}

pub(crate) fn set_server(version: Option<String>, series: Option<Series>) {
    let mut status = STATUS.write().unwrap_or_else(|poisoned| poisoned.into_inner());
    status.server_version = version;
    status.series = series;
}

pub(crate) fn set_state(state: ProviderState) {
    STATUS.write().unwrap_or_else(|poisoned| poisoned.into_inner()).state = state;
}

/// The server and its options: what the constructor finds out and the hook needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartPlan {
    /// The server's series.
    pub series: Series,
    /// The options.
    pub options: Options,
}

static PLAN: OnceLock<StartPlan> = OnceLock::new();

/// Returns the options that this server runs with; `None` before start-up and if tare is disabled.
pub fn options() -> Option<&'static Options> {
    PLAN.get().map(|plan| &plan.options)
}

/// Keeps how the server is served; returns false if that is already known.
pub(crate) fn set_plan(plan: StartPlan) -> bool {
    PLAN.set(plan).is_ok()
}

/// Returns how this server is served; `None` before start-up and if tare is disabled.
pub(crate) fn plan() -> Option<&'static StartPlan> {
    PLAN.get()
}
