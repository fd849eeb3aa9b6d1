//! `tare export`: a server's Performance Schema for Prometheus, on HTTP and HTTPS.
//!
//! A scrape reads each table it needs once, over a connection that stays ([`scrape`]); one at a time, so that many who
//! ask at once cost the server no more than one after the other. What is read is said by [`collectors`], who may ask by
//! the file of [`web_config`]. What a look found ([`sample`]) leaves as Prometheus's [`text`] or [`protobuf`], or is
//! pushed to a collector ([`otlp`]).

mod basic_auth;
pub mod collector;
pub mod collectors;
pub mod format;
pub mod histogram;
pub mod otlp;
mod page;
mod process;
pub mod protobuf;
mod query;
pub mod sample;
pub mod scrape;
mod stream;
pub mod text;
mod tls;
pub mod web;
pub mod web_config;
