//! Outlets: tools that read a server's Performance Schema and write it elsewhere. Each is a process of its
//! own, so that HTTP, TLS, files and screens stay outside the server.
//!
//! [`source`] is the common input: the tables of tare's endpoint, or of any MariaDB or MySQL through an
//! account. [`top`] shows them on a screen.

pub mod ash;
mod counter;
mod destination;
pub mod export;
pub mod govern;
mod locks;
pub mod notice;
pub mod report;
pub mod sessions;
pub mod slowlog;
pub mod snapshot;
pub mod source;
pub mod top;

pub use source::{Address, Error, Kind, Row, Source};
pub use tare_page::unit::terminal as units;
