//! The MySQL-protocol endpoint: serves the tables over a Unix socket, inside the host server's process.
//!
//! The host's own FEDERATED tables are its main client; `tare status`, the command-line client and tests are others.
//! It never calls the host, holds no lock while it waits for a client, and bounds what a client can make it hold:
//! a command of 1 MiB, one row and 64 KiB of answer, 8 MiB of rows where a statement must see them all first
//! (ORDER BY and multi-row writes, which FEDERATED never sends).

mod answer;
mod endpoint;
mod failure;
mod peer;
mod protocol;
mod sql;
mod text;

pub use endpoint::{Endpoint, EndpointConfig, EndpointError, Spawn};
pub use sql::catalog::NameInside;
