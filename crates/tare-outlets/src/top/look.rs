//! What was read of a server at one moment, for one view.

use std::fmt;
use std::time::Duration;

/// What the screen shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum View {
    /// Statements by digest.
    Statements,
    /// Waits, by class and by instrument.
    Waits,
    /// Who waits for whom.
    Locks,
    /// Tables, and in detail their indexes.
    Tables,
    /// Files.
    Files,
    /// Memory by instrument.
    Memory,
    /// Threads and what they do.
    Threads,
}

impl View {
    /// All of them, in the order of their keys.
    pub const ALL: [View; 7] =
        [View::Statements, View::Waits, View::Locks, View::Tables, View::Files, View::Memory, View::Threads];

    /// Its name, for people and for the command line.
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

    /// The table whose counters it shows; none where it shows what is there now.
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

/// What is looked at: a view, or one thing of it in detail.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ask {
    /// The view.
    pub view: View,
    /// One row of it.
    pub about: Option<About>,
}

/// What can be looked at in detail.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum About {
    /// Statements of a digest, in a schema.
    Digest {
        /// Their default schema.
        schema: Option<String>,
        /// The digest.
        digest: String,
    },
    /// Prepared statements with a text.
    Prepared {
        /// The text.
        text: String,
    },
    /// A table.
    Table {
        /// Its schema.
        schema: String,
        /// Its name.
        name: String,
    },
    /// A thread, by its number.
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

/// A table whose rows count, and what is asked of it.
#[derive(Debug)]
pub struct Tally {
    /// The table.
    pub table: &'static str,
    /// The columns that tell its rows apart.
    pub keys: &'static [&'static str],
    /// The columns that only grow.
    pub counters: &'static [&'static str],
    /// The columns that are as they are.
    pub gauges: &'static [&'static str],
}

/// `events_statements_summary_by_digest`, without the texts: they are long, and do not change.
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

/// `prepared_statements_instances`, in the columns' order of [`DIGESTS`]: MariaDB's own gives executions of prepared
/// statements no digest, and tare likewise with `prepared-digests = OFF`.
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
    // There are no quantiles of them.
    gauges: &["MAX_TIMER_EXECUTE", "", ""],
};

/// What stands instead of a digest for prepared statements; the key's third part is which.
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

/// `events_waits_summary_by_thread_by_event_name`, of one thread.
pub static THREAD_WAITS: Tally = Tally {
    table: "events_waits_summary_by_thread_by_event_name",
    keys: &["EVENT_NAME"],
    counters: &["COUNT_STAR", "SUM_TIMER_WAIT"],
    gauges: &["MAX_TIMER_WAIT"],
};

/// What tells a row apart: the values of its tally's keys.
pub type Key = Vec<Option<String>>;

/// A row of a [`Tally`]; its columns are in the tally's order.
#[derive(Clone, Debug, PartialEq)]
pub struct Counted {
    /// What tells it apart.
    pub key: Key,
    /// What only grows.
    pub counters: Vec<u64>,
    /// What is as it is.
    pub gauges: Vec<Option<i64>>,
}

impl Counted {
    /// One of its counters, by the column's name.
    #[must_use]
    #[allow(clippy::cast_precision_loss)] // shown with four digits
    pub fn counter(&self, tally: &Tally, column: &str) -> f64 {
        tally.counters.iter().position(|it| *it == column).map_or(0.0, |at| self.counters[at] as f64)
    }

    /// One of its gauges, by the column's name.
    #[must_use]
    #[allow(clippy::cast_precision_loss)] // shown with four digits
    pub fn gauge(&self, tally: &Tally, column: &str) -> Option<f64> {
        let at = tally.gauges.iter().position(|it| *it == column)?;
        self.gauges[at].map(|value| value as f64)
    }

    /// Whether it is a prepared statement among digests.
    #[must_use]
    pub fn is_prepared(&self) -> bool {
        self.key.len() == 3 && self.key[1].as_deref() == Some(PREPARED_MARK)
    }

    /// A part of its key, empty where that is NULL.
    #[must_use]
    pub fn named(&self, at: usize) -> &str {
        self.key[at].as_deref().unwrap_or_default()
    }
}

/// A thread, and what it does.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Thread {
    /// Its number.
    pub id: u64,
    /// Its instrument's name.
    pub name: String,
    /// Number of its connection; none in the background.
    pub connection: Option<u64>,
    /// Account, as `user@host`.
    pub account: Option<String>,
    /// Default schema.
    pub schema: Option<String>,
    /// Command in progress.
    pub command: Option<String>,
    /// Seconds in its present state.
    pub seconds: Option<u64>,
    /// Its stage.
    pub state: Option<String>,
    /// Its statement.
    pub statement: Option<String>,
    /// Picoseconds its statement has taken.
    pub statement_time: Option<u64>,
    /// Rows its statement has examined.
    pub examined: Option<u64>,
    /// Rows its statement has sent.
    pub sent: Option<u64>,
    /// What it waits for.
    pub wait: Option<String>,
    /// What it waits for in full: table or file.
    pub object: Option<String>,
}

impl Thread {
    /// Whether it works for somebody now.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.connection.is_some() && self.command.as_deref().is_some_and(|it| it != "Sleep" && it != "Daemon")
    }
}

/// A lock somebody waits for, and whose lock is in the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The thread that waits.
    pub waiting: u64,
    /// The thread in the way.
    pub holding: u64,
    /// What the lock is on.
    pub object: String,
    /// How the one that waits wants it.
    pub wanted: String,
    /// How the one in the way has it, or waits for it, too.
    pub held: String,
}

/// Who waits for whom.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Locks {
    /// Each pair.
    pub waits: Vec<Wait>,
    /// The threads in it.
    pub threads: Vec<Thread>,
}

/// An ended statement of a digest.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// Its thread.
    pub thread: u64,
    /// Its number in the thread, and the number the thread was at when it ended.
    pub events: (u64, u64),
    /// The statement.
    pub text: Option<String>,
    /// Picoseconds it took.
    pub time: u64,
    /// Picoseconds of it spent waiting for table locks.
    pub lock_time: u64,
    /// Rows sent.
    pub sent: u64,
    /// Rows examined.
    pub examined: u64,
    /// Its error's number, 0 without one.
    pub error: u64,
}

/// A digest in detail.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Digest {
    /// The normalised statement.
    pub text: Option<String>,
    /// Its statements that ended last, the latest first.
    pub samples: Vec<Sample>,
    /// What happened in those samples: instrument, and picoseconds of each stage.
    pub stages: Vec<(String, u64)>,
    /// Likewise of each wait.
    pub waits: Vec<(String, u64)>,
    /// Its histogram: upper bound in picoseconds, and count.
    pub buckets: Vec<(u64, u64)>,
}

/// What a look is made of.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// Rows of the view's [`Tally`].
    Counted(Vec<Counted>),
    /// Threads.
    Threads(Vec<Thread>),
    /// Locks.
    Locks(Locks),
    /// A digest in detail, and its row.
    Digest(Vec<Counted>, Box<Digest>),
    /// Prepared statements of one text.
    Prepared(Vec<Counted>),
    /// A table in detail: its indexes.
    Table(Vec<Counted>),
    /// A thread in detail: what it does, none if it ended, and what it waited for.
    Thread(Vec<Counted>, Box<Option<Thread>>),
}

impl Content {
    /// Its rows that count, and whose they are.
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

/// What the head of the screen tells of the server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Head {
    /// Which server, and whose Performance Schema.
    pub server: String,
    /// What watching may cost and what it does, where tare says it: name and value.
    pub budget: Vec<(String, String)>,
    /// What tare could not keep.
    pub lost: u64,
}

/// A look.
#[derive(Clone, Debug, PartialEq)]
pub struct Look {
    /// What was asked.
    pub ask: Ask,
    /// When, by the server's clock.
    pub moment: Duration,
    /// About the server.
    pub head: Head,
    /// What was found.
    pub content: Content,
    /// Digests' texts that were not told before.
    pub texts: Vec<(Key, String)>,
    /// What is not there, and what to do.
    pub notes: Vec<String>,
}
