//! A server's Performance Schema, sampled by a query.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use super::blockers::Blockers;
use super::coverage::Coverage;
use super::holders::Holders;
use super::judge::{Doing, judge, row};
use super::late::LateDigests;
use super::seen::{Seen, SeenThread, query};
use super::tools::Tools;
use super::{AshError, Sample};
use crate::source::{Error, Kind, PreparedQuery, Source};

/// How much later than due a sample is at most on a busy server. Before one that is later still there was no
/// sampling.
const LATE: Duration = Duration::from_secs(5);

/// A connection that samples.
pub(super) struct Sampler {
    source: Source,
    coverage: Coverage,
    query: PreparedQuery,
    blockers: Blockers,
    tools: Tools,
    late: LateDigests,
    holders: Holders,
    /// When the last sample was taken.
    last: Option<Instant>,
}

impl Sampler {
    /// Prepares the query. What is missing, and what to do about it, is in [`Sampler::notes`].
    ///
    /// # Errors
    /// When the Performance Schema is off, the account may not read it, or the server does not answer.
    pub(super) fn new(mut source: Source) -> Result<Sampler, AshError> {
        let coverage = Coverage::of(&mut source)?;
        let query = source.prepare(&query(&coverage))?;
        let tools = Tools::of(&mut source)?;
        let (blockers, late) = (Blockers::default(), LateDigests::default());
        let holders = Holders::default();
        Ok(Sampler { source, coverage, query, blockers, tools, late, holders, last: None })
    }

    pub(super) fn source(&mut self) -> &mut Source {
        &mut self.source
    }

    /// Returns lines for the user that have not been returned yet.
    pub(super) fn notes(&mut self) -> Vec<String> {
        let mut notes = std::mem::take(&mut self.coverage.notes);
        notes.append(&mut self.blockers.notes);
        notes
    }

    /// Takes a sample. A row stands for the time since the sample before.
    pub(super) fn sample(&mut self, interval: Duration) -> Result<Sample, Error> {
        let now = Instant::now();
        let us = row_us(self.last.replace(now), now, interval);
        let mut seen = Seen::of(&self.source.run(&self.query)?);
        self.late.fill_in(&mut seen.threads);
        let mut active: Vec<(&SeenThread, Doing)> =
            seen.threads.iter().filter_map(|thread| Some((thread, judge(thread)?))).collect();
        let connections: HashSet<u64> = active.iter().filter_map(|(thread, _)| thread.connection).collect();
        self.tools.look(&mut self.source, &connections)?;
        active.retain(|(thread, _)| !thread.connection.is_some_and(|it| self.tools.has(it)));
        self.blockers.complete(&mut self.source, &self.coverage, &mut active)?;
        let mut sample = Sample::default();
        if let Some(shape) = &self.coverage.shape {
            sample.late = self.late.ask(&mut self.source, shape, active.iter().map(|(thread, _)| *thread))?;
        }
        for (thread, doing) in &active {
            sample.rows.push(row(&seen.time, us, thread, doing, &self.coverage));
            let told = thread.statements.iter().rev().find(|statement| statement.digest.is_some());
            if let Some(statement) = told
                && let (Some(digest), Some(text)) = (&statement.digest, &statement.digest_text)
            {
                sample.texts.push((digest.clone(), text.clone()));
            }
        }
        sample.holders = self.holders.ask(&mut self.source, sample.rows.iter())?;
        Ok(sample)
    }

    /// Returns the number of the server's processors, where something tells it.
    pub(super) fn processors(&mut self) -> Result<Option<u64>, Error> {
        let sql = match self.source.kind() {
            Kind::MySql => {
                "SELECT CAST(`VCPU_IDS` AS CHAR) FROM `information_schema`.`RESOURCE_GROUPS` \
                 WHERE `RESOURCE_GROUP_NAME` = 'USR_default'"
            }
            // By default it is the number of processors.
            Kind::MariaDb | Kind::Tare => {
                "SELECT `GLOBAL_VALUE` FROM `information_schema`.`SYSTEM_VARIABLES` \
                 WHERE `VARIABLE_NAME` = 'THREAD_POOL_SIZE' AND `GLOBAL_VALUE_ORIGIN` = 'AUTO'"
            }
        };
        match self.source.ask(sql) {
            Ok(rows) => Ok(rows.first().and_then(|row| row.text(0)).and_then(|text| count(&text))),
            Err(error) if error.is_passing() => Err(error),
            // Earlier versions do not tell.
            Err(_) => Ok(None),
        }
    }
}

/// Returns the microseconds that a row of a sample stands for: the time since the sample before, however late
/// this one is, so that sums are unbiased. `interval`, if it is the first one or nobody sampled for long.
fn row_us(last: Option<Instant>, now: Instant, interval: Duration) -> u64 {
    let since = last.map(|last| now.duration_since(last));
    let time = since.filter(|since| *since <= interval + LATE).unwrap_or(interval);
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Returns how many numbers a list of ranges has, such as `0-3,6`; a single number that is no list counts for
/// itself.
fn count(text: &str) -> Option<u64> {
    if let Ok(number) = text.parse::<u64>()
        && number > 0
    {
        return Some(number);
    }
    let range = |part: &str| {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (from, to): (u64, u64) = (from.trim().parse().ok()?, to.trim().parse().ok()?);
        to.checked_sub(from).map(|more| more + 1)
    };
    text.split(',').map(range).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_sample_stands_for_all_the_time_since_the_one_before() {
        let (begin, second) = (Instant::now(), Duration::from_secs(1));
        let us = |ms: u64| row_us(Some(begin), begin + Duration::from_millis(ms), second);
        assert_eq!([us(990), us(1000), us(4200)], [990_000, 1_000_000, 4_200_000]);
        assert_eq!(us(60_000), 1_000_000, "nobody sampled");
        assert_eq!(row_us(None, begin, second), 1_000_000);
    }

    #[test]
    fn processors_are_counted() {
        for (text, expected) in [
            ("0-1", Some(2)),
            ("0-3,6", Some(5)),
            ("0", Some(1)),
            ("16", Some(16)),
            ("", None),
            ("3-1", None),
        ] {
            assert_eq!(count(text), expected, "{text}");
        }
    }
}
