//! HOT PATH: the demand for events of each kind. One byte per kind, on one line that all threads read and
//! hardly anybody writes. Whoever begins an event checks it first, so a disabled kind costs no more than
//! that.
//!
//! While a kind is off, nobody reports that a lock is released. So what threads note of the locks they hold
//! carries the *activation* at which they noted it: a number that rises whenever a kind is switched on. A
//! note from before its kind was last switched on is void.

use std::hint::cold_path;
use std::slice::from_ref;
use std::sync::atomic::{
    AtomicU8, AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

use crate::Engine;
use crate::setup::filter;
use crate::setup::instrument::KINDS;
use crate::snapshot::{Consumer, Kind};

/// The demand for events of a kind: which of them are recorded or counted.
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

/// Number of bits of a activation that are kept with the owner of a lock.
const ACTIVATION_BITS: u32 = 24;

/// Returns a thread as the owner of locks: its THREAD_ID, and the activation it has adopted.
pub(crate) fn holder(thread_id: u64, activation: u32) -> u64 {
    thread_id << ACTIVATION_BITS | u64::from(activation) & ((1 << ACTIVATION_BITS) - 1)
}

/// The demand for events, by kind.
#[repr(C, align(64))]
pub(crate) struct Demands {
    /// [`Demand`] of each kind.
    kinds: [AtomicU8; KINDS.len()],
    activation: AtomicU32,
    /// Activation at which each kind was last switched on.
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

impl Demands {
    pub(crate) const fn new() -> Demands {
        Demands {
            kinds: [const { AtomicU8::new(0) }; KINDS.len()],
            activation: AtomicU32::new(0),
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
        // Store this first: whoever knows the new activation then hears of released locks.
        self.kinds[place(kind)].store(demand as u8, Release);
        if before == Demand::Nothing {
            let activation = self.activation.load(Relaxed).wrapping_add(1);
            self.since[place(kind)].store(activation, Release);
            self.activation.store(activation, Release);
        }
        true
    }

    /// Returns the activation for what a thread notes from now on.
    pub(crate) fn activation(&self) -> u32 {
        self.activation.load(Acquire)
    }

    /// Returns whether `kind` has been on without a break since `activation`, of which [`ACTIVATION_BITS`]
    /// bits are compared. Activations may have wrapped, so the sign of their difference decides.
    pub(crate) fn was_on_since(&self, kind: Kind, activation: u32) -> bool {
        let since = self.since[place(kind)].load(Acquire);
        self.is(kind) && activation.wrapping_sub(since) << (32 - ACTIVATION_BITS) >> 31 == 0
    }

    /// Returns THREAD_ID of the owner of a lock, for readers. `None`: it has no owner, or the owner is no
    /// longer known.
    pub(crate) fn owner(&self, kind: Kind, holder: u64) -> Option<u64> {
        self.was_on_since(kind, holder as u32).then_some(holder >> ACTIVATION_BITS).filter(|id| *id != 0)
    }
}

impl Engine {
    /// Returns whether there is demand for events of a kind: one of its instruments is on, and so is
    /// `global_instrumentation`. If not, no event of it need begin. Events in progress end as usual.
    #[inline(always)]
    pub fn has_demand(&self, kind: Kind) -> bool {
        self.demands.is(kind)
    }

    /// Returns whether there is no demand for an event of a kind. Calls `is_off` only where some instruments
    /// of the kind are off or sampled.
    #[inline(always)]
    pub fn lacks_demand(&self, kind: Kind, is_off: impl FnOnce() -> bool) -> bool {
        let is_every = self.demands.kinds[place(kind)].load(Relaxed) >= Demand::Sums as u8;
        if is_every {
            return false;
        }
        if !self.has_demand(kind) {
            return true;
        }
        cold_path();
        is_off()
    }

    /// Returns whether all instruments of a kind are on and sampled.
    #[inline(always)]
    pub fn is_all_sampled(&self, kind: Kind) -> bool {
        self.demands.kinds[place(kind)].load(Relaxed) == Demand::Sampled as u8
    }

    /// Returns whether instruments of a kind may be sampled: all of them are, or some are off or sampled.
    #[inline(always)]
    pub fn may_be_sampled(&self, kind: Kind) -> bool {
        const { assert!(Demand::Some as u8 & Demand::Sampled as u8 & 1 == 1) };
        const { assert!((Demand::Nothing as u8 | Demand::Sums as u8 | Demand::All as u8) & 1 == 0) };
        self.demands.kinds[place(kind)].load(Relaxed) & 1 != 0
    }

    /// Returns the demand for events of a kind.
    pub fn demand(&self, kind: Kind) -> Demand {
        self.demands.demand(kind)
    }

    /// Recomputes the demand for a kind after its instruments or consumers have changed. The caller holds the
    /// lock `filters`.
    pub(crate) fn decide_demand(&self, kind: Kind) {
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
        let route = || self.host.get().into_iter().for_each(|host| host.demand_changed(kinds[0], demand));
        if before == Demand::Nothing {
            if kind == Kind::Stage {
                self.resume_reporting_stages();
            }
            route();
        }
        self.demands.set(kind, demand);
        if before != Demand::Nothing {
            route();
        }
        self.change_settings();
        if kind == Kind::Stage {
            self.stop_reporting_stages();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_from_before_an_activation_are_void() {
        let demands = Demands::new();
        assert!(demands.set(Kind::Mutex, Demand::All) && demands.set(Kind::Rwlock, Demand::All));
        let noted = demands.activation();
        assert!(demands.was_on_since(Kind::Mutex, noted) && demands.was_on_since(Kind::Sxlock, noted));
        assert!(!demands.set(Kind::Mutex, Demand::All), "it was on");
        for demand in [Demand::Some, Demand::All] {
            assert!(demands.set(Kind::Mutex, demand) && demands.demand(Kind::Mutex) == demand);
            assert!(demands.was_on_since(Kind::Mutex, noted), "it was on all the time");
        }
        assert!(demands.set(Kind::Mutex, Demand::Nothing));
        assert!(!demands.was_on_since(Kind::Mutex, demands.activation()), "nobody hears anything");
        assert!(demands.set(Kind::Mutex, Demand::All));
        assert!(!demands.was_on_since(Kind::Mutex, noted));
        assert!(demands.was_on_since(Kind::Mutex, demands.activation()));
        assert!(demands.was_on_since(Kind::Rwlock, noted), "another kind");
    }

    #[test]
    fn activations_may_wrap() {
        let demands = Demands::new();
        demands.activation.store((1 << ACTIVATION_BITS) - 2, Relaxed);
        assert!(demands.set(Kind::Mutex, Demand::All));
        let low = |activation: u32| activation & ((1 << ACTIVATION_BITS) - 1);
        let before = low(demands.activation());
        assert!(
            demands.set(Kind::Rwlock, Demand::All)
                && demands.was_on_since(Kind::Mutex, low(demands.activation()))
        );
        assert!(demands.set(Kind::Mutex, Demand::Nothing) && demands.set(Kind::Mutex, Demand::All));
        assert!(demands.was_on_since(Kind::Mutex, low(demands.activation())));
        assert!(!demands.was_on_since(Kind::Mutex, before));
    }
}
