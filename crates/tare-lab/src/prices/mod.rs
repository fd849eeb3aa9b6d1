//! Prices of events, measured: what is driven (`experiment`), what follows from it (`fit`), the file, and whether prices are
//! true of loads that they were not found by (`check`); how fast the machine was meanwhile (`speed`).

pub mod check;
mod evidence;
pub mod experiment;
pub mod file;
pub mod fit;
pub mod nonnegative;

pub mod speed;

pub use check::{Checked, check};
pub use evidence::{Missing, connecting, loads, off};
pub use fit::{Fit, Load, TooLittle, fit};
