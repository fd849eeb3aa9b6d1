//! The provider for stock MySQL servers, loaded with `LD_PRELOAD`. Experimental.
//!
//! The server's own Performance Schema, *the built-in*, stays on: it makes the objects (locks, files,
//! threads) and describes them. The functions it is told waits by lead to this library, which counts in
//! `tare-engine`, and the tables of waits show what this library has counted.
//!
//! The modules form layers, listed in `layers.toml`: each uses only modules of the layers below it.

pub mod abi;
mod entry;
mod original;
mod serve;
mod server;
pub mod startup;
mod tables;
