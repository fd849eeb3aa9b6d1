//! Kinds of events, and how much is kept of them.

use std::fmt;

/// A kind of event: instruments of one kind share a price and a worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A statement a client sent as text: it is parsed, and its digest is made.
    Query,
    /// Any other command of a client: a prepared statement that is executed, for one.
    Statement,
    /// A statement inside a stored program.
    Program,
    /// A transaction.
    Transaction,
    /// An error or warning raised.
    Error,
    /// Rows read and written: each wait for them, of many rows or one; see [`crate::handler`].
    TableIo,
    /// A file read, written, opened.
    FileIo,
    /// A metadata lock.
    MetadataLock,
    /// A table lock.
    TableLock,
    /// Memory taken or given back.
    Memory,
    /// A stage of a statement.
    Stage,
    /// Bytes on a connection.
    Socket,
    /// A connection waiting for its client.
    Idle,
    /// A condition waited for.
    Condition,
    /// A read-write lock.
    RwLock,
    /// A mutex.
    Mutex,
}

impl Kind {
    /// All, from what is worth most to what is worth least.
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

    /// The kind of an instrument; `None` for what has no events of its own, such as threads.
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

    /// Its name in a price file.
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

    /// The kind of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Whose histories its events go to; `None` where they go to none.
    #[must_use]
    pub fn family(self) -> Option<Family> {
        match self {
            Kind::Query | Kind::Statement | Kind::Program => Some(Family::Statements),
            Kind::Transaction => Some(Family::Transactions),
            Kind::Stage => Some(Family::Stages),
            Kind::Memory | Kind::Error => None,
            _ => Some(Family::Waits),
        }
    }

    /// Whether its events have a time. What has none is counted or off.
    #[must_use]
    pub fn is_timed(self) -> bool {
        self.family().is_some()
    }

    /// What is kept at level [`Level::Sampled`] of an event in a statement that was not chosen. [`Level::Lean`]: every event is
    /// recorded, chosen or not.
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

/// Kinds whose events share histories.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// `events_statements_%`
    Statements,
    /// `events_transactions_%`
    Transactions,
    /// `events_stages_%`
    Stages,
    /// `events_waits_%`
    Waits,
}

impl Family {
    /// All of them.
    pub const ALL: [Family; 4] = [Family::Statements, Family::Transactions, Family::Stages, Family::Waits];

    /// As tables and consumers call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Family::Statements => "statements",
            Family::Transactions => "transactions",
            Family::Stages => "stages",
            Family::Waits => "waits",
        }
    }
}

/// How much is kept of an event, from nothing to all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Nothing.
    Off,
    /// That it happened.
    Counts,
    /// How often and how long.
    Sums,
    /// Besides, what is in progress (a built-in's consumer `events_%_current`).
    Current,
    /// Besides, each thread's last ones (a built-in's `events_%_history`).
    History,
    /// As lean, of one statement in as many as the load asks for; what people act on is counted of all (tare).
    Sampled,
    /// Recorded; of locks that were free no time (tare).
    Lean,
    /// Recorded and timed, in every history there is.
    Exact,
}

impl Level {
    /// All, from nothing to all.
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

    /// Those that a price file may have a price of: what [`Level::Sampled`] costs follows from the others.
    pub fn priced() -> impl Iterator<Item = Level> {
        Level::ALL.into_iter().filter(|it| *it != Level::Sampled)
    }

    /// Its name in price files, decisions and `tare_levels`.
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

    /// The level of that name.
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
