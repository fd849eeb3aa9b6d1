//! Tables in a data directory: their bytes, what a server makes of them, and whose files are whose.

// Helpers of tests end a test as tests do.
#![allow(clippy::unwrap_used)]

mod bytes;
mod folder;
mod live;
mod reference;
mod sample;
