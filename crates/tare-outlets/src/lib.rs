//! Outlets: what leaves a server. Each is a process of its own, which reads a server's Performance Schema and writes
//! it elsewhere; nothing of HTTP, TLS, files or screens enters the server.
//!
//! [`source`] is the one way in: the tables of tare's endpoint, or of any MariaDB or MySQL through an account.
//! [`top`] shows it on a screen.

mod counter;
pub mod export;
pub mod govern;
pub mod notice;
pub mod report;
pub mod slowlog;
pub mod snapshot;
pub mod source;
mod sql;
pub mod top;
pub mod units;

pub use source::{Address, Error, Kind, Row, Source};
