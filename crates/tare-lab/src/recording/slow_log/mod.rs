//! Slow logs: MariaDB's, MySQL's, Percona's, and what `tare slowlog` writes, in either of its forms.
//!
//! MariaDB's says when a statement ended in whole seconds, so statements of a second are spread over it evenly, in their order;
//! MySQL's and JSON say it to the microsecond. A statement began when it ended less what it took.

use std::io::BufRead;

use super::take::Take;
use super::token::Dialect;

mod header;
mod json;
mod record;
mod text;

pub(super) use header::is_banner;

/// Why a statement is not there that `tare slowlog` could not read any more.
const LOST: &str = "the log lacks them";

/// Reads a log whose server's `sql_mode` makes this of quotes; `None` if it is no slow log.
pub fn read(mut log: impl BufRead, dialect: Dialect) -> std::io::Result<Option<Take>> {
    if log.fill_buf()?.first() == Some(&b'{') { json::read(log) } else { text::read(log, dialect) }
}

#[cfg(test)]
mod tests;
