//! HOT PATH: idle connections and metadata locks.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_uint};
use std::ptr::{null, null_mut};
use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;

use tare_engine::{EndedWaitFacts, Source, Wait, WaitObject, fixed, operation};
use tare_host::process::ENGINE;

use super::kept::{keep, keep_untimed, kept};
use crate::abi::{Class, Locker, MetadataLock};
use crate::server::thread::settled;

/// The built-in's instrument of idle waits. Set before any call is led here.
pub(crate) static IDLE: OnceLock<&'static Class> = OnceLock::new();

/// Keeps a wait that has begun in its locker.
///
/// # Safety
///
/// The locker is the server's caller's.
#[inline(always)]
unsafe fn begun(locker: *mut Locker, wait: Option<Wait>) -> *mut Locker {
    let Some(wait) = wait else { return null_mut() };
    // SAFETY: the caller's promise.
    unsafe { keep(locker, wait, null()) };
    locker
}

pub(crate) unsafe extern "C" fn start_idle_wait(
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
    // SAFETY: the server's promise.
    unsafe { begun(locker, ENGINE.start_idle_wait(Source::new(file, line))) }
}

pub(crate) unsafe extern "C" fn end_idle_wait(locker: *const Locker) {
    // SAFETY: the server's promise: a locker that `start_idle_wait` returned, once.
    match unsafe { kept(&*locker) } {
        Some(wait) => ENGINE.end_idle_wait(&wait),
        None => {
            let object = WaitObject::new(0, operation::IDLE);
            ENGINE.count_ended_wait(fixed::IDLE, object, Source::new(null(), 0), EndedWaitFacts::UNTIMED);
        }
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
    // SAFETY: the server's promise.
    unsafe { begun(locker, ENGINE.start_wait(fixed::METADATA, object, Source::new(file, line))) }
}

pub(crate) unsafe extern "C" fn end_metadata_wait(locker: *const Locker, _rc: c_int) {
    // SAFETY: the server's promise: a locker that `start_metadata_wait` returned, once.
    match unsafe { kept(&*locker) } {
        Some(wait) => {
            ENGINE.end_wait(&wait, 1, None);
        }
        None => {
            let object = WaitObject::new(0, operation::METADATA);
            ENGINE.count_ended_wait(fixed::METADATA, object, Source::new(null(), 0), EndedWaitFacts::UNTIMED);
        }
    }
}
