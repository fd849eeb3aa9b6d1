//! Load on a server: workloads, the driver that runs them, and recorded load that is sent again.
//!
//! `driver` starts sysbench for a script of [`workload`], or `tare` for a recording, here or elsewhere
//! ([`outpost`]). `sysbench` parses what either prints. [`recording`] is a load read out of logs or a
//! server's memory, and [`replay`] sends it again.

pub mod arrivals;
mod driver;
pub mod outpost;
pub mod recording;
pub mod replay;
mod sysbench;
pub mod workload;

pub use driver::{Drive, Driver, Load};
pub use sysbench::{DriverEvent, DriverReport, DriverSecond};
