//! Rows for readers: owned values in the Performance Schema's own units (picoseconds, bytes, rows).
//!
//! A reader takes a snapshot at query time; writers never wait for it. Times that were not measured (`TIMED =
//! NO`) are `None`. Names of instruments are `&'static str`: instruments are never unregistered.

mod active;
mod events;
mod instances;
mod level;
mod present;
mod setup;
mod summary;

pub use active::*;
pub use events::*;
pub use instances::*;
pub use level::Recording;
pub use present::*;
pub use setup::*;
pub use summary::*;

use crate::histogram::Lowest;

/// Id of a registered instrument: its 1-based position in the registry, like a PSI key. 0: none.
pub type ClassId = u16;

/// Kind of an instrument. Decides its name prefix and which summary tables contain it.
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

impl Kind {
    /// Returns the kind of a wait's instrument, by its name. `None`: it is no wait's, or of a kind that is
    /// not known.
    #[must_use]
    pub fn of_wait(instrument: &str) -> Option<Kind> {
        let mut parts = instrument.split('/');
        Some(match [parts.next()?, parts.next().unwrap_or_default(), parts.next().unwrap_or_default()] {
            ["wait", "synch", "mutex"] => Kind::Mutex,
            ["wait", "synch", "rwlock" | "prlock"] => Kind::Rwlock,
            ["wait", "synch", "sxlock"] => Kind::Sxlock,
            ["wait", "synch", "cond"] => Kind::Cond,
            ["wait", "io", "file"] => Kind::File,
            ["wait", "io", "socket"] => Kind::Socket,
            ["wait", "io", "table"] => Kind::TableIo,
            ["wait", "lock", "table"] => Kind::TableLock,
            ["wait", "lock", "metadata"] => Kind::Metadata,
            ["idle", ..] => Kind::Idle,
            _ => return None,
        })
    }

    /// Returns whether a background thread in such a wait has nothing to do: it waits for a signal, or for
    /// the network.
    #[must_use]
    pub const fn is_rest(self) -> bool {
        matches!(self, Kind::Cond | Kind::Socket)
    }

    /// Returns the upper bound of the lowest bucket in histograms of this kind.
    #[must_use]
    pub const fn lowest(self) -> Lowest {
        match self {
            Kind::Stage | Kind::Socket | Kind::Idle => Lowest::Wide,
            _ => Lowest::Usual,
        }
    }
}

/// Event type, also used for NESTING_EVENT_TYPE.
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

/// Scope of events: one of the three event tables of each type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// `events_*_current`
    Current,
    /// `events_*_history`: the latest events of every live thread
    History,
    /// `events_*_history_long`: the latest events of all threads, ended ones included
    HistoryLong,
}

/// Parts of a row that a reader asks for. The engine may leave others empty to save their cost. Each type of
/// row names its expensive parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts(u32);

impl Parts {
    /// Only what costs nothing.
    pub const NONE: Parts = Parts(0);
    /// Whole rows.
    pub const ALL: Parts = Parts(u32::MAX);

    /// Creates the set of one part of a type of row.
    pub(crate) const fn part(number: u32) -> Parts {
        Parts(1 << number)
    }

    /// Returns the union of two sets.
    #[must_use]
    pub const fn and(self, other: Parts) -> Parts {
        Parts(self.0 | other.0)
    }

    /// Returns whether two sets have a part in common.
    #[must_use]
    pub const fn has(self, other: Parts) -> bool {
        self.0 & other.0 != 0
    }
}

/// A reader's request, for all threads or for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadRequest<T> {
    /// Scope of events, or grouping of a summary.
    pub what: T,
    /// THREAD_ID of the only thread to read; `None`: all threads.
    pub thread: Option<u64>,
    /// Parts of the rows.
    pub parts: Parts,
}

impl<T> From<T> for ReadRequest<T> {
    fn from(what: T) -> ReadRequest<T> {
        ReadRequest { what, thread: None, parts: Parts::ALL }
    }
}
