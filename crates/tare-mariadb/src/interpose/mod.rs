//! Overrides of libc's functions: tables' files that are on no disk, connections to the endpoint, and the
//! first look at the data directory.

pub mod folder;
pub(crate) mod leftovers;
pub mod redirect;
