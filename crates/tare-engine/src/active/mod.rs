//! The active session history: what every active thread is doing, sampled by one thread and kept for as long
//! as its memory lasts.
//!
//! No event pays for it. The [`Sampler`] reads the slabs of threads as any reader does: without a lock, and
//! without stopping anyone. What only the operating system knows it asks of a [`Scheduler`], what only the
//! host knows of the
//! [`Host`](crate::Host).
//!
//! | module | holds |
//! |---|---|
//! | `sampler` | one sample: which threads are active, and what each is doing |
//! | `waiting` | what a thread waits for |
//! | `blockers` | for whom it waits |
//! | `record` | the layout of a record: twelve words |
//! | `names` | texts, which many records share |
//! | `store` | records and texts in two rings of their own memory; reading them |

mod blockers;
mod names;
mod record;
mod sampler;
mod store;
mod waiting;

use std::time::Duration;

use crate::snapshot::{ObjectName, WaitClass};

pub use sampler::Sampler;
pub(crate) use store::ActiveHistory;

/// Name of the wait for a lock of a storage engine's, which no instrument reports.
pub const ROW_LOCK: &str = "wait/lock/row/handler";

/// What the operating system says of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadState {
    /// It runs, or is ready to.
    Ready,
    /// It waits; `Some` where it is known for what.
    Waits(Option<WaitClass>),
}

/// The operating system's scheduler, as the sampler asks it, by THREAD_OS_ID. Both calls must be cheap.
pub trait Scheduler {
    /// Returns the CPU time that a thread has used; `None`: unknown, or there is no such thread.
    fn cpu_time(&mut self, os_id: u64) -> Option<Duration>;
    /// Returns the state of a thread; `None`: unknown, or there is no such thread.
    fn state(&mut self, os_id: u64) -> Option<ThreadState>;
}

/// A session's wait for a lock within a storage engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowLockWait {
    /// Handle of the session that has the lock or is to get it first; `None`: unknown, or it is no session's.
    pub holder: Option<u64>,
}

/// A metadata lock that the host itself keeps; see [`Host::metadata_locks`](crate::Host::metadata_locks).
#[derive(Clone, Debug, Default)]
pub struct HostLock {
    /// Where the host keeps it, and what tells it from another one at this place.
    pub place: usize,
    /// See `place`.
    pub stamp: u32,
    /// THREAD_ID of its owner.
    pub owner_thread: u64,
    /// OBJECT_TYPE, in the host's numbering of namespaces.
    pub namespace: u8,
    /// LOCK_TYPE, in the host's numbering.
    pub lock_type: u8,
    /// Whether it is granted; else it is waited for.
    pub is_granted: bool,
    /// What it locks, in the host's form: the same for locks of the same object.
    pub key: Vec<u8>,
    /// What it locks, by name.
    pub object: ObjectName,
}
