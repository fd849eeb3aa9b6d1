//! What tare knows of the server besides the PSI interface: layouts of structures passed as opaque pointers,
//! numbers with names, and exported functions. `FACTS.md` describes the server's behaviour.
//!
//! Every reader copies; none keeps a pointer. Each offset says how it was verified. The servers used are
//! Debian's 10.11.19 and 11.8.9 (no debug information) and upstream's 10.11.5 and 11.4.5 (with it); for
//! 10.6.23 see `SAFETY.md`, *On 10.6*.

pub mod address;
pub mod charset;
pub(crate) mod code;
pub(crate) mod command;
pub mod diagnostics;
pub mod digest;
pub(crate) mod errors;
pub(crate) mod file_name;
pub(crate) mod frequent;
pub(crate) mod handler;
pub(crate) mod host_cache;
pub mod metadata;
pub mod names;
pub(crate) mod query_id;
pub(crate) mod replica;
pub(crate) mod row_lock;
pub mod running;
pub(crate) mod session;
pub mod share;
pub(crate) mod stage;
pub(crate) mod status_variable;
pub(crate) mod system_variable;
pub mod transaction;
pub(crate) mod user_variable;
pub(crate) mod warning;
