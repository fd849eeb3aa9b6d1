//! HOT PATH: the flags of a transaction in progress: one word, which the host keeps.

use crate::setup::instrument::{ENABLED, TIMED};

/// The switches of the instrument of transactions, and flags.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub(super) struct TransactionFlags(pub(super) u32);

impl TransactionFlags {
    /// It is its thread's, and is timed in cycles if it is timed.
    pub(super) const IN_CYCLES: TransactionFlags = TransactionFlags(1 << 2);
    /// It is noted in the slab.
    pub(super) const RECORDED: TransactionFlags = TransactionFlags(1 << 4);
    /// It counts globally only.
    pub(super) const UNATTRIBUTED: TransactionFlags = TransactionFlags(1 << 5);
    /// Its ACCESS_MODE is READ ONLY.
    pub(super) const READ_ONLY: TransactionFlags = TransactionFlags(1 << 6);

    /// Creates the flags of a transaction whose instrument has these switches.
    #[inline(always)]
    pub(super) const fn new(switches: u8, read_only: bool) -> TransactionFlags {
        let access = if read_only { TransactionFlags::READ_ONLY.0 } else { 0 };
        TransactionFlags((switches & (ENABLED | TIMED)) as u32 | access)
    }

    /// Returns the flags with these, too.
    #[inline(always)]
    pub(super) const fn with(self, flags: TransactionFlags) -> TransactionFlags {
        TransactionFlags(self.0 | flags.0)
    }

    /// Returns whether any of these flags is set.
    #[inline(always)]
    pub(super) const fn has(self, flags: TransactionFlags) -> bool {
        self.0 & flags.0 != 0
    }

    #[inline(always)]
    pub(super) const fn is_timed(self) -> bool {
        self.0 & TIMED as u32 != 0
    }

    /// Returns whether it is its thread's, recorded, and timed in cycles.
    #[inline(always)]
    pub(super) const fn is_usual(self) -> bool {
        const USUAL: u32 = TransactionFlags::IN_CYCLES.with(TransactionFlags::RECORDED).0;
        self.0 & !TransactionFlags::READ_ONLY.0 == USUAL | (ENABLED | TIMED) as u32
    }

    /// Returns whether it is its thread's and not recorded.
    #[inline(always)]
    pub(super) const fn is_unrecorded_in_cycles(self) -> bool {
        let (in_cycles, recorded) = (TransactionFlags::IN_CYCLES.0, TransactionFlags::RECORDED.0);
        self.0 & (in_cycles | recorded) == in_cycles
    }
}
