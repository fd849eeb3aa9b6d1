//! HOT PATH: stages.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_uint};
use std::ptr::null_mut;

use tare_engine::{Progress, Source, Start};
use tare_host::process::ENGINE;
use tare_host::process::guard;

use crate::abi::types::StageProgress;

/// Returns a stage's progress as the server's type; the server writes both numbers through the pointer, in
/// this order.
fn pointer(progress: Option<Progress>) -> *mut StageProgress {
    progress.map_or(null_mut(), |progress| progress.as_ptr().cast_mut().cast())
}

// These functions have the arguments and the calling convention of the server's call, so one continues in
// another by a tail call, and a disabled event saves no register.

pub(super) unsafe extern "C" fn start_stage(
    key: c_uint,
    file: *const c_char,
    line: c_int,
) -> *mut StageProgress {
    // Only these bits of the key are kept, which saves a register.
    let class = key as u16;
    if class == 0 {
        // No stage follows.
        return end_any_stage();
    }
    match ENGINE.start_stage_fast(class, Source::new(file, line.cast_unsigned())) {
        Start::Began(progress) => pointer(progress),
        // SAFETY: the caller's promise.
        Start::Off | Start::Slow => unsafe { sum_stage(class.into(), file, line) },
    }
}

/// The `start_stage` slot while no stage is recorded.
#[inline(never)]
pub(super) unsafe extern "C" fn sum_stage(
    key: c_uint,
    file: *const c_char,
    line: c_int,
) -> *mut StageProgress {
    let class = key as u16;
    if class == 0 {
        return end_unrecorded_stage();
    }
    match ENGINE.start_unrecorded_stage_fast(class) {
        Start::Began(()) | Start::Off => null_mut(),
        Start::Slow => start_stage_slow(class.into(), file, line),
    }
}

/// The `start_stage` slot while all stage instruments are off. A key of 0 ends the current stage.
pub(super) unsafe extern "C" fn pass_stage(
    key: c_uint,
    file: *const c_char,
    line: c_int,
) -> *mut StageProgress {
    match ENGINE.pass_stage_fast(key as u16) {
        Start::Began(()) | Start::Off => null_mut(),
        // SAFETY: the caller's promise.
        Start::Slow => unsafe { sum_stage(key, file, line) },
    }
}

/// The `start_stage` slot while some stages are off or sampled.
pub(super) unsafe extern "C" fn filter_stage(
    key: c_uint,
    file: *const c_char,
    line: c_int,
) -> *mut StageProgress {
    if ENGINE.skips_stage_class(key as u16) {
        ENGINE.leave_stage();
        return null_mut();
    }
    // SAFETY: the caller's promise.
    unsafe {
        if ENGINE.is_off(key as u16) { pass_stage(key, file, line) } else { start_stage(key, file, line) }
    }
}

/// The `start_stage` slot while all stages are sampled.
pub(super) unsafe extern "C" fn sample_stage(
    key: c_uint,
    file: *const c_char,
    line: c_int,
) -> *mut StageProgress {
    if ENGINE.skips_at_once() {
        return null_mut();
    }
    sample_further_stage(key, file, line)
}

/// Starts a stage that [`sample_stage`] does not skip at once: in a chosen statement, or in one that may have
/// become slow.
#[inline(never)]
extern "C" fn sample_further_stage(key: c_uint, file: *const c_char, line: c_int) -> *mut StageProgress {
    if ENGINE.skips_stage() {
        return null_mut();
    }
    // SAFETY: the caller's promise.
    unsafe { start_stage(key, file, line) }
}

/// The `end_stage` slot while all stages are sampled: a skipped statement has no stage in progress.
pub(super) unsafe extern "C" fn end_sampled_stage() {
    if !ENGINE.is_skipping() {
        end_any_stage();
    }
}

/// The `end_stage` slot while all stage instruments are off.
pub(super) unsafe extern "C" fn pass_no_stage() {
    if let Start::Slow = ENGINE.pass_stage_fast(0) {
        end_any_stage();
    }
}

/// Starts a stage on the slow path. Out of line, because the fast path needs no guard.
#[cold]
#[inline(never)]
extern "C" fn start_stage_slow(key: c_uint, file: *const c_char, line: c_int) -> *mut StageProgress {
    let source = Source::new(file, line.cast_unsigned());
    guard(null_mut(), || pointer(ENGINE.start_stage(key as u16, source)))
}

pub(super) unsafe extern "C" fn get_current_stage_progress() -> *mut StageProgress {
    guard(null_mut(), || pointer(ENGINE.current_stage_progress()))
}

pub(super) unsafe extern "C" fn end_stage() {
    end_any_stage();
}

/// Ends a stage for both calls that do so.
#[inline(never)]
extern "C" fn end_any_stage() -> *mut StageProgress {
    if ENGINE.end_stage_fast() { null_mut() } else { end_unrecorded_stage() }
}

/// Ends a stage that is not recorded.
#[inline(never)]
pub(super) extern "C" fn end_unrecorded_stage() -> *mut StageProgress {
    if !ENGINE.end_unrecorded_stage_fast() {
        end_stage_slow();
    }
    null_mut()
}

#[cold]
#[inline(never)]
fn end_stage_slow() {
    guard((), || ENGINE.end_stage());
}
