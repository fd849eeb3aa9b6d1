//! `tare ash`: the active session history of any server, sampled from outside into a file.
//!
//! The file has the rows of `tare_active_session_history` as JSON Lines in the snapshot's format. [`file`] reads
//! it back.

pub mod columns;
pub mod file;
