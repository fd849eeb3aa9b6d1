//! Counting of effort, the work of a server per transaction, over a slice.
//!
//! The server's own counts are read before and after, minus the cost of reading (`attribution`).

use std::collections::BTreeMap;

use mysql::prelude::Queryable;
use tare_budget::handler;

use super::attribution::{self, EventCounts};
use crate::process::Faults;
use crate::process::counters::{Counters, Counting};
use crate::results::record::{Calls, Cell, Effort, Record, Slice};
use crate::server::target::ServerTarget;
use crate::study::servers::fleet::Ready;
use crate::verdict::effort::BEGINNINGS;

/// Status variables, and the figure that each is part of.
const STATUS: [(&str, &str); 11] = [
    ("questions", "statements"),
    ("connections", "connections"),
    ("created_tmp_tables", "temporary_tables"),
    ("created_tmp_disk_tables", "temporary_tables_on_disk"),
    ("bytes_received", "bytes_received"),
    ("bytes_sent", "bytes_sent"),
    ("innodb_data_read", "innodb_bytes_read"),
    ("innodb_data_written", "innodb_bytes_written"),
    ("innodb_os_log_written", "redo_bytes_written"),
    ("binlog_bytes_written", "binlog_bytes_written"),
    ("innodb_row_lock_waits", "lock_waits"),
];
/// Prefix of the figures of status variables among classes of events.
const VARIABLE: &str = "status/";
/// Prefix of the status variables of storage engine calls, and their figure.
const HANDLER: (&str, &str) = ("handler_", "handler_calls");
/// The counts before a slice.
pub(crate) struct EffortMeter {
    warm: bool,
    counted: Option<EventCounts>,
    faults: Option<(u32, Faults)>,
    counting: Option<Counting>,
}

impl EffortMeter {
    /// Starts counting on an idle server; `warm`: it has had load before.
    pub(crate) fn begin(ready: &Ready, warm: bool, counters: Option<&Counters>) -> EffortMeter {
        EffortMeter {
            warm,
            counted: attribution::before(&ready.target, counts),
            faults: ready.pid.and_then(|pid| Some((pid, Faults::now(pid)?))),
            counting: ready.pid.and_then(|pid| counters?.start(pid)),
        }
    }

    /// Ends counting after the slice's load, and returns the records.
    #[allow(clippy::cast_precision_loss)] // counts of a slice are far below 2^53
    pub(crate) fn end(self, cell: &Cell, setting: &str, target: &ServerTarget, slice: &Slice) -> Vec<Record> {
        let transactions = slice.transactions as f64;
        let mut per_transaction: BTreeMap<String, f64> = BTreeMap::new();
        if let Some(counted) = self.counting.map(Counting::finish) {
            if let (Some(instructions), Some(cycles)) = (counted.get("instructions"), counted.get("cycles")) {
                per_transaction.insert("instructions_per_cycle".into(), instructions / cycles);
            }
            let each = counted.into_iter().filter(|(name, _)| *name != "cycles");
            per_transaction.extend(each.map(|(name, count)| (name.to_owned(), count / transactions)));
        }
        if let Some((before, after)) = self.faults.and_then(|(pid, before)| Some((before, Faults::now(pid)?)))
        {
            let since = |of: fn(&Faults) -> u64| of(&after).saturating_sub(of(&before)) as f64 / transactions;
            per_transaction.insert("page_faults".into(), since(|faults| faults.minor + faults.major));
            per_transaction.insert("page_faults_from_disk".into(), since(|faults| faults.major));
        }
        let mut calls: BTreeMap<String, f64> = BTreeMap::new();
        if let Some((before, after)) = self.counted.and_then(|before| Some((before, counts(target)?))) {
            calls = attribution::per_transaction(&before, &after, slice.transactions);
            // What did not happen is 0, not unknown.
            for figure in after.keys().filter_map(|name| name.strip_prefix(VARIABLE)) {
                let count = calls.remove(&format!("{VARIABLE}{figure}")).unwrap_or(0.0);
                per_transaction.insert(figure.into(), count);
            }
        }
        let (cell, setting) = (cell.clone(), setting.to_owned());
        let mut records = vec![];
        if !calls.is_empty() {
            per_transaction.insert("events".into(), calls.values().sum());
            let (cell, setting) = (cell.clone(), setting.clone());
            let instruments = attribution::instruments(target);
            records.push(Record::Calls(Calls { cell, setting, per_transaction: calls, instruments }));
        }
        per_transaction.retain(|_, figure| figure.is_finite());
        records.push(Record::Effort(Effort { cell, setting, warm: self.warm, per_transaction }));
        records
    }
}

/// Reads the server's counts, events by class and figures of [`STATUS`], so that each reading costs the same.
fn counts(target: &ServerTarget) -> Option<EventCounts> {
    let events = attribution::counts(target).unwrap_or_default();
    let variables = status(target)?.into_iter().map(|(figure, count)| (format!("{VARIABLE}{figure}"), count));
    Some(events.into_iter().chain(variables).collect())
}

/// Returns the sums of the server's status variables by figure.
fn status(target: &ServerTarget) -> Option<EventCounts> {
    let names: Vec<String> = STATUS.iter().map(|(name, _)| format!("'{name}'")).collect();
    let query = format!(
        "SHOW GLOBAL STATUS WHERE Variable_name IN ({}) OR Variable_name LIKE 'handler\\_%'",
        names.join(",")
    );
    let rows: Vec<(String, String)> = target.connect().ok()?.query(query).ok()?;
    Some(sums(rows))
}

fn sums(rows: Vec<(String, String)>) -> EventCounts {
    let mut sums = EventCounts::new();
    for (name, value) in rows {
        let name = name.to_ascii_lowercase();
        let figure = STATUS.iter().find(|(known, _)| *known == name).map(|(_, figure)| *figure);
        let figure = figure.or(name.starts_with(HANDLER.0).then_some(HANDLER.1));
        let begins = handler::BEGINNINGS.iter().any(|it| it.eq_ignore_ascii_case(&name));
        let Ok(value) = value.parse::<u64>() else { continue };
        for figure in figure.into_iter().chain(begins.then_some(BEGINNINGS)) {
            *sums.entry(figure.into()).or_default() += value;
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::effort::FIGURES;

    #[test]
    fn variables_of_a_kind_are_added_up() {
        let row = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let rows = vec![
            row("Handler_read_key", "40"),
            row("Handler_commit", "2"),
            row("Bytes_sent", "512"),
            row("Rsa_public_key", "x"),
            row("Innodb_os_log_written", "?"),
        ];
        let expected = [("handler_calls", 42), ("handler_beginnings", 40), ("bytes_sent", 512)];
        assert_eq!(sums(rows), expected.map(|(name, sum)| (name.to_owned(), sum)).into());
    }

    #[test]
    fn every_figure_that_is_read_is_shown() {
        let shown = |name: &str| FIGURES.iter().any(|figure| figure.name == name);
        assert!(STATUS.iter().all(|(_, figure)| shown(figure)) && shown(HANDLER.1) && shown(BEGINNINGS));
        let names: std::collections::BTreeSet<&str> = FIGURES.iter().map(|figure| figure.name).collect();
        assert_eq!(names.len(), FIGURES.len());
    }
}
