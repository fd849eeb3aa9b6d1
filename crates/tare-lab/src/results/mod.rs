//! The raw results of a study: records, the file of them, and latencies.

pub mod journal;
pub(crate) mod latency;
pub mod record;
