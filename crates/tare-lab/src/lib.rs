//! Measures the cost of observability settings on a database server.
//!
//! A study is a file ([`definition`]): servers, settings, workloads. All its servers run at the same time
//! ([`fleet`]). Load goes to one at a time, in short slices, which take turns of fractions of a second
//! (`slicing`). A block is one slice of every setting ([`runner`]). Each slice is a line of raw data
//! ([`record`], [`journal`]). Slices are compared within their block, so that drift (clock frequency,
//! neighbours, growing data) affects all settings alike. [`analysis`] turns the blocks' ratios into figures,
//! with intervals that stay valid however often one looks ([`sequential`]), and into verdicts.

pub mod analysis;
pub mod arrivals;
pub mod attribution;
pub mod bench;
pub mod budget;
pub mod catalogue;
mod comparison;
mod counters;
pub mod course;
pub mod datadir;
pub mod definition;
pub mod effort;
pub mod error;
pub mod fleet;
pub mod guest;
pub mod history;
mod identity;
mod idleness;
pub mod installation;
pub mod interrupt;
pub mod journal;
mod latency;
pub mod load;
pub mod machine;
pub mod outpost;
mod peer;
mod preparation;
pub mod prices;
mod priority;
pub mod process;
pub mod profile;
pub mod record;
pub mod recording;
pub mod replay;
pub mod report;
pub mod runner;
pub mod schema;
pub mod sequential;
pub mod server;
pub mod setting;
mod setup_tables;
pub mod sidecar;
mod signed_rank;
pub mod simulation;
mod skewed;
mod slicing;
pub mod statement_clock;
pub mod statistics;
mod study_file;
mod sysbench;
pub mod target;
pub mod watchdog;
pub mod weighing;
pub mod workload;

pub use error::Error;

/// The result of the crate's functions.
pub type Result<T> = std::result::Result<T, Error>;
