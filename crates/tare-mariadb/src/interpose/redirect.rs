//! Redirects connections of FEDERATED tables to the endpoint's Unix socket.
//!
//! The connect string of a FEDERATED table can name a host and a port, but no socket. So the tables that tare
//! installs name a loopback address that means "tare", and this module overrides libc's `connect`: for
//! exactly that address it connects the caller's descriptor to the endpoint's socket; every other call passes
//! to libc unchanged. Without tare the address is an ordinary loopback address that nobody listens on, so the
//! kernel refuses it at once.
//!
//! `connect` may be called from any thread and from signal handlers: nothing here allocates, locks or panics.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::mem::{MaybeUninit, size_of};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{sockaddr, sockaddr_in, sockaddr_un, socklen_t};
use tare_host::socket::check_socket_path;

pub use crate::endpoint::{HOST, PORT, ServiceError};

/// The longest that a full listen queue of the endpoint may delay a caller.
const BACKLOG_WAIT: libc::timeval = libc::timeval { tv_sec: 5, tv_usec: 0 };

/// The endpoint's address. Set once, before the endpoint listens; read without locks.
static ENDPOINT: OnceLock<sockaddr_un> = OnceLock::new();

/// libc's own `connect`, resolved by [`resolve`]; null until then.
static LIBC_CONNECT: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

type Connect = unsafe extern "C" fn(c_int, *const sockaddr, socklen_t) -> c_int;

/// Redirects [`HOST`]:[`PORT`] to the Unix socket at `path`, in this process and for its lifetime. The path
/// should be absolute because the server changes its directory.
///
/// # Errors
///
/// When `path` cannot be a socket's, or another path was set before.
pub fn lead_to(path: &Path) -> Result<(), ServiceError> {
    check_socket_path(path)?;
    let address = unix_address(path.as_os_str().as_bytes());
    let set = ENDPOINT.get_or_init(|| address);
    if set.sun_path == address.sun_path { Ok(()) } else { Err(ServiceError::AlreadySet) }
}

/// Returns the address of `path`, which must have at most
/// [`MAX_SOCKET_PATH`](tare_host::socket::MAX_SOCKET_PATH) bytes so that a zero follows it.
fn unix_address(path: &[u8]) -> sockaddr_un {
    // SAFETY: sockaddr_un is plain integers; all-zero is a valid value.
    let mut address: sockaddr_un = unsafe { MaybeUninit::zeroed().assume_init() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    for (to, from) in address.sun_path.iter_mut().zip(path) {
        *to = from.cast_signed();
    }
    address
}

/// Looks up libc's `connect`. The constructor calls it, where `dlsym` is allowed; a signal handler that
/// connects must find it done.
pub(crate) fn resolve() {
    // SAFETY: a plain symbol lookup with a NUL-terminated name.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, c"connect".as_ptr()) };
    LIBC_CONNECT.store(found, Ordering::Release);
}

/// Overrides libc's `connect`.
///
/// # Safety
///
/// The contract of `connect(2)`: `address` points to `length` readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn connect(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int {
    // SAFETY: the caller upholds connect(2)'s contract on `address` and `length`.
    if unsafe { means_tare(address, length) }
        && let Some(endpoint) = ENDPOINT.get()
    {
        return connect_to_endpoint(fd, endpoint);
    }
    // SAFETY: as above; passed on unchanged.
    unsafe { libc_connect(fd, address, length) }
}

/// Calls libc's `connect`, or the kernel if it is not yet resolved.
///
/// # Safety
///
/// See [`connect`].
unsafe fn libc_connect(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int {
    let next = LIBC_CONNECT.load(Ordering::Acquire);
    if next.is_null() {
        // Before our constructor ran, the system call is made directly, which is what libc does.
        // SAFETY: the caller upholds connect(2)'s contract.
        return unsafe { libc::syscall(libc::SYS_connect, fd, address, length) as c_int };
    }
    // SAFETY: `next` is the next object's `connect`, a function of this type.
    let next = unsafe { std::mem::transmute::<*mut c_void, Connect>(next) };
    // SAFETY: the caller upholds connect(2)'s contract.
    unsafe { next(fd, address, length) }
}

/// Returns whether an address is [`HOST`]:[`PORT`].
///
/// # Safety
///
/// `address` is null or points to `length` readable bytes.
unsafe fn means_tare(address: *const sockaddr, length: socklen_t) -> bool {
    if address.is_null() || (length as usize) < size_of::<sockaddr_in>() {
        return false;
    }
    // SAFETY: at least sockaddr_in's bytes are readable; the caller's buffer may be unaligned.
    let address = unsafe { address.cast::<sockaddr_in>().read_unaligned() };
    c_int::from(address.sin_family) == libc::AF_INET
        && address.sin_addr.s_addr == u32::from_ne_bytes(HOST.octets())
        && address.sin_port == PORT.to_be()
}

/// Replaces `fd` with a socket connected to the endpoint, with `fd`'s flags. The open file behind `fd` is
/// replaced, so earlier settings on it (timeouts, epoll registrations) are lost; the server's client sets its
/// options after connecting.
fn connect_to_endpoint(fd: c_int, endpoint: &sockaddr_un) -> c_int {
    // SAFETY: fcntl with integer arguments reads the flags of whatever `fd` is.
    let (status, descriptor) = unsafe { (libc::fcntl(fd, libc::F_GETFL), libc::fcntl(fd, libc::F_GETFD)) };
    if status < 0 || descriptor < 0 {
        return -1;
    }
    // SAFETY: integers only; a new descriptor or -1.
    let fresh = unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
    if fresh < 0 {
        return -1;
    }
    let outcome = connect_unix(fresh, endpoint).and_then(|()| put_in_place(fresh, fd, status, descriptor));
    // SAFETY: `fresh` belongs to this function; after dup3 the connection lives on in `fd`.
    unsafe { libc::close(fresh) };
    match outcome {
        Ok(()) => 0,
        Err(errno) => {
            // SAFETY: errno's location is valid for the calling thread.
            unsafe { *libc::__errno_location() = errno };
            -1
        }
    }
}

/// An errno as a caller of an AF_INET `connect` expects it.
type Errno = c_int;

fn connect_unix(socket: c_int, endpoint: &sockaddr_un) -> Result<(), Errno> {
    set_send_timeout(socket, BACKLOG_WAIT);
    let length = size_of::<sockaddr_un>() as socklen_t;
    // SAFETY: `endpoint` is a whole sockaddr_un.
    let connected = unsafe { libc_connect(socket, std::ptr::from_ref(endpoint).cast(), length) };
    let errno = errno();
    set_send_timeout(socket, libc::timeval { tv_sec: 0, tv_usec: 0 });
    match (connected, errno) {
        (0, _) => Ok(()),
        // A missing socket file means that nobody listens; a full listen queue is a time-out.
        (_, libc::ENOENT) => Err(libc::ECONNREFUSED),
        (_, libc::EAGAIN) => Err(libc::ETIMEDOUT),
        (_, other) => Err(other),
    }
}

fn set_send_timeout(socket: c_int, timeout: libc::timeval) {
    let value = std::ptr::from_ref(&timeout).cast();
    let length = size_of::<libc::timeval>() as socklen_t;
    // SAFETY: `value` points to a timeval of that length. A failure only loses the bound on the wait.
    unsafe { libc::setsockopt(socket, libc::SOL_SOCKET, libc::SO_SNDTIMEO, value, length) };
}

fn put_in_place(fresh: c_int, fd: c_int, status: c_int, descriptor: c_int) -> Result<(), Errno> {
    let close_on_exec = if descriptor & libc::FD_CLOEXEC != 0 { libc::O_CLOEXEC } else { 0 };
    // SAFETY: both are open descriptors and differ: `fd` was open before `fresh` was created.
    if unsafe { libc::dup3(fresh, fd, close_on_exec) } < 0 {
        return Err(errno());
    }
    // SAFETY: integers only.
    if status & libc::O_NONBLOCK != 0 && unsafe { libc::fcntl(fd, libc::F_SETFL, libc::O_NONBLOCK) } < 0 {
        return Err(errno());
    }
    Ok(())
}

fn errno() -> Errno {
    // SAFETY: errno's location is valid for the calling thread.
    unsafe { *libc::__errno_location() }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
    use std::os::unix::net::UnixListener;

    use super::*;

    fn socket_with(flags: c_int) -> OwnedFd {
        // SAFETY: integers only.
        let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM | flags, 0) };
        assert!(fd >= 0);
        // SAFETY: a descriptor just made, owned by nobody else.
        unsafe { OwnedFd::from_raw_fd(fd) }
    }

    fn connect_to_tare(fd: &OwnedFd) -> c_int {
        let address = sockaddr_in {
            sin_family: libc::AF_INET as libc::sa_family_t,
            sin_port: PORT.to_be(),
            sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(HOST.octets()) },
            sin_zero: [0; 8],
        };
        // SAFETY: `address` is a whole sockaddr_in.
        unsafe { connect(fd.as_raw_fd(), (&raw const address).cast(), size_of::<sockaddr_in>() as socklen_t) }
    }

    /// Returns whether F_GETFL has O_NONBLOCK and F_GETFD has FD_CLOEXEC.
    fn flags(fd: &OwnedFd) -> (bool, bool) {
        // SAFETY: integers only.
        let (status, descriptor) = unsafe {
            (libc::fcntl(fd.as_raw_fd(), libc::F_GETFL), libc::fcntl(fd.as_raw_fd(), libc::F_GETFD))
        };
        (status & libc::O_NONBLOCK != 0, descriptor & libc::FD_CLOEXEC != 0)
    }

    /// Tests everything at once, because the endpoint's address is global to the process.
    #[test]
    fn only_tares_address_leads_to_the_endpoint() {
        let refused = connect_to_tare(&socket_with(0));
        assert_eq!((refused, errno()), (-1, libc::ECONNREFUSED), "nobody listens there before lead_to");

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("endpoint");
        lead_to(&path).unwrap();
        lead_to(&path).unwrap();
        assert_eq!(lead_to(&folder.path().join("other")), Err(ServiceError::AlreadySet));
        let absent = connect_to_tare(&socket_with(0));
        assert_eq!((absent, errno()), (-1, libc::ECONNREFUSED), "no socket file");

        let listener = UnixListener::bind(&path).unwrap();
        for (flag, expected) in [
            (0, (false, false)),
            (libc::SOCK_NONBLOCK, (true, false)),
            (libc::SOCK_CLOEXEC, (false, true)),
            (libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC, (true, true)),
        ] {
            let fd = socket_with(flag);
            assert_eq!(connect_to_tare(&fd), 0);
            assert_eq!(flags(&fd), expected);
            let (mut far, _) = listener.accept().unwrap();
            far.write_all(b"hello").unwrap();
            let mut text = [0; 5];
            TcpStream::from(fd).read_exact(&mut text).unwrap();
            assert_eq!(&text, b"hello");
        }

        let elsewhere = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let near = TcpStream::connect(elsewhere.local_addr().unwrap()).unwrap();
        assert_eq!(near.peer_addr().unwrap(), elsewhere.local_addr().unwrap());
    }
}
