//! HOT PATH: sockets, and the wait for the next command.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_uint, c_ulong};
use std::ptr::null_mut;

use tare_engine::{SocketHandle, Source, Start, Wait};
use tare_host::process::ENGINE;
use tare_host::process::guard;

use super::facts;
use super::pointer::{begun, instance, keep, known, state, value};
use crate::abi::types::{IdleLocker, IdleLockerState, Socket, SocketLocker, SocketLockerState};

/// The server's `PSI_SOCKET_STATE_IDLE`.
const IDLE: c_uint = 1;

pub(super) unsafe extern "C" fn init_socket(
    key: c_uint,
    fd: *const c_int,
    addr: *const libc::sockaddr,
    len: c_uint,
) -> *mut Socket {
    guard(null_mut(), || {
        let (ip, port) = facts::peer(addr, len);
        let socket = ENGINE.init_socket(key as u16, value!(fd), ip.as_bytes(), port);
        socket.map_or(null_mut(), |socket| socket.address().cast())
    })
}

pub(super) unsafe extern "C" fn destroy_socket(socket: *mut Socket) {
    guard((), || {
        if let Some(socket) = instance!(SocketHandle, socket) {
            ENGINE.destroy_socket(socket);
        }
    });
}

pub(super) unsafe extern "C" fn set_socket_info(
    socket: *mut Socket,
    fd: *const c_int,
    addr: *const libc::sockaddr,
    len: c_uint,
) {
    guard((), || {
        if let Some(socket) = instance!(SocketHandle, socket) {
            let (ip, port) = facts::peer(addr, len);
            let peer = (!addr.is_null()).then_some((ip.as_bytes(), port));
            ENGINE.set_socket_info(socket, value!(fd), peer);
        }
    });
}

pub(super) unsafe extern "C" fn set_socket_state(socket: *mut Socket, state: c_uint) {
    guard((), || {
        if let Some(socket) = instance!(SocketHandle, socket) {
            ENGINE.set_socket_idle(socket, state == IDLE);
        }
    });
}

pub(super) unsafe extern "C" fn set_socket_thread_owner(socket: *mut Socket) {
    guard((), || {
        if let Some(socket) = instance!(SocketHandle, socket) {
            ENGINE.set_socket_thread_owner(socket);
        }
    });
}

/// Stores a wait for a socket, which is not null.
#[inline(always)]
fn keep(
    state: *mut SocketLockerState,
    wait: Wait,
    socket: *mut Socket,
    operation: c_uint,
) -> *mut SocketLocker {
    let Some(kept) = state!(state, SocketLockerState) else { return null_mut() };
    keep!(kept, wait);
    kept.socket = socket;
    kept.operation = operation;
    state.cast()
}

pub(super) unsafe extern "C" fn start_socket_wait(
    state: *mut SocketLockerState,
    socket: *mut Socket,
    op: c_uint,
    _count: c_ulong,
    file: *const c_char,
    line: c_uint,
) -> *mut SocketLocker {
    let Some(instance) = instance!(SocketHandle, socket) else { return null_mut() };
    match ENGINE.start_socket_wait_fast(instance, op as u8, Source::new(file, line)) {
        Start::Began(wait) => keep(state, wait, socket, op),
        Start::Off => null_mut(),
        Start::Slow => start_socket_wait_slow(state, socket, op, file, line),
    }
}

/// The `start_socket_wait` slot while all sockets are sampled.
pub(super) unsafe extern "C" fn sample_socket_wait(
    state: *mut SocketLockerState,
    socket: *mut Socket,
    op: c_uint,
    count: c_ulong,
    file: *const c_char,
    line: c_uint,
) -> *mut SocketLocker {
    match ENGINE.skips_early() {
        Some(true) => null_mut(),
        // SAFETY: the caller's promise.
        Some(false) => unsafe { start_socket_wait(state, socket, op, count, file, line) },
        None => sample_late_socket_wait(state, socket, op, count, file, line),
    }
}

/// Starts a wait for a socket in a statement that may be slow: a thread that sends a result may have waited
/// for its reader.
#[cold]
#[inline(never)]
extern "C" fn sample_late_socket_wait(
    state: *mut SocketLockerState,
    socket: *mut Socket,
    op: c_uint,
    count: c_ulong,
    file: *const c_char,
    line: c_uint,
) -> *mut SocketLocker {
    if ENGINE.skips_after_pause() {
        return null_mut();
    }
    // SAFETY: the caller's promise.
    unsafe { start_socket_wait(state, socket, op, count, file, line) }
}

/// The `start_socket_wait` slot while some sockets are off or sampled.
pub(super) unsafe extern "C" fn filter_socket_wait(
    state: *mut SocketLockerState,
    socket: *mut Socket,
    op: c_uint,
    count: c_ulong,
    file: *const c_char,
    line: c_uint,
) -> *mut SocketLocker {
    let is_passed_over = |instance| ENGINE.is_socket_off(instance) || ENGINE.skips_socket(instance);
    if instance!(SocketHandle, socket).is_none_or(is_passed_over) {
        return null_mut();
    }
    // SAFETY: the caller's promise.
    unsafe { start_socket_wait(state, socket, op, count, file, line) }
}

#[cold]
#[inline(never)]
extern "C" fn start_socket_wait_slow(
    state: *mut SocketLockerState,
    socket: *mut Socket,
    op: c_uint,
    file: *const c_char,
    line: c_uint,
) -> *mut SocketLocker {
    guard(null_mut(), || {
        let Some(instance) = instance!(SocketHandle, socket) else { return null_mut() };
        let wait = ENGINE.start_socket_wait(instance, op as u8, Source::new(file, line));
        wait.map_or(null_mut(), |wait| keep(state, wait, socket, op))
    })
}

/// Returns the number of bytes; the server's is negative after an error.
#[inline(always)]
fn bytes(count: c_ulong) -> u64 {
    if (count as i32) < 0 { 0 } else { count }
}

pub(super) unsafe extern "C" fn end_socket_wait(locker: *mut SocketLocker, count: c_ulong) {
    let Some(state) = state!(locker, SocketLockerState) else { return };
    let (wait, socket) = (begun!(state), known!(SocketHandle, state.socket));
    if !ENGINE.end_socket_wait_fast(socket, &wait, state.operation as u8, bytes(count)) {
        end_socket_wait_slow(locker, count);
    }
}

#[cold]
#[inline(never)]
extern "C" fn end_socket_wait_slow(locker: *mut SocketLocker, count: c_ulong) {
    guard((), || {
        let Some(state) = state!(locker, SocketLockerState) else { return };
        let (wait, socket) = (begun!(state), known!(SocketHandle, state.socket));
        ENGINE.end_socket_wait(socket, &wait, state.operation as u8, bytes(count));
    });
}

pub(super) unsafe extern "C" fn start_idle_wait(
    state: *mut IdleLockerState,
    file: *const c_char,
    line: c_uint,
) -> *mut IdleLocker {
    match ENGINE.start_idle_wait_fast(Source::new(file, line)) {
        Start::Began(wait) => keep_idle(state, wait),
        Start::Off => null_mut(),
        Start::Slow => start_idle_wait_slow(state, file, line),
    }
}

/// The `start_idle_wait` slot while it is sampled. The wait belongs to the statement before it.
pub(super) unsafe extern "C" fn sample_idle_wait(
    state: *mut IdleLockerState,
    file: *const c_char,
    line: c_uint,
) -> *mut IdleLocker {
    if ENGINE.is_skipping() {
        return null_mut();
    }
    // SAFETY: the caller's promise.
    unsafe { start_idle_wait(state, file, line) }
}

#[inline(always)]
fn keep_idle(state: *mut IdleLockerState, wait: Wait) -> *mut IdleLocker {
    let Some(kept) = state!(state, IdleLockerState) else { return null_mut() };
    keep!(kept, wait);
    state.cast()
}

#[cold]
#[inline(never)]
extern "C" fn start_idle_wait_slow(
    state: *mut IdleLockerState,
    file: *const c_char,
    line: c_uint,
) -> *mut IdleLocker {
    guard(null_mut(), || {
        let wait = ENGINE.start_idle_wait(Source::new(file, line));
        wait.map_or(null_mut(), |wait| keep_idle(state, wait))
    })
}

pub(super) unsafe extern "C" fn end_idle_wait(locker: *mut IdleLocker) {
    if let Some(state) = state!(locker, IdleLockerState)
        && !ENGINE.end_idle_wait_fast(&begun!(state))
    {
        end_idle_wait_slow(locker);
    }
}

#[cold]
#[inline(never)]
extern "C" fn end_idle_wait_slow(locker: *mut IdleLocker) {
    guard((), || {
        if let Some(state) = state!(locker, IdleLockerState) {
            ENGINE.end_idle_wait(&begun!(state));
        }
    });
}
