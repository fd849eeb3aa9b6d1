//! The work of a server per transaction, besides time: instructions, faults, calls, events, bytes. It
//! explains why a setting costs.
//!
//! It is counted over unmeasured slices, because reading it costs. The server's own counts are read before
//! and after, minus the cost of reading ([`crate::study::runner::attribution`]).

use std::collections::BTreeMap;

use mysql::prelude::Queryable;
use tare_budget::handler;

use crate::process::Faults;
use crate::process::counters::{Counters, Counting};
use crate::results::record::{Calls, Cell, Effort, Record, Slice};
use crate::server::target::Target;
use crate::study::runner::attribution::{self, Counts};
use crate::study::servers::fleet::Ready;
use crate::verdict::analysis::SettingAnalysis;

/// All figures of effort, in the order in which they are shown.
pub const FIGURES: [Figure; 20] = [
    Figure::of("instructions", "instructions", "instructions of the processor"),
    Figure::of("instructions_per_cycle", "IPC", "instructions in a cycle of the processor's clock"),
    Figure::of("cache_misses", "cache misses", "what no cache of the processor had"),
    Figure::of("branch_misses", "branch misses", "branches the processor took for others"),
    Figure::of("page_faults", "faults", "pages of memory that were touched first, or again"),
    Figure::of("page_faults_from_disk", "faults from disk", "pages that had to be read"),
    Figure::of(
        "events",
        "events",
        "events of the server's Performance Schema, instructions of stored programs included",
    ),
    Figure::of("statements", "statements", "statements (Questions)"),
    Figure::of("connections", "connections", "connections that were made (Connections)"),
    Figure::of("handler_calls", "handler calls", "calls of storage engines (Handler_…)"),
    Figure::of(
        "handler_beginnings",
        "beginnings",
        "those of them that begin to read rows, or write one (Handler_read_key, …)",
    ),
    Figure::of("temporary_tables", "temporary tables", "temporary tables made (Created_tmp_tables)"),
    Figure::of("temporary_tables_on_disk", "on disk", "those of them on disk (Created_tmp_disk_tables)"),
    Figure::of("bytes_received", "received", "bytes from clients (Bytes_received)"),
    Figure::of("bytes_sent", "sent", "bytes to clients (Bytes_sent)"),
    Figure::of("innodb_bytes_read", "InnoDB read", "bytes InnoDB read from files (Innodb_data_read)"),
    Figure::of("innodb_bytes_written", "InnoDB wrote", "bytes InnoDB wrote to files (Innodb_data_written)"),
    Figure::of("redo_bytes_written", "redo log", "bytes written to InnoDB's log (Innodb_os_log_written)"),
    Figure::of(
        "binlog_bytes_written",
        "binary log",
        "bytes written to the binary log (Binlog_bytes_written)",
    ),
    Figure::of("lock_waits", "lock waits", "waits for locks of rows (Innodb_row_lock_waits)"),
];

/// A figure of effort.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// Name in records and exports.
    pub name: &'static str,
    /// Head of its column.
    pub head: &'static str,
    /// Meaning in words.
    pub meaning: &'static str,
}

impl Figure {
    const fn of(name: &'static str, head: &'static str, meaning: &'static str) -> Figure {
        Figure { name, head, meaning }
    }

    /// Returns whether it is a size.
    pub fn is_bytes(self) -> bool {
        self.name.contains("bytes")
    }

    /// Returns whether it is divided by transactions.
    fn is_per_transaction(self) -> bool {
        self.name != "instructions_per_cycle"
    }

    /// Returns its column's name in tables for other programs.
    pub fn column(self) -> String {
        let behind = if self.is_per_transaction() { "_per_transaction" } else { "" };
        format!("{}{behind}", self.name)
    }

    /// Returns its value for a setting; NaN where it is unknown.
    pub fn of_setting(self, setting: &SettingAnalysis) -> f64 {
        setting.effort.get(self.name).copied().unwrap_or(f64::NAN)
    }

    /// Returns the figures that are known for some setting.
    pub fn known<'a>(settings: impl Iterator<Item = &'a SettingAnalysis> + Clone) -> Vec<Figure> {
        let is_there = |figure: &Figure| settings.clone().any(|s| figure.of_setting(s) > 0.0);
        FIGURES.into_iter().filter(is_there).collect()
    }
}

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
/// The figure of the calls that [`handler::BEGINNINGS`] names.
pub(crate) const BEGINNINGS: &str = "handler_beginnings";

/// The counts before a slice.
pub(crate) struct Watch {
    warm: bool,
    counted: Option<Counts>,
    faults: Option<(u32, Faults)>,
    counting: Option<Counting>,
}

impl Watch {
    /// Starts counting on an idle server; `warm`: it has had load before.
    pub(crate) fn begin(ready: &Ready, warm: bool, counters: Option<&Counters>) -> Watch {
        Watch {
            warm,
            counted: attribution::before(&ready.target, counts),
            faults: ready.pid.and_then(|pid| Some((pid, Faults::now(pid)?))),
            counting: ready.pid.and_then(|pid| counters?.start(pid)),
        }
    }

    /// Ends counting after the slice's load, and returns the records.
    #[allow(clippy::cast_precision_loss)] // counts of a slice are far below 2^53
    pub(crate) fn end(self, cell: &Cell, setting: &str, target: &Target, slice: &Slice) -> Vec<Record> {
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
fn counts(target: &Target) -> Option<Counts> {
    let events = attribution::counts(target).unwrap_or_default();
    let variables = status(target)?.into_iter().map(|(figure, count)| (format!("{VARIABLE}{figure}"), count));
    Some(events.into_iter().chain(variables).collect())
}

/// Returns the sums of the server's status variables by figure.
fn status(target: &Target) -> Option<Counts> {
    let names: Vec<String> = STATUS.iter().map(|(name, _)| format!("'{name}'")).collect();
    let query = format!(
        "SHOW GLOBAL STATUS WHERE Variable_name IN ({}) OR Variable_name LIKE 'handler\\_%'",
        names.join(",")
    );
    let rows: Vec<(String, String)> = target.connect().ok()?.query(query).ok()?;
    Some(sums(rows))
}

fn sums(rows: Vec<(String, String)>) -> Counts {
    let mut sums = Counts::new();
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

/// Returns whether it has been counted before.
pub(crate) fn is_known(records: &[Record], cell: &Cell, setting: &str) -> bool {
    of_cell(records, cell).any(|effort| effort.setting == setting)
}

/// Returns the latest count of a setting in a cell. Once some servers of a cell were warm, cold ones cannot
/// be compared with them and are left out.
pub(crate) fn last<'r>(records: &'r [Record], cell: &Cell, setting: &str) -> Option<&'r Effort> {
    let warm = of_cell(records, cell).any(|effort| effort.warm);
    of_cell(records, cell).filter(|effort| effort.setting == setting && effort.warm == warm).last()
}

fn of_cell<'r>(records: &'r [Record], cell: &Cell) -> impl Iterator<Item = &'r Effort> {
    records.iter().filter_map(move |record| match record {
        Record::Effort(effort) if effort.cell == *cell => Some(effort),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn warm_servers_are_compared_with_warm_ones() {
        let cell = |users| Cell { workload: "w".into(), users, percent: None };
        let of = |users, setting: &str, warm, faults| {
            let per_transaction = BTreeMap::from([("page_faults".to_owned(), faults)]);
            Record::Effort(Effort { cell: cell(users), setting: setting.into(), warm, per_transaction })
        };
        let mut records = vec![of(1, "off", false, 3.0), of(1, "on", false, 4.0), of(2, "off", false, 5.0)];
        let faults = |records: &[Record], users, setting| {
            last(records, &cell(users), setting).map(|effort| effort.per_transaction["page_faults"])
        };
        assert_eq!((faults(&records, 1, "off"), faults(&records, 1, "on")), (Some(3.0), Some(4.0)));
        records.push(of(1, "off", true, 1.0));
        assert_eq!((faults(&records, 1, "off"), faults(&records, 1, "on")), (Some(1.0), None));
        assert_eq!(faults(&records, 2, "off"), Some(5.0));
    }

    #[test]
    fn every_figure_that_is_read_is_shown() {
        let shown = |name: &str| FIGURES.iter().any(|figure| figure.name == name);
        assert!(STATUS.iter().all(|(_, figure)| shown(figure)) && shown(HANDLER.1) && shown(BEGINNINGS));
        let names: std::collections::BTreeSet<&str> = FIGURES.iter().map(|figure| figure.name).collect();
        assert_eq!(names.len(), FIGURES.len());
    }
}
