//! Processes on this machine: what they use, programs that are run, and how everything that was started ends.

pub(crate) mod command;
pub(crate) mod counters;
pub mod interrupt;
pub(crate) mod peer;
pub(crate) mod priority;
pub mod profile;
mod usage;
pub mod watchdog;

pub use usage::{Faults, Usage, cpu_time, resident, thread_time};
pub(crate) use usage::{GroupTime, as_pid, of_group};
