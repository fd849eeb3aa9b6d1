//! Text as the server compares it, and times as it writes them.

pub(crate) mod calendar;
pub(crate) mod collation;
mod general_ci;
