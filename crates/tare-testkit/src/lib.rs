//! Servers, oracles and recordings shared by tests.
//!
//! Everything here looks at a server from outside: a process, its sockets and its tables. The same scripts and
//! the same questions go to the built-in Performance Schema (the reference) and to the provider under test
//! (the subject), so that what is claimed to be equal is compared, not asserted twice.

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
pub mod process;
pub mod random;
pub mod run;
pub mod scene;
pub mod schema;
pub mod script;
pub mod server;
pub mod session;
pub mod subject;

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Why a test could not do what it wanted; the text is meant for the person who reads the failed test.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Something of the operating system.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The server or the endpoint refused a statement.
    #[error(transparent)]
    Sql(#[from] mysql::Error),
    /// The world is not as the test needs it.
    #[error("{0}")]
    Setup(String),
}

impl Failure {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Failure {
        let what = what.into();
        move |source| Failure::Io { what, source }
    }
}

/// Shorthand for what most functions here return.
pub type Result<T> = std::result::Result<T, Failure>;

static TURN: RwLock<()> = RwLock::new(());

/// Waits for this test's turn, which no other test of the program shares: servers under test share a small machine. For
/// what looks at time, memory or load, and for what starts many servers. A failed test does not keep the others from
/// their turn.
pub fn turn() -> RwLockWriteGuard<'static, ()> {
    TURN.write().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for a turn that others of this kind share, as many as there are test threads: for what is as true on a busy
/// machine.
pub fn shared_turn() -> RwLockReadGuard<'static, ()> {
    TURN.read().unwrap_or_else(PoisonError::into_inner)
}
