//! Database servers: installations, data directories, servers that we start, and servers that already run.
//!
//! `launch` starts and stops a server of our own. [`target`] connects to any server. [`guest`] changes a
//! server that is not ours, and puts everything back.

pub mod datadir;
pub mod guest;
pub mod installation;
mod launch;
pub mod setting;
pub(crate) mod setup_tables;
pub mod statement_clock;
pub mod target;

pub use launch::{Launch, Server, stop_all};
