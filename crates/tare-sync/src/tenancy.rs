//! HOT PATH: a place that has one tenant after another, to which many threads add. Who adds *pins* the place, and a place
//! that is pinned is not taken; who comes with another tenant's generation is told so. Nothing is waited for, and no figure
//! reaches another tenant.

use crate::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
    fence,
};

/// Somebody changes the place: who else looks at it sees nothing.
const BUSY: u64 = 1 << 31;
/// The place has no tenant, though events still know the last one.
const FREE: u64 = 1 << 30;
/// Threads that are just adding.
const PINS: u64 = FREE - 1;

/// The tenant's generation << 32, flags, pins.
#[repr(transparent)]
pub struct Tenancy(AtomicU64);

/// A tenancy at one moment: what a claim refers to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moment(u64);

impl Moment {
    /// The tenant's generation.
    #[must_use]
    pub const fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Whether there was a tenant.
    #[must_use]
    pub const fn is_let(self) -> bool {
        self.0 & FREE == 0
    }

    /// The tenant of `generation` was there, and nobody added to it.
    #[must_use]
    pub const fn quiet(generation: u32) -> Moment {
        Moment((generation as u64) << 32)
    }
}

impl Tenancy {
    new! {
        /// A tenant of generation 0, which is none; `prepare` comes first.
        fn new() = Tenancy(AtomicU64::new(0))
    }

    /// A place nobody knows of yet is about to be let, to generation 1.
    pub fn prepare(&self) {
        self.0.store(1 << 32 | BUSY, Relaxed);
    }

    /// The present.
    pub fn now(&self) -> Moment {
        Moment(self.0.load(Relaxed))
    }

    /// The tenant's generation, whether or not it is still there.
    pub fn generation(&self) -> u32 {
        Moment(self.0.load(Acquire)).generation()
    }

    /// Whether the tenant of `generation` is there.
    pub fn is_let_to(&self, generation: u32) -> bool {
        let now = self.0.load(Acquire);
        Moment(now).generation() == generation && now & (BUSY | FREE) == 0
    }

    /// What `read` makes of the place, with the generation, if nobody changed it meanwhile. There need be no tenant.
    pub fn read<T>(&self, read: impl FnOnce() -> T) -> Option<(Moment, T)> {
        let before = self.0.load(Acquire);
        let value = read();
        fence(Acquire);
        let now = self.0.load(Relaxed);
        (before & BUSY == 0 && (before ^ now) & !PINS == 0).then_some((Moment(before), value))
    }

    /// The calling thread begins to add to the tenant of `generation`, and will [`Tenancy::unpin`]. False: the tenant is not
    /// there any more, and nothing is pinned.
    #[inline]
    pub fn pin(&self, generation: u32) -> bool {
        let before = self.0.fetch_add(1, Acquire);
        let there = Moment(before).generation() == generation && before & (BUSY | FREE) == 0;
        if !there {
            self.unpin();
        }
        there
    }

    /// The calling thread has added.
    #[inline]
    pub fn unpin(&self) {
        self.0.fetch_sub(1, Release);
    }

    /// Takes the place from the tenant it had at `before`, unless somebody adds to it or was faster. Its generation rises
    /// by `by`. Who succeeds changes the place, then says [`Tenancy::let_out`] or [`Tenancy::leave_free`].
    pub fn claim(&self, before: Moment, by: u32) -> bool {
        let mine = u64::from(before.generation().wrapping_add(by)) << 32 | BUSY;
        let free_to_take = before.0 & (BUSY | PINS) == 0;
        let claimed = free_to_take && self.0.compare_exchange(before.0, mine, Acquire, Relaxed).is_ok();
        // Who sees anything of what is written now sees the claim, too.
        fence(Release);
        claimed
    }

    /// The place is its new tenant's, of which all has been written. Returns the generation.
    pub fn let_out(&self) -> u32 {
        Moment(self.0.fetch_and(!BUSY, Release)).generation()
    }

    /// The place stays without a tenant.
    pub fn leave_free(&self) {
        // Pins that come and go are left alone.
        self.0.fetch_add(FREE.wrapping_sub(BUSY), Release);
    }
}

/// How often a tenant has lost its place, of many places: even. Who recognised a tenant by its words knows that it was there
/// all the time if the number is the same since.
#[repr(transparent)]
pub struct Turns(AtomicU32);

impl Turns {
    new! {
        /// None has yet.
        fn new() = Turns(AtomicU32::new(0))
    }

    /// A tenant loses its place. Said before the next one's words are written.
    pub fn pass(&self) {
        self.0.fetch_add(2, Release);
        // Who sees anything of the next tenant sees that one has lost its place.
        fence(Release);
    }

    /// The number, before one looks at a tenant.
    pub fn now(&self) -> u32 {
        self.0.load(Acquire)
    }

    /// The number, after one has looked at a tenant.
    #[inline(always)]
    pub fn since(&self) -> u32 {
        fence(Acquire);
        self.0.load(Relaxed)
    }
}
