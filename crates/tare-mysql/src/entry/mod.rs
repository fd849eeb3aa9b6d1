//! The functions to which the server's calls lead.
//!
//! Waits for locks, idle connections and metadata locks are this library's from start to end ([`synch`],
//! [`short`]). Of files, sockets and tables the built-in keeps further tables, so its functions do their work
//! as well and this library counts what has ended ([`told`]).

mod kept;
pub(crate) mod lives;
pub(crate) mod short;
pub(crate) mod stage;
pub(crate) mod statement;
pub(crate) mod synch;
pub(crate) mod told;
pub(crate) mod transaction;
