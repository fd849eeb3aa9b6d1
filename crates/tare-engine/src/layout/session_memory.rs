//! HOT PATH: the memory in use by a session, and its peaks: ever, and during a statement.
//!
//! Like in MySQL, a free reduces the balance of the session that frees, whoever allocated. A balance is never
//! below zero.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::memory::arena::Own;

/// Memory of one thread, in bytes. Only its own thread writes.
#[repr(C)]
pub(crate) struct SessionMemory {
    used: AtomicU64,
    /// Peak since the innermost statement began.
    peak: AtomicU64,
    /// Peak before that.
    most: AtomicU64,
}

/// Memory of a session when a nested statement began, in bytes.
#[repr(C)]
pub(crate) struct MemoryBefore {
    used: AtomicU64,
    /// Peak since the enclosing statement began.
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

    /// Begins a statement that is not nested.
    #[inline(always)]
    pub(crate) fn begin(&self) {
        let peak = self.peak.own();
        if peak > self.most.own() {
            self.most.store(peak, Relaxed);
        }
        self.peak.store(self.used.own(), Relaxed);
    }

    /// Ends a statement that is not nested. Returns the peak during it, including what the session already
    /// had.
    #[inline(always)]
    pub(crate) fn end(&self) -> u64 {
        self.peak.own()
    }

    /// Sets the peak of the innermost statement. Used instead of [`SessionMemory::alloc`] and
    /// [`SessionMemory::free`]: nothing is in use then.
    #[inline(always)]
    pub(crate) fn set_peak(&self, bytes: u64) {
        self.peak.store(bytes, Relaxed);
    }

    /// Begins a nested statement.
    pub(crate) fn begin_nested(&self, before: &MemoryBefore) {
        before.used.store(self.used.own(), Relaxed);
        before.peak.store(self.peak.own(), Relaxed);
        self.begin();
    }

    /// Ends a nested statement. Returns the peak during it, less what the session had before. The peak also
    /// counts for the enclosing statement.
    pub(crate) fn end_nested(&self, before: &MemoryBefore) -> u64 {
        let peak = self.peak.own();
        self.peak.store(peak.max(before.peak.own()), Relaxed);
        peak.saturating_sub(before.used.own())
    }

    /// Returns bytes in use.
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Relaxed)
    }

    /// Returns the highest number of bytes in use so far.
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
    fn a_peak_that_is_told_is_that_of_the_innermost_statement() {
        let memory = SessionMemory { used: nothing(), peak: nothing(), most: nothing() };
        let inner = before();
        memory.begin();
        memory.begin_nested(&inner);
        memory.set_peak(70);
        assert_eq!(memory.end_nested(&inner), 70);
        memory.set_peak(50);
        assert_eq!(memory.end(), 50);
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
