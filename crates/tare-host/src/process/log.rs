//! Writes lines into the server's error log.
//!
//! The log is the server's standard error. With `--log-error` the server reopens standard error onto the
//! file, but only after it has asked for its provider; an earlier line would be missing from the log. So this
//! module overrides libc's `freopen64` and writes the waiting lines as soon as the log is open.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_void};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use libc::FILE;

/// The severity of a line, with the server's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Written as `[Note]`.
    Note,
    /// Written as `[Warning]`.
    Warning,
    /// Written as `[ERROR]`.
    Error,
}

/// The lines that may not be in the log yet. Bounded: start-up writes one or two.
static WAITING: Mutex<Vec<String>> = Mutex::new(Vec::new());
const MOST_WAITING: usize = 16;

/// Set if the server is going to reopen standard error onto a file.
static FILE_EXPECTED: AtomicBool = AtomicBool::new(false);
/// Set after the server has done so.
static FILE_OPEN: AtomicBool = AtomicBool::new(false);

static LIBC_FREOPEN: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

type Freopen = unsafe extern "C" fn(*const c_char, *const c_char, *mut FILE) -> *mut FILE;

/// Looks up libc's `freopen64`; called by the constructor.
pub fn resolve() {
    // SAFETY: a plain symbol lookup with a NUL-terminated name.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, c"freopen64".as_ptr()) };
    LIBC_FREOPEN.store(found, Ordering::Release);
}

/// Notes that the server has been told to log into a file.
pub fn expect_file() {
    FILE_EXPECTED.store(true, Ordering::Release);
}

/// Writes one line in the server's format, now or when the log is open. Control characters become spaces, so
/// that no text can forge a second line.
pub fn line(severity: Severity, text: &str) {
    let severity = match severity {
        Severity::Note => "Note",
        Severity::Warning => "Warning",
        Severity::Error => "ERROR",
    };
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let line = format!("{} 0 [{severity}] tare: {text}\n", timestamp());
    if FILE_OPEN.load(Ordering::Acquire) {
        return write_to_stderr(&line);
    }
    if !FILE_EXPECTED.load(Ordering::Acquire) {
        // Standard error is the log. If the server reopens it after all, the line is repeated there.
        write_to_stderr(&line);
    }
    let mut waiting = WAITING.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if waiting.len() < MOST_WAITING {
        waiting.push(line);
    }
}

/// Overrides libc's `freopen64`: after the server has reopened standard error onto its log, the waiting lines
/// are written there.
///
/// # Safety
///
/// The contract of `freopen(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn freopen64(path: *const c_char, mode: *const c_char, stream: *mut FILE) -> *mut FILE {
    let next = LIBC_FREOPEN.load(Ordering::Acquire);
    if next.is_null() {
        resolve();
    }
    let next = LIBC_FREOPEN.load(Ordering::Acquire);
    if next.is_null() {
        // SAFETY: errno's location is valid for the calling thread.
        unsafe { *libc::__errno_location() = libc::ENOSYS };
        return std::ptr::null_mut();
    }
    // SAFETY: `next` is the next object's `freopen64`, a function of this type.
    let next = unsafe { std::mem::transmute::<*mut c_void, Freopen>(next) };
    // SAFETY: the caller upholds freopen(3)'s contract.
    let reopened = unsafe { next(path, mode, stream) };
    if !reopened.is_null() && is_stderr(reopened) && !FILE_OPEN.load(Ordering::Acquire) {
        // A panic here would unwind into the server; the lines are not worth that.
        let _ = super::panic::caught(log_is_open);
    }
    reopened
}

fn is_stderr(stream: *mut FILE) -> bool {
    // SAFETY: fileno only reads the open stream that the caller has just received.
    unsafe { libc::fileno(stream) == libc::STDERR_FILENO }
}

/// Writes the waiting lines. Lines wait only in a server, so other programs get none.
fn log_is_open() {
    let mut waiting = WAITING.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    FILE_OPEN.store(true, Ordering::Release);
    for line in waiting.drain(..) {
        write_to_stderr(&line);
    }
}

fn write_to_stderr(line: &str) {
    // A single write, so that no other thread's line comes in between. A failure to write the log is ignored
    // here.
    // SAFETY: the buffer is `line`'s own.
    unsafe { libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len()) };
}

/// Returns the local time in the server's format: `2026-01-31  7:05:09`.
fn timestamp() -> String {
    // SAFETY: time with a null argument only returns the time.
    let now = unsafe { libc::time(std::ptr::null_mut()) };
    // SAFETY: tm is plain integers and a pointer; all-zero is a valid value.
    let mut tm: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to locals that live through the call.
    unsafe { libc::localtime_r(&raw const now, &raw mut tm) };
    format!(
        "{:04}-{:02}-{:02} {:2}:{:02}:{:02}",
        tm.tm_year + 1900,
        tm.tm_mon + 1,
        tm.tm_mday,
        tm.tm_hour,
        tm.tm_min,
        tm.tm_sec
    )
}
