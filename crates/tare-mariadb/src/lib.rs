//! The provider for stock MariaDB servers, loaded with `LD_PRELOAD`.

pub mod abi;
#[cfg(test)]
#[path = "../../tare-engine/tests/driver/mod.rs"]
mod driver;
mod entry;
pub mod error_hook;
mod error_log;
pub mod folder;
mod governor;
pub mod host;
pub mod install;
mod levels;
mod next;
pub mod options;
pub mod redirect;
mod sampling;
mod service;
pub mod startup;
pub mod status;
mod variables;
