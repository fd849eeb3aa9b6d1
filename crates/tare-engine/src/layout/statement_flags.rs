//! HOT PATH: the flags of a statement in progress: how it began, what is to be done at its end, its level.

use crate::setup::filter::{
    CPU_TIME, CURRENT, CYCLES, DIGEST, HISTOGRAM, SESSION_MEMORY, UNATTRIBUTED, shift,
};
use crate::setup::instrument;
use crate::snapshot::EventType;

/// The flags of a statement in progress, and its level.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub(crate) struct StatementFlags(u32);

/// The bits of a thread's mask that are in a statement's flags, shifted by [`MASK_SHIFT`].
const MASK_BITS: u32 = UNATTRIBUTED | DIGEST | CYCLES | SESSION_MEMORY | CPU_TIME | HISTOGRAM;
const MASK_SHIFT: u32 = 2;
/// The position of the level.
const LEVEL: u32 = 9;

/// Returns the bits of a mask for a statement on the fast path. It is its thread's, has a digest, and only
/// its time is measured, in cycles, and in the shape `extended` its memory.
const fn usual_bits(extended: bool) -> u32 {
    DIGEST | CYCLES | if extended { SESSION_MEMORY | HISTOGRAM } else { 0 }
}

impl StatementFlags {
    /// No flag.
    pub(crate) const NONE: StatementFlags = StatementFlags(0);
    /// It is not recorded at its end, unless it fails or becomes slow. See [`crate::thread::choice`].
    pub(crate) const UNCHOSEN: StatementFlags = StatementFlags(1);
    /// It is timed.
    pub(crate) const TIMED: StatementFlags = StatementFlags(instrument::TIMED as u32);
    /// It is an event.
    pub(crate) const RECORDED: StatementFlags = StatementFlags(1 << 2);
    /// It counts globally only.
    pub(crate) const UNATTRIBUTED: StatementFlags = StatementFlags(UNATTRIBUTED << MASK_SHIFT);
    /// It counts for a digest.
    pub(crate) const WITH_DIGEST: StatementFlags = StatementFlags(DIGEST << MASK_SHIFT);
    /// Its memory is measured.
    pub(crate) const WITH_MEMORY: StatementFlags = StatementFlags(SESSION_MEMORY << MASK_SHIFT);
    /// Its CPU time is measured.
    pub(crate) const WITH_CPU: StatementFlags = StatementFlags(CPU_TIME << MASK_SHIFT);
    /// It counts in histograms.
    pub(crate) const WITH_HISTOGRAM: StatementFlags = StatementFlags(HISTOGRAM << MASK_SHIFT);
    /// All flags that come from the thread's mask.
    pub(crate) const OF_MASK: StatementFlags = StatementFlags(MASK_BITS << MASK_SHIFT);

    /// Creates the flags of a statement whose thread has this mask.
    #[inline(always)]
    pub(crate) const fn of_mask(mask: u32) -> StatementFlags {
        StatementFlags((mask & MASK_BITS) << MASK_SHIFT)
    }

    /// Creates the flags that a thread's mask gives a statement on the fast path.
    #[inline(always)]
    pub(crate) const fn usual(extended: bool) -> StatementFlags {
        StatementFlags(usual_bits(extended) << MASK_SHIFT)
    }

    /// Returns whether statements of a thread with this mask take the fast path.
    #[inline(always)]
    pub(crate) const fn is_usual_mask(mask: u32, extended: bool) -> bool {
        const RECORDED: u32 = CURRENT << shift(EventType::Statement);
        mask & (RECORDED | MASK_BITS) == RECORDED | usual_bits(extended)
    }

    /// Creates the flag of a statement whose instrument has these switches.
    #[inline(always)]
    pub(crate) const fn of_switches(switches: u8) -> StatementFlags {
        StatementFlags((switches & instrument::TIMED) as u32)
    }

    /// Restores flags from a word.
    #[inline(always)]
    pub(crate) const fn from_bits(bits: u32) -> StatementFlags {
        StatementFlags(bits)
    }

    #[inline(always)]
    pub(crate) const fn bits(self) -> u32 {
        self.0
    }

    /// Returns the flags with these, too.
    #[inline(always)]
    pub(crate) const fn with(self, flags: StatementFlags) -> StatementFlags {
        StatementFlags(self.0 | flags.0)
    }

    /// Returns the flags without these.
    #[inline(always)]
    pub(crate) const fn without(self, flags: StatementFlags) -> StatementFlags {
        StatementFlags(self.0 & !flags.0)
    }

    /// Returns these flags as far as they are among `flags`.
    #[inline(always)]
    pub(crate) const fn among(self, flags: StatementFlags) -> StatementFlags {
        StatementFlags(self.0 & flags.0)
    }

    /// Returns whether any of these flags is set.
    #[inline(always)]
    pub(crate) const fn has(self, flags: StatementFlags) -> bool {
        self.0 & flags.0 != 0
    }

    /// Returns the flags at this level of the stack.
    #[inline(always)]
    pub(crate) const fn at_level(self, level: u32) -> StatementFlags {
        StatementFlags(self.0 | level << LEVEL)
    }

    /// Returns the level of the stack; 0: it nests in no other statement.
    #[inline(always)]
    pub(crate) const fn level(self) -> u32 {
        self.0 >> LEVEL
    }

    /// Returns whether it is timed in cycles, and its CPU time is not measured.
    #[inline(always)]
    pub(crate) const fn needs_only_cycles(self) -> bool {
        const IN_CYCLES: u32 = StatementFlags::TIMED.0 | CYCLES << MASK_SHIFT;
        self.0 & (IN_CYCLES | StatementFlags::WITH_CPU.0) == IN_CYCLES
    }
}

const _: () = assert!(MASK_BITS << MASK_SHIFT < 1 << LEVEL);
// No two flags share a bit.
const _: () = assert!(
    StatementFlags::OF_MASK.0
        & (StatementFlags::UNCHOSEN.0 | StatementFlags::TIMED.0 | StatementFlags::RECORDED.0)
        == 0
);
