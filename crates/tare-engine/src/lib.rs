//! Records every instrumented event exactly, at very low cost. Knows no host, SQL, sockets or files.
//!
//! Path of an event: `record` writes to the calling thread's slab (`thread`), to a cell (`count`) and, if the
//! event is recorded, to a block of its own. `layout` says what these words mean. Path of a query: `read`
//! copies slabs, cells and blocks and merges them into rows (`snapshot`). All `memory` comes from one arena.
//! What does not fit is counted. `layers.toml` says which of these folders may use which.

mod active;
mod clock;
mod count;
pub mod histogram;
mod instance;
mod layout;
mod memory;
mod read;
mod record;
mod setup;
pub mod snapshot;
mod spelling;
mod thread;

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock};

use tare_sync::{ConfigVersion, Folds, Space};

use active::ActiveHistory;
use clock::Clock;
use count::account::Parties;
use count::bucket::BucketBounds;
use count::digest_table::DigestTable;
use count::error::KnownErrors;
use layout::bank::{SharedBank, with_cell};
use layout::cell::{FAMILIES, IoCell, VIEWERS};
use memory::arena::{Arena, Table};
use memory::index::NameIndex;
use memory::lost::Losses;
use memory::pool::Pools;
use read::histogram::Truncated;
use read::{OwnerCache, SumCache};
use record::stage::unreported::UnreportedStages;
use setup::demand::Demands;
use setup::instrument;
use setup::rules::Rules;
use setup::sampling::SamplingSettings;
use snapshot::{ClassId, Consumer, Kind, Properties, WaitClass};
use thread::KeptSlabs;

pub use active::{HostLock, ROW_LOCK, RowLockWait, Sampler, Scheduler, ThreadState};
pub use clock::{Scale, ticks};
pub use count::digest_key::{DigestTokens, MAX_DIGEST};
pub use count::error::MAX_ERRORS;
pub use count::session::{CounterForm, MAX_SESSION_COUNTERS, Session, SessionCounter, SessionCounters};
pub use instance::{
    FileHandle, FileRef, MAX_INDEXES, MetadataHandle, MetadataName, MetadataRef, PreparedRef, SocketHandle,
    SocketRef, SynchRef, TableHandleHandle, TableName, TableRef, TableShareHandle, TableShareRef,
};
pub use layout::program::{ProgramHandle, ProgramRef};
pub use layout::statement::MAX_SQL_TEXT;
pub use layout::transaction::{Savepoint, TransactionStart, Xid};
pub use memory::lost::{Lost, ObjectLimits};
pub use memory::text::shown;
pub use read::{
    ApplierRow, BlockRow, BlockTexts, CachedHost, Cursor, DigestSnapshot, Each, EachStatement, EventOrigin,
    RecordedStatement, Replica, ReplicaError, ReplicaRow, ReplicaThread, ReplicaWorker, RunningTokens,
    SessionCountersRow, SessionValue, SessionVariableRow, StatementBlock, StreamPart, StreamedStatement,
    SummarySink,
};
pub use record::stage::Progress;
pub use record::stage::unreported::StagedSession;
pub use record::statement::{Counter, EndedStatement, Outcome, Statement};
pub use record::transaction::Transaction;
pub use record::wait::{Source, UntimedLock, Wait, WaitObject};
pub use record::{Start, operation};
pub use setup::actors::ActorRule;
pub use setup::config::Config;
pub use setup::demand::Demand;
pub use setup::instrument::{Initial, InitialSwitches, LevelMove, MAX_INSTRUMENTS, Registration, fixed};
pub use setup::objects;
pub use setup::readers::StatementReader;
pub use setup::rules::{MAX_RULES, RuleError, SetupRule};
pub use setup::sampling::{SampleRate, SamplingState};
pub use snapshot::Recording;
pub use spelling::{DigestHash, Spelling};
pub use thread::{MAX_CONNECT_ATTRS, STATEMENT_DEPTH, ThreadHandle, ThreadRef};

/// The way the host lists a thread of its own, such as a replication thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SystemThread {
    /// The thread's user. `None`: the one set by [`Engine::set_thread_account`].
    pub user: Option<&'static str>,
    /// The thread's host, used if it has a user.
    pub host: &'static str,
    /// The command shown unless the thread reports another one.
    pub command: u32,
}

/// Facts about reported objects that only the host knows. Only readers call these methods.
pub trait Host: Sync {
    /// Returns DIGEST of a token array. For a truncated array the engine uses [`DigestTokens::hash`] of all
    /// tokens instead.
    fn digest(&self, tokens: &[u8], charset: u32) -> Option<DigestHash>;
    /// Returns the same as [`Host::digest`] without calling any of the host's own functions. `None`: it
    /// cannot.
    fn hash_of_tokens(&self, _tokens: &[u8]) -> Option<DigestHash> {
        None
    }
    /// Returns DIGEST_TEXT of a token array. `cut` means that the statement had more tokens, which the text
    /// must show.
    fn digest_text(&self, tokens: &[u8], charset: u32, cut: bool) -> Option<String>;
    /// Copies the tokens of a running statement from the address given to [`Statement::set_tokens`]. They may
    /// belong to another statement by then, so the caller checks afterwards. `None`: there are none.
    fn running_tokens(&self, _address: usize) -> Option<RunningTokens> {
        None
    }
    /// Returns PROCESSLIST_COMMAND for a command number.
    fn command_name(&self, command: u32) -> Option<&'static str>;
    /// Returns how the host lists one of its own threads by instrument name, for threads it never reports as
    /// sessions. `None`: a connection's thread, or one that is not listed.
    fn system_thread(&self, _name: &str) -> Option<SystemThread> {
        None
    }
    /// Returns the number of a session in the host's list.
    fn session_number(&self, _session: u64) -> Option<u64> {
        None
    }
    /// Returns the name of a CONNECTION_TYPE.
    fn connection_type_name(&self, connection_type: u8) -> Option<&'static str>;
    /// Returns the name of an ISOLATION_LEVEL.
    fn isolation_name(&self, isolation: u8) -> Option<&'static str>;
    /// Returns the name of an XA_STATE.
    fn xa_state_name(&self, state: u8) -> Option<&'static str>;
    /// Returns OBJECT_TYPE of a metadata lock.
    fn lock_namespace_name(&self, namespace: u8) -> Option<&'static str>;
    /// Returns LOCK_TYPE of a metadata lock in a namespace.
    fn lock_type_name(&self, namespace: u8, lock_type: u8) -> Option<&'static str>;
    /// Returns LOCK_DURATION of a metadata lock.
    fn lock_duration_name(&self, duration: u8) -> Option<&'static str>;
    /// Returns LOCK_STATUS of a metadata lock.
    fn lock_status_name(&self, status: u8) -> Option<&'static str>;
    /// Returns how many leading bytes of `text` are whole characters of `charset`. Looks at no more than
    /// `most` characters.
    fn characters(&self, text: &[u8], charset: u32, most: usize) -> usize;
    /// Returns at most `most` characters of a text in `charset`, converted to UTF-8.
    fn to_utf8(&self, text: &[u8], charset: u32, most: usize) -> String;
    /// Returns the source file name at an address the host gave earlier. `None`: the library that held it has
    /// been unloaded since.
    fn source_file(&self, address: usize) -> Option<String>;
    /// Tells the host that the demand for events of `kind` has changed. Called under one of the engine's
    /// locks.
    fn demand_changed(&self, _kind: Kind, _demand: Demand) {}
    /// Asks the host to stop reporting stages: none is wanted and none is in progress. The host may do so if
    /// [`Host::session_stage`] knows them, and resumes when [`Host::demand_changed`] says that stages are
    /// wanted. Returns false if it goes on reporting. Called under one of the engine's locks.
    fn stop_reporting_stages(&self) -> bool {
        false
    }
    /// Returns the instrument id of the stage a session is in; 0: in none. `None`: the session has changed,
    /// or the stage is unknown.
    fn session_stage(&self, _session: StagedSession) -> Option<u32> {
        None
    }
    /// Returns whether [`Host::session_stage`] knows better than what was reported: the host reports only
    /// some stages, such as those of chosen statements.
    fn knows_stages(&self) -> bool {
        false
    }
    /// Returns the counters the host keeps per session, at most [`MAX_SESSION_COUNTERS`]. Empty: there are
    /// none, or they cannot be read.
    fn session_counters(&self) -> &[SessionCounter] {
        &[]
    }
    /// Copies the counters of a session. Returns false if they are not available, for example because it has
    /// ended.
    fn read_session_counters(&self, _session: Session, _into: &mut SessionCounters) -> bool {
        false
    }
    /// Returns the client addresses in the host's cache. `None`: they changed during the read.
    fn cached_hosts(&self) -> Option<Vec<CachedHost>> {
        Some(Vec::new())
    }
    /// Returns the host's connections to primaries. `None`: they changed during the read.
    fn replicas(&self) -> Option<Vec<Replica>> {
        Some(Vec::new())
    }
    /// Returns the workers that apply replicated events in parallel. `None`: they changed during the read.
    fn replica_workers(&self) -> Option<Vec<ReplicaWorker>> {
        Some(Vec::new())
    }
    /// Returns how many times the host was seen to reset its own sums of session counters.
    fn flushes(&self) -> u64 {
        0
    }
    /// Returns whether the host may have done so since [`Host::flushes`] was called last. Called whenever a
    /// session ends, so it is to be cheap, and may miss a reset that `flushes` notices.
    fn may_have_flushed(&self) -> bool {
        true
    }
    /// Returns names and values of the variables a client has set in a session. `None`: they changed during
    /// the read.
    fn session_variables(&self, _session: Session) -> Option<Vec<(String, SessionValue)>> {
        Some(Vec::new())
    }
    /// Returns whether a session with this command waits for its client. Others may be of the host's own.
    fn is_idle_command(&self, command: u32) -> bool {
        command == 0
    }
    /// Returns whether a session with this command works for its client.
    fn is_working_command(&self, _command: u32) -> bool {
        false
    }
    /// Returns what a thread waits for that does not run while it is in the stage of this name. `None`: the
    /// stage does not say.
    fn stage_wait(&self, _stage: &str) -> Option<WaitClass> {
        None
    }
    /// Returns whether a metadata lock of type `held`, granted or waited for, keeps a session waiting that
    /// wants one of type `wanted` on the same object.
    fn is_lock_in_the_way(&self, _namespace: u8, _wanted: u8, _held: u8, _is_granted: bool) -> bool {
        false
    }
    /// Returns the metadata locks that are waited for, and the granted ones on the same objects, if the host
    /// keeps them itself. `None`: it tells the engine of each ([`Engine::create_metadata_lock`]).
    fn metadata_locks(&self) -> Option<Vec<HostLock>> {
        None
    }
    /// Returns whether a lock of [`Host::metadata_locks`] is still granted or waited for as it was.
    fn is_lock_still(&self, _lock: &HostLock) -> bool {
        false
    }
    /// Returns the wait of a session for a lock within a storage engine. `None`: it waits for none, or that
    /// is unknown. `does_wait`: the session is known to wait, for this or something else, so a longer search
    /// may pay.
    fn row_lock_wait(&self, _session: Session, _does_wait: bool) -> Option<RowLockWait> {
        None
    }
}

/// The engine: one per process, in a static. What most events read lies on two cache lines: `demands` and
/// what follows it.
///
/// # Examples
///
/// A host registers an instrument, lets a thread take a mutex, and reads the summary.
///
/// ```
/// use std::ops::ControlFlow;
///
/// use tare_engine::snapshot::{Grouping, Kind, Properties};
/// use tare_engine::{Config, Engine, Host, Registration, Source};
///
/// static ENGINE: Engine = Engine::new();
/// # struct Server;
/// # impl Host for Server {
/// #     fn digest(&self, _: &[u8], _: u32) -> Option<tare_engine::DigestHash> { None }
/// #     fn digest_text(&self, _: &[u8], _: u32, _: bool) -> Option<String> { None }
/// #     fn command_name(&self, _: u32) -> Option<&'static str> { None }
/// #     fn connection_type_name(&self, _: u8) -> Option<&'static str> { None }
/// #     fn isolation_name(&self, _: u8) -> Option<&'static str> { None }
/// #     fn xa_state_name(&self, _: u8) -> Option<&'static str> { None }
/// #     fn lock_namespace_name(&self, _: u8) -> Option<&'static str> { None }
/// #     fn lock_type_name(&self, _: u8, _: u8) -> Option<&'static str> { None }
/// #     fn lock_duration_name(&self, _: u8) -> Option<&'static str> { None }
/// #     fn lock_status_name(&self, _: u8) -> Option<&'static str> { None }
/// #     fn characters(&self, text: &[u8], _: u32, most: usize) -> usize { text.len().min(most) }
/// #     fn to_utf8(&self, text: &[u8], _: u32, _: usize) -> String { String::from_utf8_lossy(text).into() }
/// #     fn source_file(&self, _: usize) -> Option<String> { None }
/// # }
///
/// ENGINE.start(Config::default(), &Server)?;
/// let (name, properties) = ("wait/synch/mutex/sql/LOCK_open", Properties::default());
/// let class = ENGINE.register(Registration { kind: Kind::Mutex, name, properties });
/// let mutex = ENGINE.init_synch(class, 0x1000).expect("memory");
///
/// // Every thread has a slab of its own, to which nobody else writes.
/// let name_of_thread = "thread/sql/one_connection";
/// let threads = ENGINE.register(Registration { kind: Kind::Thread, name: name_of_thread, properties });
/// let thread = ENGINE.new_thread(threads, Some(1), None).expect("memory");
/// ENGINE.set_current_thread(Some(thread));
/// let wait = ENGINE.start_synch_wait(mutex, 0, Source::new(std::ptr::null(), 0)).expect("it is enabled");
/// ENGINE.end_synch_wait(&wait);
///
/// let mut count = 0;
/// ENGINE.wait_summary(Grouping::Global, &mut |row| {
///     count += if row.name == name { row.stat.count } else { 0 };
///     ControlFlow::Continue(())
/// });
/// assert_eq!(count, 1);
/// # Ok::<(), std::io::Error>(())
/// ```
#[repr(C)]
pub struct Engine {
    pub(crate) demands: Demands,
    pub(crate) sampling: SamplingSettings,
    /// Configuration version: rises with every change of what is recorded and how. See
    /// [`settings`](thread::settings).
    pub(crate) settings: ConfigVersion,
    /// Epoch of each family; never 0. See [`cell`](layout::cell).
    pub(crate) epochs: [AtomicU32; FAMILIES],
    pub(crate) arena: Arena,
    pub(crate) registry: instrument::Registry,
    /// Epoch of the last reset, by family and viewer.
    pub(crate) resets: [[AtomicU32; VIEWERS]; FAMILIES],
    pub(crate) consumers: AtomicU32,
    /// Sums of ended threads, and of events that belong to no thread.
    pub(crate) ended: SharedBank,
    /// Errors of ended threads, and those that belong to no thread.
    pub(crate) ended_errors: SharedBank,
    pub(crate) errors: KnownErrors,
    /// I/O of ended files and sockets.
    pub(crate) ended_io: SharedBank,
    pub(crate) kept_slabs: KeptSlabs,
    /// Space for the histograms of digests and of what ended threads counted.
    pub(crate) histograms: Space,
    pub(crate) buckets: BucketBounds,
    pub(crate) unreported: UnreportedStages,
    pub(crate) truncated: Truncated,
    pub(crate) owners: OwnerCache,
    pub(crate) figures: SumCache,
    pub(crate) parties: Parties,
    pub(crate) filters: Mutex<()>,
    /// Held while changing what tables keep of closed handles. See [`TableShareRef`].
    pub(crate) share_changes: Mutex<()>,
    /// Held by TRUNCATE: two that wait until nobody else folds would wait for each other.
    pub(crate) truncates: Mutex<()>,
    /// Counter of folds: readers of sums read again when a fold ran in between.
    pub(crate) folds: Folds,
    pub(crate) pools: Pools,
    pub(crate) files: NameIndex,
    pub(crate) tables: NameIndex,
    pub(crate) programs: NameIndex,
    pub(crate) digests: DigestTable,
    /// Map from descriptor to file.
    pub(crate) descriptors: Table,
    pub(crate) history_size: [AtomicU32; 4],
    pub(crate) history_long_size: [AtomicU32; 4],
    pub(crate) digest_size: AtomicU32,
    pub(crate) sql_text_size: AtomicU32,
    pub(crate) connect_attrs_size: AtomicU32,
    pub(crate) synch_waits_by_instance: AtomicBool,
    pub(crate) sources: AtomicBool,
    /// Whether the host reports free locks like others.
    pub(crate) reports_free_locks: AtomicBool,
    /// Whether to record what only the shape `extended` shows.
    pub(crate) extended: AtomicBool,
    pub(crate) next_thread_id: AtomicU64,
    /// Number of events that ended threads had numbered for recording, by event type minus one.
    pub(crate) departed: [AtomicU64; 4],
    /// Number of existing threads.
    pub(crate) threads: AtomicU32,
    /// Slab found by the last lookup of a thread: a reader mostly asks for the same thread again.
    pub(crate) found: AtomicU32,
    /// Statistics of closed tables, by family.
    pub(crate) table_stats: [AtomicU32; FAMILIES],
    pub(crate) actors: Rules<ActorRule>,
    pub(crate) objects: Rules<objects::ObjectRule>,
    /// Positions in [`snapshot::TIMER_NAMES`], in the order of [`snapshot::TIMED_EVENTS`].
    pub(crate) timers: [AtomicU8; snapshot::TIMED_EVENTS.len()],
    pub(crate) losses: Losses,
    pub(crate) clock: Clock,
    pub(crate) host: OnceLock<&'static dyn Host>,
    pub(crate) active: ActiveHistory,
    /// Time before which events are no longer shown, in ticks, by event type and scope.
    pub(crate) hidden_before: [[AtomicU64; 3]; 4],
}

/// Maximum number of open descriptors that are told apart.
pub const DESCRIPTORS: usize = 1 << 16;
/// Capacity of each index of named objects: files, tables and programs.
const NAMED: usize = 1 << 16;

impl Engine {
    /// Creates an engine that does nothing until it is started.
    #[must_use]
    pub const fn new() -> Engine {
        Engine {
            demands: Demands::new(),
            sampling: SamplingSettings::new(),
            arena: Arena::new(),
            registry: instrument::Registry::new(),
            epochs: [const { AtomicU32::new(1) }; FAMILIES],
            resets: [const { [const { AtomicU32::new(0) }; VIEWERS] }; FAMILIES],
            consumers: AtomicU32::new(0),
            settings: ConfigVersion::new(),
            ended: SharedBank::new(),
            ended_errors: SharedBank::new(),
            errors: KnownErrors::new(),
            ended_io: SharedBank::new(),
            kept_slabs: KeptSlabs::new(),
            histograms: Space::new(),
            buckets: BucketBounds::new(),
            unreported: UnreportedStages::new(),
            truncated: Truncated::new(),
            owners: OwnerCache::new(),
            figures: SumCache::new(),
            parties: Parties::new(),
            filters: Mutex::new(()),
            share_changes: Mutex::new(()),
            truncates: Mutex::new(()),
            folds: Folds::new(),
            pools: Pools::new(),
            files: NameIndex::new(),
            tables: NameIndex::new(),
            programs: NameIndex::new(),
            digests: DigestTable::new(),
            descriptors: Table::new(),
            history_size: [const { AtomicU32::new(0) }; 4],
            history_long_size: [const { AtomicU32::new(0) }; 4],
            digest_size: AtomicU32::new(0),
            sql_text_size: AtomicU32::new(0),
            connect_attrs_size: AtomicU32::new(0),
            synch_waits_by_instance: AtomicBool::new(false),
            sources: AtomicBool::new(true),
            reports_free_locks: AtomicBool::new(false),
            extended: AtomicBool::new(false),
            next_thread_id: AtomicU64::new(1),
            departed: [const { AtomicU64::new(0) }; 4],
            threads: AtomicU32::new(0),
            found: AtomicU32::new(0),
            table_stats: [const { AtomicU32::new(0) }; FAMILIES],
            actors: Rules::new(),
            objects: Rules::new(),
            // The built-in's initial rows.
            timers: [
                AtomicU8::new(2),
                AtomicU8::new(0),
                AtomicU8::new(1),
                AtomicU8::new(1),
                AtomicU8::new(1),
            ],
            losses: Losses::new(),
            clock: Clock::new(),
            host: OnceLock::new(),
            active: ActiveHistory::new(),
            hidden_before: [const { [const { AtomicU64::new(0) }; 3] }; 4],
        }
    }

    /// Reserves memory and starts the clock. Must be called once, before the first event.
    ///
    /// # Errors
    /// Fails if the system refuses the address space.
    pub fn start(&self, config: Config, host: &'static dyn Host) -> Result<(), std::io::Error> {
        self.arena.map(config.memory_max.clamp(1 << 20, layout::bank::REACH_BYTES))?;
        self.losses.limit(&config.limits);
        self.arena.shares.limit(&config.limits);
        self.pools.map(&self.arena)?;
        for index in [&self.files, &self.tables, &self.programs] {
            index.map(NAMED)?;
        }
        self.digests.map(config.digests_size as usize, &self.pools, &self.arena)?;
        self.parties.map(config.parties_size)?;
        self.descriptors.map(DESCRIPTORS.min(config.limits.of(Lost::FileHandles) as usize).max(1))?;
        // The fewest rows of a full block: transactions, statements with texts of 240 bytes, stages and
        // waits.
        for (at, least) in [17, 11, 54, 54].into_iter().enumerate() {
            self.history_size[at].store(config.history_size[at], Relaxed);
            self.history_long_size[at].store(config.history_long_size[at], Relaxed);
            self.arena.shares.long[at].map(config.history_long_size[at], least)?;
        }
        self.digest_size.store(config.max_digest_length.min(MAX_DIGEST as u32), Relaxed);
        self.sql_text_size.store(config.max_sql_text_length.min(MAX_SQL_TEXT as u32), Relaxed);
        let sample_age = config.max_digest_sample_age;
        self.digests.samples.start(self.sql_text_size.load(Relaxed), sample_age);
        self.connect_attrs_size.store(config.session_connect_attrs_size, Relaxed);
        self.synch_waits_by_instance.store(config.synch_waits_by_instance, Relaxed);
        self.sources.store(config.sources, Relaxed);
        self.reports_free_locks.store(config.reports_free_locks, Relaxed);
        self.extended.store(config.extended, Relaxed);
        let shown = |consumer: &&Consumer| config.extended || !consumer.is_further();
        let consumers =
            config.consumers.iter().filter(shown).fold(0, |bits, consumer| bits | 1 << *consumer as u32);
        self.consumers.store(consumers, Relaxed);
        self.registry.start(config.instruments);
        self.actors.start(ActorRule::initial(), config.rules_size[0]);
        self.objects.start(objects::ObjectRule::initial(), config.rules_size[1]);
        self.clock.start();
        let _first_host_stays = self.host.set(host);
        for (kind, name, id) in [
            (Kind::TableIo, "wait/io/table/sql/handler", fixed::TABLE_IO),
            (Kind::TableLock, "wait/lock/table/sql/handler", fixed::TABLE_LOCK),
            (Kind::Idle, "idle", fixed::IDLE),
            (Kind::Metadata, "wait/lock/metadata/sql/mdl", fixed::METADATA),
            (Kind::Transaction, "transaction", fixed::TRANSACTION),
        ] {
            let properties = Properties { user: kind == Kind::Idle, ..Properties::default() };
            let given = self.register(Registration { kind, name, properties });
            debug_assert_eq!(given, id);
        }
        self.registry.keep_ids(config.frequent);
        if config.extended {
            // The tick rate is frozen from here on, so an event stays in one bucket for ever.
            self.buckets.start(self.clock.rate());
        }
        if self.errors.know(config.errors) {
            let properties = Properties::default();
            self.register(Registration { kind: Kind::Error, name: "error", properties });
        }
        // If an instrument of stages is on, the host learns that when it registers it.
        self.stop_reporting_stages_if_last();
        Ok(())
    }

    /// Returns whether what only the shape `extended` shows is recorded.
    #[inline(always)]
    pub fn is_extended(&self) -> bool {
        self.extended.load(Relaxed)
    }

    /// Returns whether waits for mutexes, rwlocks and conds are counted by object.
    pub fn synch_waits_by_instance(&self) -> bool {
        self.synch_waits_by_instance.load(Relaxed)
    }

    /// Registers an instrument and returns its id. 0: no room.
    pub fn register(&self, what: Registration<'_>) -> ClassId {
        let (class, new) = {
            let _one_at_a_time = instrument::lock(&self.filters);
            let registered = self.registry.register(what, &self.losses);
            self.decide_demand(what.kind);
            registered
        };
        if new {
            // Makes the cell that folds go to now, so that no fold fails later for lack of memory.
            let made = with_cell!(what.kind, C => self.ended.make::<C>(&self.arena, class).is_some());
            let made_io = !matches!(what.kind, Kind::File | Kind::Socket)
                || self.ended_io.make::<IoCell>(&self.arena, class).is_some();
            if !made || !made_io {
                self.losses.count(Lost::Cells);
            }
        }
        class
    }

    /// Returns the name of an instrument.
    pub fn instrument_name(&self, class: ClassId) -> &'static str {
        self.registry.name(class)
    }
}

impl Default for Engine {
    fn default() -> Engine {
        Engine::new()
    }
}

#[cfg(test)]
impl Engine {
    /// Creates an engine with memory and nothing else, for unit tests. Leaked: it lives as long as the
    /// process.
    pub(crate) fn small() -> &'static Engine {
        Engine::of(4 << 20)
    }

    /// Creates an engine with an arena of `bytes`, for unit tests. See [`Engine::small`].
    pub(crate) fn of(bytes: usize) -> &'static Engine {
        let engine: &'static Engine = Box::leak(Box::new(Engine::new()));
        engine.arena.map(bytes).expect("address space");
        engine.arena.shares.limit(&ObjectLimits::default());
        engine.pools.map(&engine.arena).expect("address space");
        engine
    }
}
