//! Processes on this machine: what they use (`tare_server::process`), counted, profiled, and interrupted.

pub(crate) mod counters;
pub mod interrupt;
pub(crate) mod priority;
pub mod profile;

pub use tare_server::process::{Faults, Usage, cpu_time, resident, thread_time};
pub(crate) use tare_server::process::{GroupTime, as_pid, of_group};
