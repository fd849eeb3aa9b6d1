//! HOT PATH: a thread's slab: its switches, what it is doing, and where its cells and rings are.
//!
//! Only the thread itself writes its slab; readers copy. There are two exceptions: whoever changes a filter
//! stores the mask and the two flags it is made of, and the texts are guarded by a seqlock.
#![allow(unsafe_code)]

mod cells;
pub(crate) mod choice;
mod identity;
mod kept;
pub(crate) mod local;
mod rings;
pub(crate) mod settings;
mod text;

pub(crate) use kept::KeptSlabs;
pub use text::MAX_CONNECT_ATTRS;
pub(crate) use text::ThreadText;

use std::mem::offset_of;
use std::sync::atomic::{
    AtomicI64, AtomicU8, AtomicU16, AtomicU32, AtomicU64,
    Ordering::{Relaxed, Release},
};

use tare_sync::{DeferredEvents, SeenVersion, Seqlock};

use crate::Engine;
use crate::histogram::Lowest;
use crate::layout::bank::Bank;
use crate::layout::cell_list::{CellList, ListedCell};
use crate::layout::deferred::DeferredWords;
use crate::layout::journal::{EventJournal, parent};
use crate::layout::owner::NamedProgram;
use crate::layout::read_locks::ReadLocks;
use crate::layout::ring::{RINGS, Ring, RingBlocks, WAIT_DEPTH};
use crate::layout::session_memory::SessionMemory;
use crate::layout::transaction::OpenTransaction;
use crate::layout::wait::{OpenWait, histories_of};
use crate::memory::arena::{ArenaView, Base, BlockId, BlockUse, LINE, Own, WORDS};
use crate::memory::lost::Lost;
use crate::memory::pool::Stash;
use crate::setup::filter;
use crate::setup::instrument::{CLIENT, ENABLED, HISTORY};
use crate::snapshot::{ClassId, EventType};

/// Maximum depth of nested statements that are recorded.
pub const STATEMENT_DEPTH: usize = 10;
/// Maximum number of cell blocks of a thread.
const CELL_BLOCKS: usize = 78;

/// Number of entries of a thread's map of digests.
pub(crate) const DIGEST_ENTRIES: usize = 256;

/// Index of a thread's bank for what it counts everywhere.
pub(crate) const BANK_OWN: usize = 0;
/// Index of the bank for global sums only: counted while `thread_instrumentation` was off.
pub(crate) const BANK_UNATTRIBUTED: usize = 1;
/// Index of the bank for the thread and its account only: counted before the global summary was reset.
pub(crate) const BANK_THREAD_ONLY: usize = 2;
/// Index of the bank of errors, whose classes come from [`crate::count::error::KnownErrors::class`].
pub(crate) const BANK_ERRORS: usize = 3;
const BANKS: usize = BANK_ERRORS + 1;

/// A thread's slab. Hot words come first.
#[repr(C, align(64))]
pub(crate) struct Thread {
    /// The configuration version the thread has seen. Reset by whoever changes the mask.
    pub(crate) settled: SeenVersion,
    pub(crate) wait_depth: AtomicU32,
    /// The mask's bits for waits and stages, in the layout of leaf and begin records. 0 where the fast path
    /// is not available.
    pub(crate) usual_waits: AtomicU32,
    pub(crate) usual_stages: AtomicU32,
    /// Number of times a sampled event is counted. See [`choice`].
    pub(crate) weight: AtomicU32,
    _pad: AtomicU32,
    pub(crate) event_id: AtomicU64,
    /// Parent of new waits, in the form of [`crate::layout::journal::parent`].
    pub(crate) parent: AtomicU64,
    pub(crate) banks: [Bank; 3],
    /// Class and switches of the stage in progress; 0 if none began outside the fast path.
    pub(crate) stage_class: AtomicU32,
    /// Whether the journal has a stage in progress.
    pub(crate) stage_recorded: AtomicU32,
    /// Cell of the stage in progress, if it began on the fast path.
    pub(crate) stage_cell: AtomicU32,
    /// The last stage that was set: PROCESSLIST_STATE, unless [`crate::record::stage::unreported`] overrides
    /// it.
    pub(crate) stage_label: AtomicU32,
    /// Start of the stage in progress, in ticks.
    pub(crate) stage_start: AtomicU64,
    pub(crate) waits: EventJournal,
    pub(crate) stages: EventJournal,
    /// The thread as an owner of locks. See [`Engine::set_synch_owner`].
    pub(crate) holder: AtomicU64,
    /// The statement that new stages nest in, in the form of `parent`.
    pub(crate) stage_parent: AtomicU64,
    /// The outermost statement, running or last: parent of new waits while no stage runs. In the form of
    /// `parent`.
    pub(crate) outermost: AtomicU64,
    /// Start of the last statement, in ticks.
    pub(crate) statement_start: AtomicU64,
    /// Time in ticks before which the client's statement is not slow; as far as it is known.
    pub(crate) slow_at: AtomicU64,
    /// Lower half: what the thread records (see [`filter`]). Upper half: what filters decided it should
    /// record.
    mask: AtomicU64,
    /// Maintained in the shape `extended` only.
    pub(crate) memory: SessionMemory,
    /// Number of deferred events in `deferred_words`.
    pub(crate) deferred: DeferredEvents,
    /// Lower bound of the second bucket in ticks, by [`crate::histogram::Lowest`]; without histograms no time
    /// reaches it.
    pub(crate) bucket_floors: [AtomicU64; 2],
    /// Waits in progress that are no leaves, outermost first, and one spare place.
    pub(crate) open: [OpenWait; WAIT_DEPTH + 1],
    /// State of the random generator of [`Engine::choose`].
    pub(crate) random: AtomicU64,
    /// Table I/O in progress in a statement that was not chosen, packed by [`choice::Tallied`]; 0: none.
    pub(crate) tallied: AtomicU64,
    /// Number of calls to skip, saved here while no system thread runs the slab.
    pub(crate) skips: AtomicU32,
    /// Statements that the client has begun; it wraps.
    pub(crate) begun: AtomicU32,
    pub(crate) has_progress: AtomicU32,
    pub(crate) statement_depth: AtomicU32,
    /// Length in bytes of PROCESSLIST_INFO; `u32::MAX`: NULL.
    pub(crate) info_len: AtomicU32,
    pub(crate) command: AtomicU32,
    pub(crate) start_time_s: AtomicI64,
    pub(crate) statement_levels: [AtomicU32; STATEMENT_DEPTH],
    pub(crate) digest_map: AtomicU32,
    pub(crate) digest_epoch: AtomicU32,
    pub(crate) digest_count: AtomicU32,
    /// Cell of the digest counted last; 0: unknown.
    pub(crate) last_digest: AtomicU32,
    /// Place of the cells of stored programs; 0: none yet.
    pub(crate) program_cells: AtomicU32,
    /// The program named last in the current block of statements; 0: none.
    pub(crate) named_program: AtomicU64,
    pub(crate) named_levels: [NamedProgram; STATEMENT_DEPTH],
    pub(crate) statements: Ring,
    pub(crate) transactions: Ring,
    /// First event id that TRUNCATE has left, by event type and scope, for events without a time. Read when a
    /// transaction ends.
    pub(crate) hidden: [[AtomicU64; 3]; 4],
    pub(crate) transaction: OpenTransaction,
    pub(crate) read_locks: ReadLocks,
    /// Metadata locks that the thread has given back.
    pub(crate) metadata_stash: Stash,
    /// Next free word of the current cell block, and words left there.
    cell_next: AtomicU32,
    cell_left: AtomicU32,
    cell_count: AtomicU32,
    pub(crate) alive: AtomicU8,
    pub(crate) instrumented: AtomicU8,
    pub(crate) history: AtomicU8,
    pub(crate) connection_type: AtomicU8,
    pub(crate) class: AtomicU16,
    pub(crate) version: Seqlock,
    pub(crate) thread_id: AtomicU64,
    pub(crate) processlist_id: AtomicU64,
    pub(crate) parent_thread_id: AtomicU64,
    pub(crate) os_id: AtomicU64,
    pub(crate) texts: AtomicU32,
    /// The configuration version at which no non-empty cell was from before a reset.
    pub(crate) fresh_at: AtomicU32,
    /// The host's name of the session the thread runs; 0: none.
    pub(crate) session: AtomicU64,
    /// Where the host finds the session of a thread for which it reports none; 0: nowhere.
    pub(crate) place: AtomicU64,
    /// Places of the thread's account, user and host; 0: no place.
    pub(crate) parties: [AtomicU32; 3],
    /// Neighbours in the list of the account's threads.
    pub(crate) mates: Mates,
    /// Number of the last error for which a handler was found; 0: none.
    pub(crate) handled: AtomicU32,
    /// The bank with index [`BANK_ERRORS`].
    pub(crate) errors: Bank,
    /// List of cells of each bank.
    cell_lists: [CellList; BANKS],
    /// The account in whose sums the cells of [`BANK_OWN`] were looked up, and its generation then; 0: none.
    pub(crate) folds_into: [AtomicU32; 2],
    /// The configuration version and the mask for which cells have been marked ready.
    pub(crate) ready_for: [AtomicU32; 2],
    /// WORK_COMPLETED and WORK_ESTIMATED. The host writes here.
    pub(crate) progress: [AtomicU64; 2],
    /// Time in ticks at which the statement, a chosen one, has become slow, so that `weight` does not hold
    /// any more; 0: it holds.
    pub(crate) slow_from: AtomicU64,
    /// Entries of the map of digests in whose cells the thread has counted, one bit each.
    pub(crate) digest_entries: [AtomicU64; DIGEST_ENTRIES / 64],
    /// Blocks by event type minus one, in the order of [`RINGS`]. The first field that need not be zero when
    /// a thread begins on a kept slab: each of those from here on says how much of it is valid, or another
    /// does.
    ring_blocks: [RingBlocks; 4],
    cell_blocks: [AtomicU32; CELL_BLOCKS],
    /// Events that are to be put into their buckets.
    pub(crate) deferred_words: DeferredWords,
}

// SAFETY: consists of atomics only, alignment 64; the assertion below checks that it fits a block.
unsafe impl ArenaView for Thread {}
const _: () = assert!(size_of::<Thread>() <= WORDS * 8);
// The words that a statement or a transaction reads lie on few lines.
const _: () = assert!(offset_of!(Thread, statements) / LINE == offset_of!(Thread, hidden) / LINE);
const _: () = assert!(offset_of!(Thread, has_progress) / LINE == offset_of!(Thread, statement_levels) / LINE);
// So do the words that the host sets for each statement, whatever is wanted.
const _: () =
    assert!(offset_of!(Thread, has_progress) / LINE == (offset_of!(Thread, start_time_s) + 7) / LINE);
// Counting memory reads the mask first, and so does the begin of a statement: one line holds both.
const _: () = assert!(offset_of!(Thread, mask) / LINE == (offset_of!(Thread, memory) + 23) / LINE);

/// Neighbours of a slab in the list of its account's threads, as places; 0: the list ends there.
#[repr(C)]
pub(crate) struct Mates {
    /// The neighbour that came later.
    pub(crate) before: AtomicU32,
    pub(crate) next: AtomicU32,
}

/// Bit of the mask word: the thread has muted itself.
const MUTED: u64 = 1 << 63;

/// The host's reference to a thread. Never dangling; the thread may have ended.
pub type ThreadRef = &'static ThreadHandle;

/// A thread and its THREAD_ID when it was found. The thread may end at any time, and another one get its
/// slab: whoever has read the slab asks [`Engine::still_lives`] with this THREAD_ID, not with that in the
/// slab by then.
pub(crate) type FoundThread = (u64, &'static Thread);

/// Opaque thread object that the host refers to.
#[repr(transparent)]
pub struct ThreadHandle {
    slab: Thread,
}

/// Returns the slab of the calling thread.
#[inline(always)]
pub(crate) fn current() -> Option<&'static Thread> {
    let address = local::get();
    // SAFETY: the thread-local holds 0 or the address of a `Thread` view, stored by `set_current_thread`
    // below. Views stay mapped for the life of the process.
    unsafe { (address as *const Thread).as_ref() }
}

impl Thread {
    /// Returns the thread with its THREAD_ID, see [`FoundThread`].
    pub(crate) fn found(&self) -> (u64, &Thread) {
        (self.thread_id.load(Relaxed), self)
    }

    #[inline(always)]
    pub(crate) fn handle(&'static self) -> ThreadRef {
        // SAFETY: `ThreadHandle` is `repr(transparent)` over `Thread`, so both have the same layout.
        unsafe { &*std::ptr::from_ref(self).cast() }
    }

    /// Returns the mask: what the thread records.
    #[inline(always)]
    pub(crate) fn mask(&self) -> u32 {
        self.mask.load(Relaxed) as u32
    }

    /// Stores what filters decided. A muted thread starts to record it once unmuted.
    fn decide(&self, mask: u32) {
        self.change_mask(|word| match word & MUTED {
            0 => u64::from(mask) << 32 | u64::from(mask),
            muted => u64::from(mask) << 32 | muted,
        });
    }

    /// Stops recording on the thread's own behalf, whatever filters decide meanwhile.
    pub(crate) fn mute(&self) {
        self.change_mask(|word| word >> 32 << 32 | MUTED);
    }

    /// Resumes recording what filters decided. Returns false if the thread was not muted.
    pub(crate) fn unmute(&self) -> bool {
        let decided = |word: u64| (word & !MUTED) >> 32;
        self.change_mask(|word| decided(word) << 32 | decided(word)) & MUTED != 0
    }

    /// Changes the mask word atomically and returns its previous value.
    fn change_mask(&self, change: impl Fn(u64) -> u64) -> u64 {
        let mut word = self.mask.load(Relaxed);
        loop {
            match self.mask.compare_exchange_weak(word, change(word), Relaxed, Relaxed) {
                Ok(before) => break before,
                Err(now) => word = now,
            }
        }
    }

    /// Returns one of the thread's banks.
    pub(crate) fn bank(&self, bank: usize) -> &Bank {
        if bank == BANK_ERRORS { &self.errors } else { &self.banks[bank] }
    }

    /// Returns all cells of a bank. For the thread itself and whoever ends it.
    #[inline(always)]
    pub(crate) fn cells(&self, engine: &Engine, bank: usize) -> impl Iterator<Item = &'static ListedCell> {
        self.cell_lists[bank].cells(&engine.arena)
    }

    /// Calls `keep` with all cells of a bank, and forgets those for which it returns false. For whoever ends
    /// the thread.
    #[inline(always)]
    pub(crate) fn retain_cells(
        &self,
        engine: &Engine,
        bank: usize,
        keep: impl FnMut(&'static ListedCell) -> bool,
    ) {
        self.cell_lists[bank].retain(&engine.arena, keep);
    }

    /// Returns the bank entries of all cells of a bank. For the thread itself and whoever ends it.
    pub(crate) fn entries(&self, engine: &Engine, bank: usize) -> impl Iterator<Item = &'static AtomicU32> {
        let (cells, bank) = (self.cells(engine, bank), self.bank(bank));
        cells.filter_map(move |cell| bank.entry(&engine.arena, cell.class()))
    }

    #[inline(always)]
    pub(crate) fn bits(mask: u32, of: EventType) -> u32 {
        mask >> filter::shift(of)
    }

    /// Returns rings and their blocks by event type minus one, in the order of [`RINGS`].
    pub(crate) fn rings(&self) -> [(&Ring, &RingBlocks); 4] {
        let [of_transactions, of_statements, of_stages, of_waits] = &self.ring_blocks;
        [
            (&self.transactions, of_transactions),
            (&self.statements, of_statements),
            (&self.stages.ring, of_stages),
            (&self.waits.ring, of_waits),
        ]
    }

    /// Takes the next event id.
    #[inline(always)]
    pub(crate) fn next_event_id(&self) -> u64 {
        let id = self.event_id.own();
        self.event_id.store(id + 1, Relaxed);
        id
    }

    /// Returns the histories that want waits, according to the configuration version last seen.
    #[inline(always)]
    pub(crate) fn usual_histories(&self) -> u8 {
        histories_of(self.usual_waits.own())
    }

    /// Sets the statement that new stages nest in.
    #[inline(always)]
    pub(crate) fn set_stage_parent(&self, base: Base, parent: u64) {
        self.stage_parent.store(parent, Relaxed);
        self.expect_stage_ids();
        if self.stages.place_in(base, 0, parent, || 0).is_none() {
            // The next record then begins with the new parent.
            self.stages.forget_base();
        }
    }

    /// Returns the block of texts.
    pub(crate) fn text(&self, engine: &Engine) -> Option<&'static ThreadText> {
        engine.arena.get(self.texts.load(Relaxed))
    }

    /// Changes texts under the seqlock.
    pub(crate) fn write_texts(&self, engine: &Engine, change: impl FnOnce(&'static ThreadText)) {
        if let Some(text) = self.text(engine) {
            self.version.change(|| change(text));
        }
    }

    /// Reads texts that belong together, again if they changed meanwhile. The 65th attempt stands whatever it
    /// reads, so a stalled writer does not block a reader.
    pub(crate) fn read_texts<T>(&self, read: impl Fn() -> T) -> T {
        for _ in 0..64 {
            if let Some(value) = self.version.read(|_| read()) {
                return value;
            }
            std::hint::spin_loop();
        }
        read()
    }
}

impl ThreadHandle {
    #[inline(always)]
    pub(crate) fn slab(&'static self) -> &'static Thread {
        &self.slab
    }

    /// Returns the thread at an address kept by the host. `None`: null.
    ///
    /// # Safety
    /// `address` must be null or come from [`ThreadHandle::address`] in the same process.
    #[inline(always)]
    pub unsafe fn from_address(address: *const std::ffi::c_void) -> Option<ThreadRef> {
        // SAFETY: the caller passes null or the address of a slab, and slabs are never unmapped.
        unsafe { address.cast::<ThreadHandle>().as_ref() }
    }

    /// Returns the address for the host to keep.
    #[inline(always)]
    pub fn address(&'static self) -> *mut std::ffi::c_void {
        std::ptr::from_ref(self).cast_mut().cast()
    }

    /// Returns THREAD_ID.
    pub fn thread_id(&'static self) -> u64 {
        self.slab.thread_id.load(Relaxed)
    }

    /// Returns the EVENT_ID that the thread's next event gets.
    #[inline(always)]
    pub fn next_event_id(&'static self) -> u64 {
        self.slab.event_id.own()
    }

    /// Returns PARENT_THREAD_ID.
    pub fn parent_thread_id(&'static self) -> Option<u64> {
        Some(self.slab.parent_thread_id.load(Relaxed)).filter(|id| *id != 0)
    }
}

impl Engine {
    /// Makes a slab for a thread that is about to run. `None`: no memory left, so the thread is not observed.
    pub fn new_thread(
        &self,
        class: ClassId,
        processlist_id: Option<u64>,
        parent_thread_id: Option<u64>,
    ) -> Option<ThreadRef> {
        let allowed = self.losses.allow(Lost::ThreadInstances, self.threads.load(Relaxed));
        let made = if allowed { self.make_thread(class) } else { None };
        if made.is_none() {
            self.losses.count(Lost::ThreadInstances);
        }
        let thread = made?;
        thread.processlist_id.store(processlist_id.unwrap_or(0), Relaxed);
        thread.parent_thread_id.store(parent_thread_id.unwrap_or(0), Relaxed);
        self.enter(thread, b"", b"");
        thread.alive.store(1, Release);
        // Comes last, under the lock held by changes of filters, so that no change is missed.
        self.refresh_mask(thread);
        Some(thread.handle())
    }

    /// Returns every slab: of threads that live, begin or end.
    pub(crate) fn slabs(&self) -> impl Iterator<Item = &'static Thread> {
        self.arena.slabs().map(|block| self.arena.at(block * WORDS as u32))
    }

    fn make_slab(&self) -> Option<&'static Thread> {
        let block = self.arena.take(BlockUse::Thread, 0)?;
        let Some(texts) = self.arena.take(BlockUse::ThreadText, 0) else {
            self.arena.give(block);
            return None;
        };
        let thread: &Thread = self.arena.at(block * WORDS as u32);
        thread.texts.store(texts * WORDS as u32, Relaxed);
        Some(thread)
    }

    fn make_thread(&self, class: ClassId) -> Option<&'static Thread> {
        let thread = self.kept_thread().or_else(|| self.make_slab())?;
        thread.fresh_at.store(self.settings.number(), Relaxed);
        thread.info_len.store(u32::MAX, Relaxed);
        thread.class.store(class, Relaxed);
        thread.event_id.store(1, Relaxed);
        thread.parent.store(parent(0, 0), Relaxed);
        thread.outermost.store(parent(0, 0), Relaxed);
        thread.weight.store(1, Relaxed);
        thread.random.store(crate::clock::ticks() ^ self.next_thread_id.load(Relaxed) << 32, Relaxed);
        for lowest in Lowest::ALL {
            thread.bucket_floors[lowest as usize].store(self.buckets.floor(lowest), Relaxed);
        }
        let switches = self.registry.switches(class);
        thread.instrumented.store(u8::from(switches & ENABLED != 0), Relaxed);
        thread.history.store(u8::from(switches & HISTORY != 0), Relaxed);
        thread.thread_id.store(self.next_thread_id.fetch_add(1, Relaxed), Relaxed);
        if switches & CLIENT != 0 {
            self.choose_connection(thread);
        }
        self.own_kept_level(thread);
        self.threads.fetch_add(1, Relaxed);
        Some(thread)
    }

    /// Returns the calling thread.
    #[inline(always)]
    pub fn current_thread(&self) -> Option<ThreadRef> {
        current().map(Thread::handle)
    }

    /// Makes `thread`, or none, the calling thread's slab.
    pub fn set_current_thread(&self, thread: Option<ThreadRef>) {
        if let Some(before) = current() {
            before.skips.store(local::skips().cast_unsigned(), Relaxed);
        }
        local::set(thread.map_or(0, |thread| thread.address() as usize));
        local::set_skips(thread.map_or(0, |thread| thread.slab().skips.own().cast_signed()));
    }

    /// Ends a thread: folds its sums into those of ended threads and gives its memory back.
    pub fn delete_thread(&self, thread: ThreadRef) {
        self.end_session(thread);
        let thread = thread.slab();
        if local::get() == std::ptr::from_ref(thread) as usize {
            local::set(0);
            local::set_skips(0);
        }
        thread.skips.store(0, Relaxed);
        {
            // Changes of filters write to slabs under this lock, so none writes to a slab that is given back.
            let _one_at_a_time = crate::setup::instrument::lock(&self.filters);
            if thread.alive.load(Relaxed) != 1 {
                return;
            }
            // From here on its sums are missing for readers: they are neither in its cells nor in the sums.
            self.folds.begin();
            thread.alive.store(2, Release);
            thread.mask.store(0, Relaxed);
            thread.unsettle();
        }
        self.sampling.departed.fetch_add(thread.begun.load(Relaxed), Relaxed);
        thread.begun.store(0, Relaxed);
        for (((ring, blocks), departed), history) in
            thread.rings().into_iter().zip(&self.departed).zip(&self.arena.shares.long)
        {
            // A connection none of whose statements was chosen has recorded nothing.
            let recorded = ring.recorded(blocks);
            if recorded != 0 {
                departed.fetch_add(recorded, Release);
                // The oldest block comes back when the thread's own blocks go to the long history.
                history.expect_oldest(&self.arena);
            }
        }
        {
            // Under one lock, so that the marks of memory are noted before the next thread ends.
            let _one_at_a_time = crate::setup::instrument::lock(&self.parties.lock);
            self.fold_thread(thread);
            self.leave(thread);
            thread.alive.store(0, Release);
        }
        self.folds.end();
        if thread.is_in_stage() {
            self.stop_reporting_stages_if_last();
        }
        self.free_thread(thread);
    }

    fn free_thread(&self, thread: &Thread) {
        self.threads.fetch_sub(1, Relaxed);
        self.give_metadata_stash(thread);
        for ((ring, blocks), kind) in thread.rings().into_iter().zip(RINGS) {
            if blocks.holds_any() {
                ring.release(blocks, &self.arena, self.long_history(thread, kind));
            }
        }
        let give = |block: BlockId| {
            if block != 0 {
                self.arena.give(block);
            }
        };
        let give_place = |place: &AtomicU32| give(place.load(Relaxed) / WORDS as u32);
        let [level, further @ ..] = &thread.statement_levels;
        further.iter().chain([&thread.read_locks.further]).for_each(give_place);
        if self.keep_thread(thread) {
            return;
        }
        let banks = thread.banks.iter().chain([&thread.errors]);
        banks.flat_map(|bank| &bank.maps).for_each(give_place);
        let cells = (thread.cell_count.load(Relaxed) as usize).min(CELL_BLOCKS);
        thread.cell_blocks[..cells].iter().for_each(|block| give(block.load(Relaxed)));
        [level, &thread.digest_map, &thread.texts].into_iter().for_each(give_place);
        give(self.arena.offset_of(thread) / WORDS as u32);
    }

    /// Recomputes the mask of a thread.
    pub(crate) fn refresh_mask(&self, thread: &Thread) {
        let _one_at_a_time = crate::setup::instrument::lock(&self.filters);
        self.store_mask(thread);
    }

    /// Recomputes the mask of a thread. The caller holds the lock `filters`.
    pub(crate) fn store_mask(&self, thread: &Thread) {
        let instrumented = thread.instrumented.load(Relaxed) != 0;
        let history = thread.history.load(Relaxed) != 0;
        if thread.alive.load(Relaxed) == 1 {
            let mask = filter::mask(self.consumers.load(Relaxed), instrumented, history);
            let cycles = if self.clock.counts_cycles() { filter::CYCLES } else { 0 };
            let memory = if self.is_extended() { filter::SESSION_MEMORY } else { 0 };
            let histograms = if self.buckets.are_enabled() { filter::HISTOGRAM } else { 0 };
            thread.decide(if mask == 0 { 0 } else { mask | cycles | memory | histograms });
            thread.unsettle();
        }
    }
}
