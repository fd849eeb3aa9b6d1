//! HOT PATH: errors, warnings and notes by number, and how many of them a stored program's handler handled.
//!
//! They are rare, so nothing is prepared. A thread's first error of a number creates a cell in a separate
//! bank of the thread, in which cells are found by error instead of instrument. Epochs, sums and parties work
//! like those of other cells.

use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;

use crate::Engine;
use crate::clock::ticks;
use crate::layout::bank::{MAP_ENTRIES, MAPS};
use crate::layout::cell::{Cell, SummaryFamily};
use crate::layout::error::{ErrorCell, PlainError};
use crate::setup::filter::{ATTRIBUTED, UNATTRIBUTED};
use crate::snapshot::{ClassId, Kind, KnownError};
use crate::thread::{BANK_ERRORS, BANK_OWN, Thread, current};

/// The number of errors with cells of their own. Cell 0 is that of all others.
pub const MAX_ERRORS: usize = MAPS * MAP_ENTRIES - 1;

/// The errors that the host knows.
pub(crate) struct KnownErrors {
    known: OnceLock<&'static [KnownError]>,
}

impl KnownErrors {
    pub(crate) const fn new() -> KnownErrors {
        KnownErrors { known: OnceLock::new() }
    }

    /// Sets the host's errors. Returns false if there are none.
    pub(crate) fn know(&self, errors: &'static [KnownError]) -> bool {
        let _first_ones_stay = self.known.set(&errors[..errors.len().min(MAX_ERRORS)]);
        !errors.is_empty()
    }

    fn known(&self) -> &'static [KnownError] {
        self.known.get().copied().unwrap_or_default()
    }

    /// Returns the numbers of all cells.
    pub(crate) fn classes(&self) -> impl Iterator<Item = ClassId> + use<> {
        0..=self.known().len() as ClassId
    }

    /// Returns the number of an error's cell; 0, the cell of all others, if the host does not know the error.
    fn class(&self, number: u32) -> ClassId {
        match self.known().binary_search_by_key(&number, |error| error.number) {
            Ok(at) => at as ClassId + 1,
            Err(_) => 0,
        }
    }

    /// Returns the error of the cell with this number.
    pub(crate) fn of_class(&self, class: ClassId) -> Option<&'static KnownError> {
        self.known().get((class as usize).wrapping_sub(1))
    }
}

impl Engine {
    /// Counts a condition raised by the calling thread: an error, a warning or a note.
    pub fn error_raised(&self, number: u32) {
        self.count_error(number, PlainError { raised: 1, ..PlainError::default() });
    }

    /// Notes that the calling thread begins to look for a handler of the error it raised.
    pub fn handler_sought(&self) {
        if let Some(thread) = current() {
            thread.handled.store(0, Relaxed);
        }
    }

    /// Notes that the calling thread has found a handler for an error of this number.
    pub fn handler_found(&self, number: u32) {
        if let Some(thread) = current() {
            thread.handled.store(number, Relaxed);
        }
    }

    /// Counts the error whose handler was found as handled: the handler takes over.
    pub fn error_handled(&self) {
        let number = current().map_or(0, |thread| thread.handled.load(Relaxed));
        if number != 0 {
            self.count_error(number, PlainError { handled: 1, ..PlainError::default() });
        }
    }

    fn count_error(&self, number: u32, one: PlainError) {
        if !self.has_demand(Kind::Error) {
            return;
        }
        let Some(thread) = current() else { return };
        let (class, now) = (self.errors.class(number), ticks());
        let one = PlainError { first_inverted: !now, last: now, ..one };
        let mask = thread.mask();
        if mask & ATTRIBUTED != 0 {
            if let Some(cell) = self.error_cell(thread, class) {
                cell.merge_own(one);
            }
        } else if mask & UNATTRIBUTED != 0
            && let Some(cell) = self.sum_cell::<ErrorCell>(&self.ended_errors, class)
        {
            cell.merge_shared(one);
        }
    }

    /// Returns the thread's cell of an error, created if necessary. `None`: there is no memory left.
    fn error_cell(&self, thread: &'static Thread, class: ClassId) -> Option<&'static ErrorCell> {
        let family = SummaryFamily::Errors;
        match thread.errors.cell::<ErrorCell>(&self.arena, class) {
            Some(cell) if cell.head().epoch.load(Relaxed) == self.epochs[family as usize].load(Relaxed) => {
                Some(cell)
            }
            Some(cell) => self.renew(thread, BANK_OWN, class, family, cell),
            None => self.make_cell_of(thread, BANK_ERRORS, class, Kind::Error, family),
        }
    }
}
