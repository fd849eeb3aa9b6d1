//! Database servers: those that we start, and those that already run. Installations and data directories are
//! in `tare_server`.
//!
//! `launch` starts and stops a server of our own. [`target`] connects to any server. [`guest`] changes a
//! server that is not ours, and puts everything back.

pub mod guest;
mod launch;
pub mod setting;
pub(crate) mod setup_tables;
pub mod statement_clock;
pub mod target;

pub use launch::{Launch, LaunchedServer, stop_all};
