//! What the places of digests had counted when they were read last. Of thousands of digests most count nothing between two looks,
//! and each is some lines of memory far from all others. So one number for each place, and these lie side by side, says whether
//! anything has been moved there since; what is known is not read again.

use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use super::tallies::Sum;

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

    /// For so many places. `None`: another reader has them in hand, and is not waited for.
    pub(super) fn take(&self, places: usize) -> Option<Known<'_>> {
        let mut figures = match self.0.try_lock() {
            Ok(figures) => figures,
            Err(TryLockError::Poisoned(left)) => PoisonError::into_inner(left),
            Err(TryLockError::WouldBlock) => return None,
        };
        figures.resize(places, Figure::default());
        Some(Known(figures))
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
        if let Some(figure) = self.0.get_mut(sum.number as usize) {
            *figure = Figure { stamp: stamp + 1, sum: *sum };
        }
    }
}
