//! `tare export`: its format, its metrics beside mysqld_exporter's, who is let in, its bounds, and a server
//! that goes away.

mod bounds;
mod chosen;
mod client;
mod collector;
mod dashboard;
mod doubles;
mod format;
mod native;
mod otlp;
mod page;
mod probe;
mod record;
mod same;
mod security;
mod unit;
