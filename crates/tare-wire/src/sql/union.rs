//! The parser of UNION ALL over SELECTs from one table.

use super::parser::SqlParser;
use super::statement::{Select, Statement};
use crate::failure::Failure;

impl SqlParser<'_> {
    /// Parses `(SELECT …) UNION ALL (SELECT …) …`.
    pub(super) fn union(&mut self) -> Result<Statement, Failure> {
        let mut parts: Vec<Select> = Vec::new();
        loop {
            self.expect("(")?;
            self.expect_word("SELECT")?;
            let Statement::Select(part) = self.select()? else {
                return Err(Failure::unsupported("UNION without a table"));
            };
            self.expect(")")?;
            if let Some(first) = parts.first() {
                if first.table.name() != part.table.name() {
                    return Err(Failure::unsupported("UNION of two tables"));
                }
                if first.items.len() != part.items.len() {
                    return Err(Failure::different_counts());
                }
            }
            parts.push(part);
            if !self.accept_word("UNION")? {
                return Ok(Statement::Union(parts));
            }
            if !self.accept_word("ALL")? {
                return Err(Failure::unsupported("UNION without ALL"));
            }
        }
    }
}
