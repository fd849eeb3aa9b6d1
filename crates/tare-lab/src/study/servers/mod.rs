//! The servers of a study, and the programs that run beside them.

pub mod bench;
pub mod fleet;
pub(crate) mod idleness;
pub mod sidecar;
