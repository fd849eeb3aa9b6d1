//! The MySQL-protocol endpoint, which serves the tables over a Unix socket inside the host server's process.
//!
//! Its main client is the host's own FEDERATED tables; `tare status`, command-line clients and tests are
//! others. It never calls the host, holds no lock while it waits for a client, and bounds the memory per
//! client: a command of 1 MiB, one row plus 64 KiB of answer, and 8 MiB of rows for statements that must
//! collect all rows first (ORDER BY and multi-row writes, which FEDERATED never sends).

mod answer;
mod endpoint;
mod failure;
mod peer;
mod protocol;
mod sql;
mod text;

pub use endpoint::{Endpoint, EndpointConfig, EndpointError, LISTENER, Spawn};
pub use sql::catalog::NameInside;
