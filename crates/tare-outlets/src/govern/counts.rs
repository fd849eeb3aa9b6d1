//! How many events every instrument had, as the server's own summary tables tell.

use std::collections::BTreeMap;

use tare_budget::counted_since;

use crate::source::{Error, Source};

/// Tables, and the columns that are added up.
const TABLES: [(&str, &[&str]); 5] = [
    ("events_waits_summary_global_by_event_name", &["COUNT_STAR"]),
    ("events_stages_summary_global_by_event_name", &["COUNT_STAR"]),
    (STATEMENTS, &["COUNT_STAR"]),
    ("events_transactions_summary_global_by_event_name", &["COUNT_STAR"]),
    ("memory_summary_global_by_event_name", &["COUNT_ALLOC", "COUNT_FREE"]),
];

/// It also has the statements' CPU time, in picoseconds, where MySQL's consumer `events_statements_cpu` is on.
const STATEMENTS: &str = "events_statements_summary_global_by_event_name";

/// Counts since the server's start, or since somebody reset a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counts {
    /// By instrument.
    pub events: BTreeMap<String, u64>,
    /// Statements that clients sent.
    pub statements: u64,
    /// Connections that were made.
    pub connected: u64,
    /// Seconds the server runs.
    pub uptime: u64,
    /// CPU time in seconds as the server itself counts it; none where it does not.
    pub cpu: Option<f64>,
}

impl Counts {
    /// Reads them.
    ///
    /// # Errors
    ///
    /// As [`Source::rows`].
    pub fn read(source: &mut Source) -> Result<Counts, Error> {
        let mut counts = Counts::default();
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

    /// MySQL 8 counts errors by number under one instrument.
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

    /// CPU time as the server counts it: MariaDB's with `userstat`, that of statements alone with MySQL's consumer.
    ///
    /// # Errors
    ///
    /// As [`Source::rows`].
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
        let status =
            "SHOW GLOBAL STATUS WHERE Variable_name IN ('Questions', 'Connections', 'Uptime', 'Cpu_time')";
        for row in source.ask(status)? {
            match row.text(0).unwrap_or_default().as_str() {
                "Questions" => self.statements = row.count(1),
                "Connections" => self.connected = row.count(1),
                "Uptime" => self.uptime = row.count(1),
                _ => self.cpu = row.text(1).and_then(|it| it.parse().ok()).filter(|it| *it > 0.0),
            }
        }
        Ok(())
    }

    /// Events since an earlier reading.
    #[must_use]
    pub fn since(&self, before: &Counts) -> BTreeMap<String, f64> {
        let since = |(name, now): (&String, &u64)| {
            (name.clone(), counted_since(*now, before.events.get(name).copied()))
        };
        self.events.iter().map(since).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reset_in_between_leaves_what_came_after_it() {
        let counts = |rows: &[(&str, u64)]| Counts {
            events: rows.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect(),
            ..Counts::default()
        };
        let since = counts(&[("a", 7), ("b", 3), ("c", 1)]).since(&counts(&[("a", 5), ("b", 9)]));
        assert_eq!(since.into_values().collect::<Vec<_>>(), [2.0, 3.0, 1.0]);
    }
}
