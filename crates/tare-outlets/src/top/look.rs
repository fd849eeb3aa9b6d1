//! A sample of a server at one time, for one view.

use std::fmt;
use std::time::Duration;

use crate::ash::is_active;
pub use crate::locks::{Holder, Wait};
use crate::sessions::History;

/// A view of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum View {
    /// Statements by digest.
    Statements,
    /// Waits, by class and by instrument.
    Waits,
    /// Waits between threads for locks.
    Locks,
    /// Tables, with their indexes in the details.
    Tables,
    /// Files.
    Files,
    /// Memory by instrument.
    Memory,
    /// Threads and their activity.
    Threads,
}

impl View {
    /// All views, in the order of their keys.
    pub const ALL: [View; 7] =
        [View::Statements, View::Waits, View::Locks, View::Tables, View::Files, View::Memory, View::Threads];

    /// Returns its name, for people and for the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            View::Statements => "statements",
            View::Waits => "waits",
            View::Locks => "locks",
            View::Tables => "tables",
            View::Files => "files",
            View::Memory => "memory",
            View::Threads => "threads",
        }
    }

    /// Returns the table with its counters; `None` where it shows a present state.
    #[must_use]
    pub fn tally(self) -> Option<&'static Tally> {
        match self {
            View::Statements => Some(&DIGESTS),
            View::Waits => Some(&WAITS),
            View::Tables => Some(&TABLES),
            View::Files => Some(&FILES),
            View::Memory => Some(&MEMORY),
            View::Locks | View::Threads => None,
        }
    }
}

/// The subject of a sample: a view, or the details of one row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ask {
    /// The view.
    pub view: View,
    /// The row, for details.
    pub about: Option<About>,
}

/// A row with details.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum About {
    /// The statements of a digest in a schema.
    Digest {
        /// Default schema of the statements.
        schema: Option<String>,
        /// The digest.
        digest: String,
    },
    /// Prepared statements with the same text.
    Prepared {
        /// The text.
        text: String,
    },
    /// A table.
    Table {
        /// Name of the schema.
        schema: String,
        /// Name of the table.
        name: String,
    },
    /// A thread by its id.
    Thread(u64),
}

impl fmt::Display for About {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            About::Digest { schema: Some(schema), digest } => write!(f, "Digest {digest} in schema {schema}"),
            About::Digest { schema: None, digest } => write!(f, "Digest {digest}"),
            About::Prepared { .. } => f.write_str("Prepared statements of one text"),
            About::Table { schema, name } => write!(f, "Table {schema}.{name}"),
            About::Thread(id) => write!(f, "Thread {id}"),
        }
    }
}

/// A table with counters, and the columns to read.
#[derive(Debug)]
pub struct Tally {
    /// Name of the table.
    pub table: &'static str,
    /// Columns that identify a row.
    pub keys: &'static [&'static str],
    /// Columns that only grow.
    pub counters: &'static [&'static str],
    /// Columns with a present state.
    pub gauges: &'static [&'static str],
}

/// `events_statements_summary_by_digest`, without the texts, which are long and do not change.
pub static DIGESTS: Tally = Tally {
    table: "events_statements_summary_by_digest",
    keys: &["SCHEMA_NAME", "DIGEST"],
    counters: &[
        "COUNT_STAR",
        "SUM_TIMER_WAIT",
        "SUM_LOCK_TIME",
        "SUM_ERRORS",
        "SUM_WARNINGS",
        "SUM_ROWS_AFFECTED",
        "SUM_ROWS_SENT",
        "SUM_ROWS_EXAMINED",
        "SUM_CREATED_TMP_TABLES",
        "SUM_CREATED_TMP_DISK_TABLES",
        "SUM_SORT_MERGE_PASSES",
        "SUM_NO_INDEX_USED",
        "SUM_NO_GOOD_INDEX_USED",
    ],
    gauges: &["MAX_TIMER_WAIT", "QUANTILE_95", "QUANTILE_99"],
};

/// `prepared_statements_instances`, with columns in the order of [`DIGESTS`]: MariaDB's built-in gives
/// executions of prepared statements no digest, and neither does tare with `prepared-digests = OFF`.
pub static PREPARED: Tally = Tally {
    table: "prepared_statements_instances",
    keys: &["OWNER_THREAD_ID", "STATEMENT_ID"],
    counters: &[
        "COUNT_EXECUTE",
        "SUM_TIMER_EXECUTE",
        "SUM_LOCK_TIME",
        "SUM_ERRORS",
        "SUM_WARNINGS",
        "SUM_ROWS_AFFECTED",
        "SUM_ROWS_SENT",
        "SUM_ROWS_EXAMINED",
        "SUM_CREATED_TMP_TABLES",
        "SUM_CREATED_TMP_DISK_TABLES",
        "SUM_SORT_MERGE_PASSES",
        "SUM_NO_INDEX_USED",
        "SUM_NO_GOOD_INDEX_USED",
    ],
    // They have no quantiles.
    gauges: &["MAX_TIMER_EXECUTE", "", ""],
};

/// Stands for the digest of prepared statements in a key, whose third part identifies the statement.
pub const PREPARED_MARK: &str = "(prepared)";

/// `events_waits_summary_global_by_event_name`.
pub static WAITS: Tally = Tally {
    table: "events_waits_summary_global_by_event_name",
    keys: &["EVENT_NAME"],
    counters: &["COUNT_STAR", "SUM_TIMER_WAIT"],
    gauges: &["MAX_TIMER_WAIT"],
};

/// `table_io_waits_summary_by_table`.
pub static TABLES: Tally = Tally {
    table: "table_io_waits_summary_by_table",
    keys: &["OBJECT_SCHEMA", "OBJECT_NAME"],
    counters: &IO,
    gauges: &[],
};

/// `table_io_waits_summary_by_index_usage`.
pub static INDEXES: Tally = Tally {
    table: "table_io_waits_summary_by_index_usage",
    keys: &["OBJECT_SCHEMA", "OBJECT_NAME", "INDEX_NAME"],
    counters: &IO,
    gauges: &[],
};

const IO: [&str; 10] = [
    "COUNT_STAR",
    "SUM_TIMER_WAIT",
    "COUNT_FETCH",
    "SUM_TIMER_FETCH",
    "COUNT_INSERT",
    "SUM_TIMER_INSERT",
    "COUNT_UPDATE",
    "SUM_TIMER_UPDATE",
    "COUNT_DELETE",
    "SUM_TIMER_DELETE",
];

/// `file_summary_by_instance`.
pub static FILES: Tally = Tally {
    table: "file_summary_by_instance",
    keys: &["FILE_NAME", "EVENT_NAME"],
    counters: &[
        "COUNT_STAR",
        "SUM_TIMER_WAIT",
        "COUNT_READ",
        "SUM_NUMBER_OF_BYTES_READ",
        "COUNT_WRITE",
        "SUM_NUMBER_OF_BYTES_WRITE",
        "COUNT_MISC",
        "SUM_TIMER_MISC",
    ],
    gauges: &[],
};

/// `memory_summary_global_by_event_name`.
pub static MEMORY: Tally = Tally {
    table: "memory_summary_global_by_event_name",
    keys: &["EVENT_NAME"],
    counters: &["COUNT_ALLOC", "COUNT_FREE", "SUM_NUMBER_OF_BYTES_ALLOC", "SUM_NUMBER_OF_BYTES_FREE"],
    gauges: &["CURRENT_NUMBER_OF_BYTES_USED", "HIGH_NUMBER_OF_BYTES_USED"],
};

/// `events_waits_summary_by_thread_by_event_name`, for one thread.
pub static THREAD_WAITS: Tally = Tally {
    table: "events_waits_summary_by_thread_by_event_name",
    keys: &["EVENT_NAME"],
    counters: &["COUNT_STAR", "SUM_TIMER_WAIT"],
    gauges: &["MAX_TIMER_WAIT"],
};

/// The values of a tally's key columns.
pub type Key = Vec<Option<String>>;

/// A row of a [`Tally`], with columns in the tally's order.
#[derive(Clone, Debug, PartialEq)]
pub struct Counted {
    /// Values of the key columns.
    pub key: Key,
    /// Values that only grow.
    pub counters: Vec<u64>,
    /// Values with a present state.
    pub gauges: Vec<Option<i64>>,
}

impl Counted {
    /// Returns a counter by the column's name.
    #[must_use]
    #[allow(clippy::cast_precision_loss)] // shown with four digits
    pub fn counter(&self, tally: &Tally, column: &str) -> f64 {
        tally.counters.iter().position(|it| *it == column).map_or(0.0, |at| self.counters[at] as f64)
    }

    /// Returns a gauge by the column's name.
    #[must_use]
    #[allow(clippy::cast_precision_loss)] // shown with four digits
    pub fn gauge(&self, tally: &Tally, column: &str) -> Option<f64> {
        let at = tally.gauges.iter().position(|it| *it == column)?;
        self.gauges[at].map(|value| value as f64)
    }

    /// Returns whether it is a prepared statement among digests.
    #[must_use]
    pub fn is_prepared(&self) -> bool {
        self.key.len() == 3 && self.key[1].as_deref() == Some(PREPARED_MARK)
    }

    /// Returns a part of its key, empty if it is NULL.
    #[must_use]
    pub fn named(&self, at: usize) -> &str {
        self.key[at].as_deref().unwrap_or_default()
    }
}

/// A thread and its activity.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Thread {
    /// Id of the thread.
    pub id: u64,
    /// Name of its instrument.
    pub name: String,
    /// Id of its connection; `None` for a background thread.
    pub connection: Option<u64>,
    /// Account, as `user@host`.
    pub account: Option<String>,
    /// Default schema.
    pub schema: Option<String>,
    /// Command in progress.
    pub command: Option<String>,
    /// Seconds in its present state.
    pub seconds: Option<u64>,
    /// Present stage.
    pub state: Option<String>,
    /// Present statement.
    pub statement: Option<String>,
    /// Elapsed time of the statement in picoseconds.
    pub statement_time: Option<u64>,
    /// Rows examined by the statement.
    pub examined: Option<u64>,
    /// Rows sent by the statement.
    pub sent: Option<u64>,
    /// Instrument of the present wait.
    pub wait: Option<String>,
    /// Full name of what it waits for: table or file.
    pub object: Option<String>,
}

impl Thread {
    /// Returns whether it is a client's session that has something to do: it runs, or waits for something
    /// else than its client.
    #[must_use]
    pub fn is_active(&self) -> bool {
        let state = self.state.as_deref().unwrap_or_default();
        self.connection.is_some() && self.command.as_deref().is_some_and(|it| is_active(it, state))
    }

    /// Returns whether it is in the middle of a command.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.connection.is_some() && self.command.as_deref().is_some_and(|it| it != "Sleep" && it != "Daemon")
    }
}

/// All waits for locks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Locks {
    /// Each pair of waiter and holder.
    pub waits: Vec<Wait>,
    /// Threads of these pairs.
    pub threads: Vec<Thread>,
    /// Whether some waits could not be read: a thread that seems not to wait may do so.
    pub partial: bool,
}

/// An ended statement of a digest.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// Id of its thread.
    pub thread: u64,
    /// Its event id, and the thread's last event id when it ended.
    pub events: (u64, u64),
    /// Text of the statement.
    pub text: Option<String>,
    /// Duration in picoseconds.
    pub time: u64,
    /// Time spent waiting for table locks, in picoseconds.
    pub lock_time: u64,
    /// Rows sent.
    pub sent: u64,
    /// Rows examined.
    pub examined: u64,
    /// Error number, 0 without one.
    pub error: u64,
}

/// The details of a digest.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Digest {
    /// Normalised text of the statement.
    pub text: Option<String>,
    /// Its latest statements that ended, the latest first.
    pub samples: Vec<Sample>,
    /// Stages of those statements: instrument and picoseconds.
    pub stages: Vec<(String, u64)>,
    /// Waits of those statements: instrument and picoseconds.
    pub waits: Vec<(String, u64)>,
    /// Buckets of its histogram: upper bound in picoseconds, and count.
    pub buckets: Vec<(u64, u64)>,
}

/// The content of a sample.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// Rows of the view's [`Tally`].
    Counted(Vec<Counted>),
    /// Threads.
    Threads(Vec<Thread>),
    /// Locks.
    Locks(Locks),
    /// Details of a digest, and its row.
    Digest(Vec<Counted>, Box<Digest>),
    /// Prepared statements with one text.
    Prepared(Vec<Counted>),
    /// Details of a table: its indexes.
    Table(Vec<Counted>),
    /// Details of a thread: its waits and its activity, `None` if it has ended.
    Thread(Vec<Counted>, Box<Option<Thread>>),
}

impl Content {
    /// Returns its rows with counters.
    #[must_use]
    pub fn counted(&self) -> &[Counted] {
        match self {
            Content::Counted(rows)
            | Content::Digest(rows, _)
            | Content::Prepared(rows)
            | Content::Table(rows)
            | Content::Thread(rows, _) => rows,
            Content::Threads(_) | Content::Locks(_) => &[],
        }
    }
}

/// The head of the screen, about the server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Head {
    /// Host and port, or host and socket.
    pub place: String,
    /// Version, and provider of the Performance Schema.
    pub server: String,
    /// Uptime of the server.
    pub uptime: Option<Duration>,
    /// Number of connections.
    pub connections: Option<u64>,
    /// Number of sessions that have something to do now, without those of this program.
    pub active: Option<u64>,
    /// Statements sent by clients since the start, or since the table of statements was truncated.
    pub queries: Option<u64>,
    /// Budget and overhead, where tare reports them: names and values.
    pub budget: Vec<(String, String)>,
    /// Number of records that tare lost.
    pub lost: u64,
    /// What the server's status variables say, where they could be read.
    pub overview: Overview,
}

/// An overview of the server by its status variables. `None`: it does not tell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overview {
    /// Used part of the buffer pool.
    pub pool_used: Option<f64>,
    /// Requests for pages of the buffer pool since the start, and those that had to read.
    pub pool_requests: Option<(u64, u64)>,
    /// Bytes of the redo log after the last checkpoint, and the most that there may be.
    pub checkpoint_age: Option<(u64, Option<u64>)>,
    /// Length of the history list: transactions that purge has not cleaned up after.
    pub history_list: Option<u64>,
    /// Replication, for each source.
    pub replication: Vec<Replication>,
}

/// The replication from a source.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Replication {
    /// Name of the channel or connection, often empty.
    pub channel: String,
    /// What does not run: the receiver or the applier.
    pub stopped: Vec<&'static str>,
    /// How far it is behind, in seconds.
    pub behind: Option<u64>,
}

/// A sample.
#[derive(Clone, Debug, PartialEq)]
pub struct Look {
    /// Subject of the sample.
    pub ask: Ask,
    /// Time on the server's clock.
    pub moment: Duration,
    /// Data about the server.
    pub head: Head,
    /// Content of the sample.
    pub content: Content,
    /// Rows of the active session history that previous samples did not have; `None` where the server has
    /// none.
    pub history: Option<History>,
    /// The server's time in microseconds since 1970, if known.
    pub now: Option<u64>,
    /// Texts of digests that previous samples did not have.
    pub texts: Vec<(Key, String)>,
    /// Instruments of locks whose uncontended acquisitions are not timed, so that they are counted more often
    /// than timed.
    pub untimed: Vec<String>,
    /// Missing data, with what to do about it.
    pub notes: Vec<String>,
}
