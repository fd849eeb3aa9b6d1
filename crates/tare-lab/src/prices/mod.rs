//! Measurement of prices of events: the studies (`experiment`), the estimation (`fit`), the file, the
//! validation under other loads (`check`), and the machine's speed meanwhile (`speed`).

pub mod check;
mod evidence;
pub mod experiment;
pub mod file;
pub mod fit;
pub mod nonnegative;

pub mod speed;

pub use check::{Checked, check};
pub use evidence::{Missing, connecting, loads, off};
pub use fit::{Fit, LoadMeasurements, TooLittle, fit};
