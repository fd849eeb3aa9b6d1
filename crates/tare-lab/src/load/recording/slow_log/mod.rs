//! Parser of slow logs: MariaDB's, MySQL's, Percona's, and both formats of `tare slowlog`.
//!
//! MariaDB logs the end of a statement in whole seconds, so statements of a second are spread over it evenly,
//! in their order; MySQL and JSON log microseconds. The start is the end minus the duration.

use std::io::BufRead;

use super::take::Take;
use super::token::Dialect;

mod header;
mod json;
mod record;
mod text;

pub(super) use header::is_banner;

/// Reason for statements that `tare slowlog` could not read in time.
const LOST: &str = "the log lacks them";

/// Parses a log; `dialect` is how the server's `sql_mode` treats quotes. `None` if it is no slow log.
pub fn read(mut log: impl BufRead, dialect: Dialect) -> std::io::Result<Option<Take>> {
    if log.fill_buf()?.first() == Some(&b'{') { json::read(log) } else { text::read(log, dialect) }
}

#[cfg(test)]
mod tests;
