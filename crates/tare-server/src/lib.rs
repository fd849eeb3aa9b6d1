//! Database servers from outside: what measurements, tests and the command line share.
//!
//! [`installation`] finds a server's programs. [`datadir`] makes and copies its data,
//! [`scratch`](datadir::Scratch) holds it and is removed in any case. [`process`] and [`peer`] read what the
//! kernel says of a process. [`waiting`] waits for something to become true, [`sql`] quotes names and texts.

pub mod datadir;
pub mod error;
pub mod installation;
pub mod peer;
pub mod process;
pub mod program;
pub mod sql;
pub mod waiting;
pub mod watchdog;

pub use error::Error;
pub use waiting::{eventually, poll, poll_every};

/// The result of the crate's functions.
pub type Result<T> = std::result::Result<T, Error>;
