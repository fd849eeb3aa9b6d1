//! HOT PATH: from the built-in's objects to the engine's, by address.
//!
//! The built-in never unmaps an object's place, and uses it again for another object of the same kind. So an
//! address that is known once stays in its map, and only what it leads to changes.

use std::sync::atomic::{
    AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Mutex, PoisonError};

/// How many places are looked at before an address counts as unknown, or a map as full.
const MOST_STEPS: usize = 64;

/// An address, and the engine's object for it; 0: none.
struct Pair(AtomicUsize, AtomicUsize);

/// A map with room for `N` objects of one kind. Reading takes no lock.
pub(crate) struct Carriers<const N: usize> {
    pairs: [Pair; N],
    change: Mutex<()>,
}

/// The built-in's files.
pub(crate) static FILES: Carriers<{ 1 << 17 }> = Carriers::new();
/// Its sockets.
pub(crate) static SOCKETS: Carriers<{ 1 << 16 }> = Carriers::new();
/// Its open tables.
pub(crate) static TABLES: Carriers<{ 1 << 16 }> = Carriers::new();
/// Its definitions of tables.
pub(crate) static TABLE_SHARES: Carriers<{ 1 << 16 }> = Carriers::new();

/// Its stored programs.
pub(crate) static PROGRAMS: Carriers<{ 1 << 16 }> = Carriers::new();

impl<const N: usize> Carriers<N> {
    const fn new() -> Carriers<N> {
        const { assert!(N.is_power_of_two() && N > MOST_STEPS) };
        Carriers {
            pairs: [const { Pair(AtomicUsize::new(0), AtomicUsize::new(0)) }; N],
            change: Mutex::new(()),
        }
    }

    /// Returns the places at which an address may be, the likeliest first.
    #[inline(always)]
    fn places(&self, address: usize) -> impl Iterator<Item = &Pair> {
        let first = (address >> 4).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - N.trailing_zeros());
        (0..MOST_STEPS).map(move |step| &self.pairs[(first + step) % N])
    }

    #[inline(always)]
    fn pair(&self, address: usize) -> Option<&Pair> {
        for pair in self.places(address) {
            match pair.0.load(Acquire) {
                0 => return None,
                known if known == address => return Some(pair),
                _ => {}
            }
        }
        None
    }

    /// Returns the engine's object for an address; 0: none.
    #[inline(always)]
    pub(crate) fn get(&self, address: usize) -> usize {
        self.pair(address).map_or(0, |pair| pair.1.load(Acquire))
    }

    /// Sets the engine's object for an address, unless `make` returns 0 or the map is full. Objects are made
    /// one after the other: `make` is called only if there is none, unless `anew`.
    pub(crate) fn set(&self, address: usize, anew: bool, make: impl FnOnce() -> usize) -> usize {
        let _turn = self.change.lock().unwrap_or_else(PoisonError::into_inner);
        let free = |pair: &&Pair| matches!(pair.0.load(Relaxed), 0) || pair.0.load(Relaxed) == address;
        let Some(pair) = self.places(address).find(free) else { return 0 };
        let known = pair.1.load(Relaxed);
        if known != 0 && pair.0.load(Relaxed) == address && !anew {
            return known;
        }
        let made = make();
        pair.1.store(made, Release);
        pair.0.store(address, Release);
        made
    }

    /// Forgets the engine's object for an address, and returns it; 0: none.
    pub(crate) fn take(&self, address: usize) -> usize {
        if self.get(address) == 0 {
            return 0;
        }
        let _turn = self.change.lock().unwrap_or_else(PoisonError::into_inner);
        self.pair(address).map_or(0, |pair| pair.1.swap(0, Release))
    }

    /// Calls `f` with each address and the engine's object for it.
    pub(crate) fn each(&self, mut f: impl FnMut(usize, usize)) {
        for Pair(address, object) in &self.pairs {
            let (address, object) = (address.load(Acquire), object.load(Acquire));
            if object != 0 {
                f(address, object);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_leads_to_what_was_set_last() {
        static MAP: Carriers<128> = Carriers::new();
        assert_eq!((MAP.get(0x1000), MAP.take(0x1000)), (0, 0));
        assert_eq!(MAP.set(0x1000, false, || 7), 7);
        assert_eq!(MAP.set(0x1000, false, || unreachable!("it is known")), 7);
        assert_eq!(MAP.set(0x1000, true, || 8), 8);
        assert_eq!(MAP.set(0x2000, false, || 9), 9);
        let mut all = Vec::new();
        MAP.each(|address, object| all.push((address, object)));
        all.sort_unstable();
        assert_eq!(all, [(0x1000, 8), (0x2000, 9)]);
        assert_eq!((MAP.take(0x1000), MAP.get(0x1000), MAP.get(0x2000)), (8, 0, 9));
        assert_eq!(MAP.set(0x1000, false, || 0), 0, "nothing was made");
    }

    #[test]
    fn a_full_map_leaves_objects_out() {
        static MAP: Carriers<128> = Carriers::new();
        let set = (1..=1000usize).filter(|at| MAP.set(at * 64, false, || *at) != 0).count();
        assert!((64..=128).contains(&set), "{set}");
        assert!((1..=1000).all(|at| [0, at].contains(&MAP.get(at * 64))));
    }
}
