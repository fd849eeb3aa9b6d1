//! All tables: one file for each family of tables, with columns, getters and sources.
//!
//! [`shape`](crate::shape) lists them.

pub(crate) mod absent;
pub mod account;
pub mod active;
pub mod budget;
pub mod digest;
pub mod error;
pub mod event;
pub mod handle;
pub mod histogram;
pub mod host_cache;
pub mod level;
pub mod lock;
pub mod log;
pub mod object;
pub mod program;
pub mod replication;
pub mod server;
pub mod session;
pub mod setup;
mod shared;
pub mod status;
pub(crate) mod stream;
pub mod summary;
pub mod sync;
pub mod thread;
pub mod timer;
pub mod variable;
