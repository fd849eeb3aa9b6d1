//! The details of a digest: its text, its latest statements that ended, and the events within them.

use std::collections::HashMap;

use super::{Reader, both};
use crate::source::{Error, Row};
use crate::top::look::{DIGESTS, Digest, Sample};

/// Number of statements that are shown and analysed.
const SAMPLES: usize = 5;

impl Reader {
    pub(super) fn digest(
        &mut self,
        schema: Option<&str>,
        digest: &str,
        notes: &mut Vec<String>,
    ) -> Result<Digest, Error> {
        let summary = format!("WHERE {}", both("SCHEMA_NAME", schema, "DIGEST", digest));
        let text = self.rows(DIGESTS.table, &["DIGEST_TEXT"], &summary, notes)?;
        let samples = self.samples(schema, digest, notes)?;
        let (stages, waits) = match within(&samples) {
            Some(filter) => {
                (self.nested("events_stages", &filter, notes)?, self.nested("events_waits", &filter, notes)?)
            }
            None => (vec![], vec![]),
        };
        let histogram = "events_statements_histogram_by_digest";
        let buckets = if self.source.columns(histogram)?.is_empty() {
            notes.push(
                "No histograms here, and so no P95: MySQL 8 has them, and tare with shape = extended in [tare]."
                    .to_owned(),
            );
            vec![]
        } else {
            self.rows(histogram, &["BUCKET_TIMER_HIGH", "COUNT_BUCKET"], &summary, notes)?
        };
        Ok(Digest {
            text: text.first().and_then(|row| row.text(0)),
            samples,
            stages,
            waits,
            buckets: buckets.iter().map(|row| (row.count(0), row.count(1))).collect(),
        })
    }

    fn samples(
        &mut self,
        schema: Option<&str>,
        digest: &str,
        notes: &mut Vec<String>,
    ) -> Result<Vec<Sample>, Error> {
        let filter = format!(
            "WHERE {} ORDER BY `TIMER_END` DESC LIMIT {SAMPLES}",
            both("CURRENT_SCHEMA", schema, "DIGEST", digest)
        );
        let rows = self.history("events_statements", &SAMPLE, &filter, notes)?;
        Ok(rows.iter().map(sample).collect())
    }

    /// Returns the time of nested events by instrument, the most time first.
    fn nested(
        &mut self,
        kind: &str,
        filter: &str,
        notes: &mut Vec<String>,
    ) -> Result<Vec<(String, u64)>, Error> {
        let mut sums: HashMap<String, u64> = HashMap::new();
        for row in self.history(kind, &["EVENT_NAME", "TIMER_WAIT"], filter, notes)? {
            *sums.entry(row.text(0).unwrap_or_default()).or_default() += row.count(1);
        }
        let mut sums: Vec<(String, u64)> = sums.into_iter().collect();
        sums.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        Ok(sums)
    }

    /// Returns ended events: of all threads, or else the few of each living thread.
    fn history(
        &mut self,
        kind: &str,
        columns: &[&str],
        filter: &str,
        notes: &mut Vec<String>,
    ) -> Result<Vec<Row>, Error> {
        let long = self.rows(&format!("{kind}_history_long"), columns, filter, notes)?;
        if !long.is_empty() {
            return Ok(long);
        }
        self.rows(&format!("{kind}_history"), columns, filter, notes)
    }
}

const SAMPLE: [&str; 9] = [
    "THREAD_ID",
    "EVENT_ID",
    "END_EVENT_ID",
    "SQL_TEXT",
    "TIMER_WAIT",
    "LOCK_TIME",
    "ROWS_SENT",
    "ROWS_EXAMINED",
    "MYSQL_ERRNO",
];

fn sample(row: &Row) -> Sample {
    Sample {
        thread: row.count(0),
        events: (row.count(1), row.count(2)),
        text: row.text(3),
        time: row.count(4),
        lock_time: row.count(5),
        sent: row.count(6),
        examined: row.count(7),
        error: row.count(8),
    }
}

/// Returns the condition for the events within statements; `None` without statements.
fn within(samples: &[Sample]) -> Option<String> {
    let one = |it: &Sample| {
        let (first, last) = it.events;
        format!("(`THREAD_ID` = {} AND `EVENT_ID` > {first} AND `EVENT_ID` <= {last})", it.thread)
    };
    let all: Vec<String> = samples.iter().map(one).collect();
    (!all.is_empty()).then(|| format!("WHERE {}", all.join(" OR ")))
}
