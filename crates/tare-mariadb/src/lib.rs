//! The provider for stock MariaDB servers, loaded with `LD_PRELOAD`.
//!
//! The modules form layers, listed in `layers.toml`: each uses only modules of the layers below it.

pub mod abi;
mod endpoint;
mod entry;
pub mod host;
pub mod install;
mod interpose;
pub mod jumps;
mod serve;
pub mod settings;
pub mod startup;
pub mod status;

pub use interpose::{folder, redirect};
pub use serve::error_hook;
