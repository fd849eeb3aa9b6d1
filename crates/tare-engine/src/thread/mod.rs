//! HOT PATH: a thread's slab: its switches, what it is doing, and where its cells and rings are.
//!
//! One thread writes a slab: its own. Readers copy. The exceptions are the mask and the two flags it is made
//! of, which whoever changes a filter stores, and the texts, which carry a version (odd while written).
#![allow(unsafe_code)]

mod cells;
pub(crate) mod choice;
pub(crate) mod filter;
mod identity;
mod kept;
pub(crate) mod local;
pub(crate) mod memory;
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

use tare_sync::{Backlog, Settled, Version};

use crate::Engine;
use crate::count::account::ACCOUNT;
use crate::count::backlog::PutOff;
use crate::count::bank::Bank;
use crate::count::register::{Register, Registered};
use crate::histogram::Lowest;
use crate::instance::{MetadataLock, ReadLocks};
use crate::memory::arena::{Base, BlockId, LINE, Own, Use, View, WORDS};
use crate::memory::history::LongHistory;
use crate::memory::lost::Lost;
use crate::memory::pool::{self, Pool, Stash};
use crate::record::RINGS;
use crate::record::journal::{Journal, parent};
use crate::record::ring::{self, Advance, Ring, RingBlocks, RingKind, WAIT_DEPTH};
use crate::record::statement::NamedProgram;
use crate::record::transaction::record::OpenTransaction;
use crate::record::wait::record::{OpenWait, histories_of};
use crate::setup::instrument::{ENABLED, HISTORY};
use crate::snapshot::{ClassId, EventType};

/// Nested statements that are recorded.
pub const STATEMENT_DEPTH: usize = 10;
/// Blocks of cells a thread can hold.
const CELL_BLOCKS: usize = 78;

/// Index of a thread's banks.
pub(crate) const BANK_OWN: usize = 0;
/// Counted while `thread_instrumentation` was off: global only.
pub(crate) const BANK_UNATTRIBUTED: usize = 1;
/// Counted before the global summary was reset, still the thread's and its account's.
pub(crate) const BANK_THREAD_ONLY: usize = 2;
/// The cells of its errors, by [`crate::count::error::Errors::class`].
pub(crate) const BANK_ERRORS: usize = 3;
const BANKS: usize = BANK_ERRORS + 1;

/// The slab. Hot words first.
#[repr(C, align(64))]
pub(crate) struct Thread {
    /// Which of the engine's settings the thread has settled for; whoever changes the mask takes that back.
    pub(crate) settled: Settled,
    pub(crate) wait_depth: AtomicU32,
    /// What the mask says of waits and of stages, as the records of leaves and begins keep it; 0 where they don't take the
    /// short way.
    pub(crate) usual_waits: AtomicU32,
    pub(crate) usual_stages: AtomicU32,
    /// How many times what is sampled is counted; see [`choice`].
    pub(crate) weight: AtomicU32,
    _pad: AtomicU32,
    /// The next event's id.
    pub(crate) event_id: AtomicU64,
    /// What new waits nest in, as [`crate::record::journal::parent`] makes it.
    pub(crate) parent: AtomicU64,
    pub(crate) banks: [Bank; 3],
    /// Class and switches of the stage in progress, if it did not begin on the short way; 0: none did.
    pub(crate) stage_class: AtomicU32,
    /// Whether the journal says that a stage is in progress.
    pub(crate) stage_recorded: AtomicU32,
    /// Its cell, if it began on the short way.
    pub(crate) stage_cell: AtomicU32,
    /// The last stage set: PROCESSLIST_STATE, unless [`crate::record::stage::untold`] says otherwise.
    pub(crate) stage_label: AtomicU32,
    /// When the stage in progress began.
    pub(crate) stage_start: AtomicU64,
    pub(crate) waits: Journal,
    pub(crate) stages: Journal,
    /// The thread as the owner of locks; see [`Engine::set_synch_owner`].
    pub(crate) holder: AtomicU64,
    /// The statement new stages nest in, as `parent`.
    pub(crate) stage_parent: AtomicU64,
    /// The outermost statement, running or the last: what new waits nest in when no stage runs, as `parent`.
    pub(crate) outermost: AtomicU64,
    /// When the last statement's clock started.
    pub(crate) statement_start: AtomicU64,
    pub(crate) thread_id: AtomicU64,
    /// What the thread records (see [`filter`]), and in the upper half what filters have decided it should.
    mask: AtomicU64,
    /// Counted in the extended shape only.
    pub(crate) memory: memory::SessionMemory,
    /// How much of `put_off` there is.
    pub(crate) backlog: Backlog,
    /// The least that is not in the lowest bucket, in ticks, by [`crate::histogram::Lowest`]; without histograms nothing is.
    pub(crate) bucket_floors: [AtomicU64; 2],
    /// The waits in progress that are no leaves, outermost first, and a place behind them.
    pub(crate) open: [OpenWait; WAIT_DEPTH + 1],
    /// What the next choice is made of.
    pub(crate) random: AtomicU64,
    /// The table I/O in progress in a statement that is not a chosen one, as [`choice::Tallied`] has it; 0: none.
    pub(crate) tallied: AtomicU64,
    /// The calls that may be skipped, while no system thread runs the slab.
    pub(crate) skips: AtomicU32,
    _pad2: AtomicU32,
    pub(crate) has_progress: AtomicU32,
    pub(crate) statement_depth: AtomicU32,
    /// Bytes of the text of what the thread runs, in its texts; `u32::MAX`: NULL.
    pub(crate) info_len: AtomicU32,
    pub(crate) command: AtomicU32,
    pub(crate) start_time_s: AtomicI64,
    pub(crate) statement_levels: [AtomicU32; STATEMENT_DEPTH],
    pub(crate) digest_map: AtomicU32,
    pub(crate) digest_epoch: AtomicU32,
    pub(crate) digest_count: AtomicU32,
    /// The cell of the digest counted last; 0: nobody knows.
    pub(crate) last_digest: AtomicU32,
    /// Where it counts stored programs; 0: nowhere yet.
    pub(crate) program_cells: AtomicU32,
    /// The program named last in the current block of statements; 0: none.
    pub(crate) named_program: AtomicU64,
    pub(crate) named_levels: [NamedProgram; STATEMENT_DEPTH],
    pub(crate) statements: Ring,
    pub(crate) transactions: Ring,
    /// By event type and scope: the first event id TRUNCATE has left (for events without a time). A transaction that ends asks.
    pub(crate) hidden: [[AtomicU64; 3]; 4],
    pub(crate) transaction: OpenTransaction,
    pub(crate) read_locks: ReadLocks,
    /// By event type minus one, as [`RINGS`].
    ring_blocks: [RingBlocks; 4],
    /// Metadata locks the thread has given back.
    pub(crate) metadata_stash: Stash,
    /// Next free word of the current cell block, and words left there.
    cell_next: AtomicU32,
    cell_left: AtomicU32,
    cell_count: AtomicU32,
    cell_blocks: [AtomicU32; CELL_BLOCKS],
    pub(crate) alive: AtomicU8,
    pub(crate) instrumented: AtomicU8,
    pub(crate) history: AtomicU8,
    pub(crate) connection_type: AtomicU8,
    pub(crate) class: AtomicU16,
    pub(crate) version: Version,
    pub(crate) processlist_id: AtomicU64,
    pub(crate) parent_thread_id: AtomicU64,
    pub(crate) os_id: AtomicU64,
    pub(crate) texts: AtomicU32,
    /// The number of settings at which no cell with something in it was from before a reset.
    pub(crate) fresh_at: AtomicU32,
    /// What the host calls the session the thread runs; 0: it runs none.
    pub(crate) session: AtomicU64,
    /// Where the host finds the session of a thread of which it tells none; 0: nowhere.
    pub(crate) place: AtomicU64,
    /// Its account, its user and its host; 0: has no place.
    pub(crate) parties: [AtomicU32; 3],
    /// Its neighbours among the threads of its account.
    pub(crate) mates: Mates,
    /// The number of the error for which a handler was found last; 0: for none.
    pub(crate) handled: AtomicU32,
    /// [`BANK_ERRORS`].
    pub(crate) errors: Bank,
    /// The cells of each bank.
    registers: [Register; BANKS],
    /// The account in whose sums [`BANK_OWN`]'s cells were looked up, and its generation then; 0: none were.
    pub(crate) folds_into: [AtomicU32; 2],
    /// For which settings and which mask cells have been marked ready.
    pub(crate) ready_for: [AtomicU32; 2],
    /// WORK_COMPLETED and WORK_ESTIMATED: the host writes here.
    pub(crate) progress: [AtomicU64; 2],
    /// Statements that the client has begun.
    pub(crate) begun: AtomicU64,
    /// Since when `weight` does not hold any more, as the statement, a chosen one, has become slow; 0: it holds.
    pub(crate) slow_from: AtomicU64,
    /// Events that are to be put into their buckets.
    pub(crate) put_off: PutOff,
}

// SAFETY: atomics only, alignment 64, checked below to fit a block.
unsafe impl View for Thread {}
const _: () = assert!(size_of::<Thread>() <= WORDS * 8);
// What a statement or a transaction asks of its thread is in few lines.
const _: () = assert!(offset_of!(Thread, statements) / LINE == offset_of!(Thread, hidden) / LINE);
const _: () = assert!(offset_of!(Thread, has_progress) / LINE == offset_of!(Thread, statement_levels) / LINE);
// So is what a host tells of each statement, whatever is wanted.
const _: () =
    assert!(offset_of!(Thread, has_progress) / LINE == (offset_of!(Thread, start_time_s) + 7) / LINE);
// Who counts memory has asked the mask before, and a statement that begins has: one line for both.
const _: () = assert!(offset_of!(Thread, mask) / LINE == (offset_of!(Thread, memory) + 23) / LINE);

/// Places of slabs in the list that an account has of its threads; 0: it ends there.
#[repr(C)]
pub(crate) struct Mates {
    /// One that came later.
    pub(crate) before: AtomicU32,
    pub(crate) next: AtomicU32,
}

/// Of a mask: the thread has muted itself.
const MUTED: u64 = 1 << 63;

/// A handle of a thread for the host: never dangling, possibly of a thread that has ended.
pub type ThreadRef = &'static ThreadHandle;

/// What the host holds of a thread: opaque.
#[repr(transparent)]
pub struct ThreadHandle {
    slab: Thread,
}

/// The slab of the calling thread.
#[inline(always)]
pub(crate) fn current() -> Option<&'static Thread> {
    let address = local::get();
    // SAFETY: the thread-local holds 0 or the address of a `Thread` view, stored by `set_current` below;
    // views are mapped for the life of the process.
    unsafe { (address as *const Thread).as_ref() }
}

impl Thread {
    #[inline(always)]
    pub(crate) fn handle(&'static self) -> ThreadRef {
        // SAFETY: `ThreadHandle` is a `Thread` in another type (`repr(transparent)`).
        unsafe { &*std::ptr::from_ref(self).cast() }
    }

    /// What the thread records.
    #[inline(always)]
    pub(crate) fn mask(&self) -> u32 {
        self.mask.load(Relaxed) as u32
    }

    /// Filters have decided what the thread records; a muted one does not, yet.
    fn decide(&self, mask: u32) {
        self.change_mask(|word| match word & MUTED {
            0 => u64::from(mask) << 32 | u64::from(mask),
            muted => u64::from(mask) << 32 | muted,
        });
    }

    /// The thread itself stops recording, whatever filters decide meanwhile.
    pub(crate) fn mute(&self) {
        self.change_mask(|word| word >> 32 << 32 | MUTED);
    }

    /// It records again what filters have decided. False: it was not muted.
    pub(crate) fn unmute(&self) -> bool {
        let decided = |word: u64| (word & !MUTED) >> 32;
        self.change_mask(|word| decided(word) << 32 | decided(word)) & MUTED != 0
    }

    /// Returns what it was before.
    fn change_mask(&self, change: impl Fn(u64) -> u64) -> u64 {
        let mut word = self.mask.load(Relaxed);
        loop {
            match self.mask.compare_exchange_weak(word, change(word), Relaxed, Relaxed) {
                Ok(before) => break before,
                Err(now) => word = now,
            }
        }
    }

    /// One of its banks.
    pub(crate) fn bank(&self, bank: usize) -> &Bank {
        if bank == BANK_ERRORS { &self.errors } else { &self.banks[bank] }
    }

    /// Every cell of one of its banks. For the thread itself, and whoever ends it.
    #[inline(always)]
    pub(crate) fn cells(&self, engine: &Engine, bank: usize) -> impl Iterator<Item = &'static Registered> {
        self.registers[bank].cells(&engine.arena)
    }

    /// Where each of them is found, by its bank.
    pub(crate) fn entries(&self, engine: &Engine, bank: usize) -> impl Iterator<Item = &'static AtomicU32> {
        let (cells, bank) = (self.cells(engine, bank), self.bank(bank));
        cells.filter_map(move |cell| bank.entry(&engine.arena, cell.class()))
    }

    #[inline(always)]
    pub(crate) fn bits(mask: u32, of: EventType) -> u32 {
        mask >> filter::shift(of)
    }

    /// Its rings and their blocks, by event type minus one, as [`RINGS`].
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

    /// The histories that want waits, as settled.
    #[inline(always)]
    pub(crate) fn usual_histories(&self) -> u8 {
        histories_of(self.usual_waits.own())
    }

    /// New stages nest in another statement.
    #[inline(always)]
    pub(crate) fn set_stage_parent(&self, base: Base, parent: u64) {
        self.stage_parent.store(parent, Relaxed);
        self.expect_stage_ids();
        if self.stages.place_in(base, 0, parent, || 0).is_none() {
            // The next one says so first.
            self.stages.forget_base();
        }
    }

    /// The texts' block.
    pub(crate) fn text(&self, engine: &Engine) -> Option<&'static ThreadText> {
        engine.arena.get(self.texts.load(Relaxed))
    }

    /// Changes texts: readers see the version odd meanwhile.
    pub(crate) fn write_texts(&self, engine: &Engine, change: impl FnOnce(&'static ThreadText)) {
        if let Some(text) = self.text(engine) {
            self.version.change(|| change(text));
        }
    }

    /// Reads what belongs together, again if it changed meanwhile; a writer stuck in between is not waited for.
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

    /// The thread at an address the host kept.
    ///
    /// # Safety
    /// `address` is null or came from [`ThreadHandle::address`] of the same process.
    #[inline(always)]
    pub unsafe fn from_address(address: *const std::ffi::c_void) -> Option<ThreadRef> {
        // SAFETY: the caller's promise; slabs are never unmapped.
        unsafe { address.cast::<ThreadHandle>().as_ref() }
    }

    /// What the host keeps.
    #[inline(always)]
    pub fn address(&'static self) -> *mut std::ffi::c_void {
        std::ptr::from_ref(self).cast_mut().cast()
    }

    /// THREAD_ID.
    pub fn thread_id(&'static self) -> u64 {
        self.slab.thread_id.load(Relaxed)
    }

    /// PARENT_THREAD_ID.
    pub fn parent_thread_id(&'static self) -> Option<u64> {
        Some(self.slab.parent_thread_id.load(Relaxed)).filter(|id| *id != 0)
    }
}

impl Engine {
    /// Makes a slab for a thread that is about to run. `None`: no memory left, the thread runs unseen.
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
        // Last, under the lock that changes of filters hold: no change can be missed.
        self.refresh_mask(thread);
        Some(thread.handle())
    }

    /// Every slab: of threads that live, begin or end.
    pub(crate) fn slabs(&self) -> impl Iterator<Item = &'static Thread> {
        self.arena.slabs().map(|block| self.arena.at(block * WORDS as u32))
    }

    fn make_slab(&self) -> Option<&'static Thread> {
        let block = self.arena.take(Use::Thread, 0)?;
        let Some(texts) = self.arena.take(Use::ThreadText, 0) else {
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
        let level = thread.statement_levels[0].own();
        if level != 0 {
            self.own_level(thread, level);
        }
        self.threads.fetch_add(1, Relaxed);
        Some(thread)
    }

    /// The calling thread's slab.
    #[inline(always)]
    pub fn current_thread(&self) -> Option<ThreadRef> {
        current().map(Thread::handle)
    }

    /// Makes `thread` (or nobody) the calling thread's slab.
    pub fn set_current_thread(&self, thread: Option<ThreadRef>) {
        if let Some(before) = current() {
            before.skips.store(local::skips().cast_unsigned(), Relaxed);
        }
        local::set(thread.map_or(0, |thread| thread.address() as usize));
        local::set_skips(thread.map_or(0, |thread| thread.slab().skips.own().cast_signed()));
    }

    /// Ends a thread: its figures fold into what has ended, its memory goes back.
    pub fn delete_thread(&self, thread: ThreadRef) {
        self.end_session(thread);
        let thread = thread.slab();
        if local::get() == std::ptr::from_ref(thread) as usize {
            local::set(0);
            local::set_skips(0);
        }
        self.sampling.departed.fetch_add(thread.begun.load(Relaxed), Relaxed);
        thread.begun.store(0, Relaxed);
        thread.skips.store(0, Relaxed);
        {
            // Whoever changes a filter holds this lock while it writes to slabs: to none that is given back.
            let _one_at_a_time = crate::setup::instrument::lock(&self.filters);
            if thread.alive.load(Relaxed) != 1 {
                return;
            }
            // From here on its figures are neither in its cells nor in the sums for those who read.
            self.folds.begin();
            thread.alive.store(2, Release);
            thread.mask.store(0, Relaxed);
            thread.unsettle();
        }
        for ((ring, blocks), departed) in thread.rings().into_iter().zip(&self.departed) {
            departed.fetch_add(ring.recorded(blocks), Release);
        }
        // They come back when its own blocks go there.
        self.arena.shares.long.iter().for_each(|history| history.expect_oldest(&self.arena));
        {
            // One after the other: what falls away with one is noted before the next.
            let _one_at_a_time = crate::setup::instrument::lock(&self.parties.lock);
            self.fold_thread(thread);
            self.note_above(thread);
            self.leave(thread);
            thread.alive.store(0, Release);
        }
        self.folds.end();
        if thread.is_in_stage() {
            self.leave_stages_if_last();
        }
        self.free_thread(thread);
    }

    fn free_thread(&self, thread: &Thread) {
        self.threads.fetch_sub(1, Relaxed);
        let stash = &thread.metadata_stash;
        self.pools.empty::<MetadataLock>(&self.arena, Pool::MetadataLocks, stash);
        for ((ring, blocks), kind) in thread.rings().into_iter().zip(RINGS) {
            ring.release(blocks, &self.arena, self.long_history(thread, kind));
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

    /// The long history, when the consumers say so.
    pub(crate) fn long_history(&self, thread: &Thread, kind: &RingKind) -> Option<&LongHistory> {
        // A thread that ends has no mask any more; what it recorded for the long history must survive.
        let mask = match thread.mask() {
            0 => filter::mask(self.consumers.load(Relaxed), true, thread.history.load(Relaxed) != 0),
            mask => mask,
        };
        (Thread::bits(mask, kind.event) & filter::LONG != 0)
            .then(|| &self.arena.shares.long[kind.event as usize - 1])
    }

    /// Begins a new block of a ring.
    #[cold]
    pub(crate) fn advance(&self, thread: &Thread, ring: &Ring, kind: &RingKind) -> bool {
        let how = Advance {
            arena: &self.arena,
            kind,
            thread_id: thread.thread_id.load(Relaxed),
            session: self.session_name(thread),
            history_size: self.history_size[kind.event as usize - 1].load(Relaxed),
            long: self.long_history(thread, kind),
        };
        let blocks = &thread.ring_blocks[kind.event as usize - 1];
        let done = ring::advance(ring, blocks, &how);
        if !done {
            self.losses.count(kind.lost);
            blocks.number(1);
        }
        done
    }

    /// A thread's account, weakly, and in the lower half its PROCESSLIST_ID; 0: has none.
    pub(crate) fn session_name(&self, thread: &Thread) -> u64 {
        let account = self.party(thread, ACCOUNT).map_or(0, |account| pool::name(&account.head));
        u64::from(account) << 32 | thread.processlist_id.load(Relaxed) & 0xFFFF_FFFF
    }

    /// Recomputes what a thread records.
    pub(crate) fn refresh_mask(&self, thread: &Thread) {
        let _one_at_a_time = crate::setup::instrument::lock(&self.filters);
        self.store_mask(thread);
    }

    /// As [`Engine::refresh_mask`], under the lock of the filters.
    pub(crate) fn store_mask(&self, thread: &Thread) {
        let instrumented = thread.instrumented.load(Relaxed) != 0;
        let history = thread.history.load(Relaxed) != 0;
        if thread.alive.load(Relaxed) == 1 {
            let mask = filter::mask(self.consumers.load(Relaxed), instrumented, history);
            let cycles = if self.clock.counts_cycles() { filter::CYCLES } else { 0 };
            let memory = if self.is_extended() { filter::SESSION_MEMORY } else { 0 };
            let spread = if self.buckets.are_told() { filter::SPREAD } else { 0 };
            thread.decide(if mask == 0 { 0 } else { mask | cycles | memory | spread });
            thread.unsettle();
        }
    }
}
