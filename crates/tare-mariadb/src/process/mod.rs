//! The process tare runs in, whatever program it is: its symbols and segments, tare's lines in its error log,
//! tare's threads and engine, panics.

mod engine;
pub(crate) mod log;
pub(crate) mod panic;
mod segments;
mod symbols;
mod thread;

pub(crate) use engine::ENGINE;
pub use segments::Image;
pub(crate) use segments::Segments;
pub(crate) use symbols::{Symbol, symbol};
pub use symbols::{data_directory, server_is_up};
pub(crate) use thread::{Stopped, guarded, spawn, spawn_guarded, stopped};
