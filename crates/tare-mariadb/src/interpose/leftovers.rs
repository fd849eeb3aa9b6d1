//! Removes the files that earlier versions left in the data directory, whether this run serves the tables or
//! tare disables itself.
//!
//! No variable of the server contains the directory before its `main`, and a disabled provider is never
//! called again. But every server changes into its data directory once, before it opens a table and as the
//! user it runs as. So this module overrides libc's `chdir`.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_void};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use tare_host::process::Next;
use tare_host::process::log::{Severity, line};
use tare_host::process::panic::caught;

use crate::install::{self, InstallError};

/// Set in a server that is going to serve, until its data directory has been examined.
static DUE: AtomicBool = AtomicBool::new(false);

static CHDIR: Next = Next::new(c"chdir");

type Chdir = unsafe extern "C" fn(*const c_char) -> c_int;

/// Looks up libc's `chdir`; called by the constructor.
pub(crate) fn resolve() {
    CHDIR.resolve();
}

/// Requests the removal in the first data directory that this process changes into. Call it before the
/// server's `main`.
pub(crate) fn clear_when_known() {
    DUE.store(true, Ordering::Release);
}

/// Overrides libc's `chdir`.
///
/// # Safety
///
/// The contract of `chdir(2)`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn chdir(path: *const c_char) -> c_int {
    let changed = match CHDIR.address() {
        Some(next) => {
            // SAFETY: the next object's function of this name has this type.
            let next = unsafe { std::mem::transmute::<*mut c_void, Chdir>(next.as_ptr()) };
            // SAFETY: passed on unchanged.
            unsafe { next(path) }
        }
        // SAFETY: the caller upholds chdir(2)'s contract; this is what libc does.
        None => unsafe { libc::syscall(libc::SYS_chdir, path) as c_int },
    };
    if changed == 0 && DUE.load(Ordering::Acquire) {
        // A panic here would unwind into the server; leftovers are not worth that.
        let _ = caught(clear);
    }
    changed
}

/// Removes leftovers from the current directory if it is a server's data directory.
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
