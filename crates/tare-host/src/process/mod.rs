//! The process tare runs in, whatever program it is: its symbols and segments, tare's lines in its error log,
//! tare's threads and engine, panics.

pub mod clock;
mod engine;
mod exported;
mod failure;
mod guard;
pub mod log;
mod next;
pub mod observation;
pub mod panic;
mod segments;
mod symbols;
mod thread;

pub use engine::ENGINE;
pub use exported::{data_directory, server_version};
pub use failure::{failure, switch_off};
pub use guard::guard;
pub use next::Next;
pub use segments::{Image, Segments};
pub use symbols::{Symbol, symbol};
pub use thread::{Stopped, guarded, spawn, spawn_guarded, stopped};
