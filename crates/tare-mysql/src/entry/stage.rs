//! HOT PATH: stages. What the built-in's `threads` and `processlist` show of them is written into its
//! threads.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_uint};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tare_engine::snapshot::{ClassId, Kind};
use tare_engine::{Progress, Source, Start};
use tare_host::process::{ENGINE, guard};

use crate::abi::layout::{PROGRESS_AFTER_STAGE, layout};
use crate::server::events;
use crate::server::thread::{ServerThread, current, settled};

/// The progress of a stage: two numbers that the server writes.
type StageProgress = [AtomicU64; 2];

/// Begins a stage while all of them are sampled. See [`start_stage`].
pub(crate) unsafe extern "C" fn start_sampled_stage(
    key: c_uint,
    file: *const c_char,
    line: c_int,
) -> *const StageProgress {
    let Some(thread) = current() else { return null_mut() };
    show(thread, key);
    if ENGINE.skips_at_once() {
        return null_mut();
    }
    start_further_stage(key, file, line, thread)
}

/// Begins a stage while some of them are off or sampled, or all are off.
pub(crate) unsafe extern "C" fn filter_stage(
    key: c_uint,
    file: *const c_char,
    line: c_int,
) -> *const StageProgress {
    let Some(thread) = current() else { return null_mut() };
    show(thread, key);
    if let Some(class) = events::known_stage(key) {
        if (class == 0 || ENGINE.is_off(class)) && is_passed(thread, class) {
            return null_mut();
        }
        if ENGINE.is_class_sampled(class) && thread.slab().is_some() && ENGINE.skips_at_once() {
            // One of another level may be in progress.
            ENGINE.leave_stage();
            return null_mut();
        }
    }
    start_further_stage(key, file, line, thread)
}

/// Notes a stage that is off, or none, if that ends no other one.
#[inline(always)]
fn is_passed(thread: ServerThread, class: ClassId) -> bool {
    thread.slab().is_some() && !matches!(ENGINE.pass_stage_fast(class), Start::Slow)
}

/// Begins a stage, which ends the one before; no stage follows if the key is 0.
pub(crate) unsafe extern "C" fn start_stage(
    key: c_uint,
    file: *const c_char,
    line: c_int,
) -> *const StageProgress {
    let Some(thread) = current() else { return null_mut() };
    show(thread, key);
    start_further_stage(key, file, line, thread)
}

/// Shows a stage as the thread's state, without progress.
#[inline(always)]
pub(super) fn show(thread: ServerThread, key: c_uint) {
    thread.number(layout().thread.stage).store(key, Relaxed);
    progress_of(thread).store(0, Relaxed);
}

/// Returns where a thread has the progress of its stage.
#[inline(always)]
fn progress_of(thread: ServerThread) -> &'static AtomicU64 {
    thread.word(layout().thread.stage + PROGRESS_AFTER_STAGE)
}

/// Begins a stage that is not skipped at once. The arguments stay in the registers of the caller's.
#[inline(never)]
extern "C" fn start_further_stage(
    key: c_uint,
    file: *const c_char,
    line: c_int,
    thread: ServerThread,
) -> *const StageProgress {
    if settled().is_none() {
        return null_mut();
    }
    let class = events::stage(key);
    if ENGINE.looks_for_slowness() {
        let skips = match ENGINE.is_all_sampled(Kind::Stage) {
            true => ENGINE.skips_stage(),
            false => ENGINE.skips_stage_class(class),
        };
        if skips {
            ENGINE.leave_stage();
            return null_mut();
        }
    }
    if class == 0 {
        guard((), || ENGINE.end_stage());
        return null_mut();
    }
    let source = Source::new(file, line.cast_unsigned());
    let progress = match ENGINE.start_stage_fast(class, source) {
        Start::Began(progress) => progress,
        Start::Off | Start::Slow => start_stage_slow(class, source),
    };
    if let Some(slab) = ENGINE.current_thread() {
        thread.word(layout().thread.event_id).store(slab.next_event_id(), Relaxed);
    }
    let Some(progress) = progress else { return null_mut() };
    let progress: *const StageProgress = progress;
    progress_of(thread).store(progress.expose_provenance() as u64, Relaxed);
    progress
}

#[inline(never)]
fn start_stage_slow(class: u16, source: Source) -> Option<Progress> {
    guard(None, || ENGINE.start_stage(class, source))
}

pub(crate) unsafe extern "C" fn end_stage() {
    let Some(thread) = current() else { return };
    show(thread, 0);
    // A statement that was not chosen has no stage in progress.
    if ENGINE.is_all_sampled(Kind::Stage) && ENGINE.is_skipping() {
        return;
    }
    if settled().is_some() {
        end_any_stage();
    }
}

/// Ends a stage while some of them are off or sampled, or all are off.
pub(crate) unsafe extern "C" fn filter_end() {
    let Some(thread) = current() else { return };
    show(thread, 0);
    if !is_passed(thread, 0) && settled().is_some() {
        end_any_stage();
    }
}

#[inline(never)]
fn end_any_stage() {
    if !ENGINE.end_stage_fast() && !ENGINE.end_unrecorded_stage_fast() {
        guard((), || ENGINE.end_stage());
    }
}
