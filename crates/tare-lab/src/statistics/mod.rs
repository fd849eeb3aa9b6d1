//! Statistics of few, noisy observations: averages with intervals, and intervals that stay valid however often
//! they are looked at.
//!
//! `summary` has means, medians and their intervals. [`sequential`] spends the error over looks; its intervals
//! are those of `signed_rank` for symmetric errors and of `skewed` for skewed ones, and [`simulation`] counts
//! how often they are wrong. [`course`] finds changes and trends over runs.

pub mod course;
pub mod sequential;
pub(crate) mod signed_rank;
pub mod simulation;
mod skewed;
mod spending;
mod summary;

pub use summary::{
    Change, Estimate, bootstrap, bootstrap_rows, mean, mean_and_error, mean_interval, median, quantile,
};
