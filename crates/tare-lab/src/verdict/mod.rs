//! Verdicts: what the records of a study say about its settings.
//!
//! [`analysis`] turns records into figures and verdicts, by the `comparison` of slices. [`budget`] judges
//! whether settings keep to a budget, [`effort`] says what a transaction made the server do, and [`history`]
//! compares runs.

pub mod analysis;
pub mod budget;
pub(crate) mod comparison;
mod difference;
pub mod effort;
pub mod history;
mod outcome;
