//! Writes lines into the server's error log.
//!
//! The log is the server's standard error. With `--log-error` the server reopens standard error onto the
//! file, but only after it has asked for its provider; an earlier line would be missing from the log. So this
//! module overrides libc's `freopen64` and writes the waiting lines as soon as the log is open.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_void};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

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

/// The form of a line in a server's error log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `2026-01-31  7:05:09 0 [Note] …`, in local time.
    MariaDb,
    /// `2026-01-31T07:05:09.000000Z 0 [Note] [MY-000000] [Server] …`, in UTC.
    MySql,
}

static IS_MYSQL: AtomicBool = AtomicBool::new(false);

/// Chooses the form of the lines from now on; [`Form::MariaDb`] until then.
pub fn set_form(form: Form) {
    IS_MYSQL.store(form == Form::MySql, Ordering::Release);
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
    let form = if IS_MYSQL.load(Ordering::Acquire) { Form::MySql } else { Form::MariaDb };
    let line = form.line(now(), severity, &text);
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

/// Returns the time since 1970.
fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

impl Form {
    /// Returns a line with its end.
    fn line(self, time: Duration, severity: &str, text: &str) -> String {
        let tm = self.broken_down(time);
        let (date, day) = (format!("{:04}-{:02}", tm.tm_year + 1900, tm.tm_mon + 1), tm.tm_mday);
        let (hour, rest) = (tm.tm_hour, format!("{:02}:{:02}", tm.tm_min, tm.tm_sec));
        match self {
            Form::MariaDb => format!("{date}-{day:02} {hour:2}:{rest} 0 [{severity}] tare: {text}\n"),
            Form::MySql => {
                let micros = time.subsec_micros();
                format!(
                    "{date}-{day:02}T{hour:02}:{rest}.{micros:06}Z 0 [{severity}] [MY-000000] [Server] tare: {text}\n"
                )
            }
        }
    }

    /// Returns the date and the time of day, local or in UTC.
    fn broken_down(self, time: Duration) -> libc::tm {
        let seconds = libc::time_t::try_from(time.as_secs()).unwrap_or_default();
        // SAFETY: tm is plain integers and a pointer; all-zero is a valid value.
        let mut tm: libc::tm = unsafe { std::mem::zeroed() };
        // SAFETY: both pointers are to locals that live through the call.
        unsafe {
            match self {
                Form::MariaDb => libc::localtime_r(&raw const seconds, &raw mut tm),
                Form::MySql => libc::gmtime_r(&raw const seconds, &raw mut tm),
            }
        };
        tm
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_form_of_its_server() {
        let time = Duration::from_micros(1_769_843_109_000_042);
        let line = Form::MySql.line(time, "Note", "hello");
        assert_eq!(line, "2026-01-31T07:05:09.000042Z 0 [Note] [MY-000000] [Server] tare: hello\n");
        let line = Form::MariaDb.line(time, "ERROR", "hello");
        let (start, end) = line.split_at("2026-01-31  7:05:09".len());
        // The hour is the time zone's.
        assert!(start.starts_with("2026-") && start.ends_with(":09"), "{line}");
        assert_eq!(end, " 0 [ERROR] tare: hello\n");
    }
}
