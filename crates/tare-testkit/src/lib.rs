//! Servers, oracles and recordings shared by tests.
//!
//! Everything here observes a server from outside: a process, its sockets and its tables. The same scripts
//! and queries go to the built-in Performance Schema (the reference) and to the provider under test (the
//! subject), so that equality is compared, not asserted twice.

pub mod active_load;
pub mod capture;
pub mod declaration;
pub mod difference;
pub mod ending;
pub mod figure;
pub mod grammar;
pub mod history;
pub mod host;
pub mod known;
pub mod load;
pub mod mysql_server;
pub mod price_file;
pub mod process;
pub mod random;
pub mod run;
pub mod scene;
pub mod schema;
pub mod script;
pub mod server;
pub mod session;
pub mod subject;

pub use tare_server::{eventually, poll, poll_every};

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The reason why a test could not run, for the person who reads the failed test.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// An error of the operating system.
    #[error("{what}: {source}")]
    Io {
        /// The operation.
        what: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// The server or the endpoint refused a statement.
    #[error(transparent)]
    Sql(#[from] mysql::Error),
    /// A server's programs or its data failed.
    #[error(transparent)]
    Host(#[from] tare_server::Error),
    /// A precondition of the test is not met.
    #[error("{0}")]
    Setup(String),
}

impl Failure {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Failure {
        let what = what.into();
        move |source| Failure::Io { what, source }
    }
}

/// The result of most functions here.
pub type Result<T> = std::result::Result<T, Failure>;

static TURN: RwLock<()> = RwLock::new(());

/// Waits until no other test of the program has a turn, because servers share a small machine. For tests of
/// time, memory or load, and for those that start many servers. A failed test does not block the others.
pub fn turn() -> RwLockWriteGuard<'static, ()> {
    TURN.write().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for a shared turn, of which there are as many as test threads, for tests that also hold on a busy
/// machine.
pub fn shared_turn() -> RwLockReadGuard<'static, ()> {
    TURN.read().unwrap_or_else(PoisonError::into_inner)
}
