//! Rows of `events_*`.

use std::sync::Arc;

use super::{EventType, Parts};

/// TIMER_START, TIMER_END and TIMER_WAIT in picoseconds since the engine started; `None` where not measured.
/// For an event in progress END and WAIT are those of the time of reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Timer {
    pub start_ps: Option<u64>,
    pub end_ps: Option<u64>,
    pub wait_ps: Option<u64>,
}

/// Columns common to all events.
#[derive(Clone, Debug)]
pub struct EventHead {
    /// THREAD_ID.
    pub thread_id: u64,
    /// EVENT_ID: ascending within a thread.
    pub event_id: u64,
    /// END_EVENT_ID; `None` while in progress.
    pub end_event_id: Option<u64>,
    /// EVENT_NAME.
    pub name: &'static str,
    /// SOURCE, `file.cc:123`.
    pub source: Option<String>,
    /// TIMER_START, TIMER_END, TIMER_WAIT.
    pub timer: Timer,
    /// NESTING_EVENT_ID and NESTING_EVENT_TYPE.
    pub nesting: Option<(u64, EventType)>,
}

/// The object of a wait.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct ObjectName {
    /// OBJECT_TYPE such as `TABLE`, `TEMPORARY TABLE`, `FILE`, `SOCKET`.
    pub object_type: Option<&'static str>,
    pub schema: Option<String>,
    pub name: Option<String>,
    pub index: Option<String>,
}

impl EventHead {
    /// The `source` field.
    pub const SOURCE: Parts = Parts::part(0);
}

/// A row of `events_waits_*`.
#[derive(Clone, Debug)]
pub struct WaitRow {
    /// Columns common to all events.
    pub head: EventHead,
    /// OBJECT_*, INDEX_NAME.
    pub object: ObjectName,
    /// OBJECT_INSTANCE_BEGIN.
    pub object_instance_begin: u64,
    /// OPERATION, such as `lock`, `read`, `fetch`.
    pub operation: &'static str,
    /// NUMBER_OF_BYTES (rows for table I/O).
    pub number_of_bytes: Option<i64>,
    /// FLAGS.
    pub flags: Option<u32>,
}

/// A row of `events_stages_*`.
#[derive(Clone, Debug)]
pub struct StageRow {
    /// Columns common to all events.
    pub head: EventHead,
    /// WORK_COMPLETED and WORK_ESTIMATED, for stages that report progress.
    pub progress: Option<(u64, u64)>,
}

/// Counters a statement collects, in the order of the tables' columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct StatementCounters {
    pub lock_time_ps: u64,
    pub errors: u64,
    pub warnings: u64,
    pub rows_affected: u64,
    pub rows_sent: u64,
    pub rows_examined: u64,
    pub created_tmp_disk_tables: u64,
    pub created_tmp_tables: u64,
    pub select_full_join: u64,
    pub select_full_range_join: u64,
    pub select_range: u64,
    pub select_range_check: u64,
    pub select_scan: u64,
    pub sort_merge_passes: u64,
    pub sort_range: u64,
    pub sort_rows: u64,
    pub sort_scan: u64,
    pub no_index_used: u64,
    pub no_good_index_used: u64,
    /// CPU time in picoseconds; 0 unless the consumer `events_statements_cpu` is on.
    pub cpu_time_ps: u64,
    /// Peak memory of the session during the statement, in bytes; of several statements, the highest peak.
    pub max_total_memory: u64,
    /// The part of it whose use the host can limit; 0 on hosts that cannot.
    pub max_controlled_memory: u64,
}

impl StatementCounters {
    /// Returns the values of ERRORS to NO_GOOD_INDEX_USED, in the order of the columns.
    #[must_use]
    #[inline]
    pub fn counts(&self) -> [u64; 18] {
        [
            self.errors,
            self.warnings,
            self.rows_affected,
            self.rows_sent,
            self.rows_examined,
            self.created_tmp_disk_tables,
            self.created_tmp_tables,
            self.select_full_join,
            self.select_full_range_join,
            self.select_range,
            self.select_range_check,
            self.select_scan,
            self.sort_merge_passes,
            self.sort_range,
            self.sort_rows,
            self.sort_scan,
            self.no_index_used,
            self.no_good_index_used,
        ]
    }
}

/// A statement digest as the host spells it: text and hash are the server's own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DigestText {
    /// DIGEST: lower-case hex.
    pub digest: String,
    /// DIGEST_TEXT.
    pub text: String,
}

/// A row of `events_statements_*`.
#[derive(Clone, Debug)]
pub struct StatementRow {
    /// Columns common to all events.
    pub head: EventHead,
    /// SQL_TEXT; a truncated text ends in `...`.
    pub sql_text: Option<String>,
    /// Whether SQL_TEXT is truncated.
    pub sql_text_cut: bool,
    /// DIGEST and DIGEST_TEXT.
    pub digest: Option<Arc<DigestText>>,
    /// CURRENT_SCHEMA.
    pub current_schema: Option<String>,
    /// OBJECT_TYPE, OBJECT_SCHEMA, OBJECT_NAME: the stored program, for nested statements.
    pub object: ObjectName,
    /// MYSQL_ERRNO.
    pub mysql_errno: u32,
    /// RETURNED_SQLSTATE.
    pub returned_sqlstate: Option<String>,
    /// MESSAGE_TEXT.
    pub message_text: Option<String>,
    /// LOCK_TIME, ERRORS … NO_GOOD_INDEX_USED.
    pub counters: StatementCounters,
    /// NESTING_EVENT_LEVEL.
    pub nesting_level: u32,
    /// STATEMENT_ID: the host's number for the statement; 0: none.
    pub statement_id: u64,
}

impl StatementRow {
    /// The `sql_text` field.
    pub const SQL_TEXT: Parts = Parts::part(1);
    /// The `digest` field.
    pub const DIGEST: Parts = Parts::part(2);
}

/// STATE of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
#[repr(u8)]
pub enum TransactionState {
    Active = 1,
    Committed = 2,
    RolledBack = 3,
}

/// A row of `events_transactions_*`.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct TransactionRow {
    pub head: EventHead,
    pub state: TransactionState,
    pub trx_id: Option<u64>,
    pub gtid: Option<String>,
    pub xid_format_id: Option<i32>,
    pub xid_gtrid: Option<String>,
    pub xid_bqual: Option<String>,
    pub xa_state: Option<&'static str>,
    pub read_only: bool,
    pub isolation_level: Option<&'static str>,
    pub autocommit: bool,
    pub savepoints: u64,
    pub rollback_to_savepoint: u64,
    pub release_savepoint: u64,
}
