//! Threads: their creation, their names, their end.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc};
use std::ffi::{CStr, c_char, c_int, c_long, c_uint, c_ulonglong, c_void};
use std::ptr::{null, null_mut};
use std::sync::OnceLock;

use tare_engine::{ThreadHandle, ThreadRef};
use tare_host::process::ENGINE;
use tare_host::process::guard;
use tare_host::process::symbol;

use super::facts::{self, ShortText};
use super::pointer::{bytes, instance};
use crate::abi::types::{Thd, Thread};
use crate::host::query_id;
use crate::interpose::folder;

fn pointer(thread: Option<ThreadRef>) -> *mut Thread {
    thread.map_or(null_mut(), |thread| thread.address().cast())
}

/// The thread that the server starts when its storage engines and plugins are ready, and before events,
/// replicas, its init file and connections. At that time the tables must exist.
const SIGNAL_HANDLER: &str = "thread/sql/signal_handler";
/// The exported name of that thread's routine, which identifies it if there are no classes of threads.
const ITS_ROUTINE: &CStr = c"signal_hand";

/// The start of the tables' service, set by [`when_ready`].
static WHEN_READY: OnceLock<fn()> = OnceLock::new();

/// Has `run` called once the server's storage engines and plugins are ready, right before events, replicas,
/// its init file and connections; to be called once, before the server gets its function table.
pub(crate) fn when_ready(run: fn()) {
    let _set_once = WHEN_READY.set(run);
}

fn is_signal_handler(key: u16, start: Routine) -> bool {
    match key {
        0 => symbol(ITS_ROUTINE) == Some(start as *mut c_void),
        key => ENGINE.instrument_name(key) == SIGNAL_HANDLER,
    }
}

/// The start routine of a thread.
type Routine = unsafe extern "C" fn(*mut c_void) -> *mut c_void;

/// The data that a spawned thread needs of its creator, which may be gone when the thread begins, with its
/// slab reused.
struct Spawned {
    key: u16,
    start: Routine,
    argument: *mut c_void,
    parent_thread_id: Option<u64>,
    user: ShortText<384>,
    host: ShortText<256>,
}

impl Spawned {
    /// Collects the data for a thread that the calling one creates.
    fn by_this_thread(key: u16, start: Routine, argument: *mut c_void) -> Spawned {
        let parent = ENGINE.current_thread();
        let parent_thread_id = parent.map(|parent| parent.thread_id());
        let mut spawned = Spawned {
            key,
            start,
            argument,
            parent_thread_id,
            user: ShortText::EMPTY,
            host: ShortText::EMPTY,
        };
        if let Some(parent) = parent {
            ENGINE.with_account(parent, |user, host| {
                (spawned.user, spawned.host) = (ShortText::of(user), ShortText::of(host));
                true
            });
        }
        spawned
    }

    /// Moves the value into a box; returns null if memory is exhausted, which would abort the process with
    /// `Box::new`.
    fn boxed(self) -> *mut Spawned {
        // SAFETY: the layout is not empty.
        let place = unsafe { alloc(Layout::new::<Spawned>()) }.cast::<Spawned>();
        if !place.is_null() {
            // SAFETY: memory of this layout that nobody else knows.
            unsafe { place.write(self) };
        }
        place
    }
}

pub(super) unsafe extern "C" fn spawn_thread(
    key: c_uint,
    thread: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    start: Routine,
    argument: *mut c_void,
) -> c_int {
    let spawned = guard(null_mut(), || {
        if is_signal_handler(key as u16, start)
            && let Some(run) = WHEN_READY.get()
        {
            run();
        }
        Spawned::by_this_thread(key as u16, start, argument).boxed()
    });
    if spawned.is_null() {
        // SAFETY: the server's own arguments, passed on: its thread runs without instrumentation.
        return unsafe { pthread_create(thread, attributes, start, argument) };
    }
    // SAFETY: the server's own arguments except for the routine, which takes the box and calls theirs.
    let error = unsafe { pthread_create(thread, attributes, run, spawned.cast()) };
    if error != 0 {
        // SAFETY: memory as a box has it. No thread began, so nobody else owns it.
        drop(unsafe { Box::from_raw(spawned) });
    }
    error
}

unsafe extern "C" {
    // Declared here because the libc crate's signature has a Rust-unwindable routine.
    fn pthread_create(
        thread: *mut libc::pthread_t,
        attributes: *const libc::pthread_attr_t,
        start: Routine,
        argument: *mut c_void,
    ) -> c_int;
}

unsafe extern "C" fn run(spawned: *mut c_void) -> *mut c_void {
    // SAFETY: `spawn_thread` created the box for this thread alone.
    let (start, argument) = enter(unsafe { Box::from_raw(spawned.cast::<Spawned>()) });
    // SAFETY: the server's routine with the server's argument. It may end the thread by `pthread_exit`,
    // which unwinds: nothing of ours is on the stack that needs dropping.
    unsafe { start(argument) }
}

/// Registers the calling thread as a new one and returns its routine with the argument. Out of line, so that
/// nothing of this remains on the stack.
#[inline(never)]
fn enter(spawned: Box<Spawned>) -> (Routine, *mut c_void) {
    guard((), || {
        if spawned.key == 0 {
            return;
        }
        let thread = ENGINE.new_thread(spawned.key, None, spawned.parent_thread_id);
        ENGINE.set_current_thread(thread);
        if let Some(thread) = thread {
            ENGINE.set_thread_account(thread, spawned.user.as_bytes(), spawned.host.as_bytes());
            ENGINE.set_thread_os_id(thread, os_id());
            ENGINE.set_thread_place(thread, query_id::thread_pointer());
        }
    });
    (spawned.start, spawned.argument)
}

pub(super) unsafe extern "C" fn new_thread(
    key: c_uint,
    _identity: *const c_void,
    processlist_id: c_ulonglong,
) -> *mut Thread {
    guard(null_mut(), || {
        if key == 0 {
            return null_mut();
        }
        let id = (processlist_id != 0).then_some(processlist_id);
        // The creator of a session's thread is not its parent; both have the same parent.
        let parent = ENGINE.current_thread().and_then(|creator| creator.parent_thread_id());
        pointer(ENGINE.new_thread(key as u16, id, parent))
    })
}

pub(super) unsafe extern "C" fn set_thread_id(thread: *mut Thread, id: c_ulonglong) {
    guard((), || {
        if let Some(thread) = instance!(ThreadHandle, thread) {
            ENGINE.set_thread_processlist_id(thread, id);
        }
    });
}

/// Begins a session on a thread or, with null, ends it; the session's object is destroyed next. A session
/// destroyed after its thread has ended may name a slab that belongs to another thread by now, so only the
/// calling thread's session is ended.
pub(super) unsafe extern "C" fn set_thread_thd(thread: *mut Thread, thd: *mut Thd) {
    guard((), || {
        let Some(thread) = instance!(ThreadHandle, thread) else { return };
        if !thd.is_null() {
            ENGINE.begin_session(thread, thd.addr() as u64);
        } else if ENGINE.current_thread().is_some_and(|current| std::ptr::eq(current, thread)) {
            ENGINE.end_session(thread);
        }
    });
}

/// Returns the system's id of the calling thread.
fn os_id() -> u64 {
    // SAFETY: gettid takes nothing and cannot fail.
    u64::try_from(unsafe { libc::gettid() }).unwrap_or(0)
}

pub(super) unsafe extern "C" fn set_thread_os_id(thread: *mut Thread) {
    guard((), || {
        if let Some(thread) = instance!(ThreadHandle, thread) {
            ENGINE.set_thread_os_id(thread, os_id());
        }
    });
}

pub(super) unsafe extern "C" fn get_thread() -> *mut Thread {
    guard(null_mut(), || pointer(ENGINE.current_thread()))
}

fn with_current(act: impl FnOnce(ThreadRef)) {
    guard((), || {
        if let Some(thread) = ENGINE.current_thread() {
            act(thread);
        }
    });
}

pub(super) unsafe extern "C" fn set_thread_user(user: *const c_char, user_len: c_int) {
    with_current(|thread| {
        let user = bytes!(user, user_len);
        let set = |host: &[u8]| {
            ENGINE.set_thread_account(thread, user, host);
            ENGINE.decide_actor(thread, user, host);
            true
        };
        // The host of a thread without texts is unknown.
        let _set = ENGINE.with_account(thread, |_, host| set(host)) || set(b"");
    });
}

pub(super) unsafe extern "C" fn set_thread_account(
    user: *const c_char,
    user_len: c_int,
    host: *const c_char,
    host_len: c_int,
) {
    with_current(|thread| {
        let (user, host) = (bytes!(user, user_len), bytes!(host, host_len));
        ENGINE.set_thread_account(thread, user, host);
        ENGINE.decide_actor(thread, user, host);
    });
}

pub(super) unsafe extern "C" fn set_thread_db(db: *const c_char, len: c_int) {
    with_current(|thread| ENGINE.set_thread_db(thread, bytes!(db, len)));
}

pub(super) unsafe extern "C" fn set_thread_command(command: c_int) {
    with_current(|thread| ENGINE.set_thread_command(thread, command.cast_unsigned()));
}

pub(super) unsafe extern "C" fn set_connection_type(connection_type: c_int) {
    with_current(|thread| ENGINE.set_thread_connection_type(thread, connection_type as u8));
}

pub(super) unsafe extern "C" fn set_thread_start_time(start_time: c_long) {
    with_current(|thread| ENGINE.set_thread_start_time(thread, start_time));
}

/// Does nothing: PROCESSLIST_STATE is the stage; the built-in ignores this call, too.
pub(super) unsafe extern "C" fn set_thread_state(_state: *const c_char) {}

pub(super) unsafe extern "C" fn set_thread_info(info: *const c_char, len: c_uint) {
    if info.is_null() || len == 0 {
        with_current(|thread| ENGINE.set_thread_info(thread, None));
    } else {
        set_known_thread_info(info, len);
    }
}

#[inline(never)]
extern "C" fn set_known_thread_info(info: *const c_char, len: c_uint) {
    with_current(|thread| ENGINE.set_thread_info(thread, Some(bytes!(info, len))));
}

pub(super) unsafe extern "C" fn set_thread(thread: *mut Thread) {
    folder::leave_session();
    guard((), || ENGINE.set_current_thread(instance!(ThreadHandle, thread)));
}

/// Does nothing: no table of this server shows the port.
pub(super) unsafe extern "C" fn set_thread_peer_port(_thread: *mut Thread, _port: c_uint) {}

pub(super) unsafe extern "C" fn delete_current_thread() {
    folder::leave_session();
    with_current(|thread| ENGINE.delete_thread(thread));
}

pub(super) unsafe extern "C" fn delete_thread(thread: *mut Thread) {
    guard((), || {
        if let Some(thread) = instance!(ThreadHandle, thread) {
            ENGINE.delete_thread(thread);
        }
    });
}

pub(super) unsafe extern "C" fn set_thread_connect_attrs(
    buffer: *const c_char,
    len: c_uint,
    charset: *const c_void,
) -> c_int {
    guard(0, || {
        let Some(thread) = ENGINE.current_thread() else { return 0 };
        let charset = facts::charset_number(charset);
        c_int::from(ENGINE.set_thread_connect_attrs(thread, bytes!(buffer, len), charset))
    })
}

/// Returns the current thread's class without `thread/` and subsystem, for the messages of an 11.8 server.
pub(super) unsafe extern "C" fn get_thread_class_name() -> *const c_char {
    guard(null(), || {
        let Some(thread) = ENGINE.current_thread() else { return null() };
        let name = ENGINE.thread_class_name(thread);
        let start = name.to_bytes().iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
        name.as_ptr().wrapping_add(start)
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use tare_engine::snapshot::{Kind, Properties};
    use tare_engine::{Config, Registration};

    use super::*;
    use crate::entry::ServerHost;
    use crate::interpose::folder::looks_at;
    use crate::interpose::folder::tests::replace_a_table;

    /// The server's `MDL_SHARED_READ`.
    const READ: c_int = 3;

    #[test]
    fn a_table_that_was_to_be_replaced_is_forgotten_with_its_session() {
        fn leave() {
            // SAFETY: null means no thread.
            unsafe { set_thread(null_mut()) };
        }
        fn end() {
            // SAFETY: the function takes nothing.
            unsafe { delete_current_thread() };
        }
        for (session_ends, how) in [(leave as fn(), "leave"), (end, "end")] {
            replace_a_table();
            std::thread::spawn(session_ends).join().unwrap();
            assert!(looks_at(READ), "another session's {how}");
            session_ends();
            assert!(!looks_at(READ), "after {how} every lock of the server would be looked at");
        }
    }

    #[test]
    fn a_thread_tells_its_maker_that_is_gone() {
        static TOLD: AtomicU64 = AtomicU64::new(0);
        static IS_ITS_ACCOUNT: AtomicBool = AtomicBool::new(false);
        fn is_account(user: &[u8], host: &[u8]) -> bool {
            ENGINE.current_thread().is_some_and(|thread| {
                ENGINE.with_account(thread, |its_user, its_host| (its_user, its_host) == (user, host))
            })
        }
        unsafe extern "C" fn tell(_argument: *mut c_void) -> *mut c_void {
            let parent = ENGINE.current_thread().and_then(|thread| thread.parent_thread_id());
            TOLD.store(parent.unwrap_or(0), Ordering::Relaxed);
            IS_ITS_ACCOUNT.store(is_account(b"ann", b"here"), Ordering::Relaxed);
            null_mut()
        }
        ENGINE.start(Config::default(), &ServerHost).unwrap();
        let (kind, properties) = (Kind::Thread, Properties::default());
        let class = ENGINE.register(Registration { kind, name: "thread/sql/maker", properties });
        let begin = || ENGINE.new_thread(class, None, None).expect("a slab");
        let maker = begin();
        let id = maker.thread_id();
        ENGINE.set_current_thread(Some(maker));
        ENGINE.set_thread_account(maker, b"ann", b"here");
        let spawned = Spawned::by_this_thread(class, tell, null_mut()).boxed();
        ENGINE.delete_thread(maker);
        assert!(std::ptr::eq(maker, begin()) && maker.thread_id() != id, "the slab is another thread's");
        // SAFETY: a box for this call alone.
        unsafe { run(spawned.cast()) };
        assert_eq!(TOLD.load(Ordering::Relaxed), id);
        assert!(IS_ITS_ACCOUNT.load(Ordering::Relaxed), "its maker's");
        // SAFETY: a text of that length.
        unsafe { set_thread_user(c"bob".as_ptr(), 3) };
        assert!(is_account(b"bob", b"here"), "another user at the same host");
    }
}
