//! Digests of statements that had none when they were sampled: MariaDB's own Performance Schema tells the
//! digest of a statement only when it has ended. They are looked up afterwards, among each thread's last
//! statements.

use std::collections::{HashMap, HashSet};

use super::LateDigest;
use super::seen::SeenThread;
use crate::source::{Error, Source};

/// Most statements that are waited for.
const MOST: usize = 10_000;

/// A statement: THREAD_ID and EVENT_ID.
type Key = (u64, u64);

/// Statements whose digests are not known yet, with their schemas.
#[derive(Default)]
pub(super) struct LateDigests {
    pending: HashMap<Key, Option<String>>,
}

impl LateDigests {
    /// Notes which of the sampled statements have no digest, and returns those of earlier ones, and of these,
    /// that have ended since.
    pub(super) fn ask<'t>(
        &mut self,
        source: &mut Source,
        threads: impl Iterator<Item = &'t SeenThread>,
    ) -> Result<Vec<LateDigest>, Error> {
        let mut running = HashSet::new();
        for thread in threads {
            let Some(statement) = thread.statements.last().filter(|it| it.digest.is_none()) else { continue };
            let key = (thread.id, statement.event_id);
            running.insert(key);
            if self.pending.len() < MOST {
                let schema = statement.schema.clone().or_else(|| thread.schema.clone());
                self.pending.entry(key).or_insert(schema);
            }
        }
        if self.pending.is_empty() {
            return Ok(vec![]);
        }
        let threads: HashSet<u64> = self.pending.keys().map(|(thread, _)| *thread).collect();
        let threads: Vec<String> = threads.iter().map(u64::to_string).collect();
        let part = |table: &str| {
            format!(
                "SELECT `THREAD_ID`, `EVENT_ID`, `DIGEST`, LEFT(`DIGEST_TEXT`, 4096) FROM `performance_schema`.`{table}` \
                 WHERE `DIGEST` IS NOT NULL AND `END_EVENT_ID` IS NOT NULL AND `THREAD_ID` IN ({})",
                threads.join(", ")
            )
        };
        let sql = [part("events_statements_current"), part("events_statements_history")].join(" UNION ALL ");
        let mut late = vec![];
        for row in source.ask(&sql)? {
            let Some(schema) = self.pending.remove(&(row.count(0), row.count(1))) else { continue };
            late.push(LateDigest {
                thread: row.count(0),
                event_id: row.count(1),
                schema,
                digest: row.text(2).unwrap_or_default(),
                text: row.text(3).unwrap_or_default(),
            });
        }
        // Of what has ended and is not among the last statements nobody tells any more.
        self.pending.retain(|key, _| running.contains(key));
        Ok(late)
    }
}
