//! Statistics of few, noisy observations.
//!
//! `summary` has means, medians and their intervals. [`sequential`] has intervals that stay valid however
//! often they are looked at: those of `signed_rank` for symmetric errors, of `skewed` for skewed ones.
//! `spending` spends the error over the looks. [`simulation`] counts how often they are wrong. [`course`]
//! finds changes and trends over runs.

pub mod course;
pub mod sequential;
pub(crate) mod signed_rank;
pub mod simulation;
mod skewed;
mod spending;
mod summary;

pub use summary::{
    Estimate, PairedChange, bootstrap, bootstrap_rows, mean, mean_and_error, mean_interval, median, quantile,
};
