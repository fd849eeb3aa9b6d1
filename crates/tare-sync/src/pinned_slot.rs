//! HOT PATH: a slot that has one owner after another, and to which many threads add. A thread *pins* the slot
//! while it adds, and a pinned slot keeps its owner. Generations tell owners apart: a thread with a former
//! owner's generation is refused. Nobody waits, and no value reaches another owner.

use crate::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
    fence,
};

/// The flag of a slot that is being changed: others see no owner.
const BUSY: u64 = 1 << 31;
/// The flag of a slot without an owner. Threads may still know the last one.
const FREE: u64 = 1 << 30;
/// The number of pins: threads that are adding now.
const PINS: u64 = FREE - 1;

/// A slot's state in one word: the owner's generation in the upper 32 bits, then flags, then the number of
/// pins.
///
/// # Examples
///
/// ```
/// use tare_sync::PinnedSlot;
///
/// let slot = PinnedSlot::new();
/// slot.prepare();
/// let owner = slot.publish_owner();
/// assert!(slot.pin(owner), "a thread adds for this owner");
/// assert!(!slot.claim(slot.now(), 1), "nobody takes a pinned slot");
/// slot.unpin();
/// // Another owner takes the slot. Whoever comes for the former one is refused.
/// assert!(slot.claim(slot.now(), 1));
/// let next = slot.publish_owner();
/// assert!(!slot.pin(owner) && slot.pin(next));
/// ```
#[repr(transparent)]
pub struct PinnedSlot(AtomicU64);

/// The state of a slot at one moment, which a claim refers to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotState(u64);

impl SlotState {
    /// Returns the owner's generation.
    #[must_use]
    pub const fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Returns whether the slot had an owner.
    #[must_use]
    pub const fn has_owner(self) -> bool {
        self.0 & FREE == 0
    }

    /// Returns the state of a slot owned by `generation` and not pinned.
    #[must_use]
    pub const fn unpinned(generation: u32) -> SlotState {
        SlotState((generation as u64) << 32)
    }
}

impl PinnedSlot {
    new! {
        /// Creates a slot of generation 0, which is no owner's. `prepare` comes first.
        fn new() = PinnedSlot(AtomicU64::new(0))
    }

    /// Marks a slot that no other thread knows yet as being changed for generation 1.
    pub fn prepare(&self) {
        self.0.store(1 << 32 | BUSY, Relaxed);
    }

    /// Returns the current state.
    pub fn now(&self) -> SlotState {
        SlotState(self.0.load(Relaxed))
    }

    /// Returns the generation of the current or last owner.
    pub fn generation(&self) -> u32 {
        SlotState(self.0.load(Acquire)).generation()
    }

    /// Returns whether the owner of `generation` has the slot.
    pub fn belongs_to(&self, generation: u32) -> bool {
        let now = self.0.load(Acquire);
        SlotState(now).generation() == generation && now & (BUSY | FREE) == 0
    }

    /// Returns what `read` makes of the slot, and the slot's state, with or without an owner. Returns `None`
    /// if the slot was being changed.
    pub fn read<T>(&self, read: impl FnOnce() -> T) -> Option<(SlotState, T)> {
        let before = self.0.load(Acquire);
        let value = read();
        fence(Acquire);
        let now = self.0.load(Relaxed);
        (before & BUSY == 0 && (before ^ now) & !PINS == 0).then_some((SlotState(before), value))
    }

    /// Pins the slot for the owner of `generation`. The caller then adds and calls [`PinnedSlot::unpin`].
    /// Returns false, and pins nothing, if that owner has lost the slot.
    #[inline]
    pub fn pin(&self, generation: u32) -> bool {
        let before = self.0.fetch_add(1, Acquire);
        let there = SlotState(before).generation() == generation && before & (BUSY | FREE) == 0;
        if !there {
            self.unpin();
        }
        there
    }

    /// Ends a pin: the calling thread has added.
    #[inline]
    pub fn unpin(&self) {
        self.0.fetch_sub(1, Release);
    }

    /// Takes the slot from the owner it had at `before`, and raises its generation by `by`. Returns false if
    /// the slot is pinned or another thread was faster. On success the caller changes the slot and calls
    /// [`PinnedSlot::publish_owner`] or [`PinnedSlot::leave_free`].
    pub fn claim(&self, before: SlotState, by: u32) -> bool {
        let mine = u64::from(before.generation().wrapping_add(by)) << 32 | BUSY;
        let free_to_take = before.0 & (BUSY | PINS) == 0;
        let claimed = free_to_take && self.0.compare_exchange(before.0, mine, Acquire, Relaxed).is_ok();
        // Whoever sees any of the following writes sees the claim, too.
        fence(Release);
        claimed
    }

    /// Completes a claim: the new owner's data is written. Returns its generation.
    pub fn publish_owner(&self) -> u32 {
        SlotState(self.0.fetch_and(!BUSY, Release)).generation()
    }

    /// Completes a claim and leaves the slot without an owner.
    pub fn leave_free(&self) {
        // An addition, because pins may come and go.
        self.0.fetch_add(FREE.wrapping_sub(BUSY), Release);
    }
}

/// The number of times that any of many slots changed its owner, times two. A thread that recognised an owner
/// by its data knows that it was there all the time if the number is unchanged.
///
/// # Examples
///
/// ```
/// use tare_sync::Evictions;
///
/// let evictions = Evictions::new();
/// let before = evictions.now();
/// assert_eq!(evictions.since(), before, "whoever was there still is");
/// evictions.count();
/// assert_ne!(evictions.since(), before);
/// ```
#[repr(transparent)]
pub struct Evictions(AtomicU32);

impl Evictions {
    new! {
        /// Creates a counter of no changes.
        fn new() = Evictions(AtomicU32::new(0))
    }

    /// Counts one more owner that loses its slot. Must be called before the next owner's data is written.
    pub fn count(&self) {
        self.0.fetch_add(2, Release);
        // Whoever sees any data of the next owner sees this change, too.
        fence(Release);
    }

    /// Returns the number, before an owner's data is read.
    pub fn now(&self) -> u32 {
        self.0.load(Acquire)
    }

    /// Returns the number, after an owner's data was read.
    #[inline(always)]
    pub fn since(&self) -> u32 {
        fence(Acquire);
        self.0.load(Relaxed)
    }
}
