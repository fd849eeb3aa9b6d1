//! Digests of statements that had none when they were sampled: MariaDB's own Performance Schema tells the
//! digest of a statement only when it has ended. They are looked up afterwards, among each thread's last
//! statements, as long as no statement of the same shape has ended before. Of a short statement that is
//! looked up only by its number, ten others may have ended meanwhile: without shapes, short ones would be
//! missing.

use std::collections::HashMap;

use super::LateDigest;
use super::seen::{LONGEST_TEXT, SeenStatement, SeenThread};
use crate::source::{Error, Row, Source};

/// Most statements that are waited for; of more, only those in progress.
const MOST: usize = 10_000;
/// Most shapes that are remembered.
const MOST_SHAPES: usize = 10_000;

/// A statement: THREAD_ID and EVENT_ID.
type Key = (u64, u64);

/// A statement whose digest is not known yet.
struct Pending {
    schema: Option<String>,
    shape: Option<String>,
    /// Whether it was in progress in the last sample.
    runs: bool,
}

/// A digest and its text.
#[derive(Clone, Debug, PartialEq)]
struct Digest {
    hash: String,
    text: String,
}

impl Digest {
    fn of(&self, (thread, event_id): Key, schema: Option<String>) -> LateDigest {
        LateDigest { thread, event_id, schema, digest: self.hash.clone(), text: self.text.clone() }
    }
}

/// Statements whose digests are not known yet, and digests by shape.
#[derive(Default)]
pub(super) struct LateDigests {
    pending: HashMap<Key, Pending>,
    by_shape: HashMap<String, Digest>,
}

impl LateDigests {
    /// Gives statements without a digest that of their shape, where it is known.
    pub(super) fn fill_in(&self, threads: &mut [SeenThread]) {
        for statement in threads.iter_mut().filter_map(|thread| thread.statements.last_mut()) {
            if let Some(known) = self.known(statement) {
                (statement.digest, statement.digest_text) =
                    (Some(known.hash.clone()), Some(known.text.clone()));
            }
        }
    }

    fn known(&self, statement: &SeenStatement) -> Option<&Digest> {
        let shape = statement.shape.as_ref().filter(|_| statement.digest.is_none())?;
        self.by_shape.get(shape)
    }

    /// Notes which of the sampled statements have no digest, and returns those of earlier ones, and of these,
    /// that can be told by now. `shape` is the SQL of a statement's shape.
    pub(super) fn ask<'t>(
        &mut self,
        source: &mut Source,
        shape: &str,
        threads: impl Iterator<Item = &'t SeenThread>,
    ) -> Result<Vec<LateDigest>, Error> {
        let asked = self.note(threads);
        if asked.is_empty() {
            return Ok(vec![]);
        }
        let part = |table: &str| {
            format!(
                "SELECT `THREAD_ID`, `EVENT_ID`, `DIGEST`, LEFT(`DIGEST_TEXT`, {LONGEST_TEXT}), {shape} \
                 FROM `performance_schema`.`{table}` \
                 WHERE `DIGEST` IS NOT NULL AND `END_EVENT_ID` IS NOT NULL AND `THREAD_ID` IN ({})",
                asked.join(", ")
            )
        };
        let sql = [part("events_statements_current"), part("events_statements_history")].join(" UNION ALL ");
        let rows = source.ask(&sql)?;
        Ok(self.learn(&rows))
    }

    /// Notes the statements in progress without a digest; returns the threads whose last statements are of
    /// use.
    fn note<'t>(&mut self, threads: impl Iterator<Item = &'t SeenThread>) -> Vec<String> {
        if self.pending.len() >= MOST {
            self.pending.retain(|_, it| it.runs);
        }
        let mut asked: Vec<u64> =
            self.pending.iter().filter(|(_, it)| it.runs).map(|((thread, _), _)| *thread).collect();
        self.pending.values_mut().for_each(|it| it.runs = false);
        for thread in threads {
            let Some(statement) = thread.statements.last().filter(|it| it.digest.is_none()) else { continue };
            let key = (thread.id, statement.event_id);
            asked.push(thread.id);
            let schema = || statement.schema.clone().or_else(|| thread.schema.clone());
            let noted = || Pending { schema: schema(), shape: statement.shape.clone(), runs: true };
            self.pending.entry(key).or_insert_with(noted).runs = true;
        }
        asked.sort_unstable();
        asked.dedup();
        asked.iter().map(u64::to_string).collect()
    }

    /// Takes in statements that have ended; returns the digests that are known by that.
    fn learn(&mut self, rows: &[Row]) -> Vec<LateDigest> {
        let mut late = vec![];
        if self.by_shape.len() > MOST_SHAPES {
            self.by_shape.clear();
        }
        for row in rows {
            let digest =
                Digest { hash: row.text(2).unwrap_or_default(), text: row.text(3).unwrap_or_default() };
            let key = (row.count(0), row.count(1));
            if let Some(pending) = self.pending.remove(&key) {
                late.push(digest.of(key, pending.schema));
            }
            if let Some(shape) = row.text(4) {
                self.by_shape.insert(shape, digest);
            }
        }
        self.pending.retain(|key, pending| {
            let known = pending.shape.as_ref().and_then(|shape| self.by_shape.get(shape));
            late.extend(known.map(|digest| digest.of(*key, pending.schema.clone())));
            // Of what has ended, is not among the last statements and has no shape nobody tells any more.
            known.is_none() && (pending.runs || pending.shape.is_some())
        });
        late
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(id: u64, event_id: u64, shape: Option<&str>) -> SeenThread {
        let shape = shape.map(str::to_owned);
        SeenThread {
            id,
            statements: vec![SeenStatement { event_id, shape, ..SeenStatement::default() }],
            ..SeenThread::default()
        }
    }

    fn ended(texts: [&str; 5]) -> Row {
        Row::of(&texts.map(|text| Some(text).filter(|text| *text != "-")))
    }

    fn keys(late: &[LateDigest]) -> Vec<(u64, u64, &str)> {
        let mut keys: Vec<_> = late.iter().map(|it| (it.thread, it.event_id, it.digest.as_str())).collect();
        keys.sort_unstable();
        keys
    }

    #[test]
    fn a_digest_is_known_by_the_number_or_by_the_shape() {
        let mut late = LateDigests::default();
        let first = [thread(1, 10, Some("a")), thread(2, 20, None), thread(3, 30, Some("b"))];
        assert_eq!(late.note(first.iter()), ["1", "2", "3"]);
        let told = late.learn(&[ended(["2", "20", "D2", "SELECT ?", "-"])]);
        assert_eq!(keys(&told), [(2, 20, "D2")]);
        // The first thread has gone on; what it did is told by a statement of the same shape, whenever one
        // ends.
        assert_eq!(late.note([thread(3, 30, Some("b"))].iter()), ["1", "3"], "once more, and no longer");
        assert_eq!(late.learn(&[]), []);
        assert_eq!(late.note([thread(3, 30, Some("b"))].iter()), ["3"]);
        let told = late.learn(&[ended(["3", "29", "D1", "SELECT a", "a"])]);
        assert_eq!(keys(&told), [(1, 10, "D1")]);
        let mut threads = [thread(9, 90, Some("a")), thread(9, 91, Some("b")), thread(9, 92, None)];
        late.fill_in(&mut threads);
        let filled = threads.each_ref().map(|it| it.statements[0].digest.as_deref());
        assert_eq!(filled, [Some("D1"), None, None]);
        assert_eq!(threads[0].statements[0].digest_text.as_deref(), Some("SELECT a"));
    }

    #[test]
    fn what_has_ended_unseen_and_has_no_shape_is_given_up() {
        let mut late = LateDigests::default();
        late.note([thread(1, 10, None)].iter());
        assert_eq!(late.learn(&[]), []);
        assert_eq!(late.note([].iter()), ["1"]);
        assert_eq!(late.learn(&[]), []);
        assert!(late.pending.is_empty());
        assert!(late.note([].iter()).is_empty());
    }
}
