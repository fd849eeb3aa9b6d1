//! HOT PATH: which kinds of events anybody wants. One byte for each kind, in one line that all threads read and hardly
//! anybody writes: whoever begins an event asks it before anything else, and what is off costs no more than that.
//!
//! While a kind is off, nobody hears that a lock is given back. So what threads note of the locks they hold carries the
//! *turn* at which they noted it: a number that rises whenever a kind is switched on. What was noted before its kind was
//! switched on last means nothing any more.

use std::hint::cold_path;
use std::slice::from_ref;
use std::sync::atomic::{
    AtomicU8, AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

use crate::Engine;
use crate::setup::instrument::KINDS;
use crate::snapshot::{Consumer, Kind};
use crate::thread::filter;

/// Which events of a kind somebody wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Demand {
    /// None of them.
    Nothing,
    /// Not those of instruments that are off, nor, of those that are sampled, the ones in statements that are not chosen.
    Some,
    /// Every one, and none is recorded.
    Sums,
    /// Those of chosen statements, and all that is not estimated from these.
    Sampled,
    /// Every one.
    All,
}

/// Bits of a turn that are kept with the owner of a lock.
const TURN_BITS: u32 = 24;

/// A thread as the owner of locks: its THREAD_ID, and the turn at which it settled.
pub(crate) fn holder(thread_id: u64, turn: u32) -> u64 {
    thread_id << TURN_BITS | u64::from(turn) & ((1 << TURN_BITS) - 1)
}

#[repr(C, align(64))]
pub(crate) struct Wanted {
    /// [`Demand`]s.
    kinds: [AtomicU8; KINDS.len()],
    turn: AtomicU32,
    /// The turn at which each kind was switched on last.
    since: [AtomicU32; KINDS.len()],
}

/// Where a kind has its byte. The host does not tell shared-exclusive locks from others when it begins to wait.
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

    /// Switches a kind; false: it was so before. By one thread at a time.
    fn set(&self, kind: Kind, demand: Demand) -> bool {
        let before = self.demand(kind);
        if before == demand {
            return false;
        }
        // First of all: whoever knows the new turn hears of locks that are given back.
        self.kinds[place(kind)].store(demand as u8, Release);
        if before == Demand::Nothing {
            let turn = self.turn.load(Relaxed).wrapping_add(1);
            self.since[place(kind)].store(turn, Release);
            self.turn.store(turn, Release);
        }
        true
    }

    /// The turn, for what a thread notes from now on.
    pub(crate) fn turn(&self) -> u32 {
        self.turn.load(Acquire)
    }

    /// Whether a thread heard of everything about this kind since that turn, of which [`TURN_BITS`] are asked for. (Turns
    /// are compared as neighbours: they may have run over.)
    pub(crate) fn heard_since(&self, kind: Kind, turn: u32) -> bool {
        let since = self.since[place(kind)].load(Acquire);
        self.is(kind) && turn.wrapping_sub(since) << (32 - TURN_BITS) >> 31 == 0
    }

    /// THREAD_ID of the owner of a lock, for readers; `None`: nobody's, or nobody knows any more.
    pub(crate) fn owner(&self, kind: Kind, holder: u64) -> Option<u64> {
        self.heard_since(kind, holder as u32).then_some(holder >> TURN_BITS).filter(|id| *id != 0)
    }
}

impl Engine {
    /// Whether anybody wants events of a kind: an instrument of it is on, and so is `global_instrumentation`. If not, no
    /// event of it need be begun. What is in progress ends as it would have.
    #[inline(always)]
    pub fn wants(&self, kind: Kind) -> bool {
        self.wanted.is(kind)
    }

    /// Whether nobody wants an event of a kind. Only where some instruments of it are off, it is asked whether the event's is.
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

    /// Whether all instruments of a kind are on and sampled.
    #[inline(always)]
    pub fn is_all_sampled(&self, kind: Kind) -> bool {
        self.wanted.kinds[place(kind)].load(Relaxed) == Demand::Sampled as u8
    }

    /// As [`Engine::wants`], and whether it is all of them.
    pub fn demand(&self, kind: Kind) -> Demand {
        self.wanted.demand(kind)
    }

    /// Instruments of this kind, or the consumer of all, have changed. Under the lock of the filters.
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
        // The host leads calls here before any of them counts, and away when none does: so a lock that is noted is also heard of
        // when it is given back.
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
