//! Layout: the words of the arena that threads write and readers copy, and what each word does by itself.
//!
//! Nothing here knows a thread or when something happens: that is for the folders above.

pub(crate) mod balance;
pub(crate) mod bank;
pub(crate) mod cell;
pub(crate) mod cell_list;
pub(crate) mod counters;
pub(crate) mod deferred;
pub(crate) mod error;
pub(crate) mod histograms;
pub(crate) mod journal;
pub(crate) mod owner;
pub(crate) mod program;
pub(crate) mod read_locks;
pub(crate) mod reference;
pub(crate) mod ring;
pub(crate) mod session_memory;
pub(crate) mod stage;
pub(crate) mod statement;
pub(crate) mod statement_flags;
pub(crate) mod transaction;
pub(crate) mod values;
pub(crate) mod wait;
