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

/// What a session had when a statement began.
#[repr(C)]
pub(crate) struct MemoryBefore {
    used: AtomicU64,
    /// The most since the statement around it began.
    peak: AtomicU64,
}

impl MemoryBefore {
    /// Bytes in use.
    #[inline(always)]
    pub(crate) fn used(&self) -> u64 {
        self.used.own()
    }
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

    /// A statement begins.
    #[inline(always)]
    pub(crate) fn begin(&self, before: &MemoryBefore) {
        let (used, peak) = (self.used.own(), self.peak.own());
        before.used.store(used, Relaxed);
        before.peak.store(peak, Relaxed);
        if peak > self.most.own() {
            self.most.store(peak, Relaxed);
        }
        self.peak.store(used, Relaxed);
    }

    /// It ends: the most there was meanwhile, which the statement around it has had, too.
    #[inline(always)]
    pub(crate) fn end(&self, before: &MemoryBefore) -> u64 {
        let peak = self.peak.own();
        self.peak.store(peak.max(before.peak.own()), Relaxed);
        peak
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
        let (outer, inner, second) = (before(), before(), before());
        memory.begin(&outer);
        memory.alloc(300);
        memory.begin(&inner);
        memory.alloc(2000);
        memory.free(1900);
        assert_eq!((memory.end(&inner), inner.used()), (3300, 1300));
        memory.begin(&second);
        assert_eq!((memory.end(&second), second.used()), (1400, 1400));
        assert_eq!((memory.end(&outer), memory.used()), (3300, 1400));
        memory.free(5000);
        assert_eq!((memory.used(), memory.most()), (0, 3300));
        memory.begin(&outer);
        assert_eq!((memory.end(&outer), memory.most()), (0, 3300));
    }
}
