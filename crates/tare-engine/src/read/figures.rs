//! What the places of digests had counted when they were read last. Of thousands of digests most count nothing between two looks,
//! and each is some lines of memory far from all others. So one number for each place, and these lie side by side, says whether
//! anything has been moved there since; what is known is not read again.

use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use super::tallies::Sum;

/// Places whose figures are kept: 4 MB. In a larger table the others are read each time.
const MOST: usize = 1 << 14;

/// Figures that were read once.
pub(crate) struct Figures(Mutex<Vec<Figure>>);

/// What a place's tenant had counted, while it was the only one the place ever had.
#[derive(Clone, Copy, Default)]
struct Figure {
    /// The place's number of changes before that was read, plus one; 0: nothing is known.
    stamp: u64,
    sum: Sum,
}

/// The figures in the hand of one reader.
pub(super) struct Known<'a>(MutexGuard<'a, Vec<Figure>>);

impl Figures {
    pub(crate) const fn new() -> Figures {
        Figures(Mutex::new(Vec::new()))
    }

    /// `None`: another reader has them in hand, and is not waited for.
    pub(super) fn take(&self) -> Option<Known<'_>> {
        match self.0.try_lock() {
            Ok(figures) => Some(Known(figures)),
            Err(TryLockError::Poisoned(left)) => Some(Known(PoisonError::into_inner(left))),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

impl Known<'_> {
    /// What is known of the place of this number, if it has not changed.
    pub(super) fn of(&self, number: u32, stamp: u64) -> Option<&Sum> {
        let figure = self.0.get(number as usize)?;
        (figure.stamp == stamp + 1).then_some(&figure.sum)
    }

    /// Keeps what was read of a place that had changed so often before.
    pub(super) fn keep(&mut self, stamp: u64, sum: &Sum) {
        let place = sum.number as usize;
        if place >= MOST {
            return;
        }
        if place >= self.0.len() {
            self.0.resize(place + 1, Figure::default());
        }
        self.0[place] = Figure { stamp: stamp + 1, sum: *sum };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_of_this_place_and_has_not_changed() {
        let figures = Figures::new();
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
