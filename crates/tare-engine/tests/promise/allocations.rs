//! No allocation: an allocator that counts, by thread.
#![allow(unsafe_code)] // an allocator is

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use tare_engine::snapshot::*;

use crate::routine::{COMMANDS, EventRoutine};

struct CountingAllocator;

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    CALLS.with(|calls| calls.set(calls.get() + 1));
}

// SAFETY: every call goes to the system's allocator unchanged; counting allocates nothing: the thread-local
// is constant-initialised and has no destructor.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise is the system allocator's.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count();
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Calls of the allocator while `f` runs.
fn allocations(f: impl FnOnce()) -> u64 {
    let before = CALLS.with(Cell::get);
    f();
    CALLS.with(Cell::get) - before
}

#[test]
fn the_allocator_counts() {
    assert!(allocations(|| drop(std::hint::black_box(vec![1]))) >= 2);
}

#[test]
fn hot_calls_do_not_allocate() {
    for routine in EventRoutine::both() {
        routine.rig.set_current_thread(Some(routine.thread));
        hot_calls_of_a_shape_do_not_allocate(&routine);
    }
}

fn hot_calls_of_a_shape_do_not_allocate(routine: &EventRoutine) {
    assert_eq!(allocations(|| routine.command(0)), 0, "not even the first of each kind");
    for level in [Grouping::Thread, Grouping::Global, Grouping::Thread] {
        assert_eq!(allocations(|| (0..COMMANDS).for_each(|n| routine.command(n))), 0);
        routine.truncate(level);
    }
    // The routine did reach what it was to reach.
    let rig = routine.rig;
    (0..COMMANDS).for_each(|n| routine.command(n));
    assert!(rig.evicted_digests() > 0, "the table of digests is full");
    assert_eq!(rig.losses(), 0, "{:?}", rig.lost());
    let errors: Vec<_> =
        rig.error_rows(Grouping::Global).iter().map(|row| (row.stat.raised, row.stat.handled)).collect();
    assert_eq!(
        errors,
        [(2 * COMMANDS as u64, 0), (0, 2 * COMMANDS as u64)],
        "since the reset of Grouping::Global"
    );
    assert!(rig.waits(Scope::HistoryLong).len() == 200);
    assert!(rig.statements(Scope::HistoryLong).len() == 200);
}

#[test]
fn hot_calls_do_not_allocate_while_everything_is_off_or_untimed_or_unattributed() {
    let routine = EventRoutine::new();
    let rig = routine.rig;
    for consumer in Consumer::ALL {
        rig.set_consumer(consumer, false);
        assert_eq!(allocations(|| (0..100).for_each(|n| routine.command(n))), 0, "without {consumer:?}");
        rig.set_consumer(consumer, true);
    }
    for (enabled, timed) in [(true, false), (false, false), (true, true)] {
        rig.instruments().iter().for_each(|i| rig.set_instrument(i.id, Some(enabled), Some(timed)));
        assert_eq!(allocations(|| (0..100).for_each(|n| routine.command(n))), 0, "{enabled} {timed}");
    }
}

#[test]
fn hot_calls_do_not_allocate_when_no_memory_is_left() {
    let routine = EventRoutine::new();
    let rig = routine.rig;
    let mut others = Vec::new();
    others.extend(std::iter::from_fn(|| rig.new_thread(rig.class.thread, None, None)));
    assert_eq!(allocations(|| (0..COMMANDS).for_each(|n| routine.command(n))), 0);
    assert!(rig.losses() > 0);
}
