//! What a provider needs in its server's process, whichever server that is.
//!
//! A *provider* is a shared object that is loaded with `LD_PRELOAD` and takes events from a server. Its crate
//! knows that server's interface; this one knows the process: exported symbols and memory ([`process`]),
//! jumps at the entries of functions ([`jumps`]), machine code ([`code`], [`call_sites`], [`instructions`]),
//! tare's options ([`options`]), and threads that every provider has ([`active`], [`sampling`], [`governor`],
//! [`service`]).
//!
//! The modules form layers, listed in `layers.toml`: each uses only modules of the layers below it.

pub mod active;
pub mod call_sites;
pub mod code;
pub mod families;
pub mod governor;
pub mod instructions;
pub mod jumps;
pub mod options;
pub mod process;
pub mod sampling;
pub mod service;
pub mod socket;
