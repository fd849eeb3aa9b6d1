//! Clears the data directory of what earlier versions left in it, whether this run serves the tables or stands back.
//!
//! No variable of the server tells the directory before its `main`, and one that stands back is never asked for anything. But
//! every server changes into its data directory, once, before it opens a table and as the user it runs as. So this
//! module stands in front of libc's `chdir`.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_void};
use std::panic::catch_unwind;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use super::error_log::{Severity, line};
use crate::install::{self, InstallError};
use crate::next::Next;

/// Set in a server that is going to serve, until its data directory was looked at.
static DUE: AtomicBool = AtomicBool::new(false);

static CHDIR: Next = Next::new(c"chdir");

type Chdir = unsafe extern "C" fn(*const c_char) -> c_int;

/// Looks up libc's `chdir`; called by the constructor.
pub(super) fn resolve() {
    CHDIR.resolve();
}

/// From now on the first data directory this process changes into is cleared. To be called before the server's `main`.
pub(super) fn clear_when_known() {
    DUE.store(true, Ordering::Release);
}

/// Stands in front of libc's `chdir`.
///
/// # Safety
/// As for `chdir(2)`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn chdir(path: *const c_char) -> c_int {
    let changed = match CHDIR.address() {
        Some(next) => {
            // SAFETY: the next object's function of this name has this type.
            let next = unsafe { std::mem::transmute::<*mut c_void, Chdir>(next.as_ptr()) };
            // SAFETY: passed on as it came.
            unsafe { next(path) }
        }
        // SAFETY: the caller upholds chdir(2)'s contract; this is what libc does.
        None => unsafe { libc::syscall(libc::SYS_chdir, path) as c_int },
    };
    if changed == 0 && DUE.load(Ordering::Acquire) {
        // A panic here would unwind into the server; leftovers are not worth it.
        let _ = catch_unwind(clear);
    }
    changed
}

/// Clears the current directory, if it is one of a server.
fn clear() {
    let cleared = install::remove(Path::new("."));
    if matches!(cleared, Err(InstallError::NotADataDirectory { .. })) {
        return;
    }
    DUE.store(false, Ordering::Release);
    match cleared {
        Ok(tables) if tables.is_empty() => {}
        Ok(tables) => {
            let text = format!(
                "removed what an earlier version left: {} tables' files in performance_schema",
                tables.len()
            );
            line(Severity::Note, &text);
        }
        Err(error) => {
            line(Severity::Warning, &format!("what an earlier version left is not removed: {error}"))
        }
    }
}
