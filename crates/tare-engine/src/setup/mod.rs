//! Configuration: instruments, rules on accounts and objects, sampling.

pub(crate) mod actors;
pub(crate) mod config;
pub(crate) mod demand;
pub(crate) mod filter;
pub(crate) mod instrument;
pub mod objects;
pub(crate) mod readers;
pub(crate) mod rules;
pub(crate) mod sampling;
