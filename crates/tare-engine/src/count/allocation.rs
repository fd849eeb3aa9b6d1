//! HOT PATH: memory. A free is counted by the thread that frees, as in the built-in, so a thread's balance
//! can be negative.
//!
//! `SESSIONS`: whether the memory of each session is counted, too. Only the extended shape needs it.

use crate::Engine;
use crate::layout::balance::MemoryCell;
use crate::layout::cell::SummaryFamily;
use crate::setup::filter::{ATTRIBUTED, UNATTRIBUTED};
use crate::setup::instrument::{ENABLED, MEMORY, SERVER_WIDE};
use crate::snapshot::{ClassId, Consumer, Kind};
use crate::thread::{BANK_OWN, Thread, ThreadRef, current};

impl Engine {
    /// Counts an allocation. Returns the thread that owns the memory, if any. `None`: it is not instrumented,
    /// and its free must not be counted either.
    pub fn memory_alloc<const SESSIONS: bool>(
        &self,
        class: ClassId,
        bytes: u64,
    ) -> Option<Option<ThreadRef>> {
        if let Some(owner) = self.memory_alloc_fast::<SESSIONS>(class, bytes) {
            return Some(Some(owner));
        }
        let switches = self.registry.switches(class);
        if switches & (ENABLED | MEMORY) != ENABLED | MEMORY {
            return None;
        }
        if switches & SERVER_WIDE == 0
            && let Some(thread) = current()
        {
            let mask = thread.mask();
            if mask & ATTRIBUTED != 0 {
                if let Some(cell) = self.cell::<MemoryCell>(thread, BANK_OWN, class, SummaryFamily::Memory) {
                    cell.alloc(bytes);
                }
                if SESSIONS {
                    thread.memory.alloc(bytes);
                }
                return Some(Some(thread.handle()));
            }
            if mask & UNATTRIBUTED == 0 {
                return None;
            }
        } else if !self.counts_without_thread(switches) {
            return None;
        }
        self.ended.bank.cell::<MemoryCell>(&self.arena, class)?.alloc_shared(bytes);
        Some(None)
    }

    /// Returns whether memory without an owning thread is counted: the server's own, or all of it while
    /// threads are not instrumented.
    fn counts_without_thread(&self, switches: u8) -> bool {
        self.consumer(Consumer::GlobalInstrumentation)
            && (switches & SERVER_WIDE != 0 || !self.consumer(Consumer::ThreadInstrumentation))
    }

    /// Counts an allocation on the fast path, for a thread that owns the memory. `None`: nothing was counted,
    /// and the caller must call [`Engine::memory_alloc`].
    #[inline(always)]
    pub fn memory_alloc_fast<const SESSIONS: bool>(&self, class: ClassId, bytes: u64) -> Option<ThreadRef> {
        let thread = current()?;
        if !self.memory_alloc_own(thread.handle(), class, bytes) {
            return None;
        }
        if SESSIONS {
            thread.memory.alloc(bytes);
        }
        Some(thread.handle())
    }

    /// Counts a free of memory whose allocation was counted, whatever is enabled now.
    pub fn memory_free<const SESSIONS: bool>(&self, class: ClassId, bytes: u64) {
        if self.memory_free_fast::<SESSIONS>(class, bytes) {
            return;
        }
        let switches = self.registry.switches(class);
        if switches & MEMORY == 0 {
            return;
        }
        if let Some((thread, cell)) = self.own_memory_cell(class, switches) {
            cell.free(bytes);
            if SESSIONS {
                thread.memory.free(bytes);
            }
        } else if let Some(cell) = self.ended.bank.cell::<MemoryCell>(&self.arena, class) {
            cell.free_shared(bytes);
        }
    }

    /// Counts a free on the fast path. Returns false if nothing was counted; the caller must then call
    /// [`Engine::memory_free`].
    #[inline(always)]
    pub fn memory_free_fast<const SESSIONS: bool>(&self, class: ClassId, bytes: u64) -> bool {
        let Some(thread) = current() else { return false };
        let is_counted = self.memory_free_own(thread.handle(), class, bytes);
        if SESSIONS && is_counted {
            thread.memory.free(bytes);
        }
        is_counted
    }

    /// Counts an allocation of the calling thread, which the caller knows, on the fast path. Returns false if
    /// nothing was counted; the caller must then call [`Engine::memory_alloc`].
    #[inline(always)]
    pub fn memory_alloc_own(&self, thread: ThreadRef, class: ClassId, bytes: u64) -> bool {
        self.registry.switches(class) & (ENABLED | MEMORY | SERVER_WIDE) == ENABLED | MEMORY
            && self.memory_alloc_known(thread, class, bytes)
    }

    /// Counts a free of the calling thread, which the caller knows, on the fast path. Returns false if
    /// nothing was counted; the caller must then call [`Engine::memory_free`].
    #[inline(always)]
    pub fn memory_free_own(&self, thread: ThreadRef, class: ClassId, bytes: u64) -> bool {
        self.is_memory_of_threads(class) && self.memory_free_known(thread, class, bytes)
    }

    /// Returns whether an instrument is one of memory that belongs to the thread which allocates it.
    #[inline(always)]
    pub fn is_memory_of_threads(&self, class: ClassId) -> bool {
        self.registry.switches(class) & (MEMORY | SERVER_WIDE) == MEMORY
    }

    /// Counts an allocation as [`Engine::memory_alloc_own`] does, for a caller that knows of the instrument
    /// that it is on and [of threads](Engine::is_memory_of_threads).
    #[inline(always)]
    pub fn memory_alloc_known(&self, thread: ThreadRef, class: ClassId, bytes: u64) -> bool {
        let usual = self.usual_memory_cell(thread.slab(), class);
        usual.inspect(|cell| cell.alloc(bytes)).is_some()
    }

    /// Counts a free as [`Engine::memory_free_own`] does, for a caller that knows that the instrument is
    /// [of threads](Engine::is_memory_of_threads).
    #[inline(always)]
    pub fn memory_free_known(&self, thread: ThreadRef, class: ClassId, bytes: u64) -> bool {
        let usual = self.usual_memory_cell(thread.slab(), class);
        usual.inspect(|cell| cell.free(bytes)).is_some()
    }

    /// Counts a reallocation: a free and an allocation. `None` means the same as in [`Engine::memory_alloc`].
    pub fn memory_realloc<const SESSIONS: bool>(
        &self,
        class: ClassId,
        old: u64,
        new: u64,
    ) -> Option<Option<ThreadRef>> {
        let switches = self.registry.switches(class);
        // Counted in one cell, both change the water marks at once: they never see the memory missing.
        if switches & (ENABLED | MEMORY) == ENABLED | MEMORY
            && let Some((thread, cell)) = self.own_memory_cell(class, switches)
            && thread.mask() & ATTRIBUTED != 0
        {
            cell.exchange(old, new);
            if SESSIONS {
                thread.memory.free(old);
                thread.memory.alloc(new);
            }
            return Some(Some(thread.handle()));
        }
        self.memory_free::<SESSIONS>(class, old);
        self.memory_alloc::<SESSIONS>(class, new)
    }

    /// Moves memory from `from`, which counts a free, to the calling thread, which counts an allocation.
    pub fn memory_claim<const SESSIONS: bool>(
        &self,
        class: ClassId,
        bytes: u64,
        from: Option<ThreadRef>,
    ) -> Option<ThreadRef> {
        let to = current();
        let same = |a: Option<ThreadRef>, b: Option<&'static Thread>| match (a, b) {
            (Some(a), Some(b)) => std::ptr::eq(a.slab(), b),
            (None, None) => true,
            _ => false,
        };
        let switches = self.registry.switches(class);
        if !same(from, to) && switches & MEMORY != 0 {
            // Another thread's cell has another writer, so the free is counted in the sum of what has ended.
            if from.is_some()
                && let Some(ended) = self.ended.bank.cell::<MemoryCell>(&self.arena, class)
            {
                ended.free_shared(bytes);
            }
            if let Some((thread, cell)) = self.own_memory_cell(class, switches) {
                cell.alloc(bytes);
                if SESSIONS {
                    thread.memory.alloc(bytes);
                }
            }
        }
        to.map(Thread::handle)
    }

    /// Counts an allocation that no thread owns: memory of the server as a whole, or any while threads are
    /// not instrumented. Returns false if it is not counted.
    pub fn memory_alloc_unowned(&self, class: ClassId, bytes: u64) -> bool {
        let switches = self.registry.switches(class);
        let is_counted =
            switches & (ENABLED | MEMORY) == ENABLED | MEMORY && self.counts_without_thread(switches);
        if is_counted {
            self.count_unowned(class, |cell| cell.alloc_shared(bytes));
        }
        is_counted
    }

    /// Counts memory that a thread gives away, or that nobody owns any more: as the sum of all has it.
    pub fn memory_disowned(&self, class: ClassId, bytes: u64) {
        self.count_unowned(class, |cell| cell.alloc_shared(bytes));
    }

    /// Counts a free of memory that the calling thread does not own.
    pub fn memory_free_unowned(&self, class: ClassId, bytes: u64) {
        self.count_unowned(class, |cell| cell.free_shared(bytes));
    }

    fn count_unowned(&self, class: ClassId, count: impl FnOnce(&MemoryCell)) {
        if self.registry.switches(class) & MEMORY != 0
            && let Some(cell) = self.ended.bank.cell::<MemoryCell>(&self.arena, class)
        {
            count(cell);
        }
    }

    /// Makes the memory that a thread still has memory that nobody owns. For hosts whose accounts do not
    /// keep what their ended threads had. Called by whoever ends the thread, before.
    pub fn disown_memory(&self, thread: ThreadRef) {
        self.folds.begin();
        for listed in thread.slab().cells(self, BANK_OWN).filter(|listed| listed.kind() == Kind::Memory) {
            let cell: &MemoryCell = self.arena.at(listed.cell());
            if let Some(all) = self.ended.bank.cell::<MemoryCell>(&self.arena, listed.class()) {
                cell.move_current(all);
            }
        }
        self.folds.end();
    }

    /// Returns the current cell of the calling thread. `None`: the fast path does not apply.
    #[inline(always)]
    fn usual_memory_cell(&self, thread: &'static Thread, class: ClassId) -> Option<&'static MemoryCell> {
        if thread.mask() & ATTRIBUTED == 0 {
            return None;
        }
        let base = self.arena.base();
        let place = self.usual_cell(base, thread, class, SummaryFamily::Memory)?;
        Some(base.at(place))
    }

    fn own_memory_cell(
        &self,
        class: ClassId,
        switches: u8,
    ) -> Option<(&'static Thread, &'static MemoryCell)> {
        if switches & SERVER_WIDE != 0 {
            return None;
        }
        let thread = current()?;
        if !self.consumer(Consumer::ThreadInstrumentation) {
            return None;
        }
        Some((thread, self.cell(thread, BANK_OWN, class, SummaryFamily::Memory)?))
    }
}
