//! The SQL that the endpoint understands: what FEDERATED sends, and a little more for direct clients.
//!
//! It has its own small parser because it runs on a small stack inside a host that must not crash. Nesting
//! and the size of a statement are bounded, and text is bytes (a blob in a WHERE is not UTF-8).

pub(crate) mod catalog;
mod condition;
pub(crate) mod filter;
mod items;
mod lexer;
mod meant;
pub(crate) mod parser;
mod session;
pub(crate) mod statement;
mod union;

pub(crate) use parser::parse;
