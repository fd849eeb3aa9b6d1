//! Measures the cost of observability settings on a database server.
//!
//! A study is a file ([`definition`]): servers, settings, workloads. All its servers run at the same time
//! ([`fleet`]). Load goes to one at a time, in short slices, which take turns of fractions of a second
//! (`slicing`). A block is one slice of every setting ([`runner`]). Each slice is a line of raw data
//! ([`record`], [`journal`]). Slices are compared within their block, so that drift (clock frequency,
//! neighbours, growing data) affects all settings alike. [`analysis`] turns the blocks' ratios into figures,
//! with intervals that stay valid however often one looks ([`sequential`]), and into verdicts.
//!
//! Modules are layers: each uses only those below it, in the order of `layers.toml`. Modules inside
//! them are re-exported here.

pub mod definition;
pub mod error;
pub mod load;
pub mod machine;
pub mod prices;
pub mod process;
pub mod report;
mod results;
pub mod server;
pub mod statistics;
mod study;
mod verdict;
pub mod weighing;

pub use definition::catalogue;
pub use error::Error;
pub use load::{arrivals, outpost, recording, replay, workload};
pub use process::{interrupt, profile};
pub use report::schema;
pub use results::{journal, record};
pub use server::{guest, setting, statement_clock, target};
pub use statistics::{course, sequential, simulation};
pub use study::runner::{self, attribution};
pub use study::servers::{bench, fleet, sidecar};
pub use verdict::{analysis, budget, effort, history};

/// The result of the crate's functions.
pub type Result<T> = std::result::Result<T, Error>;
