//! HOT PATH: sockets.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_uint, c_ulong, c_void};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ptr::null_mut;
use std::sync::atomic::Ordering::Relaxed;

use tare_engine::snapshot::Kind;
use tare_engine::{SocketHandle, SocketRef, Source, Start, Wait};
use tare_host::process::{ENGINE, guard};

use super::kept::{keep, kept};
use crate::abi::io::{ObjectLocker, Socket};
use crate::original::Original;
use crate::server::carriers::SOCKETS;
use crate::server::instruments;
use crate::server::thread::settled;

/// The built-in's functions of the same names.
pub(crate) static SET_OWNER: Original = Original::new();
/// See [`SET_OWNER`].
pub(crate) static CREATE_SOCKET: Original = Original::new();
/// See [`SET_OWNER`].
pub(crate) static DESTROY_SOCKET: Original = Original::new();

/// Returns whether a statement that is not chosen skips a wait for a socket. One that sends a result may have
/// waited for its reader, which makes it slow.
#[inline(always)]
fn is_skipped(socket: &Socket) -> bool {
    if !ENGINE.looks_for_slowness() {
        return false;
    }
    // SAFETY: a socket of the built-in's has an instrument, which is never removed.
    let class = unsafe { socket.class.as_ref() }.map_or(0, instruments::of);
    ENGINE.is_class_sampled(class) && ENGINE.skips_early().unwrap_or_else(skips_late)
}

/// Decides [`is_skipped`] in a statement that may be slow.
#[cold]
#[inline(never)]
fn skips_late() -> bool {
    ENGINE.skips_after_pause()
}

/// Returns the engine's socket for one of the built-in's.
#[inline(always)]
fn known(socket: &Socket) -> Option<SocketRef> {
    match SOCKETS.get(std::ptr::from_ref(socket).addr()) {
        0 => meet(socket),
        known => at(known),
    }
}

/// Returns the engine's socket at an address of [`SOCKETS`]; `None`: 0.
#[inline(always)]
fn at(address: usize) -> Option<SocketRef> {
    // SAFETY: 0, or the address of a socket that `meet` has put there.
    unsafe { SocketHandle::from_address(std::ptr::with_exposed_provenance(address)) }
}

/// Returns IP and port of a socket's address, as the interface has it: that of the system.
fn peer(address: &[u8; 0x80]) -> (String, u16) {
    let [family, port] = [0, 2].map(|at| [address[at], address[at + 1]]);
    let port = u16::from_be_bytes(port);
    match i32::from(u16::from_ne_bytes(family)) {
        libc::AF_INET => {
            let [a, b, c, d] = [4, 5, 6, 7].map(|at| address[at]);
            (Ipv4Addr::new(a, b, c, d).to_string(), port)
        }
        libc::AF_INET6 => {
            let ip = <[u8; 16]>::try_from(&address[8..24]).unwrap_or_default();
            (Ipv6Addr::from(ip).to_string(), port)
        }
        _ => (String::new(), 0),
    }
}

#[cold]
#[inline(never)]
fn meet(socket: &Socket) -> Option<SocketRef> {
    guard(None, || {
        // SAFETY: a socket of the built-in's has an instrument, which is never removed.
        let class = instruments::of(unsafe { socket.class.as_ref() }?);
        let make = || {
            let Some(made) = ENGINE.init_socket(class, None, b"", 0) else { return 0 };
            ENGINE.set_socket_identity(made, socket.identity as u64);
            let (ip, port) = peer(&socket.address);
            ENGINE.set_socket_info(made, None, Some((ip.as_bytes(), port)));
            made.address().expose_provenance()
        };
        at(SOCKETS.set(std::ptr::from_ref(socket).addr(), false, make))
    })
}

pub(crate) unsafe extern "C" fn start_socket_wait(
    locker: *mut ObjectLocker,
    socket: *const Socket,
    op: c_uint,
    _count: c_ulong,
    file: *const c_char,
    line: c_uint,
) -> *mut ObjectLocker {
    if ENGINE.is_all_sampled(Kind::Socket) && ENGINE.skips_after_short_pause() {
        return null_mut();
    }
    // SAFETY: the server's promise.
    unsafe { start_further_socket_wait(locker, socket, op, file, line) }
}

/// Begins a wait while some sockets' instruments are off or sampled.
pub(crate) unsafe extern "C" fn filter_socket_wait(
    locker: *mut ObjectLocker,
    socket: *const Socket,
    op: c_uint,
    _count: c_ulong,
    file: *const c_char,
    line: c_uint,
) -> *mut ObjectLocker {
    // SAFETY: the server's promise: a socket of the built-in's, which has an instrument that is never
    // removed.
    let class = unsafe { (*socket).class.as_ref() }.map_or(0, instruments::known);
    if class != 0 && ENGINE.is_off(class) {
        return null_mut();
    }
    // SAFETY: the server's promise.
    unsafe { start_further_socket_wait(locker, socket, op, file, line) }
}

/// Begins a wait that is not skipped early. Apart, so that the others need no registers but the caller's.
#[inline(never)]
unsafe extern "C" fn start_further_socket_wait(
    locker: *mut ObjectLocker,
    socket: *const Socket,
    op: c_uint,
    file: *const c_char,
    line: c_uint,
) -> *mut ObjectLocker {
    if settled().is_none() {
        return null_mut();
    }
    // SAFETY: the server's promise: a socket of the built-in's.
    let of = unsafe { &*socket };
    if is_skipped(of) {
        return null_mut();
    }
    let Some(known) = known(of) else { return null_mut() };
    let source = Source::new(file, line);
    // As the built-in: what a session waits for between two commands is no time of the socket's.
    let is_timed = of.timed.load(Relaxed) != 0 && of.is_idle.load(Relaxed) == 0;
    let begun = match is_timed {
        true => ENGINE.start_socket_wait_fast(known, op as u8, source),
        false => Start::Slow,
    };
    let wait = match begun {
        Start::Began(wait) => Some(wait),
        Start::Off => None,
        Start::Slow => start_slow(known, op, source, is_timed),
    };
    let Some(wait) = wait else { return null_mut() };
    // SAFETY: the server's promise.
    unsafe {
        keep(locker.cast(), wait, known.address());
        (&raw mut (*locker).operation).write(op);
    }
    locker
}

#[cold]
#[inline(never)]
fn start_slow(socket: SocketRef, op: c_uint, source: Source, is_timed: bool) -> Option<Wait> {
    guard(None, || match is_timed {
        true => ENGINE.start_socket_wait(socket, op as u8, source),
        false => ENGINE.start_untimed_socket_wait(socket, op as u8, source),
    })
}

pub(crate) unsafe extern "C" fn end_socket_wait(locker: *const ObjectLocker, count: c_ulong) {
    // SAFETY: the server's promise: a locker that `start_socket_wait` returned, once.
    let (wait, locker) = unsafe { (kept(&(*locker).of), &*locker) };
    // SAFETY: `start_socket_wait` has put the address of a socket there.
    let socket = unsafe { SocketHandle::from_address(locker.of.object) };
    let (Some(wait), Some(socket)) = (wait, socket) else { return };
    // A negative result is an error and transfers none.
    let bytes = if (count as i32) < 0 { 0 } else { count };
    if !ENGINE.end_socket_wait_fast(socket, &wait, locker.operation as u8, bytes) {
        end_slow(socket, &wait, locker.operation, bytes);
    }
}

#[cold]
#[inline(never)]
fn end_slow(socket: SocketRef, wait: &Wait, op: u32, bytes: u64) {
    guard((), || ENGINE.end_socket_wait(socket, wait, op as u8, bytes));
}

pub(crate) unsafe extern "C" fn create_socket(
    class: *const c_void,
    fd: *const c_int,
    address: *const c_void,
    length: c_uint,
) -> *const Socket {
    type Create = unsafe extern "C" fn(*const c_void, *const c_int, *const c_void, c_uint) -> *const Socket;
    // SAFETY: the function's own type and arguments.
    let socket = unsafe { CREATE_SOCKET.function::<Create>()(class, fd, address, length) };
    guard((), || {
        // SAFETY: null, or the socket that was just created.
        if let Some(socket) = unsafe { socket.as_ref() } {
            meet(socket);
        }
    });
    socket
}

pub(crate) unsafe extern "C" fn set_socket_info(
    socket: *mut Socket,
    fd: *const c_int,
    address: *const c_void,
    length: c_uint,
) {
    // SAFETY: the server's promise: a socket that only the caller uses, and null or a descriptor.
    unsafe {
        if let Some(fd) = fd.as_ref() {
            (&raw mut (*socket).fd).write(*fd);
        }
        if !address.is_null() && length > 0 {
            let length = length.min(size_of::<[u8; 0x80]>() as u32);
            (&raw mut (*socket).address_length).write(length);
            let to = (&raw mut (*socket).address).cast::<u8>();
            to.copy_from_nonoverlapping(address.cast(), length as usize);
        }
    }
    guard((), || {
        // SAFETY: the server's promise: a socket of the built-in's.
        let socket = unsafe { &*socket };
        if let Some(known) = known(socket) {
            let (ip, port) = peer(&socket.address);
            ENGINE.set_socket_info(known, None, Some((ip.as_bytes(), port)));
        }
    });
}

pub(crate) unsafe extern "C" fn set_socket_thread_owner(socket: *const Socket) {
    guard((), || {
        // SAFETY: the server's promise: a socket of the built-in's.
        let socket = unsafe { &*socket };
        if settled().is_some()
            && let Some(known) = known(socket)
        {
            ENGINE.set_socket_thread_owner(known);
        }
    });
    // SAFETY: the function's own type and argument.
    unsafe { SET_OWNER.function::<unsafe extern "C" fn(*const Socket)>()(socket) }
}

pub(crate) unsafe extern "C" fn destroy_socket(socket: *const Socket) {
    guard((), || {
        if let Some(known) = at(SOCKETS.take(socket.addr())) {
            ENGINE.destroy_socket(known);
        }
    });
    // SAFETY: the function's own type and argument.
    unsafe { DESTROY_SOCKET.function::<unsafe extern "C" fn(*const Socket)>()(socket) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_the_systems() {
        let address = |family: i32, rest: &[u8]| {
            let mut all = [0; 0x80];
            all[..2].copy_from_slice(&u16::try_from(family).expect("a family").to_ne_bytes());
            all[2..][..rest.len()].copy_from_slice(rest);
            peer(&all)
        };
        assert_eq!(address(libc::AF_INET, &[0x0C, 0xEA, 127, 0, 0, 1]), ("127.0.0.1".to_owned(), 3306));
        let six = [&[0x0C, 0xEA, 0, 0, 0, 0][..], &Ipv6Addr::LOCALHOST.octets()].concat();
        assert_eq!(address(libc::AF_INET6, &six), ("::1".to_owned(), 3306));
        assert_eq!(address(libc::AF_UNIX, b"/socket"), (String::new(), 0));
    }
}
