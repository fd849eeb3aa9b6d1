//! What each connection did between two looks: its events, as the tables by thread tell, and the CPU time of its thread.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tare_budget::Connection;

use super::meter::Machine;
use crate::source::{Error, Source};

/// Tables, and the columns that are added up. Errors are not among them: the tables by thread know them by number only.
const TABLES: [(&str, &[&str]); 5] = [
    ("events_waits_summary_by_thread_by_event_name", &["COUNT_STAR"]),
    ("events_stages_summary_by_thread_by_event_name", &["COUNT_STAR"]),
    ("events_statements_summary_by_thread_by_event_name", &["COUNT_STAR"]),
    ("events_transactions_summary_by_thread_by_event_name", &["COUNT_STAR"]),
    ("memory_summary_by_thread_by_event_name", &["COUNT_ALLOC", "COUNT_FREE"]),
];

/// The connections there are, by THREAD_ID; without our own.
#[derive(Debug, Default)]
pub(super) struct Connections(BTreeMap<u64, Seen>);

#[derive(Debug)]
struct Seen {
    /// The kernel's number of its thread.
    os_id: u64,
    cpu: Duration,
    events: BTreeMap<String, u64>,
}

impl Connections {
    /// Reads them. Where threads serve several connections nobody can tell what they did for which: there are none.
    ///
    /// # Errors
    ///
    /// As [`Source::rows`].
    pub(super) fn read(source: &mut Source, machine: &Machine, process: u32) -> Result<Connections, Error> {
        let filter = "WHERE PROCESSLIST_ID IS NOT NULL AND PROCESSLIST_ID <> CONNECTION_ID()";
        let threads = source.rows("threads", &["THREAD_ID", "THREAD_OS_ID"], filter)?;
        let threads: BTreeMap<u64, u64> =
            threads.iter().filter_map(|row| Some((row.number(0)?, row.number(1)?))).collect();
        if threads.values().collect::<BTreeSet<_>>().len() < threads.len() {
            return Ok(Connections::default());
        }
        let known = threads.into_iter().filter_map(|(id, os_id)| {
            let cpu = (machine.thread_cpu)(process, os_id)?;
            Some((id, Seen { os_id, cpu, events: BTreeMap::new() }))
        });
        let mut seen: BTreeMap<u64, Seen> = known.collect();
        for (table, columns) in TABLES {
            count(source, table, columns, &mut seen)?;
        }
        Ok(Connections(seen))
    }

    /// What those did that were there at an earlier reading. Where one has another thread by now, as of a pool, nobody can
    /// tell of any.
    pub(super) fn since(&self, before: &Connections) -> Vec<Connection> {
        let both = self.0.iter().filter_map(|(id, now)| Some((now, before.0.get(id)?)));
        let both: Vec<(&Seen, &Seen)> = both.collect();
        if both.iter().any(|(now, then)| now.os_id != then.os_id) {
            return vec![];
        }
        both.into_iter().map(|(now, then)| now.since(then)).collect()
    }
}

/// Adds a table's counts to those of the connections that are known.
fn count(
    source: &mut Source,
    table: &str,
    columns: &[&str],
    seen: &mut BTreeMap<u64, Seen>,
) -> Result<(), Error> {
    let asked: Vec<&str> = ["THREAD_ID", "EVENT_NAME"].iter().chain(columns).copied().collect();
    let rows = match source.rows(table, &asked, &format!("WHERE `{}` > 0", columns[0])) {
        Ok(rows) => rows,
        Err(Error::Absent { .. }) => return Ok(()), // an older server
        Err(error) => return Err(error),
    };
    for row in rows {
        let Some(connection) = row.number(0).and_then(|id| seen.get_mut(&id)) else { continue };
        let sum: u64 = (2..asked.len()).map(|at| row.count(at)).sum();
        connection.events.insert(row.text(1).unwrap_or_default(), sum);
    }
    Ok(())
}

impl Seen {
    fn since(&self, before: &Seen) -> Connection {
        let since = |(name, now): (&String, &u64)| {
            let then = before.events.get(name).copied().unwrap_or(0);
            // What has fallen was reset in between: what is there now is what is known.
            let count = now.checked_sub(then).unwrap_or(*now);
            #[allow(clippy::cast_precision_loss)] // prices are rough
            (count > 0).then_some((Cow::Owned(name.clone()), count as f64))
        };
        let cpu = self.cpu.saturating_sub(before.cpu).as_secs_f64() * 1e9;
        Connection { cpu, events: self.events.iter().filter_map(since).collect() }
    }
}
