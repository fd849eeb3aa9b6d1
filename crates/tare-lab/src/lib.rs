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
//!
//! # Examples
//!
//! A study is read and checked before any server starts. [`runner::run`] then runs it, and
//! [`analysis::Analysis::of`] turns the records it leaves into verdicts.
//!
//! ```
//! use tare_lab::definition::Definition;
//!
//! let text = r#"
//!     question = "What does the slow log cost?"
//!     slice_seconds = 1
//!     blocks = 20
//!     minutes = 10
//!     precision = 0.005
//!     margin = 0.01
//!     server = [{ name = "mariadb", program = "mariadbd" }]
//!     setting = [
//!         { name = "off", options = ["--slow-query-log=OFF"] },
//!         { name = "every query", options = ["--slow-query-log=ON", "--long-query-time=0"] },
//!     ]
//!     workload = [{ name = "reads", run = "oltp_read_only", users = [2, 16] }]
//! "#;
//! let study = Definition::read(text, "slow-log.toml", false)?;
//! let settings: Vec<&str> = study.settings.iter().map(|s| s.name.as_str()).collect();
//! assert_eq!(settings, ["off", "off again", "every query"]); // with the A/A control
//! let cells: Vec<String> = study.cells().iter().map(ToString::to_string).collect();
//! assert_eq!(cells, ["reads, 2 connections", "reads, 16 connections"]);
//! # Ok::<(), tare_lab::Error>(())
//! ```

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
