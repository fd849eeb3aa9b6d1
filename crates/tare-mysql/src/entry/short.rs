//! HOT PATH: idle connections and metadata locks.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_uint};
use std::ptr::{null, null_mut};
use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;

use tare_engine::{Source, Start, WaitObject, fixed, operation};
use tare_host::process::{ENGINE, guard};

use super::kept::{begin_wait, count_untimed, end_wait, keep, keep_untimed, kept};
use crate::abi::{Class, Locker, MetadataLock};
use crate::server::thread::settled;

/// The built-in's instrument of idle waits. Set before any call is led here.
pub(crate) static IDLE: OnceLock<&'static Class> = OnceLock::new();

pub(crate) unsafe extern "C" fn start_idle_wait(
    locker: *mut Locker,
    file: *const c_char,
    line: c_uint,
) -> *mut Locker {
    // At level sampled it belongs to the statement before.
    if ENGINE.is_skipping() && ENGINE.is_class_sampled(fixed::IDLE) {
        return null_mut();
    }
    // SAFETY: the server's promise.
    unsafe { start_further_idle_wait(locker, file, line) }
}

// Apart, so that those that are skipped need no registers but the caller's.
#[inline(never)]
unsafe extern "C" fn start_further_idle_wait(
    locker: *mut Locker,
    file: *const c_char,
    line: c_uint,
) -> *mut Locker {
    let Some(class) = IDLE.get().filter(|class| class.enabled.load(Relaxed) != 0) else { return null_mut() };
    if settled().is_none() {
        return null_mut();
    }
    if class.timed.load(Relaxed) == 0 {
        // SAFETY: the server's promise.
        unsafe { keep_untimed(locker, null()) };
        return locker;
    }
    let source = Source::new(file, line);
    let wait = match ENGINE.start_idle_wait_fast(source) {
        Start::Began(wait) => Some(wait),
        Start::Off => None,
        Start::Slow => guard(None, || ENGINE.start_idle_wait(source)),
    };
    let Some(wait) = wait else { return null_mut() };
    // SAFETY: the server's promise.
    unsafe { keep(locker, wait, null()) };
    locker
}

pub(crate) unsafe extern "C" fn end_idle_wait(locker: *const Locker) {
    // SAFETY: the server's promise: a locker that `start_idle_wait` returned, once.
    match unsafe { kept(&*locker) } {
        Some(wait) if ENGINE.end_idle_wait_fast(&wait) => {}
        Some(wait) => guard((), || ENGINE.end_idle_wait(&wait)),
        None => count_untimed(fixed::IDLE),
    }
}

pub(crate) unsafe extern "C" fn start_metadata_wait(
    locker: *mut Locker,
    lock: *const MetadataLock,
    file: *const c_char,
    line: c_uint,
) -> *mut Locker {
    // SAFETY: the server's promise: a metadata lock of the built-in's.
    let lock = unsafe { &*lock };
    if lock.enabled.load(Relaxed) == 0 || settled().is_none() {
        return null_mut();
    }
    if lock.timed.load(Relaxed) == 0 {
        // SAFETY: the server's promise.
        unsafe { keep_untimed(locker, null()) };
        return locker;
    }
    let object = WaitObject::new(lock.identity, operation::METADATA);
    let source = Source::new(file, line);
    let Some(wait) = begin_wait(fixed::METADATA, object, source) else { return null_mut() };
    // SAFETY: the server's promise.
    unsafe { keep(locker, wait, null()) };
    locker
}

pub(crate) unsafe extern "C" fn end_metadata_wait(locker: *const Locker, _rc: c_int) {
    // SAFETY: the server's promise: a locker that `start_metadata_wait` returned, once.
    match unsafe { kept(&*locker) } {
        Some(wait) => {
            end_wait(&wait);
            ENGINE.has_waited();
        }
        None => count_untimed(fixed::METADATA),
    }
}
