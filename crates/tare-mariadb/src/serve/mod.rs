//! The tables of a running server: the endpoint that answers for them, the server's variables, and the error
//! hook.

pub mod error_hook;
mod error_log;
mod service;
mod variables;

pub(crate) use service::begin;
