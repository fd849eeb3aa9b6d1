//! HOT PATH: replacements of the server's functions that take an instrumented lock (`jumps::locks`).
//!
//! Each does what the server's does, but an uncontended lock needs no clock if its level allows that. The
//! attempt to take the lock and its recording are in one call, so nobody can wait unseen. All of them share
//! the same code ([`lock_recorded`]); the code of their own is short.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::hint::{black_box, cold_path};
use std::mem::{offset_of, transmute};
use std::sync::OnceLock;

use tare_engine::snapshot::Kind;
use tare_engine::{Source, Start, SynchRef, ThreadRef, UntimedLock, Wait, operation};
use tare_host::process::ENGINE;
use tare_host::process::guard;

use super::pointer::instance;
use super::synch::lacks_demand;
use crate::abi::types::{Mutex, Rwlock};

/// A lock of the server and its instance.
#[repr(C)]
pub(crate) struct Instrumented<L, I> {
    lock: L,
    instance: *mut I,
}

type ServerMutex = Instrumented<libc::pthread_mutex_t, Mutex>;
type ServerRwlock = Instrumented<libc::pthread_rwlock_t, Rwlock>;
type ServerPrlock = Instrumented<Prlock, Rwlock>;

/// The server's own rwlock that prefers readers. They hold the mutex only while they enter and leave; a
/// writer holds it all the time.
#[repr(C)]
pub(crate) struct Prlock {
    mutex: libc::pthread_mutex_t,
    no_active_readers: libc::pthread_cond_t,
    active_readers: c_uint,
    writers_waiting_readers: c_uint,
    active_writer: u8,
}

/// A function that takes a lock and returns 0 or an error number.
type TakeLock<L> = unsafe extern "C" fn(*mut L) -> c_int;

/// The type of [`try_first`].
type TakeRecorded =
    unsafe extern "C" fn(*mut c_void, *const c_char, c_uint, *mut c_void, u32, TakeLock<c_void>) -> c_int;

/// A function of the server that takes a [`Prlock`].
pub(crate) type TakePrlock = TakeLock<Prlock>;

/// The server's own functions that take a [`Prlock`] for reading and for writing. Set before any call is
/// redirected here.
pub(crate) static PRLOCK: OnceLock<[TakePrlock; 2]> = OnceLock::new();

/// The offsets of the instance in the locks, and of the readers and the writer in the server's own rwlock.
pub(crate) const MUTEX_INSTANCE: usize = offset_of!(ServerMutex, instance);
pub(crate) const RWLOCK_INSTANCE: usize = offset_of!(ServerRwlock, instance);
pub(crate) const PRLOCK_INSTANCE: usize = offset_of!(ServerPrlock, instance);
pub(crate) const PRLOCK_READERS: usize = offset_of!(Prlock, active_readers);
pub(crate) const PRLOCK_WRITER: usize = offset_of!(Prlock, active_writer);

/// A way to take a lock.
trait LockOperation {
    type Lock;
    type Instance;
    const KIND: Kind;
    const OPERATION: u8;
    /// Whether several threads can hold the lock in this way.
    const READS: bool;
    /// The position in [`functions`].
    const PLACE: u32;
    /// The function for events of an enabled instrument: the code that all ways share or, for the most
    /// frequent way, an inlined copy without a jump.
    const RECORDED: TakeRecorded = if Self::READS { lock_recorded::<true> } else { lock_recorded::<false> };

    /// Returns the function that takes the lock only if it is free.
    fn take_free() -> TakeLock<Self::Lock>;

    /// Takes the lock as the server does.
    ///
    /// # Safety
    ///
    /// The lock is one of the server's, initialised.
    unsafe fn take(lock: *mut Self::Lock) -> c_int;
}

/// Flag of a way: the lock has been tried and was contended.
const TRIED: u32 = 1 << 16;

/// Notes that the calling thread holds a lock.
#[inline(always)]
fn note(reads: bool, synch: SynchRef, thread: ThreadRef) {
    if reads {
        ENGINE.add_synch_reader(synch, thread);
    } else {
        ENGINE.set_synch_owner(synch, thread);
    }
}

/// Takes a lock as the server's function does.
///
/// # Safety
///
/// The lock is one of the server's, initialised, and stays valid during the call.
#[inline(always)]
unsafe fn lock<W: LockOperation>(
    that: *mut Instrumented<W::Lock, W::Instance>,
    file: *const c_char,
    line: c_uint,
) -> c_int {
    // Nothing but the arguments is kept over the call, and no register is saved where another function goes
    // on.
    if ENGINE.is_all_sampled(W::KIND) && ENGINE.skips_at_once() {
        // SAFETY: the caller's promise.
        return match unsafe { W::take_free()(&raw mut (*that).lock) } {
            0 => 0,
            // SAFETY: the caller's promise.
            _ => unsafe { lock_tried::<W>(that, file, line) },
        };
    }
    // SAFETY: the caller's promise.
    unsafe { lock_further::<W>(that, file, line) }
}

/// Takes a lock that is held by another thread. A thread that has to wait is recorded even in a skipped
/// statement.
///
/// # Safety
///
/// See [`lock`].
#[cold]
#[inline(never)]
unsafe extern "C" fn lock_tried<W: LockOperation>(
    that: *mut Instrumented<W::Lock, W::Instance>,
    file: *const c_char,
    line: c_uint,
) -> c_int {
    let way = u32::from(W::OPERATION) | W::PLACE << 8 | TRIED;
    // SAFETY: the caller's promise.
    unsafe { lock_unusual_way::<W>(that.cast(), Source::new(file, line), way, (*that).instance.cast()) }
}

/// Takes a lock as the server's function does, unless the statement is skipped and all locks of the kind are
/// sampled.
///
/// # Safety
///
/// See [`lock`].
#[inline(never)]
unsafe extern "C" fn lock_further<W: LockOperation>(
    that: *mut Instrumented<W::Lock, W::Instance>,
    file: *const c_char,
    line: c_uint,
) -> c_int {
    // SAFETY: the caller's promise.
    let (at, instance) = unsafe { (&raw mut (*that).lock, (*that).instance) };
    if lacks_demand(W::KIND, instance) {
        // SAFETY: the caller's promise.
        return unsafe { W::take(at) };
    }
    if ENGINE.may_be_sampled(W::KIND)
        && ENGINE.looks_for_slowness()
        && is_sampled(W::KIND, instance)
        && ENGINE.skips()
    {
        // SAFETY: the caller's promise.
        return match unsafe { W::take_free()(at) } {
            0 => 0,
            // SAFETY: the caller's promise.
            _ => unsafe { lock_tried::<W>(that, file, line) },
        };
    }
    // SAFETY: the caller's promise, and all arguments are of one way. A function that takes an address may be
    // called with one of another type.
    unsafe {
        (W::RECORDED)(
            that.cast(),
            file,
            line,
            instance.cast(),
            u32::from(W::OPERATION) | W::PLACE << 8,
            transmute::<TakeLock<_>, TakeLock<_>>(W::take_free()),
        )
    }
}

/// Returns whether a lock's instrument is sampled.
#[inline(always)]
fn is_sampled<I>(kind: Kind, instance: *mut I) -> bool {
    ENGINE.is_all_sampled(kind) || instance!(SynchRef, instance).is_some_and(|it| ENGINE.is_synch_sampled(it))
}

/// Calls [`lock_unusual`] for one way.
///
/// # Safety
///
/// See [`lock_recorded`].
#[inline(always)]
unsafe fn lock_unusual_way<W: LockOperation>(
    that: *mut c_void,
    source: Source,
    way: u32,
    instance: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        if W::READS {
            lock_unusual::<true>(that, source, way, instance)
        } else {
            lock_unusual::<false>(that, source, way, instance)
        }
    }
}

/// Runs [`try_first`] out of line, so that all ways share its code in the cache.
///
/// # Safety
///
/// See [`try_first`].
#[inline(never)]
unsafe extern "C" fn lock_recorded<const READS: bool>(
    that: *mut c_void,
    file: *const c_char,
    line: c_uint,
    instance: *mut c_void,
    way: u32,
    take_free: TakeLock<c_void>,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { try_first::<READS>(that, file, line, instance, way, take_free) }
}

/// Takes a lock whose events are wanted. `way` is an operation and, from bit 8 on, a position in
/// [`functions`].
///
/// # Safety
///
/// See [`lock`]; `instance`, `way` and `take_free` are those of the lock and of one [`LockOperation`].
#[inline(always)]
unsafe extern "C" fn try_first<const READS: bool>(
    that: *mut c_void,
    file: *const c_char,
    line: c_uint,
    instance: *mut c_void,
    way: u32,
    take_free: TakeLock<c_void>,
) -> c_int {
    let source = Source::new(file, line);
    if let Some(synch) = instance!(SynchRef, instance)
        && let Some(untimed) = ENGINE.untimed_synch(synch)
    {
        // SAFETY: the caller's promise.
        if unsafe { take_free(that) } != 0 {
            // SAFETY: the caller's promise.
            return unsafe { lock_unusual::<READS>(that, source, way | TRIED, instance) };
        }
        note(READS, synch, untimed.thread());
        if ENGINE.count_free_synch_fast(untimed, synch, way as u8, source) {
            return 0;
        }
        return count_uncontended(untimed, synch, way as u8, source);
    }
    // SAFETY: the caller's promise.
    unsafe { lock_unusual::<READS>(that, source, way, instance) }
}

/// Counts an uncontended acquisition. Returns 0 through `black_box` so that [`lock_recorded`] can tail-call
/// it.
#[cold]
#[inline(never)]
extern "C" fn count_uncontended(
    untimed: UntimedLock,
    synch: SynchRef,
    operation: u8,
    source: Source,
) -> c_int {
    ENGINE.count_free_synch(untimed, synch, operation, source);
    black_box(0)
}

/// Calls [`lock_in_time`]. A function of its own marks that call as cold for [`lock_recorded`].
///
/// # Safety
///
/// See [`lock_recorded`].
#[cold]
#[inline(never)]
unsafe extern "C" fn lock_unusual<const READS: bool>(
    that: *mut c_void,
    source: Source,
    way: u32,
    instance: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { lock_in_time::<READS>(that, source, way, instance) }
}

/// Takes a lock that may be held by another thread, or whose wait needs the clock.
///
/// # Safety
///
/// See [`lock_recorded`].
#[inline(never)]
unsafe extern "C" fn lock_in_time<const READS: bool>(
    that: *mut c_void,
    source: Source,
    way: u32,
    instance: *mut c_void,
) -> c_int {
    let (operation, synch) = (way as u8, instance!(SynchRef, instance));
    let wait = synch.and_then(|synch| match ENGINE.start_synch_wait_fast(synch, operation, source) {
        Start::Began(wait) => Some(wait),
        Start::Off => None,
        Start::Slow => start_slow(synch, operation, source),
    });
    // Who is told of it for the first time has not tried yet, and a lock that is free counts for others, too.
    let tries = ENGINE.is_weighing() && way & TRIED == 0;
    // SAFETY: the caller's promise.
    let is_free = tries && unsafe { taking(way >> 8 & 0xFF, true)(that) } == 0;
    // SAFETY: the caller's promise.
    let rc = if is_free { 0 } else { unsafe { taking(way >> 8 & 0xFF, false)(that) } };
    if let (Some(wait), Some(synch)) = (wait, synch) {
        if rc == 0 && !ENGINE.is_skipping() {
            note(READS, synch, wait.thread());
        }
        if !ENGINE.end_synch_wait_fast(&wait) {
            end_slow(&wait);
        }
        if is_free {
            ENGINE.weigh_free_synch(synch);
        } else {
            ENGINE.has_waited();
        }
    }
    rc
}

#[cold]
#[inline(never)]
fn start_slow(synch: SynchRef, operation: u8, source: Source) -> Option<Wait> {
    guard(None, || ENGINE.start_synch_wait(synch, operation, source))
}

#[cold]
#[inline(never)]
fn end_slow(wait: &Wait) {
    guard((), || ENGINE.end_synch_wait(wait));
}

/// Returns the function that takes a lock in the way at `place` in [`functions`]. With `if_free` it is the
/// one that only tries the lock.
#[inline(always)]
fn taking(place: u32, if_free: bool) -> TakeLock<c_void> {
    match place {
        TakeMutex::<false>::PLACE => take_as::<TakeMutex<false>>(if_free),
        TakeMutex::<true>::PLACE => take_as::<TakeMutex<true>>(if_free),
        TakeRwlock::<false>::PLACE => take_as::<TakeRwlock<false>>(if_free),
        TakeRwlock::<true>::PLACE => take_as::<TakeRwlock<true>>(if_free),
        TakePrlockTo::<false>::PLACE => take_as::<TakePrlockTo<false>>(if_free),
        _ => take_as::<TakePrlockTo<true>>(if_free),
    }
}

#[inline(always)]
fn take_as<W: LockOperation>(if_free: bool) -> TakeLock<c_void> {
    if if_free { take_free::<W> } else { take::<W> }
}

/// Takes a lock in the way `W`, as the server's function does.
///
/// # Safety
///
/// See [`LockOperation::take`].
unsafe extern "C" fn take<W: LockOperation>(lock: *mut c_void) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { W::take(lock.cast()) }
}

/// Takes a lock in the way `W` only if it is free; returns an error number if not.
///
/// # Safety
///
/// See [`LockOperation::take`].
unsafe extern "C" fn take_free<W: LockOperation>(lock: *mut c_void) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { W::take_free()(lock.cast()) }
}

/// A mutex; with `TRY` it is only tried.
struct TakeMutex<const TRY: bool>;

impl<const TRY: bool> LockOperation for TakeMutex<TRY> {
    type Lock = libc::pthread_mutex_t;
    type Instance = Mutex;
    const KIND: Kind = Kind::Mutex;
    const OPERATION: u8 = operation::MUTEX + TRY as u8;
    const READS: bool = false;
    const PLACE: u32 = TRY as u32;
    const RECORDED: TakeRecorded = if TRY { lock_recorded::<false> } else { try_first::<false> };

    #[inline(always)]
    fn take_free() -> TakeLock<Self::Lock> {
        libc::pthread_mutex_trylock
    }

    #[inline(always)]
    unsafe fn take(lock: *mut Self::Lock) -> c_int {
        // SAFETY: the caller's promise.
        unsafe { if TRY { libc::pthread_mutex_trylock(lock) } else { libc::pthread_mutex_lock(lock) } }
    }
}

/// An rwlock of the C library, for reading or writing.
struct TakeRwlock<const WRITE: bool>;

/// An rwlock of the server's own.
struct TakePrlockTo<const WRITE: bool>;

/// Implements [`LockOperation`] for an rwlock.
macro_rules! rwlock_way {
    ($way:ident, $place:expr, $lock:ty, $free:expr, $take:expr) => {
        impl<const WRITE: bool> LockOperation for $way<WRITE> {
            type Lock = $lock;
            type Instance = Rwlock;
            const KIND: Kind = Kind::Rwlock;
            const OPERATION: u8 = operation::RWLOCK + WRITE as u8;
            const READS: bool = !WRITE;
            const PLACE: u32 = $place + WRITE as u32;

            #[inline(always)]
            fn take_free() -> TakeLock<Self::Lock> {
                $free
            }

            #[inline(always)]
            unsafe fn take(lock: *mut Self::Lock) -> c_int {
                // SAFETY: the caller's promise.
                unsafe { $take(lock) }
            }
        }
    };
}

rwlock_way!(
    TakeRwlock,
    2,
    libc::pthread_rwlock_t,
    if WRITE { libc::pthread_rwlock_trywrlock } else { libc::pthread_rwlock_tryrdlock },
    |lock| if WRITE { libc::pthread_rwlock_wrlock(lock) } else { libc::pthread_rwlock_rdlock(lock) }
);
rwlock_way!(TakePrlockTo, 4, Prlock, if WRITE { write_free } else { read_free }, |lock| {
    PRLOCK.get().map_or(libc::EINVAL, |functions| functions[usize::from(WRITE)](lock))
});

/// Takes a free [`Prlock`] for reading.
///
/// # Safety
///
/// See [`LockOperation::take`].
unsafe extern "C" fn read_free(lock: *mut Prlock) -> c_int {
    // SAFETY: the caller's promise; the holder of the mutex may change the readers.
    unsafe {
        if libc::pthread_mutex_trylock(&raw mut (*lock).mutex) != 0 {
            cold_path();
            return libc::EBUSY;
        }
        (*lock).active_readers += 1;
        libc::pthread_mutex_unlock(&raw mut (*lock).mutex);
    }
    0
}

/// Takes a free [`Prlock`] for writing.
///
/// # Safety
///
/// See [`LockOperation::take`].
unsafe extern "C" fn write_free(lock: *mut Prlock) -> c_int {
    // SAFETY: the caller's promise; the holder of the mutex while there are no readers is the writer.
    unsafe {
        if libc::pthread_mutex_trylock(&raw mut (*lock).mutex) != 0 {
            cold_path();
            return libc::EBUSY;
        }
        if (*lock).active_readers != 0 {
            cold_path();
            libc::pthread_mutex_unlock(&raw mut (*lock).mutex);
            return libc::EBUSY;
        }
        (*lock).active_writer = 1;
    }
    0
}

/// Returns the addresses of the functions below, in their order.
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

/// Defines the functions that the server calls.
macro_rules! in_place {
    ($($name:ident: $way:ty, $lock:ty;)*) => {$(
        unsafe extern "C" fn $name(that: *mut $lock, file: *const c_char, line: c_uint) -> c_int {
            // SAFETY: the server passes its own lock, which it has initialised and which stays valid during
            // the call.
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

    /// Returns whether the mutex is held; a writer keeps it.
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
            assert_eq!((read_free(at), read_free(at)), (0, 0), "readers share it");
            assert_eq!(((*at).active_readers, (*at).active_writer), (2, 0));
            assert_eq!(write_free(at), libc::EBUSY, "somebody reads");
            assert_eq!(((*at).active_readers, (*at).active_writer), (2, 0));
            assert!(!is_locked(&mut *at), "who cannot write gives the mutex back");
            (*at).active_readers = 0;
            assert_eq!(write_free(at), 0);
            assert_eq!(((*at).active_readers, (*at).active_writer), (0, 1));
            assert!(is_locked(&mut *at));
            assert_eq!((write_free(at), read_free(at)), (libc::EBUSY, libc::EBUSY), "somebody writes");
            assert_eq!(((*at).active_readers, (*at).active_writer), (0, 1));
        }
    }
}
