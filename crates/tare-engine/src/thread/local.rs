//! HOT PATH: the current thread's slab, in one `fs:`-relative load.
//!
//! `thread_local!` in a shared object calls `__tls_get_addr` (stable Rust cannot choose the initial-exec
//! model). The library is loaded at program start, so its thread-local block is in the static TLS area and
//! the initial-exec sequence is valid: one load of the offset, one load through `fs`.
#![allow(unsafe_code)]

#[cfg(all(target_arch = "x86_64", target_os = "linux", not(miri)))]
mod place {
    std::arch::global_asm!(
        ".pushsection .tbss.tare_current,\"awT\",@nobits",
        ".hidden tare_current",
        ".globl tare_current",
        ".type tare_current,@object",
        ".size tare_current,8",
        ".balign 8",
        "tare_current:",
        ".zero 8",
        ".popsection",
    );

    #[inline(always)]
    pub(crate) fn get() -> usize {
        let value;
        // SAFETY: `tare_current` is an 8-byte thread-local of this object, zero in a new thread, and only
        // ever read and written by its own thread through `get` and `set`.
        unsafe {
            std::arch::asm!(
                "mov {0}, qword ptr [rip + tare_current@GOTTPOFF]",
                "mov {0}, qword ptr fs:[{0}]",
                out(reg) value,
                options(nostack, preserves_flags, readonly),
            );
        }
        value
    }

    #[inline(always)]
    pub(crate) fn set(value: usize) {
        // SAFETY: as for `get`.
        unsafe {
            std::arch::asm!(
                "mov {0}, qword ptr [rip + tare_current@GOTTPOFF]",
                "mov qword ptr fs:[{0}], {1}",
                out(reg) _,
                in(reg) value,
                options(nostack, preserves_flags),
            );
        }
    }
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux", not(miri))))]
mod place {
    use std::cell::Cell;
    thread_local! { static CURRENT: Cell<usize> = const { Cell::new(0) }; }

    pub(crate) fn get() -> usize {
        CURRENT.with(Cell::get)
    }

    pub(crate) fn set(value: usize) {
        CURRENT.with(|current| current.set(value));
    }
}

pub(crate) use place::{get, set};
