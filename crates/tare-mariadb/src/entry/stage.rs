//! HOT PATH: stages.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_uint};
use std::ptr::null_mut;

use tare_engine::{Progress, Source, Start};

use super::ENGINE;
use super::guard::guard;
use crate::abi::types::StageProgress;

/// The server writes both numbers through the pointer, in this order.
fn pointer(progress: Option<Progress>) -> *mut StageProgress {
    progress.map_or(null_mut(), |progress| progress.as_ptr().cast_mut().cast())
}

// These have the arguments and the calling convention of the server's call: one goes on in another by a jump, and what is not
// wanted needs no register saved.

pub(super) unsafe extern "C" fn start_stage(
    key: c_uint,
    file: *const c_char,
    line: c_int,
) -> *mut StageProgress {
    // Of the key no more is kept than this: one register less.
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

/// As [`start_stage`], while none is recorded.
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

/// As [`start_stage`], while nobody wants stages. Without a key it is the end of one.
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

/// As [`start_stage`], while some stages are off, or some are sampled.
pub(super) unsafe extern "C" fn sift_stage(
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

/// As [`start_stage`], while all are sampled.
pub(super) unsafe extern "C" fn sample_stage(
    key: c_uint,
    file: *const c_char,
    line: c_int,
) -> *mut StageProgress {
    if ENGINE.skips_stage() {
        return null_mut();
    }
    // SAFETY: the caller's promise.
    unsafe { start_stage(key, file, line) }
}

/// As [`end_stage`], while all are sampled: none is in progress in a statement that is not a chosen one.
pub(super) unsafe extern "C" fn end_sampled_stage() {
    if !ENGINE.is_skipping() {
        end_any_stage();
    }
}

/// As [`end_stage`], while nobody wants stages.
pub(super) unsafe extern "C" fn pass_no_stage() {
    if let Start::Slow = ENGINE.pass_stage_fast(0) {
        end_any_stage();
    }
}

/// The rest, out of line: there is nothing to guard where all is as usual.
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

/// One function for both calls that end a stage.
#[inline(never)]
extern "C" fn end_any_stage() -> *mut StageProgress {
    if ENGINE.end_stage_fast() { null_mut() } else { end_unrecorded_stage() }
}

/// As [`end_any_stage`], of one that is not recorded.
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
