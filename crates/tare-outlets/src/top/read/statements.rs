//! Statements by digest, and prepared ones where their executions have no digest, as in MariaDB's built-in.
//! Their texts are long and do not change, so each is read once.

use std::collections::HashSet;

use super::{Reader, one_of};
use crate::source::{Error, Kind};
use crate::top::look::{Counted, DIGESTS, Key, PREPARED, PREPARED_MARK};

/// Most new digests that are queried by name; with more, all are read.
const NAMED: usize = 100;

impl Reader {
    /// Returns rows of digests and of prepared statements.
    pub(super) fn statements(&mut self, notes: &mut Vec<String>) -> Result<Vec<Counted>, Error> {
        let mut rows = self.counted(&DIGESTS, "", notes)?;
        rows.extend(self.prepared("WHERE `STATEMENT_NAME` IS NULL", notes)?);
        Ok(rows)
    }

    /// Returns prepared statements as rows of digests, where their executions have none. Those prepared by
    /// SQL have the digest of EXECUTE.
    pub(super) fn prepared(&mut self, filter: &str, notes: &mut Vec<String>) -> Result<Vec<Counted>, Error> {
        if self.executions_have_digests || self.source.kind() == Kind::MySql {
            return Ok(vec![]);
        }
        let mut rows = self.counted(&PREPARED, filter, notes)?;
        for row in &mut rows {
            row.key = prepared_key(row.named(0), row.named(1));
        }
        Ok(rows)
    }

    /// Returns the texts of statements that have not been returned yet.
    pub(super) fn texts(
        &mut self,
        rows: &[Counted],
        notes: &mut Vec<String>,
    ) -> Result<Vec<(Key, String)>, Error> {
        if self.told.len() > rows.len() * 2 {
            let there: HashSet<&Key> = rows.iter().map(|row| &row.key).collect();
            self.told.retain(|key| there.contains(key));
        }
        let new: Vec<&Counted> = rows.iter().filter(|row| !self.told.contains(&row.key)).collect();
        let digests: Vec<&str> =
            new.iter().filter(|row| !row.is_prepared()).filter_map(|row| row.key[1].as_deref()).collect();
        let mut texts = vec![];
        if !digests.is_empty() {
            let filter = if digests.len() <= NAMED { one_of("DIGEST", &digests) } else { String::new() };
            for row in self.rows(DIGESTS.table, &["SCHEMA_NAME", "DIGEST", "DIGEST_TEXT"], &filter, notes)? {
                texts.push((vec![row.text(0), row.text(1)], row.text(2)));
            }
        }
        if new.iter().any(|row| row.is_prepared()) {
            let columns = ["OWNER_THREAD_ID", "STATEMENT_ID", "SQL_TEXT"];
            for row in self.rows(PREPARED.table, &columns, "", notes)? {
                let (owner, number) = (row.text(0).unwrap_or_default(), row.text(1).unwrap_or_default());
                texts.push((prepared_key(&owner, &number), row.text(2)));
            }
        }
        let told = texts.into_iter().filter_map(|(key, text)| {
            let text = text?;
            self.told.insert(key.clone()).then_some((key, text))
        });
        Ok(told.collect())
    }
}

/// Returns the key of a prepared statement among digests.
fn prepared_key(owner: &str, number: &str) -> Key {
    vec![None, Some(PREPARED_MARK.to_owned()), Some(format!("{owner}/{number}"))]
}
