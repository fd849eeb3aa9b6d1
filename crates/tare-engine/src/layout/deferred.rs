//! HOT PATH: the words of deferred events. See [`crate::count::deferred`].

use std::sync::atomic::AtomicU64;

use crate::memory::arena::Offset;

/// A thread's buffer of deferred events, on cache lines of its own.
#[repr(align(64))]
pub(crate) struct DeferredWords(pub(crate) [AtomicU64; 64]);

/// The position of the cell's place in a word. The time is below it.
const CELL: u32 = 32;
/// The mark of a word whose cell is no [`StatCell`](crate::layout::cell::StatCell) and keeps its maximum
/// itself.
pub(crate) const KNOWS_LONGEST: u64 = 1 << 62;
/// The mark of a word for several events, all in the lowest bucket. Only the time they took together remains
/// to be noted.
pub(crate) const TOGETHER: u64 = 1 << 63;
/// All marks of a word.
pub(crate) const MARKS: u64 = KNOWS_LONGEST | TOGETHER;

/// Returns the place of the cell.
pub(crate) const fn cell_of(word: u64) -> Offset {
    ((word & !MARKS) >> CELL) as Offset
}

/// Returns the time in ticks.
pub(crate) const fn ticks_of(word: u64) -> u64 {
    word & 0xFFFF_FFFF
}

/// Returns the word of an event that took `ticks`, counted by the cell at this place.
#[inline(always)]
pub(crate) const fn word(cell: Offset, ticks: u64, marks: u64) -> u64 {
    (cell as u64) << CELL | ticks | marks
}
