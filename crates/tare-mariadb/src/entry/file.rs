//! HOT PATH: files, by name, by stream and by descriptor.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_uint, c_ulong, c_void};
use std::ptr::null_mut;

use tare_engine::snapshot::Kind;
use tare_engine::{FileHandle, FileRef, Source};
use tare_host::process::ENGINE;
use tare_host::process::guard;

use super::pointer::{instance, keep, kept, state, text};
use crate::abi::types::{File, FileLocker, FileLockerState};
use crate::host::file_name::FileName;
use crate::interpose::folder;

/// The interface's numbers of file operations.
const CLOSE: c_uint = 4;
const CREATE: c_uint = 0;
const OPEN: c_uint = 2;
const STREAM_OPEN: c_uint = 3;
const STREAM_CLOSE: c_uint = 5;
const STAT: c_uint = 11;
const DELETE: c_uint = 14;

/// Returns the bytes transferred; a negative result is an error and transfers none.
fn moved(count: c_ulong) -> u64 {
    if (count as i32) < 0 { 0 } else { count }
}

/// Starts a file operation in its locker state and returns the locker.
fn begin(
    state: *mut FileLockerState,
    class: u16,
    file: Option<FileRef>,
    op: c_uint,
    name: *const c_char,
) -> *mut FileLocker {
    let Some(wait) = ENGINE.start_file_wait(class, file, op as u8) else { return null_mut() };
    let Some(kept) = state!(state, FileLockerState) else { return null_mut() };
    keep!(kept, wait);
    kept.operation = op;
    kept.file = file.map_or(null_mut(), |file| file.address().cast());
    kept.name = name;
    kept.class = std::ptr::without_provenance_mut(class as usize);
    state.cast()
}

pub(super) unsafe extern "C" fn create_file(key: c_uint, name: *const c_char, fd: c_int) {
    guard((), || {
        if !ENGINE.has_demand(Kind::File) || key == 0 || fd < 0 || ENGINE.current_thread().is_none() {
            return;
        }
        let name = FileName::new(text!(name));
        if let Some(file) = ENGINE.find_file(key as u16, name.bytes(), true) {
            ENGINE.bind_file(fd, Some(file));
        }
    });
}

pub(super) unsafe extern "C" fn get_thread_file_name_locker(
    state: *mut FileLockerState,
    key: c_uint,
    op: c_uint,
    name: *const c_char,
    _identity: *const c_void,
) -> *mut FileLocker {
    if !ENGINE.has_demand(Kind::File) {
        return null_mut();
    }
    guard(null_mut(), || {
        // A view of the built-in has no file, so asking for its status is not an event.
        if key == 0 || name.is_null() || (op == STAT && folder::holds(text!(name))) {
            return null_mut();
        }
        begin(state, key as u16, None, op, name)
    })
}

pub(super) unsafe extern "C" fn get_thread_file_stream_locker(
    state: *mut FileLockerState,
    file: *mut File,
    op: c_uint,
) -> *mut FileLocker {
    if !ENGINE.has_demand(Kind::File) {
        return null_mut();
    }
    guard(null_mut(), || match instance!(FileHandle, file) {
        Some(file) => begin(state, ENGINE.file_class(file), Some(file), op, std::ptr::null()),
        None => null_mut(),
    })
}

pub(super) unsafe extern "C" fn get_thread_file_descriptor_locker(
    state: *mut FileLockerState,
    fd: c_int,
    op: c_uint,
) -> *mut FileLocker {
    // The closing of a descriptor must be noted even if no events are wanted.
    if !ENGINE.has_demand(Kind::File) && op != CLOSE {
        return null_mut();
    }
    guard(null_mut(), || {
        let Some(file) = ENGINE.file_of(fd) else { return null_mut() };
        if op == CLOSE {
            // Another thread may receive the same number before this one learns that it is free.
            ENGINE.bind_file(fd, None);
        }
        begin(state, ENGINE.file_class(file), Some(file), op, std::ptr::null())
    })
}

pub(super) unsafe extern "C" fn start_file_wait(
    locker: *mut FileLocker,
    count: c_ulong,
    file: *const c_char,
    line: c_uint,
) {
    guard((), || {
        let Some(state) = state!(locker, FileLockerState) else { return };
        if let Some(mut wait) = kept!(state) {
            ENGINE.restart_wait(&mut wait, Source::new(file, line), count);
            keep!(state, wait);
        }
    });
}

pub(super) unsafe extern "C" fn end_file_wait(locker: *mut FileLocker, count: c_ulong) {
    guard((), || {
        if let Some(state) = state!(locker, FileLockerState) {
            end(state, moved(count));
        }
    });
}

fn end(state: &FileLockerState, bytes: u64) {
    if let Some(wait) = kept!(state) {
        ENGINE.end_file_wait(&wait, instance!(FileHandle, state.file), state.operation as u8, bytes);
        ENGINE.has_waited();
    }
}

pub(super) unsafe extern "C" fn start_file_open_wait(
    locker: *mut FileLocker,
    file: *const c_char,
    line: c_uint,
) {
    // SAFETY: the same locker under the same promises.
    unsafe { start_file_wait(locker, 0, file, line) }
}

/// Returns the file that was just opened under the state's name.
fn opened(state: &FileLockerState) -> Option<FileRef> {
    let name = FileName::new(text!(state.name));
    ENGINE.find_file(state.class.addr() as u16, name.bytes(), true)
}

pub(super) unsafe extern "C" fn end_file_open_wait(
    locker: *mut FileLocker,
    result: *mut c_void,
) -> *mut File {
    guard(null_mut(), || {
        let Some(state) = state!(locker, FileLockerState) else { return null_mut() };
        if !result.is_null() && [CREATE, OPEN, STREAM_OPEN].contains(&state.operation) {
            state.file = opened(state).map_or(null_mut(), |file| file.address().cast());
        }
        end(state, 0);
        state.file
    })
}

/// Ends an opening that yielded a descriptor. The files of tare's own tables are not files for the server:
/// with the built-in there are none in their place.
fn bind(locker: *mut FileLocker, fd: c_int) -> Option<FileRef> {
    let state = state!(locker, FileLockerState)?;
    let file = if fd >= 0 && !folder::holds(text!(state.name)) { opened(state) } else { None };
    state.file = file.map_or(null_mut(), |file| file.address().cast());
    end(state, 0);
    if fd >= 0 {
        ENGINE.bind_file(fd, file);
    }
    file
}

pub(super) unsafe extern "C" fn end_file_open_wait_and_bind_to_descriptor(
    locker: *mut FileLocker,
    fd: c_int,
) {
    guard((), || {
        bind(locker, fd);
    });
}

pub(super) unsafe extern "C" fn end_temp_file_open_wait_and_bind_to_descriptor(
    locker: *mut FileLocker,
    fd: c_int,
    name: *const c_char,
) {
    guard((), || {
        if let Some(state) = state!(locker, FileLockerState) {
            state.name = name;
        }
        if let Some(file) = bind(locker, fd) {
            ENGINE.set_file_temporary(file);
        }
    });
}

pub(super) unsafe extern "C" fn start_file_close_wait(
    locker: *mut FileLocker,
    file: *const c_char,
    line: c_uint,
) {
    guard((), || {
        let Some(state) = state!(locker, FileLockerState) else { return };
        if state.operation == DELETE {
            let name = FileName::new(text!(state.name));
            let known = ENGINE.find_file(0, name.bytes(), false);
            state.file = known.map_or(null_mut(), |file| file.address().cast());
        }
        // SAFETY: the same locker under the same promises.
        unsafe { start_file_wait(locker, 0, file, line) }
    });
}

pub(super) unsafe extern "C" fn end_file_close_wait(locker: *mut FileLocker, rc: c_int) {
    guard((), || {
        let Some(state) = state!(locker, FileLockerState) else { return };
        end(state, 0);
        let Some(file) = instance!(FileHandle, state.file).filter(|_| rc == 0) else { return };
        match state.operation {
            CLOSE if ENGINE.file_is_temporary(file) => ENGINE.destroy_file(file),
            CLOSE | STREAM_CLOSE => ENGINE.release_file(file),
            DELETE => ENGINE.destroy_file(file),
            _ => {}
        }
    });
}

pub(super) unsafe extern "C" fn end_file_rename_wait(
    locker: *mut FileLocker,
    old_name: *const c_char,
    new_name: *const c_char,
    rc: c_int,
) {
    guard((), || {
        let Some(state) = state!(locker, FileLockerState) else { return };
        if rc == 0 {
            let (old, new) = (FileName::new(text!(old_name)), FileName::new(text!(new_name)));
            ENGINE.rename_file(old.bytes(), new.bytes());
        }
        end(state, 0);
    });
}
