//! The work of a server per transaction, besides time: instructions, faults, calls, events, bytes. It
//! explains why a setting costs.
//!
//! It is counted over unmeasured slices, because reading it costs. The server's own counts are read before
//! and after, minus the cost of reading ([`crate::study::runner::attribution`]).

use crate::results::record::{Cell, Effort, Record};
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

/// The figure of the calls that [`handler::BEGINNINGS`] names.
pub(crate) const BEGINNINGS: &str = "handler_beginnings";

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
    use std::collections::BTreeMap;

    use super::*;

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
}
