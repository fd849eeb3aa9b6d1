//! The SQL the endpoint understands: what FEDERATED sends, and a useful bit more for direct clients.
//!
//! Its own small parser, and not a general one, because it runs on a small stack inside a host that must not
//! fall over: nesting is bounded, so is what a statement can hold, and text is bytes (a blob in a WHERE is no UTF-8).

pub(crate) mod catalog;
mod condition;
pub(crate) mod filter;
mod lexer;
mod meant;
pub(crate) mod parser;
mod session;
pub(crate) mod statement;
mod union;

pub(crate) use parser::parse;
