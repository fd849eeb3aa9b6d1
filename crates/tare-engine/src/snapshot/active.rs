//! The active session history: what sessions were doing when they were sampled.

use std::sync::Arc;

use super::{Kind, Parts};

/// Whether a thread runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum SessionState {
    /// It runs on a processor.
    OnCpu,
    /// It could run, but no processor is free.
    Runnable,
    /// It waits.
    Waiting,
}

impl SessionState {
    /// Every state, in the order of the column's declaration.
    pub const ALL: [SessionState; 3] = [SessionState::OnCpu, SessionState::Runnable, SessionState::Waiting];

    /// Returns STATE.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            SessionState::OnCpu => "ON CPU",
            SessionState::Runnable => "RUNNABLE",
            SessionState::Waiting => "WAITING",
        }
    }
}

/// What a sampled thread spends its time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum WaitClass {
    /// It runs, or could run.
    Cpu,
    /// A lock on a row, or on a table within the storage engine.
    RowLock,
    /// A metadata lock.
    MetadataLock,
    /// A lock that users name.
    UserLock,
    /// A lock on a whole table.
    TableLock,
    /// A file.
    File,
    /// A mutex, rwlock or sxlock.
    Mutex,
    /// A condition that another thread has to signal.
    Condition,
    /// The client, or another server.
    Network,
    /// Nothing: the statement asked to sleep.
    Sleep,
    /// Something that nobody names.
    Other,
}

/// Returns the wait that says what a thread waits for; `waits` are those in progress, the innermost last, and
/// `kind` returns the kind of one. Access to a table is no such wait: what is waited for in it has waits of
/// its own. A metadata lock is waited for on a condition, which says less; so is a lock on a table.
pub fn waited_for<W>(waits: &[W], kind: impl Fn(&W) -> Option<Kind>) -> Option<&W> {
    let metadata = waits.iter().find(|wait| kind(wait) == Some(Kind::Metadata));
    let (innermost, outer) = waits.split_last()?;
    let is_lock = |it: &&W| kind(it) == Some(Kind::TableLock) && kind(innermost) == Some(Kind::Cond);
    let is_wait = |it: &&W| !matches!(kind(it), Some(Kind::TableIo | Kind::TableLock | Kind::Idle));
    metadata.or(outer.last().filter(is_lock)).or(Some(innermost).filter(is_wait))
}

impl WaitClass {
    /// Returns the class of a wait of this kind; `told` is what the thread's stage says it waits for.
    #[must_use]
    pub const fn of(kind: Kind, told: Option<WaitClass>) -> WaitClass {
        match (kind, told) {
            (Kind::Mutex | Kind::Rwlock | Kind::Sxlock, _) => WaitClass::Mutex,
            (Kind::Cond, Some(told)) => told,
            (Kind::Cond, None) => WaitClass::Condition,
            (Kind::File, _) => WaitClass::File,
            (Kind::Socket, _) => WaitClass::Network,
            (Kind::TableLock, _) => WaitClass::TableLock,
            (Kind::Metadata, Some(WaitClass::UserLock)) => WaitClass::UserLock,
            (Kind::Metadata, _) => WaitClass::MetadataLock,
            _ => WaitClass::Other,
        }
    }

    /// Returns the class with this name, as WAIT_CLASS has it.
    #[must_use]
    pub fn named(name: &str) -> Option<WaitClass> {
        WaitClass::ALL.into_iter().find(|class| class.name() == name)
    }

    /// Every class, in the order of the column's declaration.
    pub const ALL: [WaitClass; 11] = [
        WaitClass::Cpu,
        WaitClass::RowLock,
        WaitClass::MetadataLock,
        WaitClass::UserLock,
        WaitClass::TableLock,
        WaitClass::File,
        WaitClass::Mutex,
        WaitClass::Condition,
        WaitClass::Network,
        WaitClass::Sleep,
        WaitClass::Other,
    ];

    /// Returns WAIT_CLASS.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            WaitClass::Cpu => "CPU",
            WaitClass::RowLock => "ROW LOCK",
            WaitClass::MetadataLock => "METADATA LOCK",
            WaitClass::UserLock => "USER LOCK",
            WaitClass::TableLock => "TABLE LOCK",
            WaitClass::File => "FILE IO",
            WaitClass::Mutex => "MUTEX",
            WaitClass::Condition => "CONDITION",
            WaitClass::Network => "NETWORK",
            WaitClass::Sleep => "SLEEP",
            WaitClass::Other => "OTHER",
        }
    }

    /// The beginning of [`WaitClass::time_row`].
    pub const TIME_ROW: &str = "ash_us_";

    /// Returns the name of the row of `tare_status` with the time in microseconds that active sessions have
    /// spent in this class: `ash_us_row_lock`.
    #[must_use]
    pub fn time_row(self) -> String {
        WaitClass::TIME_ROW.to_owned() + &self.name().to_lowercase().replace(' ', "_")
    }
}

/// A row of the active session history: one thread in one sample. Texts are shared between rows.
#[derive(Clone, Debug, PartialEq)]
pub struct ActiveRow {
    /// SAMPLE_TIME, in microseconds since the Unix epoch; the same for all rows of a sample.
    pub time_us: u64,
    /// Time that the row stands for, in microseconds: since the sample before.
    pub row_us: u64,
    /// THREAD_ID.
    pub thread_id: u64,
    /// PROCESSLIST_ID; `None`: a background thread.
    pub processlist_id: Option<u64>,
    /// Name of the thread's instrument.
    pub thread_name: &'static str,
    /// User and host of the session.
    pub user: Option<Arc<str>>,
    #[allow(missing_docs)]
    pub host: Option<Arc<str>>,
    /// Default schema of the statement.
    pub schema: Option<Arc<str>>,
    /// DIGEST of the statement, in hex.
    pub digest: Option<Arc<str>>,
    /// EVENT_ID of the innermost statement in progress.
    pub event_id: Option<u64>,
    /// Time since that statement began, in microseconds.
    pub statement_us: Option<u64>,
    /// Name of the stage.
    pub stage: Option<&'static str>,
    /// Whether the thread runs.
    pub state: SessionState,
    /// What it spends its time on.
    pub class: WaitClass,
    /// Name of the wait's instrument; `None`: it runs, or the wait is not instrumented.
    pub wait: Option<&'static str>,
    /// OPERATION of the wait.
    pub operation: Option<&'static str>,
    /// Object of the wait: type, schema, name and index.
    pub object: [Option<Arc<str>>; 4],
    /// Time since the wait began, in microseconds.
    pub wait_us: Option<u64>,
    /// THREAD_ID of the thread that is waited for.
    pub blocking_thread_id: Option<u64>,
    /// PROCESSLIST_ID of that thread.
    pub blocking_processlist_id: Option<u64>,
    /// TRX_ID of the transaction in progress; `None`: it has none, or there is no transaction.
    pub trx_id: Option<u64>,
    /// Time since the transaction began, in microseconds.
    pub trx_us: Option<u64>,
}

impl ActiveRow {
    /// Texts: account, schema, digest and object.
    pub const NAMES: Parts = Parts::part(0);
}

/// How much the active session history holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ActiveHistoryState {
    /// Samples taken since the start.
    pub samples: u64,
    /// Rows that can be read.
    pub rows: u64,
    /// Rows that fit.
    pub capacity: u64,
    /// SAMPLE_TIME of the oldest row, in microseconds since the Unix epoch.
    pub oldest_us: Option<u64>,
    /// Time that sessions have spent since the start, in microseconds, in the order of [`WaitClass::ALL`].
    /// Rows that have been overwritten count, too.
    pub times_us: [u64; WaitClass::ALL.len()],
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_told_by_their_instruments() {
        for (name, kind, class) in [
            ("wait/synch/mutex/sql/LOCK_open", Kind::Mutex, WaitClass::Mutex),
            ("wait/synch/sxlock/test/index_lock", Kind::Sxlock, WaitClass::Mutex),
            ("wait/synch/prlock/sql/MDL_lock::rwlock", Kind::Rwlock, WaitClass::Mutex),
            ("wait/synch/cond/sql/COND_done", Kind::Cond, WaitClass::Condition),
            ("wait/io/file/test/data_file", Kind::File, WaitClass::File),
            ("wait/io/socket/sql/client_connection", Kind::Socket, WaitClass::Network),
            ("wait/io/table/sql/handler", Kind::TableIo, WaitClass::Other),
            ("wait/lock/table/sql/handler", Kind::TableLock, WaitClass::TableLock),
            ("wait/lock/metadata/sql/mdl", Kind::Metadata, WaitClass::MetadataLock),
            ("idle", Kind::Idle, WaitClass::Other),
        ] {
            assert_eq!(Kind::of_wait(name), Some(kind), "{name}");
            assert_eq!(WaitClass::of(kind, None), class, "{name}");
        }
        for name in ["wait/new/kind", "stage/sql/User sleep", "wait", ""] {
            assert_eq!(Kind::of_wait(name), None, "{name}");
        }
    }

    #[test]
    fn a_stage_says_what_a_condition_is_for() {
        let [asleep, user_lock] = [WaitClass::Sleep, WaitClass::UserLock].map(Some);
        assert_eq!(WaitClass::of(Kind::Cond, asleep), WaitClass::Sleep);
        assert_eq!(WaitClass::of(Kind::Metadata, user_lock), WaitClass::UserLock);
        assert_eq!(WaitClass::of(Kind::Metadata, asleep), WaitClass::MetadataLock);
        assert_eq!(WaitClass::of(Kind::File, asleep), WaitClass::File);
    }

    #[test]
    fn classes_are_found_by_name() {
        for class in WaitClass::ALL {
            assert_eq!(WaitClass::named(class.name()), Some(class));
        }
        assert_eq!(WaitClass::named("Cpu"), None);
    }

    #[test]
    fn of_nested_waits_one_says_what_is_waited_for() {
        use Kind::{Cond, File, Metadata, Mutex, TableIo, TableLock};
        for (waits, told) in [
            (&[][..], None),
            (&[TableIo], None),
            (&[TableLock], None),
            (&[TableIo, File], Some(File)),
            (&[Metadata, Cond], Some(Metadata)),
            (&[TableLock, Cond], Some(TableLock)),
            (&[TableLock, Mutex], Some(Mutex)),
            (&[Cond], Some(Cond)),
        ] {
            assert_eq!(waited_for(waits, |kind| Some(*kind)).copied(), told, "{waits:?}");
        }
        assert_eq!(waited_for(&["wait/new/kind"], |_| None), Some(&"wait/new/kind"));
    }
}
