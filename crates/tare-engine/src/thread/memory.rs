//! HOT PATH: the memory a session has, and the most it had: ever, and while a statement ran.
//!
//! As in MySQL, whoever frees has less, whoever allocated; nobody has less than nothing.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::memory::arena::Own;

/// Of one thread, in bytes. Only its thread writes.
#[repr(C)]
pub(crate) struct SessionMemory {
    used: AtomicU64,
    /// The most since the innermost statement began.
    peak: AtomicU64,
    /// The most before that.
    most: AtomicU64,
}

/// What a session had when a statement began that nests in another.
#[repr(C)]
pub(crate) struct MemoryBefore {
    used: AtomicU64,
    /// The most since the statement around it began.
    peak: AtomicU64,
}

impl SessionMemory {
    #[inline(always)]
    pub(crate) fn alloc(&self, bytes: u64) {
        let used = self.used.own().wrapping_add(bytes);
        self.used.store(used, Relaxed);
        if used > self.peak.own() {
            self.peak.store(used, Relaxed);
        }
    }

    #[inline(always)]
    pub(crate) fn free(&self, bytes: u64) {
        self.used.store(self.used.own().saturating_sub(bytes), Relaxed);
    }

    /// A statement begins that nests in none.
    #[inline(always)]
    pub(crate) fn begin(&self) {
        let peak = self.peak.own();
        if peak > self.most.own() {
            self.most.store(peak, Relaxed);
        }
        self.peak.store(self.used.own(), Relaxed);
    }

    /// It ends: the most there was meanwhile. What the session had before is its own, and no other statement's.
    #[inline(always)]
    pub(crate) fn end(&self) -> u64 {
        self.peak.own()
    }

    /// A statement begins that nests in another.
    pub(crate) fn begin_nested(&self, before: &MemoryBefore) {
        before.used.store(self.used.own(), Relaxed);
        before.peak.store(self.peak.own(), Relaxed);
        self.begin();
    }

    /// It ends: the most there was meanwhile, which the statement around it has had, too, less what there was before.
    pub(crate) fn end_nested(&self, before: &MemoryBefore) -> u64 {
        let peak = self.peak.own();
        self.peak.store(peak.max(before.peak.own()), Relaxed);
        peak.saturating_sub(before.used.own())
    }

    /// Bytes in use.
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Relaxed)
    }

    /// The most there ever was.
    pub(crate) fn most(&self) -> u64 {
        self.most.load(Relaxed).max(self.peak.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nothing() -> AtomicU64 {
        AtomicU64::new(0)
    }

    fn before() -> MemoryBefore {
        MemoryBefore { used: nothing(), peak: nothing() }
    }

    #[test]
    fn the_most_of_a_statement_is_that_of_its_parts_and_the_most_of_a_session_that_of_its_statements() {
        let memory = SessionMemory { used: nothing(), peak: nothing(), most: nothing() };
        memory.alloc(1000);
        memory.alloc(500);
        memory.free(500);
        let (inner, second) = (before(), before());
        memory.begin();
        memory.alloc(300);
        memory.begin_nested(&inner);
        memory.alloc(2000);
        memory.free(1900);
        assert_eq!(memory.end_nested(&inner), 3300 - 1300);
        memory.begin_nested(&second);
        assert_eq!(memory.end_nested(&second), 0);
        assert_eq!((memory.end(), memory.used()), (3300, 1400));
        memory.free(5000);
        assert_eq!((memory.used(), memory.most()), (0, 3300));
        memory.begin();
        assert_eq!((memory.end(), memory.most()), (0, 3300));
    }
}
