//! The work of a server per transaction, besides time: instructions, faults, calls, events, bytes. It
//! explains why a setting costs.
//!
//! It is counted over unmeasured slices, because reading it costs. The server's own counts are read before
//! and after, minus the cost of reading ([`crate::attribution`]).

use crate::verdict::analysis::SettingAnalysis;

/// All figures of effort, in the order in which they are shown.
pub const FIGURES: [EffortMetric; 20] = [
    EffortMetric::of("instructions", "instructions", "instructions of the processor"),
    EffortMetric::of("instructions_per_cycle", "IPC", "instructions in a cycle of the processor's clock"),
    EffortMetric::of("cache_misses", "cache misses", "what no cache of the processor had"),
    EffortMetric::of("branch_misses", "branch misses", "branches the processor took for others"),
    EffortMetric::of("page_faults", "faults", "pages of memory that were touched first, or again"),
    EffortMetric::of("page_faults_from_disk", "faults from disk", "pages that had to be read"),
    EffortMetric::of(
        "events",
        "events",
        "events of the server's Performance Schema, instructions of stored programs included",
    ),
    EffortMetric::of("statements", "statements", "statements (Questions)"),
    EffortMetric::of("connections", "connections", "connections that were made (Connections)"),
    EffortMetric::of("handler_calls", "handler calls", "calls of storage engines (Handler_…)"),
    EffortMetric::of(
        "handler_beginnings",
        "beginnings",
        "those of them that begin to read rows, or write one (Handler_read_key, …)",
    ),
    EffortMetric::of("temporary_tables", "temporary tables", "temporary tables made (Created_tmp_tables)"),
    EffortMetric::of(
        "temporary_tables_on_disk",
        "on disk",
        "those of them on disk (Created_tmp_disk_tables)",
    ),
    EffortMetric::of("bytes_received", "received", "bytes from clients (Bytes_received)"),
    EffortMetric::of("bytes_sent", "sent", "bytes to clients (Bytes_sent)"),
    EffortMetric::of("innodb_bytes_read", "InnoDB read", "bytes InnoDB read from files (Innodb_data_read)"),
    EffortMetric::of(
        "innodb_bytes_written",
        "InnoDB wrote",
        "bytes InnoDB wrote to files (Innodb_data_written)",
    ),
    EffortMetric::of(
        "redo_bytes_written",
        "redo log",
        "bytes written to InnoDB's log (Innodb_os_log_written)",
    ),
    EffortMetric::of(
        "binlog_bytes_written",
        "binary log",
        "bytes written to the binary log (Binlog_bytes_written)",
    ),
    EffortMetric::of("lock_waits", "lock waits", "waits for locks of rows (Innodb_row_lock_waits)"),
];

/// A figure of effort.
#[derive(Clone, Copy, Debug)]
pub struct EffortMetric {
    /// Name in records and exports.
    pub name: &'static str,
    /// Head of its column.
    pub head: &'static str,
    /// Meaning in words.
    pub meaning: &'static str,
}

impl EffortMetric {
    const fn of(name: &'static str, head: &'static str, meaning: &'static str) -> EffortMetric {
        EffortMetric { name, head, meaning }
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
    pub fn known<'a>(settings: impl Iterator<Item = &'a SettingAnalysis> + Clone) -> Vec<EffortMetric> {
        let is_there = |figure: &EffortMetric| settings.clone().any(|s| figure.of_setting(s) > 0.0);
        FIGURES.into_iter().filter(is_there).collect()
    }
}

/// The figure of the calls that `tare_budget::handler::BEGINNINGS` names.
pub(crate) const BEGINNINGS: &str = "handler_beginnings";
