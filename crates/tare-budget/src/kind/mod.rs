//! Kinds of events, and how much is kept of them.

pub mod handler;
pub mod worth;

use std::fmt;

/// A kind of event. Instruments of one kind have the same cost per event and the same worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A statement that a client sent as text: it is parsed, and its digest is computed.
    Query,
    /// Any other command of a client, such as the execution of a prepared statement.
    Statement,
    /// A statement inside a stored program.
    Program,
    /// A transaction.
    Transaction,
    /// An error or warning.
    Error,
    /// Table I/O: waits for rows, of many rows or one. See [`handler`].
    TableIo,
    /// File I/O, including opening and closing.
    FileIo,
    /// A metadata lock.
    MetadataLock,
    /// A table lock.
    TableLock,
    /// An allocation or a release of memory.
    Memory,
    /// A stage of a statement.
    Stage,
    /// Socket I/O.
    Socket,
    /// A connection that waits for its client.
    Idle,
    /// A wait for a condition variable.
    Condition,
    /// A read-write lock.
    RwLock,
    /// A mutex.
    Mutex,
}

impl Kind {
    /// All kinds, from the highest worth to the lowest.
    pub const ALL: [Kind; 16] = [
        Kind::Query,
        Kind::Statement,
        Kind::Program,
        Kind::Transaction,
        Kind::Error,
        Kind::TableIo,
        Kind::FileIo,
        Kind::MetadataLock,
        Kind::TableLock,
        Kind::Memory,
        Kind::Stage,
        Kind::Socket,
        Kind::Idle,
        Kind::Condition,
        Kind::RwLock,
        Kind::Mutex,
    ];

    /// Returns the kind of an instrument; `None` if it has no events of its own, such as a thread class.
    ///
    /// # Examples
    ///
    /// ```
    /// use tare_budget::Kind;
    ///
    /// assert_eq!(Kind::of("wait/synch/mutex/sql/LOCK_open"), Some(Kind::Mutex));
    /// assert_eq!(Kind::of("thread/sql/main"), None);
    /// ```
    #[must_use]
    pub fn of(instrument: &str) -> Option<Kind> {
        let begins = [
            ("statement/sql/", Kind::Query),
            ("statement/com/Query", Kind::Query),
            ("statement/sp/", Kind::Program),
            ("statement/", Kind::Statement),
            ("transaction", Kind::Transaction),
            ("error", Kind::Error),
            ("wait/io/table/", Kind::TableIo),
            ("wait/io/file/", Kind::FileIo),
            ("wait/io/socket/", Kind::Socket),
            ("wait/lock/metadata/", Kind::MetadataLock),
            ("wait/lock/table/", Kind::TableLock),
            ("memory/", Kind::Memory),
            ("stage/", Kind::Stage),
            ("idle", Kind::Idle),
            ("wait/synch/cond/", Kind::Condition),
            ("wait/synch/rwlock/", Kind::RwLock),
            ("wait/synch/prlock/", Kind::RwLock),
            ("wait/synch/sxlock/", Kind::RwLock),
            ("wait/synch/mutex/", Kind::Mutex),
        ];
        begins.into_iter().find(|(begin, _)| instrument.starts_with(begin)).map(|(_, kind)| kind)
    }

    /// Returns the kind's name in price files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Query => "query",
            Kind::Statement => "statement",
            Kind::Program => "program",
            Kind::Transaction => "transaction",
            Kind::Error => "error",
            Kind::TableIo => "table-io",
            Kind::FileIo => "file-io",
            Kind::MetadataLock => "metadata-lock",
            Kind::TableLock => "table-lock",
            Kind::Memory => "memory",
            Kind::Stage => "stage",
            Kind::Socket => "socket",
            Kind::Idle => "idle",
            Kind::Condition => "condition",
            Kind::RwLock => "rwlock",
            Kind::Mutex => "mutex",
        }
    }

    /// Returns the kind of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Returns the family whose histories contain its events; `None`: no history does.
    #[must_use]
    pub fn family(self) -> Option<HistoryFamily> {
        match self {
            Kind::Query | Kind::Statement | Kind::Program => Some(HistoryFamily::Statements),
            Kind::Transaction => Some(HistoryFamily::Transactions),
            Kind::Stage => Some(HistoryFamily::Stages),
            Kind::Memory | Kind::Error => None,
            _ => Some(HistoryFamily::Waits),
        }
    }

    /// Returns whether its events have durations. Others are counted or off.
    #[must_use]
    pub fn is_timed(self) -> bool {
        self.family().is_some()
    }

    /// Returns what level [`Level::Sampled`] keeps of an event in a statement that was not chosen.
    /// [`Level::Lean`] means that every event is recorded, chosen or not.
    #[must_use]
    pub fn unchosen(self) -> Level {
        match self {
            Kind::Query | Kind::Statement => Level::Sums,
            Kind::TableIo => Level::Counts,
            Kind::Program
            | Kind::TableLock
            | Kind::Stage
            | Kind::Socket
            | Kind::Idle
            | Kind::RwLock
            | Kind::Mutex => Level::Off,
            Kind::Transaction
            | Kind::Error
            | Kind::FileIo
            | Kind::MetadataLock
            | Kind::Memory
            | Kind::Condition => Level::Lean,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Event types whose kinds share histories.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HistoryFamily {
    /// `events_statements_%`
    Statements,
    /// `events_transactions_%`
    Transactions,
    /// `events_stages_%`
    Stages,
    /// `events_waits_%`
    Waits,
}

impl HistoryFamily {
    /// All families.
    pub const ALL: [HistoryFamily; 4] =
        [HistoryFamily::Statements, HistoryFamily::Transactions, HistoryFamily::Stages, HistoryFamily::Waits];

    /// Returns the family's name in tables and consumers.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            HistoryFamily::Statements => "statements",
            HistoryFamily::Transactions => "transactions",
            HistoryFamily::Stages => "stages",
            HistoryFamily::Waits => "waits",
        }
    }
}

/// Level: how much is kept of an event, from nothing to everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Nothing.
    Off,
    /// The number of events.
    Counts,
    /// The number of events and their durations.
    Sums,
    /// `Sums`, and the event in progress (the built-in's consumer `events_%_current`).
    Current,
    /// `Current`, and the latest events of each thread (the built-in's `events_%_history`).
    History,
    /// Like lean, in one of so many statements, depending on the load. What people act on is counted in all
    /// of them (tare).
    Sampled,
    /// Everything except the durations of uncontended locks (tare).
    Lean,
    /// Everything, in all histories.
    Exact,
}

impl Level {
    /// All levels in ascending order.
    pub const ALL: [Level; 8] = [
        Level::Off,
        Level::Counts,
        Level::Sums,
        Level::Current,
        Level::History,
        Level::Sampled,
        Level::Lean,
        Level::Exact,
    ];

    /// Returns the levels that may have a price in a price file. The cost of [`Level::Sampled`] is derived
    /// from the others.
    pub fn priced() -> impl Iterator<Item = Level> {
        Level::ALL.into_iter().filter(|it| *it != Level::Sampled)
    }

    /// Returns the level's name in price files, decisions and `tare_levels`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Level::Off => "off",
            Level::Counts => "counts",
            Level::Sums => "sums",
            Level::Current => "current",
            Level::History => "history",
            Level::Sampled => "sampled",
            Level::Lean => "lean",
            Level::Exact => "exact",
        }
    }

    /// Returns the level of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Level> {
        Level::ALL.into_iter().find(|level| level.name() == name)
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Start of the names of instruments that only begin statements.
const BEGINNINGS: &str = "statement/abstract/";

/// Returns whether an instrument has no events of its own and only begins statements.
#[must_use]
pub fn is_beginning(name: &str) -> bool {
    name.starts_with(BEGINNINGS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_instrument_with_events_has_a_kind() {
        for (name, kind) in [
            ("statement/sql/select", Some(Kind::Query)),
            ("statement/com/Query", Some(Kind::Query)),
            ("statement/com/Execute", Some(Kind::Statement)),
            ("statement/sp/stmt", Some(Kind::Program)),
            ("wait/synch/prlock/sql/MDL_lock::rwlock", Some(Kind::RwLock)),
            ("wait/synch/sxlock/innodb/index_tree_rw_lock", Some(Kind::RwLock)),
            ("wait/lock/metadata/sql/mdl", Some(Kind::MetadataLock)),
            ("transaction", Some(Kind::Transaction)),
            ("error", Some(Kind::Error)),
            ("thread/sql/one_connection", None),
        ] {
            assert_eq!(Kind::of(name), kind, "{name}");
        }
    }

    #[test]
    fn names_lead_back() {
        assert!(Kind::ALL.into_iter().all(|kind| Kind::named(kind.name()) == Some(kind)));
        assert!(Level::ALL.into_iter().all(|level| Level::named(level.name()) == Some(level)));
        assert!(Level::ALL.is_sorted(), "from nothing to all");
    }
}
