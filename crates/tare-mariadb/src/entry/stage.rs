//! HOT PATH: stages.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_uint};
use std::ptr::null_mut;

use tare_engine::snapshot::Kind;
use tare_engine::{Progress, Source, StageStart};

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
    let source = Source::new(file, line.cast_unsigned());
    if !ENGINE.wants(Kind::Stage) {
        return pass_stage(key as u16, source);
    }
    match ENGINE.start_usual_stage(key as u16, source) {
        StageStart::Began => null_mut(),
        StageStart::Unrecorded => start_unrecorded_stage(key as u16, source),
        StageStart::Unusual => start_unusual_stage(key as u16, source),
    }
}

#[inline(never)]
fn start_unrecorded_stage(class: u16, source: Source) -> *mut StageProgress {
    if class == 0 {
        // No stage follows.
        return end_any_stage();
    }
    if ENGINE.start_unrecorded_stage(class) {
        return null_mut();
    }
    start_unusual_stage(class, source)
}

#[inline(never)]
fn pass_stage(class: u16, source: Source) -> *mut StageProgress {
    if ENGINE.pass_stage(class) {
        return null_mut();
    }
    start_unusual_stage(class, source)
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
    end_any_stage();
}

/// One function for both calls that end a stage.
#[inline(never)]
fn end_any_stage() -> *mut StageProgress {
    if !ENGINE.end_usual_stage() {
        end_unusual_stage();
    }
    null_mut()
}

#[cold]
#[inline(never)]
fn end_unusual_stage() {
    guard((), || ENGINE.end_stage());
}
