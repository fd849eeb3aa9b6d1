//! The functions to which the server's calls lead.
//!
//! Waits are this library's from start to end. What only the built-in knows (which files, sockets and tables
//! there are, what is open, whose account a thread has) its functions still look after, and this library is
//! told as well.

pub(crate) mod files;
mod kept;
pub(crate) mod lives;
pub(crate) mod lock_waits;
pub(crate) mod memory;
pub(crate) mod off;
pub(crate) mod programs;
pub(crate) mod short;
pub(crate) mod sizes;
pub(crate) mod sockets;
pub(crate) mod stage;
pub(crate) mod statement;
pub(crate) mod synch;
pub(crate) mod tables;
pub(crate) mod transaction;
