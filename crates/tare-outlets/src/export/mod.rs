//! `tare export`: a server's Performance Schema for Prometheus, over HTTP and HTTPS.
//!
//! A scrape reads each table it needs once, over a persistent connection ([`scrape`]). Scrapes run one at a
//! time, so that many clients load the server no more than one does. [`collectors`] define what is read, and
//! the file of [`web_config`] defines who may scrape. The result ([`sample`]) is sent as Prometheus's
//! [`text`] or [`protobuf`], or pushed to a collector ([`otlp`]). Other servers are read on demand
//! ([`probe`]).

mod basic_auth;
pub mod collector;
pub mod collectors;
pub mod format;
pub mod histogram;
pub mod otlp;
mod page;
pub mod probe;
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
