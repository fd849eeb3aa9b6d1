//! A running study: its servers, its preparation, and the slices of load by which they are compared.

pub(crate) mod identity;
mod order;
pub(crate) mod preparation;
pub mod runner;
pub(crate) mod servers;
