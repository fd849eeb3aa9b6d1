//! HOT PATH: files.
//!
//! The built-in's own functions still look after its files, which `file_instances` shows: those that open,
//! close, delete and rename, and those that find the locker for it. They do nothing else, because the flags
//! of each locker are 0 by the time they end the wait, and that is done here.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_uint, c_ulong, c_void};
use std::ptr::{null, null_mut};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, AtomicPtr, AtomicU64, Ordering::Relaxed};

use tare_engine::snapshot::Kind;
use tare_engine::{FileHandle, FileRef, Source, ThreadHandle, Wait};
use tare_host::process::{ENGINE, guard};

use crate::abi::io::{File, FileLocker};
use crate::abi::layout::layout;
use crate::abi::{Class, WAIT_SIZE};
use crate::original::Original;
use crate::server::carriers::FILES;
use crate::server::instruments;
use crate::server::thread::{ServerThread, current, settled};

/// The built-in's functions of the same names.
pub(crate) static NAME_LOCKER: Original = Original::new();
/// See [`NAME_LOCKER`].
pub(crate) static DESCRIPTOR_LOCKER: Original = Original::new();
/// See [`NAME_LOCKER`].
pub(crate) static DESTROY_FILE: Original = Original::new();
/// The built-in's function that begins to rename a file.
pub(crate) static START_RENAME: Original = Original::new();
/// See [`NAME_LOCKER`].
pub(crate) static END_RENAME: Original = Original::new();

/// The built-in's function that notes that a file is closed.
pub(crate) static RELEASE: OnceLock<unsafe extern "C" fn(*const File)> = OnceLock::new();

/// Where the built-in keeps its files by descriptor.
pub(crate) struct Descriptors {
    pub(crate) files: &'static AtomicPtr<*const File>,
    pub(crate) count: &'static AtomicI64,
}

/// Set before any call is led here.
pub(crate) static DESCRIPTORS: OnceLock<Descriptors> = OnceLock::new();

/// The interface's numbers of the operations by which a file is closed.
const CLOSE: c_uint = 4;
/// See [`CLOSE`].
const STREAM_CLOSE: c_uint = 5;
/// Flag of a locker of the built-in: the wait is an event, noted in its thread.
const EVENT: u32 = 4;

/// Returns the engine's file for one of the built-in's.
#[inline(always)]
fn known(file: &File) -> Option<FileRef> {
    match FILES.get(std::ptr::from_ref(file).addr()) {
        0 => meet(file),
        // SAFETY: `meet` has put the address of a file there.
        known => unsafe { FileHandle::from_address(std::ptr::with_exposed_provenance(known)) },
    }
}

#[cold]
#[inline(never)]
fn meet(file: &File) -> Option<FileRef> {
    guard(None, || {
        // SAFETY: a file of the built-in's has an instrument, which is never removed.
        let class = instruments::of(unsafe { file.class.as_ref() }?);
        let name = name(file);
        let made = || {
            let made = ENGINE.find_file(class, &name, true);
            made.map_or(0, |made| made.address().expose_provenance())
        };
        let known = FILES.set(std::ptr::from_ref(file).addr(), false, made);
        // SAFETY: 0, or the address of a file.
        unsafe { FileHandle::from_address(std::ptr::with_exposed_provenance(known)) }
    })
}

/// Returns the name of a file.
fn name(file: &File) -> Vec<u8> {
    let length = usize::try_from(file.name_length).unwrap_or(0).min(file.name.len());
    file.name[..length].iter().map(|byte| byte.cast_unsigned()).collect()
}

/// Begins a wait in a locker whose other members are filled. Its clock starts again at [`start_file_wait`].
#[inline(always)]
fn begin(locker: &mut FileLocker, file: Option<&File>, class: &Class) {
    locker.flags = 0;
    locker.slab = null_mut();
    if settled().is_none() {
        return;
    }
    let is_timed = file.map_or(&class.timed, |file| &file.timed).load(Relaxed) != 0;
    let (id, of, operation) = (instruments::of(class), file.and_then(known), locker.operation as u8);
    if id == 0 {
        return;
    }
    let wait = match is_timed {
        true => guard(None, || ENGINE.start_file_wait(id, of, operation)),
        false => guard(None, || ENGINE.start_untimed_file_wait(id, of, operation)),
    };
    if let Some(wait) = wait {
        keep(locker, wait);
    }
}

#[inline(always)]
fn keep(locker: &mut FileLocker, wait: Wait) {
    let (state, places, thread, start) = wait.pack();
    (locker.wait, locker.places, locker.start) = (u64::from(state), places, start);
    locker.slab = thread.address();
}

/// Returns the wait that a locker keeps.
///
/// # Safety
///
/// [`begin`] has filled the locker, and the wait has not ended.
#[inline(always)]
unsafe fn kept(locker: &FileLocker) -> Option<Wait> {
    // SAFETY: null, or the address that `keep` has stored.
    let thread = unsafe { ThreadHandle::from_address(locker.slab) }?;
    // SAFETY: the values of one `pack`, of a wait that has not ended (the caller's promise).
    Some(unsafe { Wait::unpack(locker.wait as u32, locker.places, thread, locker.start) })
}

/// Makes a locker that the built-in has filled this library's.
///
/// # Safety
///
/// Null, or a locker that the built-in has just returned to the calling thread.
unsafe fn take(locker: *mut FileLocker) -> *mut FileLocker {
    // SAFETY: the caller's promise.
    let Some(it) = (unsafe { locker.as_mut() }) else { return locker };
    if it.flags & EVENT != 0
        && let Some(thread) = ServerThread::at(it.thread)
    {
        // The built-in has noted an event that it will not end.
        // SAFETY: the calling thread's own word, at a place that `startup::checks` has found.
        let next = unsafe { &*thread.address().byte_add(layout().thread.next_wait).cast::<AtomicU64>() };
        next.store(next.load(Relaxed) - WAIT_SIZE, Relaxed);
    }
    // SAFETY: null or a file of the built-in's, and an instrument, which is never removed.
    let (file, class) = unsafe { (it.file.as_ref(), it.class.as_ref()) };
    match class {
        Some(class) => begin(it, file, class),
        None => (it.flags, it.slab) = (0, null_mut()),
    }
    locker
}

/// Returns whether operations on a file are events.
#[inline(always)]
fn is_enabled(file: &File) -> bool {
    // SAFETY: a file of the built-in's has an instrument, which is never removed.
    let class = unsafe { file.class.as_ref() };
    class.is_some_and(|class| class.enabled.load(Relaxed) != 0) && file.enabled.load(Relaxed) != 0
}

/// Begins an operation on an open file. `None`: it is not wanted; null: nor is it by anybody else.
///
/// # Safety
///
/// The server's: its locker, and a file of the built-in's.
#[inline(always)]
unsafe fn begin_on_open(locker: *mut FileLocker, file: *const File, op: c_uint) -> Option<*mut FileLocker> {
    // SAFETY: the caller's promise; an instrument is never removed.
    let (of, class) = unsafe { (&*file, (*file).class.as_ref()?) };
    // Files are closed by the end of a wait.
    let is_off =
        || op != STREAM_CLOSE && ENGINE.lacks_demand(Kind::File, || ENGINE.is_off(instruments::of(class)));
    if !is_enabled(of) || settled().is_none() {
        return None;
    }
    if is_off() {
        return Some(null_mut());
    }
    let thread = current().map_or(null_mut(), |thread| thread.address());
    let (flags, name, class_at, slab) = (0, null(), std::ptr::from_ref(class), null_mut());
    let filled = FileLocker {
        flags,
        operation: op,
        file,
        name,
        class: class_at,
        thread,
        places: 0,
        start: 0,
        slab,
        wait: 0,
    };
    // SAFETY: the locker has room for it: the built-in's has this size.
    unsafe { locker.write(filled) };
    // SAFETY: as above.
    begin(unsafe { &mut *locker }, Some(of), class);
    Some(locker)
}

pub(crate) unsafe extern "C" fn get_thread_file_name_locker(
    locker: *mut FileLocker,
    key: c_uint,
    op: c_uint,
    name: *const c_char,
    identity: *const c_void,
) -> *mut FileLocker {
    type Get = unsafe extern "C" fn(
        *mut FileLocker,
        c_uint,
        c_uint,
        *const c_char,
        *const c_void,
    ) -> *mut FileLocker;
    // SAFETY: the function's own type and arguments.
    unsafe { take(NAME_LOCKER.function::<Get>()(locker, key, op, name, identity)) }
}

pub(crate) unsafe extern "C" fn get_thread_file_stream_locker(
    locker: *mut FileLocker,
    file: *const File,
    op: c_uint,
) -> *mut FileLocker {
    if file.is_null() {
        return null_mut();
    }
    // SAFETY: the server's promise.
    if let Some(begun) = unsafe { begin_on_open(locker, file, op) } {
        return begun;
    }
    // SAFETY: as above.
    let is_enabled = is_enabled(unsafe { &*file });
    if op == STREAM_CLOSE
        && !is_enabled
        && let Some(release) = RELEASE.get()
    {
        // SAFETY: the built-in's function, and a file of its own that is closed now.
        unsafe { release(file) };
    }
    null_mut()
}

/// Returns the built-in's file of a descriptor; null: none.
#[inline(always)]
fn by_descriptor(fd: c_int) -> *const File {
    let Some(descriptors) = DESCRIPTORS.get() else { return null() };
    let files = descriptors.files.load(Relaxed);
    if fd < 0 || i64::from(fd) >= descriptors.count.load(Relaxed) || files.is_null() {
        return null();
    }
    // SAFETY: the built-in's array has as many places.
    unsafe { files.add(fd as usize).read() }
}

pub(crate) unsafe extern "C" fn get_thread_file_descriptor_locker(
    locker: *mut FileLocker,
    fd: c_int,
    op: c_uint,
) -> *mut FileLocker {
    let file = by_descriptor(fd);
    if file.is_null() {
        return null_mut();
    }
    if op != CLOSE
        // SAFETY: the server's promise.
        && let Some(begun) = unsafe { begin_on_open(locker, file, op) }
    {
        return begun;
    }
    type Get = unsafe extern "C" fn(*mut FileLocker, c_int, c_uint) -> *mut FileLocker;
    // SAFETY: the function's own type and arguments.
    unsafe { take(DESCRIPTOR_LOCKER.function::<Get>()(locker, fd, op)) }
}

pub(crate) unsafe extern "C" fn start_file_wait(
    locker: *mut FileLocker,
    count: c_ulong,
    file: *const c_char,
    line: c_uint,
) {
    // SAFETY: the server's promise: a locker that a function above has returned.
    let locker = unsafe { &mut *locker };
    // SAFETY: as above.
    if let Some(mut wait) = unsafe { kept(locker) } {
        ENGINE.restart_wait(&mut wait, Source::new(file, line), count);
        keep(locker, wait);
    }
}

/// Starts the clock of a wait for a file that is opened or closed.
pub(crate) unsafe extern "C" fn start_file_open_or_close_wait(
    locker: *mut FileLocker,
    file: *const c_char,
    line: c_uint,
) {
    // SAFETY: the server's promise.
    unsafe { start_file_wait(locker, 0, file, line) }
}

pub(crate) unsafe extern "C" fn start_file_rename_wait(
    locker: *mut FileLocker,
    count: c_ulong,
    from: *const c_char,
    to: *const c_char,
    file: *const c_char,
    line: c_uint,
) {
    type Start =
        unsafe extern "C" fn(*mut FileLocker, c_ulong, *const c_char, *const c_char, *const c_char, c_uint);
    // The built-in looks for the file, and starts no wait: the locker's flags are 0.
    // SAFETY: the server's own arguments, passed on to its own function.
    unsafe { START_RENAME.function::<Start>()(locker, count, from, to, file, line) };
    // SAFETY: the server's promise.
    unsafe { start_file_wait(locker, count, file, line) }
}

pub(crate) unsafe extern "C" fn end_file_wait(locker: *mut FileLocker, count: c_ulong) {
    // SAFETY: the server's promise: a locker that a function above has returned, once.
    let locker = unsafe { &mut *locker };
    // SAFETY: as above.
    let Some(wait) = (unsafe { kept(locker) }) else { return };
    locker.slab = null_mut();
    // SAFETY: null, or a file of the built-in's, which one that opens has just set.
    let file = unsafe { locker.file.as_ref() }.and_then(known);
    // A negative result is an error and transfers none.
    let bytes = if (count as i32) < 0 { 0 } else { count };
    guard((), || ENGINE.end_file_wait(&wait, file, locker.operation as u8, bytes));
}

pub(crate) unsafe extern "C" fn destroy_file(thread: *mut c_void, file: *const File, frees_name: bool) {
    guard((), || {
        let known = FILES.take(file.addr());
        // SAFETY: 0, or the address of a file.
        if let Some(known) = unsafe { FileHandle::from_address(std::ptr::with_exposed_provenance(known)) } {
            ENGINE.destroy_file(known);
        }
    });
    type Destroy = unsafe extern "C" fn(*mut c_void, *const File, bool);
    // SAFETY: the function's own type and arguments.
    unsafe { DESTROY_FILE.function::<Destroy>()(thread, file, frees_name) }
}

pub(crate) unsafe extern "C" fn end_file_rename(
    thread: *mut c_void,
    file: *const File,
    to: *const c_char,
    rc: c_int,
) -> c_int {
    type Rename = unsafe extern "C" fn(*mut c_void, *const File, *const c_char, c_int) -> c_int;
    // SAFETY: the function's own type and arguments.
    let failed = unsafe { END_RENAME.function::<Rename>()(thread, file, to, rc) };
    if failed == 0 {
        guard((), || {
            let known = FILES.get(file.addr());
            // SAFETY: 0, or the address of a file.
            let known = unsafe { FileHandle::from_address(std::ptr::with_exposed_provenance(known)) };
            // SAFETY: the server's promise: a file of the built-in's, which nobody else renames.
            if let (Some(known), Some(file)) = (known, unsafe { file.as_ref() }) {
                ENGINE.rename_file_to(known, &name(file));
            }
        });
    }
    failed
}
