//! What a reader gets: owned rows, in the Performance Schema's own units (picoseconds, bytes, rows).
//!
//! A snapshot is taken at query time by a reader; writers never wait for it. Times that were not measured
//! (`TIMED = NO`) are `None`. Names of instruments are `&'static str`: instruments are never unregistered.

mod events;
mod instances;
mod present;
mod setup;
mod summary;

pub use events::*;
pub use instances::*;
pub use present::*;
pub use setup::*;
pub use summary::*;

use crate::histogram::Lowest;

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

impl Kind {
    /// How far the lowest bucket of its instruments' histograms reaches.
    #[must_use]
    pub const fn lowest(self) -> Lowest {
        match self {
            Kind::Stage | Kind::Socket | Kind::Idle => Lowest::Wide,
            _ => Lowest::Usual,
        }
    }
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
    /// Events of a scope, or the summary of a grouping.
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
