//! HOT PATH: the state of a wait in progress: one word, which the host keeps.

use crate::layout::bank::{READY, SUMMED};
use crate::layout::ring::WAIT_DEPTH;
use crate::setup::instrument::{ENABLED, TIMED};
use crate::snapshot::ClassId;

/// How a wait began: the switches of its instrument, flags, its depth, its class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub(super) struct WaitState(u32);

/// The position of the marks that its cell must still have, if it began on the fast path.
const MARKS: u32 = 4;
/// The position of its depth.
const DEPTH: u32 = 8;
/// The position of its class.
const CLASS: u32 = 16;

// The flags lie between the switches and the class, and beside the depth.
const _: () = assert!((ENABLED | TIMED) as u32 >> MARKS == 0 && (READY | SUMMED) << MARKS < 1 << 6);
const _: () = assert!(WAIT_DEPTH.is_power_of_two() && (WAIT_DEPTH - 1) << DEPTH < 1 << 12);

impl WaitState {
    /// No flag.
    pub(super) const NONE: WaitState = WaitState(0);
    /// It is noted in the slab, at the place of its depth; its cell was [`READY`].
    pub(super) const RECORDED: WaitState = WaitState(READY << MARKS);
    /// It began on the fast path and is summed up; its cell was [`SUMMED`].
    pub(super) const SUMMED: WaitState = WaitState(SUMMED << MARKS);
    /// It began on the fast path: timed, attributed, ticks are cycles. It is recorded, or only summed up.
    pub(super) const SHORT: WaitState = WaitState(1 << 6);
    /// It is a leaf: no event can begin before it ends. Its record is already in the journal, as the last
    /// one.
    pub(super) const LEAF: WaitState = WaitState(1 << 7);
    /// It is a leaf that is only summed up: it has a start and the place of its cell, but no record.
    pub(super) const SUMMED_LEAF: WaitState = WaitState(1 << 12);
    /// It is only counted, on the fast path.
    pub(super) const COUNTED: WaitState = WaitState(1 << 13);
    /// It counts globally only.
    pub(super) const UNATTRIBUTED: WaitState = WaitState(1 << 14);
    /// It is only counted, in a cell in which others are timed, because its statement was not chosen.
    pub(super) const TALLIED: WaitState = WaitState(1 << 15);

    /// What says how it began and at which depth.
    const WAY: WaitState = WaitState::SHORT.with(WaitState::LEAF).at_depth(WAIT_DEPTH - 1);

    /// Creates the state of a wait of this class, whose instrument has these switches.
    #[inline(always)]
    pub(super) const fn new(class: ClassId, switches: u8) -> WaitState {
        WaitState((class as u32) << CLASS | (switches & (ENABLED | TIMED)) as u32)
    }

    /// Creates the state of a wait on the fast path, which is timed.
    #[inline(always)]
    pub(super) const fn timed(class: ClassId) -> WaitState {
        WaitState::new(class, ENABLED | TIMED)
    }

    /// Restores the state from the bits that the host has kept.
    #[inline(always)]
    pub(super) const fn from_bits(bits: u32) -> WaitState {
        WaitState(bits)
    }

    /// Returns the bits for the host to keep.
    #[inline(always)]
    pub(super) const fn bits(self) -> u32 {
        self.0
    }

    /// Returns the state with these flags, too.
    #[inline(always)]
    pub(super) const fn with(self, flags: WaitState) -> WaitState {
        WaitState(self.0 | flags.0)
    }

    /// Returns the state at this depth.
    #[inline(always)]
    pub(super) const fn at_depth(self, depth: usize) -> WaitState {
        WaitState(self.0 | (depth as u32) << DEPTH)
    }

    /// Returns whether any of these flags is set.
    #[inline(always)]
    pub(super) const fn has(self, flags: WaitState) -> bool {
        self.0 & flags.0 != 0
    }

    #[inline(always)]
    pub(super) const fn class(self) -> ClassId {
        (self.0 >> CLASS) as ClassId
    }

    #[inline(always)]
    pub(super) const fn is_timed(self) -> bool {
        self.0 & TIMED as u32 != 0
    }

    /// Returns the marks that its cell must still have, if it began on the fast path.
    #[inline(always)]
    pub(super) const fn marks(self) -> u32 {
        self.0 >> MARKS & (READY | SUMMED)
    }

    #[inline(always)]
    pub(super) const fn depth(self) -> usize {
        (self.0 >> DEPTH) as usize & (WAIT_DEPTH - 1)
    }

    /// Returns whether it began on the fast path and is no leaf.
    #[inline(always)]
    pub(super) const fn is_short(self) -> bool {
        self.0 & (WaitState::SHORT.0 | WaitState::LEAF.0) == WaitState::SHORT.0
    }

    /// Returns whether it began on the fast path, nests in no other wait and is recorded.
    #[inline(always)]
    pub(super) const fn is_outermost_recorded(self) -> bool {
        self.0 & (WaitState::WAY.0 | WaitState::RECORDED.0) == WaitState::SHORT.0 | WaitState::RECORDED.0
    }

    /// Returns whether it began on the fast path, nests in no other wait and is not recorded.
    #[inline(always)]
    pub(super) const fn is_outermost_summed(self) -> bool {
        self.0 & (WaitState::WAY.0 | WaitState::RECORDED.0) == WaitState::SHORT.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_parts_of_a_state_share_a_bit() {
        let flags = [
            WaitState::RECORDED,
            WaitState::SUMMED,
            WaitState::SHORT,
            WaitState::LEAF,
            WaitState::SUMMED_LEAF,
            WaitState::COUNTED,
            WaitState::UNATTRIBUTED,
            WaitState::TALLIED,
            WaitState::NONE.at_depth(WAIT_DEPTH - 1),
            WaitState::timed(ClassId::MAX),
        ];
        for (at, one) in flags.iter().enumerate() {
            assert!(flags[at + 1..].iter().all(|other| !one.has(*other)), "{one:?}");
        }
    }

    #[test]
    fn a_state_survives_as_bits() {
        let state = WaitState::timed(2047).with(WaitState::SHORT).with(WaitState::RECORDED).at_depth(5);
        let kept = WaitState::from_bits(state.bits());
        assert_eq!((kept.class(), kept.depth(), kept.marks()), (2047, 5, READY));
        assert!(kept.is_timed() && kept.is_short() && !kept.is_outermost_recorded());
    }
}
