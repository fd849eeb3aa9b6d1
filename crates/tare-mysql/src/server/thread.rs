//! HOT PATH: the calling thread, as the built-in knows it, and its slab.
//!
//! The built-in keeps the thread that the caller runs in a thread-local variable of the program, which its
//! inlined code sets as well. So nobody tells of a change: each event compares the thread's number with that
//! of the slab.
#![allow(unsafe_code)]

use std::arch::asm;
use std::sync::atomic::{AtomicIsize, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

use tare_engine::ThreadRef;
use tare_host::process::{ENGINE, guard};

use super::{consumers, threads};
use crate::abi::Class;
use crate::abi::layout::layout;

/// Where the built-in's thread-local variable lies, relative to the thread pointer. Set before any call is
/// led here.
static CURRENT: AtomicIsize = AtomicIsize::new(0);

/// A thread of the built-in's (`PFS_thread`), which is never unmapped.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct ServerThread(usize);

impl ServerThread {
    /// Returns the thread at an address that the server passed; `None` for null.
    pub(crate) fn at(address: *mut std::ffi::c_void) -> Option<ServerThread> {
        (!address.is_null()).then_some(ServerThread(address.addr()))
    }

    /// Returns the thread that an engine's handle of a session stands for; see [`threads`].
    pub(crate) fn of_handle(handle: u64) -> Option<ServerThread> {
        usize::try_from(handle).ok().filter(|address| *address != 0).map(ServerThread)
    }

    /// Returns the address, which is what an owner of a lock is to the built-in.
    #[inline(always)]
    pub(crate) fn address(self) -> *mut std::ffi::c_void {
        std::ptr::with_exposed_provenance_mut(self.0)
    }

    /// Returns THREAD_ID, which no other thread gets again.
    #[inline(always)]
    pub(crate) fn id(self) -> u64 {
        // SAFETY: a thread of the built-in's has its number at this place (`startup::checks`); its own code
        // writes it before the thread runs.
        unsafe {
            (*std::ptr::with_exposed_provenance::<AtomicU64>(self.0 + layout().thread.id)).load(Relaxed)
        }
    }

    /// Returns the word at an offset.
    #[inline(always)]
    pub(crate) fn word(self, at: usize) -> &'static AtomicU64 {
        // SAFETY: a thread of the built-in's, which is never unmapped, has a word at this place
        // (`startup::checks`).
        unsafe { &*std::ptr::with_exposed_provenance::<AtomicU64>(self.0 + at) }
    }

    /// Returns the number of the statement of its session, if it serves one. It is the calling thread.
    pub(crate) fn statement_number(self) -> Option<u64> {
        let session = self.word(layout().thread.thd).load(Relaxed) as usize;
        if session == 0 {
            return None;
        }
        let number = std::ptr::with_exposed_provenance::<AtomicU64>(session + layout().query_id);
        // SAFETY: the session of the calling thread, which is there while it is known, has its statement's
        // number at this place (`startup::checks`).
        Some(unsafe { (*number).load(Relaxed) })
    }

    /// Returns the thread's instrument.
    pub(crate) fn class(self) -> Option<&'static Class> {
        let class = self.word(layout().thread.class).load(Relaxed) as usize;
        // SAFETY: a thread of the built-in's has the address of its instrument at this place
        // (`startup::checks`), or null; instruments are never removed.
        unsafe { std::ptr::with_exposed_provenance::<Class>(class).as_ref() }
    }

    /// Returns the number of 32 bits at an offset.
    #[inline(always)]
    pub(crate) fn number(self, at: usize) -> &'static AtomicU32 {
        // SAFETY: see `word`.
        unsafe { &*std::ptr::with_exposed_provenance::<AtomicU32>(self.0 + at) }
    }

    /// Returns the flag at an offset.
    #[inline(always)]
    pub(crate) fn flag(self, at: usize) -> bool {
        // SAFETY: a thread of the built-in's has a flag of one byte at this place (`startup::checks`).
        unsafe { (*std::ptr::with_exposed_provenance::<AtomicU8>(self.0 + at)).load(Relaxed) != 0 }
    }
}

/// Sets where the built-in's variable of the calling thread lies. `address` is that of the calling thread.
pub(crate) fn locate(address: *mut std::ffi::c_void) {
    address.expose_provenance();
    CURRENT.store(address.addr().wrapping_sub(thread_pointer()).cast_signed(), Relaxed);
}

fn thread_pointer() -> usize {
    let pointer;
    // SAFETY: the first word at the thread pointer is the thread pointer (the ABI of x86-64).
    unsafe {
        asm!("mov {}, qword ptr fs:[0]", out(reg) pointer, options(nostack, preserves_flags, readonly))
    };
    pointer
}

/// Returns the thread of the built-in's that the caller runs.
#[inline(always)]
pub(crate) fn current() -> Option<ServerThread> {
    let at: isize = CURRENT.load(Relaxed);
    let address: usize;
    // SAFETY: `locate` has found the program's thread-local variable at this place, which is the same in each
    // thread.
    unsafe {
        asm!("mov {0}, qword ptr fs:[{1}]", out(reg) address, in(reg) at, options(nostack, preserves_flags, readonly));
    }
    (address != 0).then_some(ServerThread(address))
}

/// Makes the slab of the calling thread current, and returns the thread. `None`: its events are not wanted.
#[inline(always)]
pub(crate) fn settled() -> Option<ServerThread> {
    let is_wanted =
        |thread: &ServerThread| thread.flag(layout().thread.instrumented) || is_every_thread_wanted();
    current().filter(|thread| is_wanted(thread) && thread.is_entered())
}

/// Returns whether threads that are not instrumented count, too.
#[cold]
#[inline(never)]
extern "C" fn is_every_thread_wanted() -> bool {
    !consumers::thread_instrumentation()
}

impl ServerThread {
    /// Returns the slab of the thread, which is the calling one, if that is current already.
    #[inline(always)]
    pub(crate) fn slab(self) -> Option<ThreadRef> {
        ENGINE.current_thread().filter(|slab| slab.thread_id() == self.id())
    }

    /// Makes the slab of the thread, which is the calling one, current. Returns false if there is none.
    #[inline(always)]
    pub(crate) fn is_entered(self) -> bool {
        let id = self.id();
        ENGINE.current_thread().is_some_and(|slab| slab.thread_id() == id) || change(self, id)
    }
}

#[cold]
#[inline(never)]
extern "C" fn change(thread: ServerThread, id: u64) -> bool {
    guard(false, || threads::enter(thread, id))
}
