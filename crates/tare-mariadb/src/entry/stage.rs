//! HOT PATH: stages.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_uint};
use std::ptr::null_mut;

use tare_engine::snapshot::Kind;
use tare_engine::{Progress, Source};

use super::ENGINE;
use super::guard::guard;
use crate::abi::types::StageProgress;

/// The server writes both numbers through the pointer, in this order.
fn pointer(progress: Option<Progress>) -> *mut StageProgress {
    progress.map_or(null_mut(), |progress| progress.as_ptr().cast_mut().cast())
}

pub(super) unsafe extern "C" fn start_stage(
    key: c_uint,
    file: *const c_char,
    line: c_int,
) -> *mut StageProgress {
    if !ENGINE.wants(Kind::Stage) {
        return pass_stage(key, file, line);
    }
    start_wanted_stage(key, file, line)
}

#[inline(never)]
extern "C" fn start_wanted_stage(key: c_uint, file: *const c_char, line: c_int) -> *mut StageProgress {
    let source = Source::new(file, line.cast_unsigned());
    if ENGINE.start_usual_stage(key as u16, source) {
        return null_mut();
    }
    start_unusual_stage(key as u16, source)
}

#[inline(never)]
extern "C" fn pass_stage(key: c_uint, file: *const c_char, line: c_int) -> *mut StageProgress {
    if ENGINE.pass_stage(key as u16) {
        return null_mut();
    }
    start_unusual_stage(key as u16, Source::new(file, line.cast_unsigned()))
}

/// The rest, out of line: there is nothing to guard where all is as usual.
#[cold]
#[inline(never)]
fn start_unusual_stage(class: u16, source: Source) -> *mut StageProgress {
    guard(null_mut(), || pointer(ENGINE.start_stage(class, source)))
}

pub(super) unsafe extern "C" fn get_current_stage_progress() -> *mut StageProgress {
    guard(null_mut(), || pointer(ENGINE.current_stage_progress()))
}

pub(super) unsafe extern "C" fn end_stage() {
    guard((), || ENGINE.end_stage());
}
