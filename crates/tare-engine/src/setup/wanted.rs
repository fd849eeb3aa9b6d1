//! HOT PATH: which kinds of events anybody wants. One byte per kind, on one line that all threads read and
//! hardly anybody writes. Whoever begins an event checks it first, so a disabled kind costs no more than
//! that.
//!
//! While a kind is off, nobody reports that a lock is released. So what threads note of the locks they hold
//! carries the *turn* at which they noted it: a number that rises whenever a kind is switched on. A note from
//! before its kind was last switched on is void.

use std::hint::cold_path;
use std::slice::from_ref;
use std::sync::atomic::{
    AtomicU8, AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

use crate::Engine;
use crate::setup::instrument::KINDS;
use crate::snapshot::{Consumer, Kind};
use crate::setup::filter;

/// Which events of a kind anybody wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Demand {
    /// None of them.
    Nothing,
    /// Some: not those of disabled instruments, nor those of sampled instruments in statements that are not
    /// chosen.
    Some,
    /// All, and none is recorded.
    Sums,
    /// Those of chosen statements, and all that are not estimated from these.
    Sampled,
    /// Every one.
    All,
}

/// Number of bits of a turn that are kept with the owner of a lock.
const TURN_BITS: u32 = 24;

/// Returns a thread as the owner of locks: its THREAD_ID, and the turn it has adopted.
pub(crate) fn holder(thread_id: u64, turn: u32) -> u64 {
    thread_id << TURN_BITS | u64::from(turn) & ((1 << TURN_BITS) - 1)
}

#[repr(C, align(64))]
pub(crate) struct Wanted {
    /// [`Demand`] of each kind.
    kinds: [AtomicU8; KINDS.len()],
    turn: AtomicU32,
    /// Turn at which each kind was last switched on.
    since: [AtomicU32; KINDS.len()],
}

/// Returns the index of a kind's byte. Shared-exclusive locks use that of rwlocks: the host does not tell
/// them apart when it begins to wait.
const fn place(kind: Kind) -> usize {
    match kind {
        Kind::Sxlock => Kind::Rwlock as usize,
        kind => kind as usize,
    }
}

impl Wanted {
    pub(crate) const fn new() -> Wanted {
        Wanted {
            kinds: [const { AtomicU8::new(0) }; KINDS.len()],
            turn: AtomicU32::new(0),
            since: [const { AtomicU32::new(0) }; KINDS.len()],
        }
    }

    fn demand(&self, kind: Kind) -> Demand {
        let all = [Demand::Nothing, Demand::Sums, Demand::Sampled, Demand::All];
        let demand = self.kinds[place(kind)].load(Relaxed);
        all.into_iter().find(|it| *it as u8 == demand).unwrap_or(Demand::Some)
    }

    #[inline(always)]
    fn is(&self, kind: Kind) -> bool {
        self.kinds[place(kind)].load(Relaxed) != Demand::Nothing as u8
    }

    /// Sets the demand for a kind. Returns false if it was the same before. The caller makes sure that one
    /// thread at a time calls this.
    fn set(&self, kind: Kind, demand: Demand) -> bool {
        let before = self.demand(kind);
        if before == demand {
            return false;
        }
        // Store this first: whoever knows the new turn then hears of released locks.
        self.kinds[place(kind)].store(demand as u8, Release);
        if before == Demand::Nothing {
            let turn = self.turn.load(Relaxed).wrapping_add(1);
            self.since[place(kind)].store(turn, Release);
            self.turn.store(turn, Release);
        }
        true
    }

    /// Returns the turn for what a thread notes from now on.
    pub(crate) fn turn(&self) -> u32 {
        self.turn.load(Acquire)
    }

    /// Returns whether `kind` has been on without a break since `turn`, of which [`TURN_BITS`] bits are
    /// compared. Turns may have wrapped, so the sign of their difference decides.
    pub(crate) fn heard_since(&self, kind: Kind, turn: u32) -> bool {
        let since = self.since[place(kind)].load(Acquire);
        self.is(kind) && turn.wrapping_sub(since) << (32 - TURN_BITS) >> 31 == 0
    }

    /// Returns THREAD_ID of the owner of a lock, for readers. `None`: it has no owner, or the owner is no
    /// longer known.
    pub(crate) fn owner(&self, kind: Kind, holder: u64) -> Option<u64> {
        self.heard_since(kind, holder as u32).then_some(holder >> TURN_BITS).filter(|id| *id != 0)
    }
}

impl Engine {
    /// Returns whether anybody wants events of a kind: one of its instruments is on, and so is
    /// `global_instrumentation`. If not, no event of it need begin. Events in progress end as usual.
    #[inline(always)]
    pub fn wants(&self, kind: Kind) -> bool {
        self.wanted.is(kind)
    }

    /// Returns whether nobody wants an event of a kind. Calls `is_off` only where some instruments of the
    /// kind are off or sampled.
    #[inline(always)]
    pub fn is_unwanted(&self, kind: Kind, is_off: impl FnOnce() -> bool) -> bool {
        let is_every = self.wanted.kinds[place(kind)].load(Relaxed) >= Demand::Sums as u8;
        if is_every {
            return false;
        }
        if !self.wants(kind) {
            return true;
        }
        cold_path();
        is_off()
    }

    /// Returns whether all instruments of a kind are on and sampled.
    #[inline(always)]
    pub fn is_all_sampled(&self, kind: Kind) -> bool {
        self.wanted.kinds[place(kind)].load(Relaxed) == Demand::Sampled as u8
    }

    /// Returns which events of a kind anybody wants.
    pub fn demand(&self, kind: Kind) -> Demand {
        self.wanted.demand(kind)
    }

    /// Recomputes the demand for a kind after its instruments or consumers have changed. The caller holds the
    /// lock `filters`.
    pub(crate) fn decide_wanted(&self, kind: Kind) {
        let kinds = match kind {
            Kind::Rwlock | Kind::Sxlock => &[Kind::Rwlock, Kind::Sxlock][..],
            ref kind => from_ref(kind),
        };
        let demand = match self.registry.demand(kinds) {
            _ if !self.consumer(Consumer::GlobalInstrumentation) => Demand::Nothing,
            Demand::All if !filter::is_recorded(self.consumers.load(Relaxed), kind) => Demand::Sums,
            demand => demand,
        };
        let before = self.demand(kind);
        if before == demand {
            return;
        }
        // The host routes calls here before any of them counts, and away only when none does. So the release
        // of a lock on record is always reported.
        let lead = || self.host.get().into_iter().for_each(|host| host.wants(kinds[0], demand));
        if before == Demand::Nothing {
            if kind == Kind::Stage {
                self.tell_stages();
            }
            lead();
        }
        self.wanted.set(kind, demand);
        if before != Demand::Nothing {
            lead();
        }
        self.change_settings();
        if kind == Kind::Stage {
            self.leave_stages_untold();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_noted_before_a_kind_was_switched_on_means_nothing_any_more() {
        let wanted = Wanted::new();
        assert!(wanted.set(Kind::Mutex, Demand::All) && wanted.set(Kind::Rwlock, Demand::All));
        let noted = wanted.turn();
        assert!(wanted.heard_since(Kind::Mutex, noted) && wanted.heard_since(Kind::Sxlock, noted));
        assert!(!wanted.set(Kind::Mutex, Demand::All), "it was on");
        for demand in [Demand::Some, Demand::All] {
            assert!(wanted.set(Kind::Mutex, demand) && wanted.demand(Kind::Mutex) == demand);
            assert!(wanted.heard_since(Kind::Mutex, noted), "it was on all the time");
        }
        assert!(wanted.set(Kind::Mutex, Demand::Nothing));
        assert!(!wanted.heard_since(Kind::Mutex, wanted.turn()), "nobody hears anything");
        assert!(wanted.set(Kind::Mutex, Demand::All));
        assert!(!wanted.heard_since(Kind::Mutex, noted));
        assert!(wanted.heard_since(Kind::Mutex, wanted.turn()));
        assert!(wanted.heard_since(Kind::Rwlock, noted), "another kind");
    }

    #[test]
    fn turns_may_run_over() {
        let wanted = Wanted::new();
        wanted.turn.store((1 << TURN_BITS) - 2, Relaxed);
        assert!(wanted.set(Kind::Mutex, Demand::All));
        let low = |turn: u32| turn & ((1 << TURN_BITS) - 1);
        let before = low(wanted.turn());
        assert!(wanted.set(Kind::Rwlock, Demand::All) && wanted.heard_since(Kind::Mutex, low(wanted.turn())));
        assert!(wanted.set(Kind::Mutex, Demand::Nothing) && wanted.set(Kind::Mutex, Demand::All));
        assert!(wanted.heard_since(Kind::Mutex, low(wanted.turn())));
        assert!(!wanted.heard_since(Kind::Mutex, before));
    }
}
