//! The raw results of a study: records, the file of them, and latencies.

pub(crate) mod budget;
pub(crate) mod effort;
pub mod journal;
pub(crate) mod latency;
pub mod record;
pub(crate) mod schema;
