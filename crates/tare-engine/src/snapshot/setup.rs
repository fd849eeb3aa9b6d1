//! Rows of `setup_*`, threads, timers and losses; what can be reset.

use super::{ClassId, EventType, Grouping, Kind, Scope};
use crate::setup::level::Recording;

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
    /// How often persons have set it.
    pub changes: u32,
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
    /// The number it has in the host's own list: that of the connection, or one that only the list has.
    pub listed_id: Option<u64>,
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

/// What did not fit, by what it was. `name` is the built-in's status name without `Performance_schema_`
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
    /// `TRUNCATE events_<type>_summary_<grouping>_by_event_name`.
    Summary(EventType, Grouping),
    /// `TRUNCATE memory_summary_<grouping>_by_event_name`.
    Memory(Grouping),
    /// `TRUNCATE events_errors_summary_<grouping>_by_error`.
    Errors(Grouping),
    /// `TRUNCATE accounts`, `users` or `hosts`, by grouping.
    Connections(Grouping),
    /// `TRUNCATE status_by_thread`, `_account`, `_user` or `_host`, by grouping.
    Sessions(Grouping),
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
