//! The first code of this library that runs, and the stub that the server calls.
#![allow(unsafe_code)]

use std::arch::naked_asm;
use std::ffi::CStr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use tare_host::jumps::{Function, copies_for_lead, lead};
use tare_host::process::log::{self, Form, Severity, line, set_form};
use tare_host::process::panic::caught;
use tare_host::process::symbol;

use super::disable_reason::DisableReason;
use crate::abi::layout::LAYOUTS;

/// The library's constructor.
#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = construct;

/// Returns the `initialize_performance_schema` of this program.
fn initialize() -> Option<&'static CStr> {
    LAYOUTS.iter().map(|layout| layout.initialize).find(|name| symbol(name).is_some())
}

/// What the stub goes on to: a copy of the function's beginning, which jumps to the rest.
static REST: AtomicUsize = AtomicUsize::new(0);

extern "C" fn construct() {
    log::resolve();
    // Other programs, and servers of another interface, are left alone.
    let Some(name) = initialize() else { return };
    let led = caught(|| lead_through_stub(name)).unwrap_or_else(|why| Err(DisableReason::Panic(why)));
    if let Err(reason) = led {
        let _ = caught(|| {
            set_form(Form::MySql);
            line(Severity::Warning, &format!("does nothing, the server runs without it: {reason}"));
        });
    }
}

/// Leads the server's function through the stub.
fn lead_through_stub(name: &'static CStr) -> Result<(), DisableReason> {
    let code = |error: &dyn std::fmt::Display| DisableReason::Code(error.to_string());
    let function = Function::find(name).map_err(|error| code(&error))?;
    let copies = copies_for_lead(&[function]).map_err(|error| code(&error))?;
    REST.store(copies.first().copied().unwrap_or_default(), Relaxed);
    // SAFETY: a function of the program, long enough (a copy of its beginning was made), and main has not
    // started. The stub passes everything on.
    let led =
        unsafe { lead(&[(function.start(), stub as *const () as usize)]) }.map_err(|error| code(&error))?;
    // It leads there for good.
    std::mem::forget(led);
    Ok(())
}

/// Prepares everything. Returns where the stub goes on. `sizes` is the server's first argument.
extern "C" fn prepare(sizes: *const u8) -> usize {
    let _ = caught(|| {
        super::prepare(|| {
            // SAFETY: the server's sizes, whose first byte says whether the built-in is on (`checks`).
            !sizes.is_null() && unsafe { *sizes } != 0
        });
    });
    REST.load(Relaxed)
}

/// Stands in the place of the server's function, for one call: arguments and stack stay as they are.
#[unsafe(naked)]
unsafe extern "C" fn stub() {
    naked_asm!(
        "push rdi",
        "push rsi",
        "push rdx",
        "push rcx",
        "push r8",
        "push r9",
        "push rbx",
        "call {prepare}",
        "pop rbx",
        "pop r9",
        "pop r8",
        "pop rcx",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "jmp rax",
        prepare = sym prepare,
    )
}
