//! A library that makes any program look like a server, for tests of what the start-up makes of versions no
//! test machine has. `TARE_EXAMPLE_VERSION` is the version; at its end the program says on standard error
//! whether its hook was set.
#![allow(unsafe_code, non_upper_case_globals)]

use std::ffi::{c_char, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The server's variable of this name.
#[unsafe(no_mangle)]
pub static PSI_hook: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
/// The server's variable of this name.
#[unsafe(no_mangle)]
pub static PSI_server: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
/// The server's variable of this name: empty until the server's `main` fills it.
#[unsafe(no_mangle)]
pub static server_version: [c_char; 60] = [0; 60];

/// The server's function of this (mangled) name.
///
/// # Safety
/// `buffer` takes `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _Z18set_server_versionPcm(buffer: *mut c_char, size: usize) {
    let version = std::env::var("TARE_EXAMPLE_VERSION").unwrap_or_default();
    let length = version.len().min(size.saturating_sub(1));
    // SAFETY: at most size - 1 bytes and a zero (this function's contract).
    unsafe {
        ptr::copy_nonoverlapping(version.as_ptr().cast(), buffer, length);
        buffer.add(length).write(0);
    }
}

#[used]
#[unsafe(link_section = ".fini_array")]
static DESTRUCTOR: extern "C" fn() = report;

extern "C" fn report() {
    let hook = if PSI_hook.load(Ordering::Relaxed).is_null() { "untouched" } else { "set" };
    let text = format!("hook {hook}\n");
    // SAFETY: the buffer is `text`'s own. Not `eprintln`: at this point of a program's end it may be gone.
    unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len()) };
}
