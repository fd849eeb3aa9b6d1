//! Event counts of every instrument, from the server's own summary tables.

use std::collections::{BTreeMap, BTreeSet};

use tare_budget::{Done, WRITES, handler};

use crate::source::{Error, Source};

/// Tables, and the columns that are summed.
const TABLES: [(&str, &[&str]); 5] = [
    ("events_waits_summary_global_by_event_name", &["COUNT_STAR"]),
    ("events_stages_summary_global_by_event_name", &["COUNT_STAR"]),
    (STATEMENTS, &["COUNT_STAR"]),
    ("events_transactions_summary_global_by_event_name", &["COUNT_STAR"]),
    ("memory_summary_global_by_event_name", &["COUNT_ALLOC", "COUNT_FREE"]),
];

/// The summary that also has the statements' CPU time, in picoseconds, where MySQL's consumer
/// `events_statements_cpu` is on.
const STATEMENTS: &str = "events_statements_summary_global_by_event_name";

/// Counts since the server's start, or since a reset of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerCounts {
    /// Events by instrument.
    pub events: BTreeMap<String, u64>,
    /// Statements that clients sent.
    pub statements: u64,
    /// Connections that were made.
    pub connected: u64,
    /// Calls of storage engines that start table I/O.
    pub calls: u64,
    /// Statements that write.
    pub writes: u64,
    /// Uptime of the server in seconds.
    pub uptime: u64,
    /// CPU time in seconds, counted by the server; `None` where it does not.
    pub cpu: Option<f64>,
}

impl ServerCounts {
    /// Reads the counts.
    ///
    /// # Errors
    ///
    /// Those of [`Source::rows`].
    pub fn read(source: &mut Source) -> Result<ServerCounts, Error> {
        let mut counts = ServerCounts::default();
        for (table, columns) in TABLES {
            let asked: Vec<&str> = std::iter::once("EVENT_NAME").chain(columns.iter().copied()).collect();
            let filter = format!("WHERE `{}` > 0", columns[0]);
            let rows = match source.rows(table, &asked, &filter) {
                Ok(rows) => rows,
                Err(Error::Absent { .. }) => continue, // an older server
                Err(error) => return Err(error),
            };
            for row in rows {
                let sum: u64 = (1..asked.len()).map(|at| row.count(at)).sum();
                counts.events.insert(row.text(0).unwrap_or_default(), sum);
            }
        }
        counts.read_errors(source)?;
        counts.read_status(source)?;
        Ok(counts)
    }

    /// Reads the errors, which MySQL 8 counts by number under one instrument.
    fn read_errors(&mut self, source: &mut Source) -> Result<(), Error> {
        let raised = ["SUM_ERROR_RAISED"];
        let table = "events_errors_summary_global_by_error";
        match source.rows(table, &raised, "WHERE SUM_ERROR_RAISED > 0") {
            Ok(rows) if !rows.is_empty() => {
                self.events.insert("error".to_owned(), rows.iter().map(|row| row.count(0)).sum());
                Ok(())
            }
            Ok(_) | Err(Error::Absent { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Reads the CPU time that the server counts: MariaDB's with `userstat`, or that of statements with
    /// MySQL's consumer.
    ///
    /// # Errors
    ///
    /// Those of [`Source::rows`].
    pub fn read_cpu(&mut self, source: &mut Source) -> Result<(), Error> {
        if self.cpu.is_none() {
            let times = source.rows(STATEMENTS, &["SUM_CPU_TIME"], "")?;
            #[allow(clippy::cast_precision_loss)] // prices are rough
            let seconds = times.iter().map(|row| row.count(0)).sum::<u64>() as f64 / 1e12;
            self.cpu = (seconds > 0.0).then_some(seconds);
        }
        Ok(())
    }

    fn read_status(&mut self, source: &mut Source) -> Result<(), Error> {
        let status = format!(
            "SHOW GLOBAL STATUS WHERE Variable_name IN ('Questions', 'Connections', 'Uptime', 'Cpu_time', '{}', '{}')",
            handler::BEGINNINGS.join("', '"),
            WRITES.join("', '")
        );
        for row in source.ask(&status)? {
            match row.text(0).unwrap_or_default().as_str() {
                "Questions" => self.statements = row.count(1),
                "Connections" => self.connected = row.count(1),
                "Uptime" => self.uptime = row.count(1),
                name if handler::BEGINNINGS.contains(&name) => self.calls += row.count(1),
                name if WRITES.contains(&name) => self.writes += row.count(1),
                _ => self.cpu = row.text(1).and_then(|it| it.parse().ok()).filter(|it| *it > 0.0),
            }
        }
        Ok(())
    }

    /// Returns the events since an earlier reading. If a table was reset in between, its current counts are
    /// used. A single count that has fallen is no reset: `idle` falls when a connection ends, and its events
    /// are unknown.
    #[must_use]
    #[allow(clippy::cast_precision_loss)] // prices are rough
    pub fn since(&self, before: &ServerCounts) -> BTreeMap<String, f64> {
        let reset = self.reset_since(before);
        let since = |(name, now): (&String, &u64)| {
            let then = before.events.get(name).filter(|_| !reset.contains(table_of(name)));
            (name.clone(), now.saturating_sub(then.copied().unwrap_or(0)) as f64)
        };
        self.events.iter().map(since).collect()
    }

    /// Returns the statements that clients have sent since.
    #[must_use]
    #[allow(clippy::cast_precision_loss)] // likewise
    pub fn statements_since(&self, before: &ServerCounts) -> f64 {
        self.statements.saturating_sub(before.statements) as f64
    }

    /// Returns the differences of status variables; `None` for those that were reset.
    #[must_use]
    #[allow(clippy::cast_precision_loss)] // likewise
    pub fn done_since(&self, before: &ServerCounts) -> Done {
        let since = |now: u64, before: u64| now.checked_sub(before).map(|done| done as f64);
        Done { calls: since(self.calls, before.calls), writes: since(self.writes, before.writes) }
    }

    /// Returns the tables in which most counts have fallen or vanished.
    fn reset_since<'a>(&self, before: &'a ServerCounts) -> BTreeSet<&'a str> {
        let mut tables: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        for (name, then) in &before.events {
            let (rows, fallen) = tables.entry(table_of(name)).or_default();
            *rows += 1;
            *fallen += usize::from(self.events.get(name).is_none_or(|now| now < then));
        }
        tables.into_iter().filter(|(_, (rows, fallen))| 2 * fallen > *rows).map(|(table, _)| table).collect()
    }
}

/// Returns the table class that counts an instrument's events, by the first part of its name.
fn table_of(instrument: &str) -> &str {
    match instrument.split('/').next().unwrap_or(instrument) {
        "idle" => "wait",
        first => first,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn since<const N: usize>(now: [(&str, u64); N], before: &[(&str, u64)]) -> [f64; N] {
        let counts = |rows: &[(&str, u64)]| ServerCounts {
            events: rows.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect(),
            ..ServerCounts::default()
        };
        let since = counts(&now).since(&counts(before));
        now.map(|(name, _)| since[name])
    }

    #[test]
    fn a_reset_in_between_leaves_what_came_after_it() {
        let before = [("stage/a", 5), ("wait/a", 5), ("wait/b", 9), ("wait/c", 70), ("idle", 1000)];
        let now = [("stage/a", 7), ("wait/a", 6), ("wait/b", 3), ("idle", 1)];
        assert_eq!(since(now, &before), [2.0, 6.0, 3.0, 1.0], "one of the waits has had more than before");
        assert_eq!(since([("transaction", 3)], &[("transaction", 9)]), [3.0]);
    }

    #[test]
    fn a_count_that_falls_alone_has_had_nothing() {
        let before = [("wait/a", 5), ("wait/b", 9), ("idle", 7_568_881)];
        let now = [("wait/a", 5), ("wait/b", 10), ("idle", 7_400_416), ("wait/c", 2)];
        assert_eq!(since(now, &before), [0.0, 1.0, 0.0, 2.0]);
    }
}
