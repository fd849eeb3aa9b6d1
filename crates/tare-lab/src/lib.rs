//! Measures what an observability setting costs a database server.
//!
//! A study puts several servers side by side that differ in one [`setting::Setting`] only, and gives load to one at a
//! time, in short blocks of random order ([`pairing`]). Each block is a [`sample::Sample`]: CPU time of the server's
//! process and transactions done. Blocks of one round are compared with each other, so what drifts (the machine's
//! clock, its neighbours, the size of the data) hits all settings alike. [`statistics`] turns the rounds' ratios into
//! a figure with an interval.

pub mod analysis;
pub mod datadir;
pub mod definition;
pub mod error;
pub mod installation;
pub mod interrupt;
pub mod load;
pub mod pairing;
pub mod process;
pub mod record;
pub mod sample;
pub mod sequential;
pub mod server;
pub mod setting;
pub mod statistics;
pub mod study;
pub mod workload;

pub use error::Error;

/// What the crate's functions return.
pub type Result<T> = std::result::Result<T, Error>;
