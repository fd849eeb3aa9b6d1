//! HOT PATH: files, sockets and tables. The built-in times and counts them for the tables that it serves;
//! what has ended is counted here for the tables of waits.
#![allow(unsafe_code)]

use std::ffi::{c_ulong, c_ulonglong};
use std::ptr::null;

use tare_engine::snapshot::ClassId;
use tare_engine::{EndedWaitFacts, Source, WaitObject, fixed, operation};
use tare_host::process::{ENGINE, guard};

use crate::abi::{FileLocker, SocketLocker, TIMED, TableLocker};
use crate::original::Original;
use crate::server::instruments;
use crate::server::thread::settled;

/// The built-in's functions that end a wait.
pub(crate) static END_FILE: Original = Original::new();
/// See [`END_FILE`].
pub(crate) static END_SOCKET: Original = Original::new();
/// See [`END_FILE`].
pub(crate) static END_TABLE_IO: Original = Original::new();
/// See [`END_FILE`].
pub(crate) static END_TABLE_LOCK: Original = Original::new();

/// The engine's kinds of table locks, in the order of the built-in's.
const LOCKS: [u8; 10] = [0, 1, 2, 3, 5, 6, 8, 9, 4, 10];

/// Returns the engine's operation of a kind of table lock.
fn lock_operation(kind: u32) -> u8 {
    operation::TABLE_LOCK + LOCKS.get(kind as usize).copied().unwrap_or(0)
}

/// Counts a wait that ends now.
#[inline(never)]
fn count(class: ClassId, object: WaitObject, flags: u32, start: u64, events: u64, amount: Option<u64>) {
    guard((), || {
        if class != 0 && settled().is_some() {
            let mut started = (flags & TIMED != 0).then_some(start);
            // At level sampled, in a statement that is not chosen: table I/O is counted and not timed.
            if class == fixed::TABLE_IO && ENGINE.is_class_sampled(class) && ENGINE.is_skipping() {
                started = None;
            } else if ENGINE.skips_class(class) {
                return;
            }
            let facts = EndedWaitFacts { started, events, amount };
            ENGINE.count_ended_wait(class, object, Source::new(null(), 0), facts);
        }
    });
}

/// Returns the bytes transferred; a negative result is an error and transfers none.
#[inline(always)]
fn moved(bytes: c_ulong) -> Option<u64> {
    Some(if (bytes as i32) < 0 { 0 } else { bytes })
}

pub(crate) unsafe extern "C" fn end_file_wait(locker: *mut FileLocker, bytes: c_ulong) {
    // SAFETY: the server's promise: a locker that the built-in has filled.
    let it = unsafe { &*locker };
    // SAFETY: as above: classes are never removed.
    if let Some(class) = unsafe { it.class.as_ref() } {
        let object = WaitObject::new(it.file.addr(), operation::FILE.wrapping_add(it.operation as u8));
        count(instruments::of(class), object, it.flags, it.start, 1, moved(bytes));
    }
    // SAFETY: the function's own type and arguments.
    unsafe { END_FILE.function::<unsafe extern "C" fn(*mut FileLocker, c_ulong)>()(locker, bytes) }
}

pub(crate) unsafe extern "C" fn end_socket_wait(locker: *mut SocketLocker, bytes: c_ulong) {
    // SAFETY: the server's promise: a locker that the built-in has filled, with a socket that exists.
    let (it, socket) = unsafe { (&*locker, &*(*locker).socket) };
    // SAFETY: as above: classes are never removed.
    if let Some(class) = unsafe { socket.class.as_ref() } {
        let object = WaitObject::new(socket.identity, operation::SOCKET.wrapping_add(it.operation as u8));
        count(instruments::of(class), object, it.flags, it.start, 1, moved(bytes));
    }
    // SAFETY: the function's own type and arguments.
    unsafe { END_SOCKET.function::<unsafe extern "C" fn(*mut SocketLocker, c_ulong)>()(locker, bytes) }
}

pub(crate) unsafe extern "C" fn end_table_io_wait(locker: *mut TableLocker, rows: c_ulonglong) {
    // SAFETY: the server's promise: a locker that the built-in has filled.
    let it = unsafe { &*locker };
    let op = operation::TABLE_IO.wrapping_add(it.io_operation as u8);
    count(fixed::TABLE_IO, WaitObject::new(it.table.addr(), op), it.flags, it.start, rows, Some(rows));
    // SAFETY: the function's own type and arguments.
    unsafe { END_TABLE_IO.function::<unsafe extern "C" fn(*mut TableLocker, c_ulonglong)>()(locker, rows) }
}

pub(crate) unsafe extern "C" fn end_table_lock_wait(locker: *mut TableLocker) {
    // SAFETY: the server's promise: a locker that the built-in has filled.
    let it = unsafe { &*locker };
    let op = lock_operation(it.index);
    count(fixed::TABLE_LOCK, WaitObject::new(it.table.addr(), op), it.flags, it.start, 1, None);
    // SAFETY: the function's own type and arguments.
    unsafe { END_TABLE_LOCK.function::<unsafe extern "C" fn(*mut TableLocker)>()(locker) }
}
