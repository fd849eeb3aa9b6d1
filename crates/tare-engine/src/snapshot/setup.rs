//! Rows of `setup_*`, threads, timers and losses, and what TRUNCATE can reset.

use super::{ClassId, EventType, Grouping, Kind, Recording, Scope};

/// A registered instrument: a row of `setup_instruments`.
#[derive(Clone, Debug)]
pub struct Instrument {
    /// Id in the registry.
    pub id: ClassId,
    /// Kind of the instrument.
    pub kind: Kind,
    /// Full name, such as `wait/synch/mutex/sql/LOCK_open`.
    pub name: &'static str,
    /// ENABLED.
    pub enabled: bool,
    /// TIMED (always false for memory and errors).
    pub timed: bool,
    /// LEVEL.
    pub level: Recording,
    /// HELD: set by a person, so the governor does not change it.
    pub held: bool,
    /// Number of changes by persons.
    pub changes: u32,
    /// PROPERTIES.
    pub properties: Properties,
}

/// Properties of an instrument, as given by the host at registration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Properties {
    /// There is one instance. For memory: it belongs to the server and not to a thread.
    pub global: bool,
    /// The stage reports progress.
    pub progress: bool,
    /// The instrument belongs to clients: their connections and what these wait for.
    pub user: bool,
    /// The statement may turn out to be another one.
    pub mutable: bool,
}

/// A class of threads: a row of `setup_threads`.
#[derive(Clone, Debug)]
pub struct ThreadInstrument {
    /// Id in the registry.
    pub id: ClassId,
    /// Full name, such as `thread/sql/main`.
    pub name: &'static str,
    /// ENABLED: INSTRUMENTED of new threads.
    pub enabled: bool,
    /// HISTORY of new threads.
    pub history: bool,
    /// PROPERTIES.
    pub properties: Properties,
}

/// Key of a live thread.
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

    /// Returns whether only the shape `extended` has this consumer. Such a consumer is off by default.
    pub const fn is_further(self) -> bool {
        matches!(self, Consumer::EventsStatementsCpu)
    }

    /// Returns the NAME column of `setup_consumers`.
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
    /// Number in the host's own list: the connection's, or one that only the list has.
    pub listed_id: Option<u64>,
    /// PROCESSLIST_USER.
    pub user: Option<String>,
    /// PROCESSLIST_HOST.
    pub host: Option<String>,
    /// PROCESSLIST_DB.
    pub db: Option<String>,
    /// PROCESSLIST_COMMAND, named by the host.
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
    /// TOTAL_MEMORY: bytes in use.
    pub total_memory: u64,
    /// MAX_TOTAL_MEMORY: the highest number of bytes in use so far.
    pub max_total_memory: u64,
}

/// A connection attribute sent by a client: a row of `session_connect_attrs`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttributeRow {
    /// PROCESSLIST_ID.
    pub processlist_id: u64,
    /// ATTR_NAME: the attribute's name, such as `program_name`.
    pub name: String,
    /// ATTR_VALUE; `None` if the client sent none.
    pub value: Option<String>,
    /// ORDINAL_POSITION, from 0.
    pub ordinal: u32,
}

/// TIMER_NAME of `performance_timers` and `setup_timers`.
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

/// Number of objects that did not fit, by kind. `name` is the built-in's status name without
/// `Performance_schema_`, where there is one (`mutex_instances_lost`, `digest_lost` …).
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct LostRow {
    pub name: &'static str,
    pub lost: u64,
}

/// Target of a TRUNCATE.
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
    /// `TRUNCATE` of the active session history.
    ActiveHistory,
}
