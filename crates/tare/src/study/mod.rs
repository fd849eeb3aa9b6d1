//! Studies of the lab in the terminal: how a command runs one, and how it shows the results.

pub(crate) mod bench;
mod effort;
mod live;
mod run;
pub(crate) mod table;

pub(crate) use run::{preloads, study, watch, watch_knowing};
