//! The first code of this library that runs, called by the loader before the server's `main`.
#![allow(unsafe_code)]

use std::ffi::{CStr, OsString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStringExt;

use tare_host::process::log;
use tare_host::process::panic::caught;

use super::program::{PsiBootstrap, ServerSymbols};
use super::{answer, disable, environment, plan};
use crate::interpose::{folder, leftovers, redirect};
use crate::status::{self, DisableReason, ProviderState};

/// The library's constructor: glibc calls the functions of `.init_array` with the arguments of `main`.
#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn(c_int, *const *const c_char, *const *const c_char) = construct;

static BOOTSTRAP: PsiBootstrap = PsiBootstrap { get_interface };

extern "C" fn construct(argc: c_int, argv: *const *const c_char, _envp: *const *const c_char) {
    // The overridden functions must work in every program, server or not.
    redirect::resolve();
    folder::resolve();
    leftovers::resolve();
    log::resolve();
    let Some(server) = ServerSymbols::find() else { return };
    // A panic is a reason to disable tare like any other.
    let begun = caught(|| {
        // SAFETY: the loader runs constructors one by one, before any thread exists.
        unsafe { environment::leave_children_alone() };
        // SAFETY: argc and argv are the program's own.
        let arguments = unsafe { copy_arguments(argc, argv) };
        plan(&server, &arguments)
    })
    .unwrap_or_else(|why| Err(DisableReason::Panic(why)));
    match begun {
        Ok(plan) => {
            leftovers::clear_when_known();
            if status::set_plan(plan) {
                status::set_state(ProviderState::Waiting);
                // SAFETY: main has not started.
                unsafe { server.set_hook(&BOOTSTRAP) };
            }
        }
        Err(reason) => {
            if reason.serves() {
                leftovers::clear_when_known();
            }
            let _ = caught(|| disable(reason));
        }
    }
}

/// Returns the provider's function table. The server calls it once, on its main thread.
extern "C" fn get_interface(version: c_int) -> *const c_void {
    caught(|| answer(version)).unwrap_or(std::ptr::null())
}

/// Copies the program's arguments.
///
/// # Safety
///
/// `argv` holds `argc` pointers to NUL-terminated strings.
unsafe fn copy_arguments(argc: c_int, argv: *const *const c_char) -> Vec<OsString> {
    let count = usize::try_from(argc).unwrap_or(0);
    (0..count)
        // SAFETY: the position is below argc (this function's contract).
        .map(|position| unsafe { *argv.add(position) })
        .take_while(|argument| !argument.is_null())
        // SAFETY: each is a NUL-terminated string (this function's contract).
        .map(|argument| OsString::from_vec(unsafe { CStr::from_ptr(argument) }.to_bytes().to_vec()))
        .collect()
}
