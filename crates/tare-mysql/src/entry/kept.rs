//! HOT PATH: waits in the lockers of the server's callers.
#![allow(unsafe_code)]

use std::ffi::c_void;

use tare_engine::snapshot::ClassId;
use tare_engine::{Source, Start, ThreadHandle, Wait, WaitObject};
use tare_host::process::{ENGINE, guard};

use crate::abi::Locker;

/// Keeps a wait in a locker. `object` is what is waited for.
///
/// # Safety
///
/// The locker is the caller's, which passes it back once to the function that ends the wait.
#[inline(always)]
pub(super) unsafe fn keep(locker: *mut Locker, wait: Wait, object: *const c_void) {
    let (state, places, thread, start) = wait.pack();
    let kept = Locker { flags: 0, wait: state, object, thread: thread.address(), start, places };
    // SAFETY: the locker has room for it (the caller's promise).
    unsafe { locker.write(kept) };
}

/// Notes in a locker that nothing of it is timed: there is no wait to end.
///
/// # Safety
///
/// See [`keep`].
#[inline(always)]
pub(super) unsafe fn keep_untimed(locker: *mut Locker, object: *const c_void) {
    let kept = Locker { flags: 0, wait: 0, object, thread: std::ptr::null_mut(), start: 0, places: 0 };
    // SAFETY: the locker has room for it (the caller's promise).
    unsafe { locker.write(kept) };
}

/// Returns the wait that a locker keeps, if it is timed.
///
/// # Safety
///
/// [`keep`] or [`keep_untimed`] has filled the locker, and the wait has not ended.
#[inline(always)]
pub(super) unsafe fn kept(locker: &Locker) -> Option<Wait> {
    // SAFETY: null, or the address that `keep` has stored.
    let thread = unsafe { ThreadHandle::from_address(locker.thread) }?;
    // SAFETY: the values of one `pack`, of a wait that has not ended (the caller's promise).
    Some(unsafe { Wait::unpack(locker.wait, locker.places, thread, locker.start) })
}

/// Begins a wait. `None`: it is not wanted.
#[inline(always)]
pub(super) fn begin_wait(class: ClassId, object: WaitObject, source: Source) -> Option<Wait> {
    match ENGINE.start_class_wait_fast(class, object, source) {
        Start::Began(wait) => Some(wait),
        Start::Off => None,
        Start::Slow => start_slow(class, object, source),
    }
}

/// Ends a wait that [`begin_wait`] has begun. Returns its duration in ticks, if it was timed.
#[inline(always)]
pub(super) fn end_wait(wait: &Wait) -> Option<u64> {
    ENGINE.end_class_wait_fast(wait, 1, None).or_else(|| end_slow(wait))
}

/// Counts a wait that its instrument does not time.
#[cold]
#[inline(never)]
pub(super) fn count_untimed(class: ClassId) {
    guard((), || ENGINE.count_untimed_wait(class));
}

/// Begins a wait that is not on the engine's fast path.
#[cold]
#[inline(never)]
fn start_slow(class: ClassId, object: WaitObject, source: Source) -> Option<Wait> {
    if ENGINE.is_off(class) {
        return None;
    }
    guard(None, || ENGINE.start_wait(class, object, source))
}

/// Ends a wait that is not on the engine's fast path. Returns its duration in ticks, if it was timed.
#[cold]
#[inline(never)]
fn end_slow(wait: &Wait) -> Option<u64> {
    guard(None, || ENGINE.end_wait(wait, 1, None))
}
