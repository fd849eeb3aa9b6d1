//! Text comparison and time formatting as the server does them.

pub(crate) mod calendar;
pub(crate) mod collation;
mod general_ci;
