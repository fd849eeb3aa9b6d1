//! Losses: a counter for each reason why something did not fit, always visible to readers.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::snapshot::LostRow;

macro_rules! lost {
    ($($variant:ident => $name:literal, $doc:literal;)*) => {
        /// The reasons for a loss.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Lost { $(#[doc = $doc] $variant,)* }

        /// The names of the built-in's status variables, where it has one, otherwise similar ones.
        const NAMES: &[&str] = &[$($name,)*];
    };
}

lost! {
    MutexClasses => "mutex_classes_lost", "Instruments that did not fit the registry (mutexes).";
    RwlockClasses => "rwlock_classes_lost", "Likewise, rwlocks.";
    CondClasses => "cond_classes_lost", "Likewise, conds.";
    ThreadClasses => "thread_classes_lost", "Likewise, threads.";
    FileClasses => "file_classes_lost", "Likewise, files.";
    SocketClasses => "socket_classes_lost", "Likewise, sockets.";
    StageClasses => "stage_classes_lost", "Likewise, stages.";
    StatementClasses => "statement_classes_lost", "Likewise, statements.";
    MemoryClasses => "memory_classes_lost", "Likewise, memory.";
    MutexInstances => "mutex_instances_lost", "Mutexes without an instance.";
    RwlockInstances => "rwlock_instances_lost", "Rwlocks without an instance.";
    CondInstances => "cond_instances_lost", "Conds without an instance.";
    ThreadInstances => "thread_instances_lost", "Threads that run unseen: no memory for a slab.";
    FileInstances => "file_instances_lost", "Files without an instance.";
    FileHandles => "file_handles_lost", "Open descriptors beyond the table.";
    SocketInstances => "socket_instances_lost", "Sockets without an instance.";
    TableInstances => "table_instances_lost", "Tables without an instance.";
    TableHandles => "table_handles_lost", "Open tables without a handle.";
    IndexStats => "index_stat_lost", "Table I/O that had no place by index.";
    TableLockStats => "table_lock_stat_lost", "Table locks that had no place by table.";
    MetadataLocks => "metadata_lock_lost", "Metadata locks without an instance.";
    PreparedStatements => "prepared_statements_lost", "Prepared statements without an instance, or without a digest for their executions.";
    Programs => "program_lost", "Stored programs without an instance.";
    Digests => "digest_lost", "Statements counted in the row without a digest for want of a place (not those of evicted digests).";
    Samples => "digest_samples_lost", "Samples of digests not taken: no memory to spare.";
    Accounts => "accounts_lost", "Connections that are in no row of their account: it has no place.";
    Users => "users_lost", "Likewise, of their user.";
    Hosts => "hosts_lost", "Likewise, of their host.";
    SessionConnectAttrs => "session_connect_attrs_lost", "Connections whose attributes were cut.";
    ReadLocks => "read_locks_lost", "Locks held for reading that READ_LOCKED_BY_COUNT misses: a thread holds more than it remembers.";
    Lockers => "locker_lost", "Waits nested too deeply to be recorded as events.";
    NestedStatements => "nested_statement_lost", "Statements nested too deeply to be recorded.";
    WaitEvents => "events_waits_lost", "Waits counted but not recorded: no memory for a ring.";
    StageEvents => "events_stages_lost", "Likewise, stages.";
    StatementEvents => "events_statements_lost", "Likewise, statements.";
    TransactionEvents => "events_transactions_lost", "Likewise, transactions.";
    Cells => "summary_cells_lost", "Events not summarised: no memory for a cell.";
    Histograms => "histogram_lost", "Parts of histograms there is no memory for: what belongs there is in the lowest bucket.";
    PartyCells => "party_cells_lost", "Sums of closed connections only the global summary has: no memory to spare.";
    Sessions => "sessions_lost", "Sessions whose own counters or variables could not be read when they were asked for, or ended.";
    Observations => "observations_lost", "Reads of host_cache or of replicas without rows: the server changed them without end.";
}

/// Limits for everything whose excess a reason counts: instruments, instances, statistics of closed objects,
/// levels of nesting. Without a limit, memory is the bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectLimits([u32; NAMES.len()]);

impl Default for ObjectLimits {
    fn default() -> ObjectLimits {
        ObjectLimits([u32::MAX; NAMES.len()])
    }
}

impl ObjectLimits {
    /// Returns the limit. Reasons that lose an event have none.
    #[must_use]
    pub fn of(&self, what: Lost) -> u32 {
        self.0[what as usize]
    }

    /// Returns the limit for changing it.
    pub fn of_mut(&mut self, what: Lost) -> &mut u32 {
        &mut self.0[what as usize]
    }
}

/// The counters of all reasons, and the limits.
pub(crate) struct Losses {
    counters: [AtomicU64; NAMES.len()],
    /// A second set of counters, which the host may set to zero.
    shown: [AtomicU64; NAMES.len()],
    limits: [AtomicU32; NAMES.len()],
}

impl Losses {
    pub(crate) const fn new() -> Losses {
        Losses {
            counters: [const { AtomicU64::new(0) }; NAMES.len()],
            shown: [const { AtomicU64::new(0) }; NAMES.len()],
            limits: [const { AtomicU32::new(u32::MAX) }; NAMES.len()],
        }
    }

    pub(crate) fn limit(&self, limits: &ObjectLimits) {
        self.limits.iter().zip(limits.0).for_each(|(kept, limit)| kept.store(limit, Relaxed));
    }

    /// Returns whether one more is allowed besides `held`.
    pub(crate) fn allow(&self, what: Lost, held: u32) -> bool {
        held < self.limits[what as usize].load(Relaxed)
    }

    /// Counts one loss.
    #[cold]
    pub(crate) fn count(&self, what: Lost) {
        self.counters[what as usize].fetch_add(1, Relaxed);
        self.shown[what as usize].fetch_add(1, Relaxed);
    }

    pub(crate) fn rows(&self) -> Vec<LostRow> {
        let row = |(name, lost): (&&'static str, &AtomicU64)| LostRow { name, lost: lost.load(Relaxed) };
        NAMES.iter().zip(&self.counters).map(row).collect()
    }

    pub(crate) fn shown(&self) -> impl Iterator<Item = (&'static str, &AtomicU64)> {
        NAMES.iter().copied().zip(&self.shown)
    }
}
