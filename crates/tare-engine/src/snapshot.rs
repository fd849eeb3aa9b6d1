//! What a reader gets: owned rows, in the Performance Schema's own units (picoseconds, bytes, rows).
//!
//! A snapshot is taken at query time by a reader; writers never wait for it. Times that were not measured
//! (`TIMED = NO`) are `None`. Names of instruments are `&'static str`: instruments are never unregistered.

use std::sync::Arc;

use crate::Spelling;
use crate::histogram::Histogram;
use crate::setup::level::Recording;

/// Identity of a registered instrument: its position in the registry, 1-based like a PSI key (0: none).
pub type ClassId = u16;

/// What an instrument is; decides its name prefix and which summary tables hold it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// `wait/synch/mutex/…`
    Mutex,
    /// `wait/synch/rwlock/…`
    Rwlock,
    /// `wait/synch/sxlock/…`
    Sxlock,
    /// `wait/synch/cond/…`
    Cond,
    /// `thread/…` (not in `setup_instruments` of MariaDB)
    Thread,
    /// `wait/io/file/…`
    File,
    /// `wait/io/socket/…`
    Socket,
    /// `wait/io/table/sql/handler`
    TableIo,
    /// `wait/lock/table/sql/handler`
    TableLock,
    /// `wait/lock/metadata/sql/mdl`
    Metadata,
    /// `idle`
    Idle,
    /// `stage/…`
    Stage,
    /// `statement/…`
    Statement,
    /// `transaction`
    Transaction,
    /// `memory/…`
    Memory,
    /// `error`
    Error,
}

/// A registered instrument: a row of `setup_instruments`.
#[derive(Clone, Debug)]
pub struct Instrument {
    /// Position in the registry.
    pub id: ClassId,
    /// What it is.
    pub kind: Kind,
    /// Full name, such as `wait/synch/mutex/sql/LOCK_open`.
    pub name: &'static str,
    /// ENABLED.
    pub enabled: bool,
    /// TIMED (always false for memory and errors).
    pub timed: bool,
    /// LEVEL.
    pub level: Recording,
    /// A person has set it: nothing else moves it.
    pub held: bool,
    /// PROPERTIES.
    pub properties: Properties,
}

/// What a host says of an instrument when it registers it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Properties {
    /// There is one instance; of memory: it belongs to the server, not to a thread.
    pub global: bool,
    /// A stage that reports progress.
    pub progress: bool,
    /// It is a client's: its connection, what it waits for.
    pub user: bool,
    /// A statement that may turn out to be another one.
    pub mutable: bool,
}

/// A class of threads: a row of `setup_threads`.
#[derive(Clone, Debug)]
pub struct ThreadInstrument {
    /// Position in the registry.
    pub id: ClassId,
    /// Full name, such as `thread/sql/main`.
    pub name: &'static str,
    /// ENABLED: INSTRUMENTED of threads to come.
    pub enabled: bool,
    /// HISTORY of threads to come.
    pub history: bool,
    /// PROPERTIES.
    pub properties: Properties,
}

/// The four event types; also NESTING_EVENT_TYPE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum EventType {
    /// `TRANSACTION`
    Transaction = 1,
    /// `STATEMENT`
    Statement = 2,
    /// `STAGE`
    Stage = 3,
    /// `WAIT`
    Wait = 4,
}

/// Which events of a thread: the three event tables of each type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// `events_*_current`
    Current,
    /// `events_*_history`: the last ones of every live thread
    History,
    /// `events_*_history_long`: the last ones of all threads, ended ones included
    HistoryLong,
}

/// Which parts of rows a reader asks for. The others may be left empty, and what they would cost is spared. Each type of row
/// names those of its parts that cost something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts(u32);

impl Parts {
    /// What costs nothing.
    pub const NONE: Parts = Parts(0);
    /// Whole rows.
    pub const ALL: Parts = Parts(u32::MAX);

    /// One part of a type of row.
    pub(crate) const fn part(number: u32) -> Parts {
        Parts(1 << number)
    }

    /// These and those.
    #[must_use]
    pub const fn and(self, other: Parts) -> Parts {
        Parts(self.0 | other.0)
    }

    /// Whether any of those is among these.
    #[must_use]
    pub const fn has(self, other: Parts) -> bool {
        self.0 & other.0 != 0
    }
}

/// What a reader asks for: of every thread, or of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked<T> {
    /// Events of a scope, or the summary of a level.
    pub what: T,
    /// THREAD_ID of the one thread the rows shall be about; `None`: of all.
    pub thread: Option<u64>,
    /// What of the rows.
    pub parts: Parts,
}

impl<T> From<T> for Asked<T> {
    fn from(what: T) -> Asked<T> {
        Asked { what, thread: None, parts: Parts::ALL }
    }
}

/// What tells a live thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadKey {
    /// THREAD_ID
    Thread(u64),
    /// PROCESSLIST_ID
    Connection(u64),
}

/// A consumer: a row of `setup_consumers`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs)] // the names are the rows' names
pub enum Consumer {
    EventsStagesCurrent,
    EventsStagesHistory,
    EventsStagesHistoryLong,
    EventsStatementsCurrent,
    EventsStatementsHistory,
    EventsStatementsHistoryLong,
    EventsTransactionsCurrent,
    EventsTransactionsHistory,
    EventsTransactionsHistoryLong,
    EventsWaitsCurrent,
    EventsWaitsHistory,
    EventsWaitsHistoryLong,
    GlobalInstrumentation,
    ThreadInstrumentation,
    StatementsDigest,
    EventsStatementsCpu,
}

impl Consumer {
    /// Every consumer, in the order of `setup_consumers`.
    pub const ALL: [Consumer; 16] = [
        Consumer::EventsStagesCurrent,
        Consumer::EventsStagesHistory,
        Consumer::EventsStagesHistoryLong,
        Consumer::EventsStatementsCpu,
        Consumer::EventsStatementsCurrent,
        Consumer::EventsStatementsHistory,
        Consumer::EventsStatementsHistoryLong,
        Consumer::EventsTransactionsCurrent,
        Consumer::EventsTransactionsHistory,
        Consumer::EventsTransactionsHistoryLong,
        Consumer::EventsWaitsCurrent,
        Consumer::EventsWaitsHistory,
        Consumer::EventsWaitsHistoryLong,
        Consumer::GlobalInstrumentation,
        Consumer::ThreadInstrumentation,
        Consumer::StatementsDigest,
    ];

    /// Whether the shape `extended` alone has it. It is off at first.
    pub const fn is_further(self) -> bool {
        matches!(self, Consumer::EventsStatementsCpu)
    }

    /// The NAME column of `setup_consumers`.
    pub const fn name(self) -> &'static str {
        match self {
            Consumer::EventsStagesCurrent => "events_stages_current",
            Consumer::EventsStagesHistory => "events_stages_history",
            Consumer::EventsStagesHistoryLong => "events_stages_history_long",
            Consumer::EventsStatementsCurrent => "events_statements_current",
            Consumer::EventsStatementsHistory => "events_statements_history",
            Consumer::EventsStatementsHistoryLong => "events_statements_history_long",
            Consumer::EventsTransactionsCurrent => "events_transactions_current",
            Consumer::EventsTransactionsHistory => "events_transactions_history",
            Consumer::EventsTransactionsHistoryLong => "events_transactions_history_long",
            Consumer::EventsWaitsCurrent => "events_waits_current",
            Consumer::EventsWaitsHistory => "events_waits_history",
            Consumer::EventsWaitsHistoryLong => "events_waits_history_long",
            Consumer::GlobalInstrumentation => "global_instrumentation",
            Consumer::ThreadInstrumentation => "thread_instrumentation",
            Consumer::StatementsDigest => "statements_digest",
            Consumer::EventsStatementsCpu => "events_statements_cpu",
        }
    }
}

/// A live thread: a row of `threads`.
#[derive(Clone, Debug, Default)]
pub struct ThreadRow {
    /// THREAD_ID, unique for the life of the server.
    pub thread_id: u64,
    /// NAME of the thread instrument.
    pub name: &'static str,
    /// TYPE: true for FOREGROUND (a client's connection).
    pub foreground: bool,
    /// PROCESSLIST_ID (the connection's id).
    pub processlist_id: Option<u64>,
    /// PROCESSLIST_USER.
    pub user: Option<String>,
    /// PROCESSLIST_HOST.
    pub host: Option<String>,
    /// PROCESSLIST_DB.
    pub db: Option<String>,
    /// PROCESSLIST_COMMAND, as the host numbers commands (the adapter names them).
    pub command: Option<&'static str>,
    /// PROCESSLIST_TIME: seconds since the current state began.
    pub time_s: Option<i64>,
    /// PROCESSLIST_STATE.
    pub state: Option<String>,
    /// PROCESSLIST_INFO.
    pub info: Option<String>,
    /// PARENT_THREAD_ID.
    pub parent_thread_id: Option<u64>,
    /// INSTRUMENTED.
    pub instrumented: bool,
    /// HISTORY.
    pub history: bool,
    /// CONNECTION_TYPE (`TCP/IP`, `Socket`, `SSL/TLS` …).
    pub connection_type: Option<&'static str>,
    /// THREAD_OS_ID.
    pub os_id: Option<u64>,
    /// TOTAL_MEMORY: bytes it has.
    pub total_memory: u64,
    /// MAX_TOTAL_MEMORY: the most it ever had.
    pub max_total_memory: u64,
}

/// TIMER_START, TIMER_END and TIMER_WAIT in picoseconds since the engine started; `None` where not measured.
/// For an event in progress END and WAIT are "now".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Timer {
    pub start_ps: Option<u64>,
    pub end_ps: Option<u64>,
    pub wait_ps: Option<u64>,
}

/// What every event has.
#[derive(Clone, Debug)]
pub struct EventHead {
    /// THREAD_ID.
    pub thread_id: u64,
    /// EVENT_ID, per thread, rising.
    pub event_id: u64,
    /// END_EVENT_ID; `None` while in progress.
    pub end_event_id: Option<u64>,
    /// EVENT_NAME.
    pub name: &'static str,
    /// SOURCE, `file.cc:123`.
    pub source: Option<String>,
    /// Times.
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
    /// The name of the file.
    pub const SOURCE: Parts = Parts::part(0);
}

/// A row of `events_waits_*`.
#[derive(Clone, Debug)]
pub struct WaitRow {
    /// What every event has.
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
    /// What every event has.
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
    /// 0 unless somebody asks for it: the consumer `events_statements_cpu`.
    pub cpu_time_ps: u64,
    /// Of one statement the most its session had while it ran, in bytes; of several the most any had.
    pub max_total_memory: u64,
}

/// A statement digest as the host spells it (text and hash are the server's own).
#[derive(Clone, Debug, Default)]
pub struct DigestText {
    /// DIGEST: lower-case hex.
    pub digest: String,
    /// DIGEST_TEXT.
    pub text: String,
}

/// A row of `events_statements_*`.
#[derive(Clone, Debug)]
pub struct StatementRow {
    /// What every event has.
    pub head: EventHead,
    /// SQL_TEXT; a cut text ends in `...`.
    pub sql_text: Option<String>,
    /// True when SQL_TEXT was longer than the bound.
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
    /// STATEMENT_ID: the host's number of it; 0: it has none.
    pub statement_id: u64,
}

impl StatementRow {
    /// `sql_text`
    pub const SQL_TEXT: Parts = Parts::part(1);
    /// `digest`
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

/// COUNT, SUM, MIN, MAX of waits; times in picoseconds. AVG is `sum_ps / count` (0 where count is 0).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Stat {
    pub count: u64,
    pub sum_ps: u64,
    pub min_ps: u64,
    pub max_ps: u64,
}

impl Stat {
    fn merge(&mut self, other: Stat) {
        self.count += other.count;
        self.sum_ps += other.sum_ps;
        self.min_ps = match (self.min_ps, other.min_ps) {
            (0, min) | (min, 0) => min,
            (min, other) => min.min(other),
        };
        self.max_ps = self.max_ps.max(other.max_ps);
    }
}

/// Operations with bytes: files and sockets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct ByteStat {
    pub stat: Stat,
    pub bytes: u64,
}

/// READ, WRITE and MISC of a file or socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct IoStat {
    pub read: ByteStat,
    pub write: ByteStat,
    pub misc: ByteStat,
}

impl IoStat {
    pub(crate) fn merge(&mut self, other: IoStat) {
        let [read, write, misc] = [other.read, other.write, other.misc];
        for (into, part) in [(&mut self.read, read), (&mut self.write, write), (&mut self.misc, misc)] {
            into.stat.merge(part.stat);
            into.bytes += part.bytes;
        }
    }
}

/// A statement summary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct StatementStat {
    pub stat: Stat,
    pub sum: StatementCounters,
}

/// A transaction summary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct TransactionStat {
    pub read_write: Stat,
    pub read_only: Stat,
}

/// A memory summary: counts and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct MemoryStat {
    pub count_alloc: u64,
    pub count_free: u64,
    pub bytes_alloc: u64,
    pub bytes_free: u64,
    pub low_count: i64,
    pub current_count: i64,
    pub high_count: i64,
    pub low_bytes: i64,
    pub current_bytes: i64,
    pub high_bytes: i64,
}

/// An error of the host's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownError {
    /// ERROR_NUMBER.
    pub number: u32,
    /// ERROR_NAME.
    pub name: &'static str,
    /// SQL_STATE.
    pub sqlstate: &'static str,
}

/// A summary of one error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ErrorStat {
    /// Which; `None`: all the host does not know, together.
    pub error: Option<KnownError>,
    /// SUM_ERROR_RAISED: how often it was raised and not handled.
    pub raised: u64,
    /// SUM_ERROR_HANDLED.
    pub handled: u64,
    /// FIRST_SEEN and LAST_SEEN, microseconds since the epoch; `None`: never.
    pub seen_us: Option<(u64, u64)>,
}

/// The level a `*_by_event_name` summary is grouped at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Level {
    /// `*_by_thread_by_event_name`
    Thread,
    /// `*_by_account_by_event_name`
    Account,
    /// `*_by_user_by_event_name`
    User,
    /// `*_by_host_by_event_name`
    Host,
    /// `*_global_by_event_name`
    Global,
}

/// Whose a summary row is. Fields that do not belong to the level are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// THREAD_ID at [`Level::Thread`].
    pub thread_id: u64,
    /// USER at account and user level (`None`: SQL NULL, a background thread).
    pub user: Option<String>,
    /// HOST at account and host level.
    pub host: Option<String>,
}

/// An account, a user or a host: rows of `accounts`, `users` and `hosts`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnectionsRow {
    /// USER and HOST, as far as the level has them (`None`: SQL NULL, background threads).
    pub owner: Owner,
    /// CURRENT_CONNECTIONS.
    pub current: u64,
    /// TOTAL_CONNECTIONS: those, and the closed ones since the last TRUNCATE.
    pub total: u64,
    /// MAX_SESSION_TOTAL_MEMORY: the most that one of them had, in bytes.
    pub max_session_memory: u64,
}

/// An attribute a client named when it connected: rows of `session_connect_attrs`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttributeRow {
    /// PROCESSLIST_ID.
    pub processlist_id: u64,
    /// ATTR_NAME.
    pub name: String,
    /// ATTR_VALUE; `None` where the client said nothing of it.
    pub value: Option<String>,
    /// ORDINAL_POSITION, from 0.
    pub ordinal: u32,
}

/// One row of a `*_by_event_name` summary.
#[derive(Clone, Debug)]
pub struct Summary<S> {
    /// Whose.
    pub owner: Owner,
    /// Of which instrument, or error.
    pub name: &'static str,
    /// How much.
    pub stat: S,
}

/// A row of `events_statements_summary_by_digest`.
#[derive(Clone, Debug, Default)]
pub struct DigestRow {
    /// SCHEMA_NAME.
    pub schema: Option<String>,
    /// DIGEST and DIGEST_TEXT; `None` in the row that collects what has no place, or has it no more.
    pub digest: Option<Spelling>,
    /// COUNT_STAR … SUM_NO_GOOD_INDEX_USED.
    pub stat: StatementStat,
    /// FIRST_SEEN, microseconds since the epoch.
    pub first_seen_us: u64,
    /// LAST_SEEN, microseconds since the epoch.
    pub last_seen_us: u64,
    /// How long they took; in the extended shape.
    pub histogram: Histogram,
    /// One of the statements.
    pub sample: Option<StatementSample>,
}

impl DigestRow {
    /// `schema`
    pub const SCHEMA: Parts = Parts::part(0);
    /// `digest`, but for the text
    pub const DIGEST: Parts = Parts::part(1);
    /// The text of `digest`
    pub const DIGEST_TEXT: Parts = Parts::part(2);
    /// `sample`
    pub const SAMPLE: Parts = Parts::part(3);
    /// `histogram`
    pub const HISTOGRAM: Parts = Parts::part(4);
    /// What tells who is in a place.
    pub(crate) const NAMED: Parts =
        DigestRow::SCHEMA.and(DigestRow::DIGEST).and(DigestRow::DIGEST_TEXT).and(DigestRow::SAMPLE);
}

/// A statement that stands for all of a digest: the slowest, unless that was long ago.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatementSample {
    /// QUERY_SAMPLE_TEXT; a cut text ends in `...`.
    pub text: Option<String>,
    /// QUERY_SAMPLE_SEEN, microseconds since the epoch.
    pub seen_us: u64,
    /// QUERY_SAMPLE_TIMER_WAIT; 0 for one that was not timed.
    pub wait_ps: u64,
}

/// A file: rows of `file_instances` and `file_summary_by_instance`.
#[derive(Clone, Debug)]
pub struct FileRow {
    /// FILE_NAME.
    pub file_name: String,
    /// EVENT_NAME.
    pub event_name: &'static str,
    /// OBJECT_INSTANCE_BEGIN.
    pub object_instance_begin: u64,
    /// OPEN_COUNT.
    pub open_count: u32,
    /// READ, WRITE, MISC.
    pub io: IoStat,
}

/// A socket: rows of `socket_instances` and `socket_summary_by_instance`.
#[derive(Clone, Debug)]
pub struct SocketRow {
    /// EVENT_NAME.
    pub event_name: &'static str,
    /// OBJECT_INSTANCE_BEGIN.
    pub object_instance_begin: u64,
    /// THREAD_ID of the owner.
    pub thread_id: Option<u64>,
    /// SOCKET_ID: the descriptor.
    pub socket_id: i32,
    /// IP.
    pub ip: String,
    /// PORT.
    pub port: u16,
    /// STATE is IDLE (else ACTIVE).
    pub idle: bool,
    /// READ, WRITE, MISC.
    pub io: IoStat,
}

/// FETCH, INSERT, UPDATE, DELETE of a table or an index. READ is fetch; WRITE is the other three together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct TableIoStat {
    pub fetch: Stat,
    pub insert: Stat,
    pub update: Stat,
    pub delete: Stat,
}

/// Table locks by kind; the array's order is that of `table_lock_waits_summary_by_table`:
/// READ_NORMAL, READ_WITH_SHARED_LOCKS, READ_HIGH_PRIORITY, READ_NO_INSERT, READ_EXTERNAL,
/// WRITE_ALLOW_WRITE, WRITE_CONCURRENT_INSERT, WRITE_DELAYED, WRITE_LOW_PRIORITY, WRITE_NORMAL, WRITE_EXTERNAL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableLockStat(pub [Stat; 11]);

/// One index of a table; `name` is `None` for access without an index.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct IndexRow {
    pub name: Option<String>,
    pub io: TableIoStat,
}

/// A table with all its statistics.
#[derive(Clone, Debug)]
pub struct TableRow {
    /// OBJECT_TYPE: `TABLE` or `TEMPORARY TABLE`.
    pub object_type: &'static str,
    /// OBJECT_SCHEMA.
    pub schema: String,
    /// OBJECT_NAME.
    pub name: String,
    /// `setup_objects` says it is watched.
    pub enabled: bool,
    /// One entry per index of the table, then the one without a name, if it was ever used.
    pub indexes: Vec<IndexRow>,
    /// Locks.
    pub locks: TableLockStat,
}

/// A synchronisation object: rows of `mutex_instances`, `rwlock_instances`, `cond_instances`.
#[derive(Clone, Debug)]
pub struct SyncRow {
    /// What it is.
    pub kind: Kind,
    /// NAME.
    pub name: &'static str,
    /// OBJECT_INSTANCE_BEGIN.
    pub object_instance_begin: u64,
    /// LOCKED_BY_THREAD_ID / WRITE_LOCKED_BY_THREAD_ID.
    pub locked_by_thread_id: Option<u64>,
    /// READ_LOCKED_BY_COUNT.
    pub read_locked_by_count: u32,
    /// Waits for it, where the host has them counted by object.
    pub waits: Stat,
}

/// Clocks by name: TIMER_NAME of `performance_timers` and `setup_timers`.
pub const TIMER_NAMES: &[&str] = &["CYCLE", "NANOSECOND", "MICROSECOND", "MILLISECOND", "TICK"];

/// NAME of `setup_timers`.
pub const TIMED_EVENTS: [&str; 5] = ["idle", "wait", "stage", "statement", "transaction"];

/// A row of `setup_timers`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct TimerSetting {
    pub name: &'static str,
    pub timer: &'static str,
}

/// A row of `performance_timers`; `None` where the timer does not exist.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct TimerRow {
    pub name: &'static str,
    pub frequency: Option<u64>,
    pub resolution: Option<u64>,
    pub overhead: Option<u64>,
}

/// What did not fit, by what it was. `name` is the reference's status name without `Performance_schema_`
/// where it has one (`mutex_instances_lost`, `digest_lost` …).
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct LostRow {
    pub name: &'static str,
    pub lost: u64,
}

/// What a TRUNCATE resets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reset {
    /// `TRUNCATE events_<type>_{current,history,history_long}`.
    Events(EventType, Scope),
    /// `TRUNCATE events_<type>_summary_<level>_by_event_name`.
    Summary(EventType, Level),
    /// `TRUNCATE memory_summary_<level>_by_event_name`.
    Memory(Level),
    /// `TRUNCATE events_errors_summary_<level>_by_error`.
    Errors(Level),
    /// `TRUNCATE accounts`, `users` or `hosts`, by level.
    Connections(Level),
    /// `TRUNCATE status_by_thread`, `_account`, `_user` or `_host`, by level.
    Sessions(Level),
    /// `TRUNCATE events_statements_summary_by_digest`.
    Digests,
    /// `TRUNCATE events_statements_histogram_by_digest`.
    DigestHistograms,
    /// `TRUNCATE events_<type>_histogram_global_by_event_name` and `events_statements_histogram_global`.
    Histograms(EventType),
    /// `TRUNCATE file_summary_by_event_name` / `_by_instance`.
    Files,
    /// `TRUNCATE socket_summary_by_event_name` / `_by_instance`.
    Sockets,
    /// `TRUNCATE events_waits_summary_by_instance`.
    Instances,
    /// `TRUNCATE table_io_waits_summary_by_table` / `_by_index_usage`.
    TableIo,
    /// `TRUNCATE table_lock_waits_summary_by_table`.
    TableLock,
    /// `TRUNCATE objects_summary_global_by_type`.
    Objects,
    /// `TRUNCATE events_statements_summary_by_program`.
    Programs,
    /// `TRUNCATE prepared_statements_instances`.
    Prepared,
    /// `TRUNCATE setup_actors`.
    ActorRules,
    /// `TRUNCATE setup_objects`.
    ObjectRules,
}

/// A stored program: rows of `events_statements_summary_by_program` and `objects_summary_global_by_type`.
#[derive(Clone, Debug)]
pub struct ProgramRow {
    /// OBJECT_TYPE.
    pub object_type: &'static str,
    /// OBJECT_SCHEMA.
    pub schema: String,
    /// OBJECT_NAME.
    pub name: String,
    /// Its calls.
    pub calls: Stat,
    /// The statements in it.
    pub statements: StatementStat,
}

/// A metadata lock granted or waited for: a row of `metadata_locks`.
#[derive(Clone, Debug)]
pub struct MetadataLockRow {
    /// OBJECT_TYPE, OBJECT_SCHEMA, OBJECT_NAME.
    pub object: ObjectName,
    /// OBJECT_INSTANCE_BEGIN.
    pub object_instance_begin: u64,
    /// LOCK_TYPE.
    pub lock_type: &'static str,
    /// LOCK_DURATION.
    pub duration: &'static str,
    /// LOCK_STATUS.
    pub status: &'static str,
    /// SOURCE: where it was asked for.
    pub source: Option<String>,
    /// OWNER_THREAD_ID.
    pub owner_thread_id: u64,
    /// OWNER_EVENT_ID.
    pub owner_event_id: u64,
}

/// An open table: a row of `table_handles`.
#[derive(Clone, Debug)]
pub struct TableHandleRow {
    /// OBJECT_TYPE.
    pub object_type: &'static str,
    /// OBJECT_SCHEMA.
    pub schema: String,
    /// OBJECT_NAME.
    pub name: String,
    /// OBJECT_INSTANCE_BEGIN.
    pub object_instance_begin: u64,
    /// OWNER_THREAD_ID; 0 while nobody uses it.
    pub owner_thread_id: u64,
    /// OWNER_EVENT_ID; 0 while nobody uses it.
    pub owner_event_id: u64,
    /// INTERNAL_LOCK.
    pub internal_lock: Option<&'static str>,
    /// EXTERNAL_LOCK.
    pub external_lock: Option<&'static str>,
}

/// A prepared statement: a row of `prepared_statements_instances`.
#[derive(Clone, Debug)]
pub struct PreparedRow {
    /// OBJECT_INSTANCE_BEGIN.
    pub object_instance_begin: u64,
    /// STATEMENT_ID.
    pub statement_id: u64,
    /// STATEMENT_NAME; `None` for one of the binary protocol.
    pub name: Option<String>,
    /// SQL_TEXT.
    pub sql_text: String,
    /// OWNER_THREAD_ID.
    pub owner_thread_id: u64,
    /// OWNER_EVENT_ID.
    pub owner_event_id: u64,
    /// OWNER_OBJECT_*: the program it was prepared in, while there is one.
    pub owner: ObjectName,
    /// TIMER_PREPARE.
    pub prepare: Stat,
    /// COUNT_REPREPARE.
    pub reprepare: Stat,
    /// Executions.
    pub execute: StatementStat,
}
