//! The parser of UNION ALL over SELECTs from one table.

use super::parser::SqlParser;
use super::statement::{Select, SqlStatement};
use crate::failure::ErrorPacket;

impl SqlParser<'_> {
    /// Parses `(SELECT …) UNION ALL (SELECT …) …`.
    pub(super) fn union(&mut self) -> Result<SqlStatement, ErrorPacket> {
        let mut parts: Vec<Select> = Vec::new();
        loop {
            self.expect("(")?;
            self.expect_word("SELECT")?;
            let SqlStatement::Select(part) = self.select()? else {
                return Err(ErrorPacket::unsupported("UNION without a table"));
            };
            self.expect(")")?;
            if let Some(first) = parts.first() {
                if first.table.name() != part.table.name() {
                    return Err(ErrorPacket::unsupported("UNION of two tables"));
                }
                if first.items.len() != part.items.len() {
                    return Err(ErrorPacket::different_counts());
                }
            }
            parts.push(part);
            if !self.accept_word("UNION")? {
                return Ok(SqlStatement::Union(parts));
            }
            if !self.accept_word("ALL")? {
                return Err(ErrorPacket::unsupported("UNION without ALL"));
            }
        }
    }
}
