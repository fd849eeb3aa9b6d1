//! Cache of the counts of digests. Of thousands of digests most count nothing between two reads, and each
//! takes some lines of memory far from all others. A change counter per place, all side by side, says whether
//! anything was moved there since. Counts that are known and unchanged are not read again.

use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use super::tallies::Sum;

/// Maximum number of places in the cache: 4 MB. In a larger table the others are read each time.
const MOST: usize = 1 << 14;

/// Cached counts by number of the place.
pub(crate) struct SumCache(Mutex<Vec<CachedSum>>);

/// Counts of a place's owner, while it was the only one the place ever had.
#[derive(Clone, Copy, Default)]
struct CachedSum {
    /// The place's change counter before the read, plus one; 0: nothing is cached.
    stamp: u64,
    sum: Sum,
}

/// The cache while one reader uses it.
pub(super) struct CachedSums<'a>(MutexGuard<'a, Vec<CachedSum>>);

impl SumCache {
    pub(crate) const fn new() -> SumCache {
        SumCache(Mutex::new(Vec::new()))
    }

    /// Takes the cache. `None`: another reader has it, which is not waited for.
    pub(super) fn take(&self) -> Option<CachedSums<'_>> {
        match self.0.try_lock() {
            Ok(figures) => Some(CachedSums(figures)),
            Err(TryLockError::Poisoned(left)) => Some(CachedSums(PoisonError::into_inner(left))),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

impl CachedSums<'_> {
    /// Returns the cached counts of a place if its change counter still equals `stamp`.
    pub(super) fn of(&self, number: u32, stamp: u64) -> Option<&Sum> {
        let figure = self.0.get(number as usize)?;
        (figure.stamp == stamp + 1).then_some(&figure.sum)
    }

    /// Caches a place's counts; valid while its change counter equals `stamp`.
    pub(super) fn keep(&mut self, stamp: u64, sum: &Sum) {
        let place = sum.number as usize;
        if place >= MOST {
            return;
        }
        if place >= self.0.len() {
            self.0.resize(place + 1, CachedSum::default());
        }
        self.0[place] = CachedSum { stamp: stamp + 1, sum: *sum };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_of_this_place_and_has_not_changed() {
        let figures = SumCache::new();
        let mut known = figures.take().expect("nobody else has them");
        assert!(figures.take().is_none(), "two have them in hand");
        for number in [0, 7, MOST as u32] {
            assert!(known.of(number, 0).is_none(), "{number} was never read");
            known.keep(3, &Sum { number, generation: number + 1, ..Sum::default() });
            let kept = known.of(number, 3).map(|sum| sum.generation);
            assert_eq!(kept, (number < MOST as u32).then_some(number + 1));
            assert!(known.of(number, 4).is_none() && known.of(number, 2).is_none(), "{number} has changed");
        }
        assert!(known.of(3, 0).is_none(), "a place between that was never read");
        assert_eq!(known.0.len(), 8, "no more than were read");
    }
}
