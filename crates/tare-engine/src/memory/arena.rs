//! HOT PATH: all memory of the engine: one mapping, cut into blocks of 4 KiB. Its size is the cap.
//!
//! Everything the engine keeps (threads, cells, rings, instances, digests) lives in blocks of this arena. A
//! block is taken and given back with one compare-and-swap. Nothing is ever unmapped: a reader with a stale
//! offset reads stale words, never faults, and notices by the generation.
#![allow(unsafe_code)]

use std::sync::atomic::{
    AtomicPtr, AtomicU8, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use tare_sync::{BlockSlots, Seqlock, TreiberStack};

use crate::memory::pool::Pool;
use crate::memory::shares::MemoryShares;

/// The size of a block in bytes.
pub(crate) const BLOCK: usize = 4096;
/// The number of words, of 8 bytes, in a block.
pub(crate) const WORDS: usize = BLOCK / 8;
/// The size of a cache line in bytes. Slots of pools take whole lines.
pub(crate) const LINE: usize = 64;

/// The number of a block; 0 is none.
pub(crate) type BlockId = u32;
/// A place in the arena, in words; 0 is none, as block 0 is never handed out.
pub(crate) type Offset = u32;

/// A type that may be laid over words of the arena.
///
/// # Safety
/// Every field is an atomic integer (or an array of them), the alignment is at most 64, any bit pattern is
/// valid, and the size is at most one block.
pub(crate) unsafe trait ArenaView: Sync + 'static {}

/// The use of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum BlockUse {
    Free = 0,
    Thread,
    ThreadText,
    Map,
    Cells,
    DigestMap,
    ReadLocks,
    Statement,
    Waits,
    Stages,
    Statements,
    Transactions,
    Samples,
    /// Slots of the pool with this number: `Pool as u8 + p`.
    Pool,
}

impl BlockUse {
    /// Returns how many words of a block must be zero when it is taken.
    pub(crate) const fn zeroed(self) -> usize {
        match self {
            // The records end with a word of 0.
            BlockUse::Waits | BlockUse::Stages | BlockUse::Statements | BlockUse::Transactions => 1,
            // The lengths of the texts.
            BlockUse::ThreadText => LINE / 8,
            // Everything but the texts.
            BlockUse::Statement => WORDS / 8,
            _ => WORDS,
        }
    }
}

/// What is known of a block without touching it. It takes a whole cache line, as the neighbours may belong to
/// other threads.
#[repr(C, align(64))]
pub(crate) struct Meta {
    /// THREAD_ID of the owner, for rings.
    pub(crate) owner: AtomicU64,
    /// When a ring began to fill the block, in ticks.
    pub(crate) opened: AtomicU64,
    /// For rings, the number of the block's first record in its ring.
    pub(crate) first: AtomicU64,
    /// The session that the owner ran when the ring began to fill the block, as `session_name` of its thread
    /// encodes it.
    pub(crate) session: AtomicU64,
    next: AtomicU32,
    /// A seqlock that is odd while the contents are being discarded.
    pub(crate) generation: Seqlock,
    /// For rings, the number of records in the block, and [`CONTINUED`].
    records: AtomicU32,
    /// For pools, the words of a slot.
    pub(crate) slot_words: AtomicU32,
    /// The highest generation among the slots that were here before.
    pub(crate) generations: AtomicU32,
    used: AtomicU8,
    /// For pools, which slots are free.
    pub(crate) slots: BlockSlots,
}

/// The flag of a block behind which its ring has begun another one.
const CONTINUED: u32 = 1 << 31;

impl Meta {
    /// Returns the number of records in the block, for rings; 0 while it is being filled.
    pub(crate) fn records(&self) -> u32 {
        self.records.load(Relaxed) & !CONTINUED
    }

    /// Returns whether the ring has begun another block behind this one.
    pub(crate) fn is_continued(&self) -> bool {
        self.records.load(Relaxed) & CONTINUED != 0
    }

    /// Sets the number of records that the ring has written, and clears [`CONTINUED`].
    pub(crate) fn close(&self, records: u32) {
        self.records.store(records, Relaxed);
    }

    /// Notes that the ring begins another block behind this one.
    pub(crate) fn set_continued(&self) {
        self.records.store(self.records.load(Relaxed) | CONTINUED, Relaxed);
    }

    /// Discards the contents of a block of the caller's own; `empty` clears the words.
    pub(crate) fn throw_away(&self, empty: impl FnOnce()) {
        self.generation.change(|| {
            self.records.store(0, Relaxed);
            empty();
        });
    }
}

// Beginning a block writes to one line.
const _: () = assert!(size_of::<Meta>() == LINE);

/// The arena. `base` comes first, as most events read it.
#[repr(C)]
pub(crate) struct Arena {
    base: AtomicPtr<u8>,
    meta: AtomicPtr<Meta>,
    blocks: AtomicU32,
    /// The first block that was never handed out.
    fresh: AtomicU32,
    free: TreiberStack,
    in_use: AtomicU32,
    /// The blocks that are slabs of threads.
    slabs: BlockSet,
    pub(crate) shares: MemoryShares,
}

impl Arena {
    pub(crate) const fn new() -> Arena {
        Arena {
            base: AtomicPtr::new(std::ptr::null_mut()),
            meta: AtomicPtr::new(std::ptr::null_mut()),
            blocks: AtomicU32::new(0),
            fresh: AtomicU32::new(1),
            free: TreiberStack::new(),
            in_use: AtomicU32::new(0),
            slabs: BlockSet::new(),
            shares: MemoryShares::new(),
        }
    }

    /// Reserves `bytes` of address space. Nothing is resident until used.
    pub(crate) fn map(&self, bytes: usize) -> Result<(), std::io::Error> {
        let blocks = bytes / BLOCK;
        let base = reserve(blocks * BLOCK)?;
        let meta = reserve(blocks * size_of::<Meta>())?;
        self.slabs.map(blocks)?;
        self.base.store(base, Relaxed);
        self.meta.store(meta.cast(), Relaxed);
        self.blocks.store(u32::try_from(blocks).unwrap_or(u32::MAX), Release);
        Ok(())
    }

    /// Takes a block, zeroed as far as its use requires. `None`: the cap is reached.
    #[cold]
    pub(crate) fn take(&self, used: BlockUse, pool: u8) -> Option<BlockId> {
        let kept = self.is_kept_from(used);
        let free = || self.free.pop(|id| &self.meta(id).next).or_else(|| self.take_fresh());
        let id = if kept { None } else { free() };
        let id = id.or_else(|| self.take_back().inspect(|_| _ = self.in_use.fetch_sub(1, Relaxed)))?;
        self.begin(id, used);
        let meta = self.meta(id);
        if used == BlockUse::Thread {
            self.slabs.add(id);
        }
        meta.used.store(used as u8 + pool, Release);
        self.in_use.fetch_add(1, Relaxed);
        Some(id)
    }

    /// Puts a block of the caller's, taken or kept, into the initial state for its use.
    pub(crate) fn begin(&self, id: BlockId, used: BlockUse) {
        self.begin_with(id, used.zeroed());
    }

    /// Puts a block of the caller's into an initial state in which so many words are zero.
    pub(crate) fn begin_with(&self, id: BlockId, zeroed: usize) {
        let meta = self.meta(id);
        meta.throw_away(|| {
            meta.owner.store(0, Relaxed);
            zero(&self.words(id)[..zeroed]);
        });
    }

    /// Returns every block that is a thread's slab.
    pub(crate) fn slabs(&self) -> impl Iterator<Item = BlockId> {
        self.slabs.each(self.high()).filter(|id| self.used(*id) == BlockUse::Thread as u8)
    }

    /// Gives a block back. Readers still looking at it notice by its generation when it is reused.
    pub(crate) fn give(&self, id: BlockId) {
        let meta = self.meta(id);
        if meta.used.load(Relaxed) == BlockUse::Thread as u8 {
            self.slabs.remove(id);
        }
        meta.used.store(BlockUse::Free as u8, Release);
        self.in_use.fetch_sub(1, Relaxed);
        self.free.push(id, |id| &self.meta(id).next);
    }

    fn take_fresh(&self) -> Option<BlockId> {
        let blocks = self.blocks.load(Acquire);
        // Loaded first, so that an exhausted arena does not make the counter wrap around.
        if self.fresh.load(Relaxed) >= blocks {
            return None;
        }
        let id = self.fresh.fetch_add(1, Relaxed);
        (id < blocks).then_some(id)
    }

    /// Makes this block the next fresh one.
    #[cfg(all(test, not(miri)))]
    pub(crate) fn skip_to(&self, id: BlockId) {
        self.fresh.store(id, Relaxed);
    }

    #[inline(always)]
    pub(crate) fn meta(&self, id: BlockId) -> &'static Meta {
        debug_assert!(id < self.blocks.load(Relaxed));
        // SAFETY: `id` is below the number of blocks, because ids come from `take` or from a scan up to
        // `high`. The meta array has that many entries, is never unmapped, and consists of atomics.
        unsafe { &*self.meta.load(Relaxed).add(id as usize) }
    }

    /// Returns the use of block `id`, as `BlockUse as u8 + pool`.
    pub(crate) fn used(&self, id: BlockId) -> u8 {
        self.meta(id).used.load(Acquire)
    }

    /// Returns the words of a block.
    #[inline(always)]
    pub(crate) fn words(&self, id: BlockId) -> &'static [AtomicU64; WORDS] {
        debug_assert!(id < self.blocks.load(Relaxed));
        // SAFETY: the block lies inside the mapping, which is never unmapped. Its words are atomics.
        unsafe { &*self.base.load(Relaxed).add(id as usize * BLOCK).cast() }
    }

    /// Returns the base address of the memory, loaded once for an event that reads several places.
    #[inline(always)]
    pub(crate) fn base(&self) -> Base {
        Base(self.base.load(Relaxed))
    }

    /// Returns a view of the words at `offset`.
    #[inline(always)]
    pub(crate) fn at<T: ArenaView>(&self, offset: Offset) -> &'static T {
        self.base().at(offset)
    }

    /// Returns a view for a reader whose offset comes from memory that may have been reused. The view lies in
    /// the arena, whatever its words mean. `None`: the offset is 0 or outside, or `T` needs an alignment
    /// above 8.
    pub(crate) fn get<T: ArenaView>(&self, offset: Offset) -> Option<&'static T> {
        let end = offset as usize + size_of::<T>().div_ceil(8);
        if offset == 0 || end > self.blocks.load(Relaxed) as usize * WORDS || align_of::<T>() > 8 {
            return None;
        }
        // SAFETY: just checked to lie inside the mapping. The base is aligned to a page, so words are aligned
        // to 8. `ArenaView` promises that any bits are a valid `T` made of atomics.
        Some(unsafe { &*self.base.load(Relaxed).add(offset as usize * 8).cast() })
    }

    /// Returns the `len` words at `offset`. The caller's object does not extend beyond its block.
    #[inline(always)]
    pub(crate) fn slice(&self, offset: Offset, len: usize) -> &'static [AtomicU64] {
        let (block, word) = (offset / WORDS as u32, offset as usize % WORDS);
        &self.words(block)[word..word + len]
    }

    /// Prefetches the words of a block that are written first, which another processor may have in its cache.
    #[inline(always)]
    pub(crate) fn expect_block(&self, id: BlockId) {
        expect_write(std::ptr::from_ref(self.meta(id)).cast());
        let first = self.words(id).as_ptr().cast::<u8>();
        expect_write(first);
        expect_write(first.wrapping_add(LINE));
    }

    /// Prefetches the first bytes of a view that will be read soon. Processors do not prefetch irregular
    /// accesses themselves.
    #[inline(always)]
    pub(crate) fn expect_read(&self, offset: Offset, bytes: usize) {
        let view = self.base().0.wrapping_add(offset as usize * 8);
        (0..bytes).step_by(LINE).for_each(|line| expect_read(view.wrapping_add(line)));
    }

    /// Returns the place of a view.
    #[inline(always)]
    pub(crate) fn offset_of<T: ArenaView>(&self, view: &T) -> Offset {
        (self.base().bytes_to(view) / 8) as Offset
    }

    /// Holds the block of a slot, so that it stays the pool's. `None`: it is not the pool's any more.
    #[inline]
    pub(crate) fn hold<T: ArenaView>(&self, pool: Pool, slot: &T) -> Option<BlockHold> {
        self.hold_block(pool, self.offset_of(slot) / WORDS as u32)
    }

    /// Holds a block, so that it stays the pool's. `None`: it is not the pool's any more.
    #[inline]
    pub(crate) fn hold_block(&self, pool: Pool, block: BlockId) -> Option<BlockHold> {
        let slots = &self.meta(block).slots;
        if pool.stays() {
            return (slots.kind() == pool.kind()).then_some(BlockHold(None));
        }
        slots.hold(pool.kind()).then_some(BlockHold(Some(slots)))
    }

    /// Returns the number of blocks.
    pub(crate) fn blocks(&self) -> u32 {
        self.blocks.load(Relaxed)
    }

    /// Returns the bound of the ids that may be in use: `1..high()`.
    pub(crate) fn high(&self) -> BlockId {
        self.fresh.load(Relaxed).min(self.blocks.load(Relaxed))
    }

    /// Returns whether less than a quarter is left, so that optional uses get no more.
    pub(crate) fn is_scarce(&self) -> bool {
        self.needed().saturating_sub(self.shares.lent()) > self.blocks() / 4 * 3
    }

    /// Returns the number of blocks that nobody has.
    pub(crate) fn untaken(&self) -> u32 {
        self.blocks().saturating_sub(self.in_use.load(Relaxed))
    }

    /// Returns the number of blocks in use, without those that nobody needs.
    fn needed(&self) -> u32 {
        self.in_use.load(Relaxed).saturating_sub(self.shares.empty())
    }

    /// Returns the bytes in use, and the cap.
    pub(crate) fn usage(&self) -> (u64, u64) {
        let bytes = |blocks: u32| u64::from(blocks) * BLOCK as u64;
        (bytes(self.needed()), bytes(self.blocks()))
    }
}

/// A hold on a block of slots, which keeps its kind until this is dropped.
pub(crate) struct BlockHold(Option<&'static BlockSlots>);

impl Drop for BlockHold {
    #[inline]
    fn drop(&mut self) {
        if let Some(slots) = self.0 {
            slots.release_hold();
        }
    }
}

/// Zeroes words that readers may be reading. They check afterwards whether the words were still the block's.
fn zero(words: &[AtomicU64]) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: the words are the caller's own, aligned, and writable through their atomics. The processor
    // stores eight bytes or more at a time, so each word is stored as if by itself.
    unsafe {
        std::arch::asm!(
            "rep stosq",
            inout("rcx") words.len() => _,
            inout("rdi") words.as_ptr() => _,
            in("rax") 0,
            options(nostack, preserves_flags),
        );
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    words.iter().for_each(|word| word.store(0, Relaxed));
}

/// Prefetches a cache line that will be written soon.
#[inline(always)]
fn expect_write(address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: PREFETCHW neither faults nor changes anything a program can see. Processors without it treat it
    // as a NOP.
    unsafe {
        std::arch::asm!("prefetchw byte ptr [{0}]", in(reg) address, options(nostack, preserves_flags));
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}

/// Prefetches a cache line that will be read soon.
#[inline(always)]
fn expect_read(address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: PREFETCHT0 neither faults nor changes anything a program can see. Every processor of this kind
    // has it.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}

/// The base address of the arena's memory.
#[derive(Clone, Copy)]
pub(crate) struct Base(*const u8);

impl Base {
    /// Returns a view of the words at `offset`.
    #[inline(always)]
    pub(crate) fn at<T: ArenaView>(self, offset: Offset) -> &'static T {
        debug_assert!(offset != 0 && offset as usize % WORDS + size_of::<T>() / 8 <= WORDS);
        // SAFETY: offsets are made by this crate from blocks it took, and objects never span blocks, so the
        // place lies inside the mapping. `ArenaView` promises that any bits are a valid `T` made of atomics.
        unsafe { &*self.0.add(offset as usize * 8).cast() }
    }

    /// Returns the distance to a view in bytes.
    #[inline(always)]
    pub(crate) fn bytes_to<T: ArenaView>(self, view: &T) -> u64 {
        (std::ptr::from_ref(view) as usize - self.0 as usize) as u64
    }

    /// Returns the word at `offset`.
    #[inline(always)]
    pub(crate) fn word(self, offset: usize) -> &'static AtomicU64 {
        debug_assert!(offset != 0);
        // SAFETY: offsets are made by this crate from blocks it took, so the word lies inside the mapping. It
        // is an atomic.
        unsafe { &*self.0.add(offset * 8).cast() }
    }

    /// Returns a view of the words at `offset`; offset 0 is a block of zeros.
    #[inline(always)]
    pub(crate) fn at_or_zero<T: ArenaView>(self, offset: Offset) -> &'static T {
        // SAFETY: the same as for `at`. Block 0 is inside the mapping and never handed out, so nobody writes
        // to it.
        unsafe { &*self.0.add(offset as usize * 8).cast() }
    }

    /// Prefetches `bytes` from `offset` on, which will be written soon.
    #[inline(always)]
    pub(crate) fn expect_write(self, offset: usize, bytes: usize) {
        let first = self.0.wrapping_add(offset * 8);
        (0..bytes).step_by(LINE).for_each(|line| expect_write(first.wrapping_add(line)));
    }

    /// Prefetches the cache line two lines behind `offset`, which will be written soon. It may lie behind the
    /// block or even the mapping, as a prefetch accesses nothing.
    #[inline(always)]
    pub(crate) fn expect_write_behind(self, offset: Offset) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: PREFETCHW neither faults nor changes anything a program can see. Processors without it
        // treat it as a NOP.
        unsafe {
            std::arch::asm!(
                "prefetchw byte ptr [{base} + {offset} * 8 + {behind}]",
                base = in(reg) self.0,
                offset = in(reg) offset as usize,
                behind = const 2 * LINE,
                options(nostack, preserves_flags),
            );
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        let _ = offset;
    }
}

/// A load of a word that only the calling thread writes. If another thread wrote it nevertheless, only that
/// value could be lost, because the load is atomic. That costs a stage five instructions, and others nothing
/// worth mentioning.
pub(crate) trait Own {
    type Value;
    /// Returns the value of a word in the calling thread's own slab, cells or records.
    fn own(&self) -> Self::Value;
}

macro_rules! own {
    ($($atomic:ty = $value:ty),*) => {$(
        impl Own for $atomic {
            type Value = $value;
            #[inline(always)]
            fn own(&self) -> $value {
                self.load(Relaxed)
            }
        }
    )*};
}
own!(AtomicU32 = u32, AtomicU64 = u64);

/// Reserves zeroed address space that becomes resident page by page.
pub(crate) fn reserve(bytes: usize) -> Result<*mut u8, std::io::Error> {
    let bytes = bytes.max(BLOCK);
    #[cfg(not(miri))]
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    #[cfg(miri)]
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: an anonymous mapping at an address of the kernel's choice affects no existing memory.
    let at =
        unsafe { libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
    if at == libc::MAP_FAILED { Err(std::io::Error::last_os_error()) } else { Ok(at.cast()) }
}

/// A fixed array of atomic words in a mapping of its own, for hash tables and descriptor tables.
pub(crate) struct Table {
    base: AtomicPtr<AtomicU64>,
    len: AtomicU32,
}

impl Table {
    pub(crate) const fn new() -> Table {
        Table { base: AtomicPtr::new(std::ptr::null_mut()), len: AtomicU32::new(0) }
    }

    pub(crate) fn map(&self, len: usize) -> Result<(), std::io::Error> {
        self.base.store(reserve(len * 8)?.cast(), Relaxed);
        self.len.store(u32::try_from(len).unwrap_or(0), Release);
        Ok(())
    }

    #[inline(always)]
    pub(crate) fn words(&self) -> &'static [AtomicU64] {
        let len = self.len.load(Acquire) as usize;
        if len == 0 {
            return &[];
        }
        // SAFETY: `map` stored the address of a mapping of `len` words before it stored `len`. It is never
        // unmapped.
        unsafe { std::slice::from_raw_parts(self.base.load(Relaxed), len) }
    }
}

/// The blocks that have, or had, one use, a bit each. The actual use is in the block's [`Meta`], a cache line
/// each, so a search for few of thousands of blocks looks here first.
pub(crate) struct BlockSet(Table);

impl BlockSet {
    const BITS: usize = u64::BITS as usize;

    pub(crate) const fn new() -> BlockSet {
        BlockSet(Table::new())
    }

    pub(crate) fn map(&self, blocks: usize) -> Result<(), std::io::Error> {
        self.0.map(blocks.div_ceil(Self::BITS))
    }

    /// Adds a block, before its use is set.
    pub(crate) fn add(&self, block: BlockId) {
        if let Some(word) = self.0.words().get(block as usize / Self::BITS) {
            word.fetch_or(1 << (block as usize % Self::BITS), Relaxed);
        }
    }

    /// Removes a block.
    fn remove(&self, block: BlockId) {
        if let Some(word) = self.0.words().get(block as usize / Self::BITS) {
            word.fetch_and(!(1 << (block as usize % Self::BITS)), Relaxed);
        }
    }

    /// Returns the blocks in ascending order, among those ever handed out, which are below `high`.
    pub(crate) fn each(&self, high: BlockId) -> impl Iterator<Item = BlockId> {
        let words = self.0.words().iter().take((high as usize).div_ceil(Self::BITS));
        (0..).step_by(Self::BITS).zip(words).flat_map(|(first, word)| {
            let mut bits = word.load(Relaxed);
            std::iter::from_fn(move || {
                let bit = (bits != 0).then(|| bits.trailing_zeros())?;
                bits &= bits - 1;
                Some(first + bit)
            })
        })
    }
}
