//! What is recorded: one module for each type of event, with what begins and ends it.

pub(crate) mod exclusion;
pub mod operation;
pub(crate) mod ring;
pub(crate) mod stage;
pub(crate) mod statement;
pub(crate) mod transaction;
pub(crate) mod wait;
