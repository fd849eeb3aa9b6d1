//! Counting: what adds to cells, digests, accounts, and where counts go that leave their thread.

pub(crate) mod account;
pub(crate) mod allocation;
pub(crate) mod bucket;
pub(crate) mod deferred;
pub(crate) mod digest;
pub(crate) mod digest_key;
pub(crate) mod digest_table;
pub(crate) mod error;
pub(crate) mod fold;
mod histograms;
pub(crate) mod peak;
pub(crate) mod program;
pub(crate) mod sample;
pub(crate) mod session;
