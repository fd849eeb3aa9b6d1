//! Accounts of sessions that hold what others wait for. One that is idle has no row of its own to tell it.

use std::collections::{BTreeSet, HashSet};

use super::columns::{THREAD_COLUMNS, THREADS, place};
use crate::snapshot::Value;
use crate::source::{Error, Source};

/// Most threads that are remembered.
const MOST: usize = 20_000;
/// Most threads that are asked for in one query.
const AT_ONCE: usize = 200;

/// A row of [`THREADS`] in the file, in the order of its columns.
pub(super) type Holder = [Value; THREAD_COLUMNS.len()];

/// The threads that have been asked for.
#[derive(Default)]
pub(super) struct Holders(HashSet<u64>);

impl Holders {
    /// Asks for the accounts of threads that others wait for, and that have no row among these. Each is asked
    /// for once.
    pub(super) fn ask<'r>(
        &mut self,
        source: &mut Source,
        rows: impl Iterator<Item = &'r Vec<Value>> + Clone,
    ) -> Result<Vec<Holder>, Error> {
        let of = |column: &str| {
            let at = place(column);
            rows.clone().filter_map(move |row| row[at].count())
        };
        let active: HashSet<u64> = of("THREAD_ID").collect();
        let unknown = |it: &u64| !active.contains(it) && !self.0.contains(it);
        let blockers: BTreeSet<u64> = of("BLOCKING_THREAD_ID").filter(unknown).collect();
        if self.0.len() > MOST {
            self.0.clear();
        }
        let blockers: Vec<u64> = blockers.into_iter().collect();
        let mut holders = vec![];
        for some in blockers.chunks(AT_ONCE) {
            let ids: Vec<String> = some.iter().map(u64::to_string).collect();
            let filter = format!("WHERE `THREAD_ID` IN ({})", ids.join(", "));
            match source.rows(THREADS, &THREAD_COLUMNS.map(|(name, _)| name), &filter) {
                Ok(rows) => holders.extend(
                    rows.iter()
                        .map(|row| std::array::from_fn(|at| THREAD_COLUMNS[at].1.value(row.bytes(at)))),
                ),
                Err(error) if error.is_passing() => return Err(error),
                // Without the table nobody tells.
                Err(_) => {}
            }
        }
        self.0.extend(blockers);
        Ok(holders)
    }
}
