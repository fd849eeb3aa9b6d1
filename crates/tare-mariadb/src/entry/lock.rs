//! HOT PATH: what stands in the place of the server's functions that take an instrumented lock (`startup::locks`).
//!
//! Each does what the server's does, but a lock that is free needs no clock, if its level says so. It is tried in the call that
//! records it, so nobody can wait unseen.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_uint};
use std::hint::cold_path;
use std::mem::{MaybeUninit, offset_of};
use std::sync::OnceLock;

use tare_engine::snapshot::Kind;
use tare_engine::{Source, SynchHandle, SynchRef, ThreadRef, operation};

use super::ENGINE;
use super::pointer::instance;
use super::synch::{end, parties, start};
use crate::abi::types::{Mutex, MutexLockerState, Rwlock};

/// A lock of the server's, and its instance.
#[repr(C)]
pub(crate) struct Instrumented<L, I> {
    lock: L,
    instance: *mut I,
}

type ServerMutex = Instrumented<libc::pthread_mutex_t, Mutex>;
type ServerRwlock = Instrumented<libc::pthread_rwlock_t, Rwlock>;
type ServerPrlock = Instrumented<Prlock, Rwlock>;

/// The server's own rwlock that prefers readers: they hold the mutex while they come and go, a writer holds it all the time.
#[repr(C)]
pub(crate) struct Prlock {
    mutex: libc::pthread_mutex_t,
    no_active_readers: libc::pthread_cond_t,
    active_readers: c_uint,
    writers_waiting_readers: c_uint,
    active_writer: u8,
}

/// A function of the server's that takes a [`Prlock`].
pub(crate) type TakePrlock = unsafe extern "C" fn(*mut Prlock) -> c_int;

/// The server's own functions that take one to read, and to write. Set before any call is led here.
pub(crate) static PRLOCK: OnceLock<[TakePrlock; 2]> = OnceLock::new();

/// Where the locks keep the instance, and the server's own rwlock how many read and whether somebody writes.
pub(crate) const MUTEX_INSTANCE: usize = offset_of!(ServerMutex, instance);
pub(crate) const RWLOCK_INSTANCE: usize = offset_of!(ServerRwlock, instance);
pub(crate) const PRLOCK_INSTANCE: usize = offset_of!(ServerPrlock, instance);
pub(crate) const PRLOCK_READERS: usize = offset_of!(Prlock, active_readers);
pub(crate) const PRLOCK_WRITER: usize = offset_of!(Prlock, active_writer);

/// A way to take a lock.
trait Way {
    type Lock;
    type Instance;
    const KIND: Kind;
    const OPERATION: u8;

    /// Takes the lock if it is free.
    ///
    /// # Safety
    /// The lock is one of the server's, initialised.
    unsafe fn take_free(lock: *mut Self::Lock) -> bool;

    /// Takes it as the server does.
    ///
    /// # Safety
    /// As [`Way::take_free`].
    unsafe fn take(lock: *mut Self::Lock) -> c_int;

    /// Notes that the calling thread has it.
    fn note(synch: SynchRef, thread: ThreadRef);
}

/// Takes a lock as the server's function does.
///
/// # Safety
/// The lock is one of the server's, initialised, and stays while it is taken.
#[inline(always)]
unsafe fn lock<W: Way>(
    that: *mut Instrumented<W::Lock, W::Instance>,
    file: *const c_char,
    line: c_uint,
) -> c_int {
    // SAFETY: the caller's promise.
    let (at, instance) = unsafe { (&raw mut (*that).lock, (*that).instance) };
    if !ENGINE.wants(W::KIND) {
        // SAFETY: the caller's promise.
        return unsafe { W::take(at) };
    }
    if let Some(synch) = instance!(SynchHandle, instance)
        && let Some(untimed) = ENGINE.untimed_synch(synch)
    {
        // SAFETY: the caller's promise.
        if unsafe { W::take_free(at) } {
            ENGINE.count_free_synch(untimed, synch, W::OPERATION, Source::new(file, line));
            W::note(synch, untimed.thread());
            return 0;
        }
        cold_path();
        if untimed.is_never_timed() {
            // SAFETY: the caller's promise.
            return unsafe { lock_counted::<W>(that, file, line) };
        }
    }
    // SAFETY: the caller's promise.
    unsafe { lock_timed::<W>(that, file, line) }
}

/// As [`lock`], where somebody has it, and waits for it are only counted.
#[cold]
#[inline(never)]
unsafe extern "C" fn lock_counted<W: Way>(
    that: *mut Instrumented<W::Lock, W::Instance>,
    file: *const c_char,
    line: c_uint,
) -> c_int {
    // SAFETY: the caller's promise: `lock`'s.
    let (at, instance) = unsafe { (&raw mut (*that).lock, (*that).instance) };
    if let Some(synch) = instance!(SynchHandle, instance)
        && let Some(untimed) = ENGINE.untimed_synch(synch)
    {
        // SAFETY: as above.
        let rc = unsafe { W::take(at) };
        ENGINE.count_free_synch(untimed, synch, W::OPERATION, Source::new(file, line));
        if rc == 0 {
            W::note(synch, untimed.thread());
        }
        return rc;
    }
    // SAFETY: as above.
    unsafe { lock_timed::<W>(that, file, line) }
}

/// As [`lock`], with the clock.
#[inline(never)]
unsafe extern "C" fn lock_timed<W: Way>(
    that: *mut Instrumented<W::Lock, W::Instance>,
    file: *const c_char,
    line: c_uint,
) -> c_int {
    let mut state = MaybeUninit::<MutexLockerState>::uninit();
    // SAFETY: the caller's promise: `lock`'s.
    let (at, instance) = unsafe { (&raw mut (*that).lock, (*that).instance) };
    let locker = start(state.as_mut_ptr(), instance.cast(), W::OPERATION, file, line);
    // SAFETY: as above.
    let rc = unsafe { W::take(at) };
    if !locker.is_null() {
        if rc == 0
            && let Some((synch, thread)) = parties(locker)
        {
            W::note(synch, thread);
        }
        end(locker);
    }
    rc
}

/// A mutex; `TRY`: it is only tried.
struct TakeMutex<const TRY: bool>;

impl<const TRY: bool> Way for TakeMutex<TRY> {
    type Lock = libc::pthread_mutex_t;
    type Instance = Mutex;
    const KIND: Kind = Kind::Mutex;
    const OPERATION: u8 = operation::MUTEX + TRY as u8;

    #[inline(always)]
    unsafe fn take_free(lock: *mut Self::Lock) -> bool {
        // SAFETY: the caller's promise.
        unsafe { libc::pthread_mutex_trylock(lock) == 0 }
    }

    #[inline(always)]
    unsafe fn take(lock: *mut Self::Lock) -> c_int {
        // SAFETY: the caller's promise.
        unsafe { if TRY { libc::pthread_mutex_trylock(lock) } else { libc::pthread_mutex_lock(lock) } }
    }

    #[inline(always)]
    fn note(synch: SynchRef, thread: ThreadRef) {
        ENGINE.set_synch_owner(synch, thread);
    }
}

/// An rwlock of the C library's, to read or to write.
struct TakeRwlock<const WRITE: bool>;

/// An rwlock of the server's own.
struct TakePrlockTo<const WRITE: bool>;

/// Implements [`Way`] for an rwlock but for the taking itself.
macro_rules! rwlock_way {
    ($way:ident, $lock:ty, $free:expr, $take:expr) => {
        impl<const WRITE: bool> Way for $way<WRITE> {
            type Lock = $lock;
            type Instance = Rwlock;
            const KIND: Kind = Kind::Rwlock;
            const OPERATION: u8 = operation::RWLOCK + WRITE as u8;

            #[inline(always)]
            unsafe fn take_free(lock: *mut Self::Lock) -> bool {
                // SAFETY: the caller's promise.
                unsafe { $free(lock) }
            }

            #[inline(always)]
            unsafe fn take(lock: *mut Self::Lock) -> c_int {
                // SAFETY: the caller's promise.
                unsafe { $take(lock) }
            }

            #[inline(always)]
            fn note(synch: SynchRef, thread: ThreadRef) {
                if WRITE {
                    ENGINE.set_synch_owner(synch, thread);
                } else {
                    ENGINE.add_synch_reader(synch, thread);
                }
            }
        }
    };
}

rwlock_way!(
    TakeRwlock,
    libc::pthread_rwlock_t,
    |lock| if WRITE {
        libc::pthread_rwlock_trywrlock(lock) == 0
    } else {
        libc::pthread_rwlock_tryrdlock(lock) == 0
    },
    |lock| if WRITE { libc::pthread_rwlock_wrlock(lock) } else { libc::pthread_rwlock_rdlock(lock) }
);
rwlock_way!(TakePrlockTo, Prlock, |lock| if WRITE { write_free(lock) } else { read_free(lock) }, |lock| {
    PRLOCK.get().map_or(libc::EINVAL, |functions| functions[usize::from(WRITE)](lock))
});

/// # Safety
/// As [`Way::take_free`].
#[inline(always)]
unsafe fn read_free(lock: *mut Prlock) -> bool {
    // SAFETY: the caller's promise; who holds the mutex may change the readers.
    unsafe {
        if libc::pthread_mutex_trylock(&raw mut (*lock).mutex) != 0 {
            return false;
        }
        (*lock).active_readers += 1;
        libc::pthread_mutex_unlock(&raw mut (*lock).mutex);
    }
    true
}

/// # Safety
/// As [`Way::take_free`].
#[inline(always)]
unsafe fn write_free(lock: *mut Prlock) -> bool {
    // SAFETY: the caller's promise; who holds the mutex while there are no readers is the writer.
    unsafe {
        if libc::pthread_mutex_trylock(&raw mut (*lock).mutex) != 0 {
            return false;
        }
        let is_free = (*lock).active_readers == 0;
        if is_free {
            (*lock).active_writer = 1;
        } else {
            libc::pthread_mutex_unlock(&raw mut (*lock).mutex);
        }
        is_free
    }
}

/// The functions below, in their order.
pub(crate) fn functions() -> [usize; 6] {
    [
        lock_mutex as *const () as usize,
        try_mutex as *const () as usize,
        read_rwlock as *const () as usize,
        write_rwlock as *const () as usize,
        read_prlock as *const () as usize,
        write_prlock as *const () as usize,
    ]
}

/// Defines the functions the server calls.
macro_rules! in_place {
    ($($name:ident: $way:ty, $lock:ty;)*) => {$(
        unsafe extern "C" fn $name(that: *mut $lock, file: *const c_char, line: c_uint) -> c_int {
            // SAFETY: the server passes its own lock, which it has initialised and which stays while it is taken.
            unsafe { lock::<$way>(that, file, line) }
        }
    )*};
}

in_place! {
    lock_mutex: TakeMutex<false>, ServerMutex;
    try_mutex: TakeMutex<true>, ServerMutex;
    read_rwlock: TakeRwlock<false>, ServerRwlock;
    write_rwlock: TakeRwlock<true>, ServerRwlock;
    read_prlock: TakePrlockTo<false>, ServerPrlock;
    write_prlock: TakePrlockTo<true>, ServerPrlock;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prlock() -> Prlock {
        Prlock {
            mutex: libc::PTHREAD_MUTEX_INITIALIZER,
            no_active_readers: libc::PTHREAD_COND_INITIALIZER,
            active_readers: 0,
            writers_waiting_readers: 0,
            active_writer: 0,
        }
    }

    /// Whether somebody has the mutex: who writes keeps it.
    fn is_locked(lock: &mut Prlock) -> bool {
        // SAFETY: the caller's own lock.
        unsafe {
            let is_free = libc::pthread_mutex_trylock(&raw mut lock.mutex) == 0;
            if is_free {
                libc::pthread_mutex_unlock(&raw mut lock.mutex);
            }
            !is_free
        }
    }

    #[test]
    fn the_servers_own_rwlock_is_taken_as_the_server_takes_it() {
        let mut lock = prlock();
        let at = &raw mut lock;
        // SAFETY: the test's own lock.
        unsafe {
            assert!(read_free(at) && read_free(at), "readers share it");
            assert_eq!(((*at).active_readers, (*at).active_writer), (2, 0));
            assert!(!write_free(at), "somebody reads");
            assert_eq!(((*at).active_readers, (*at).active_writer), (2, 0));
            assert!(!is_locked(&mut *at), "who cannot write gives the mutex back");
            (*at).active_readers = 0;
            assert!(write_free(at));
            assert_eq!(((*at).active_readers, (*at).active_writer), (0, 1));
            assert!(is_locked(&mut *at));
            assert!(!write_free(at) && !read_free(at), "somebody writes");
            assert_eq!(((*at).active_readers, (*at).active_writer), (0, 1));
        }
    }
}
