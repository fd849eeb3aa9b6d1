//! HOT PATH: the current thread's slab, in one `fs:`-relative load, and beside it the number of calls to
//! skip.
//!
//! `thread_local!` in a shared object calls `__tls_get_addr`, because stable Rust cannot choose the
//! initial-exec model. The library is loaded at program start, so its thread-local block is in the static TLS
//! area and the initial-exec sequence is valid: one load of the offset, one load through `fs`.
#![allow(unsafe_code)]

#[cfg(all(target_arch = "x86_64", target_os = "linux", not(miri)))]
mod place {
    std::arch::global_asm!(
        ".pushsection .tbss.tare_current,\"awT\",@nobits",
        ".hidden tare_current",
        ".globl tare_current",
        ".type tare_current,@object",
        ".size tare_current,16",
        ".balign 8",
        "tare_current:",
        ".zero 16",
        ".popsection",
    );

    #[inline(always)]
    pub(crate) fn get() -> usize {
        let value;
        // SAFETY: `tare_current` is a thread-local of this object with two words, zero in a new thread. Only
        // the functions of this module access it, each in its own thread.
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
        // SAFETY: the invariant of `get`; only the calling thread's first word is written.
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

    /// Takes one of the calls that may be skipped. Returns how many there were before; none was taken where that is
    /// not above 0. Below 0: a chosen statement counts its calls.
    #[inline(always)]
    pub(crate) fn take_skip() -> i32 {
        let left: i32;
        // SAFETY: the invariant of `get`; only the calling thread's second word is read and written.
        unsafe {
            std::arch::asm!(
                "mov {at}, qword ptr [rip + tare_current@GOTTPOFF]",
                "mov {left:e}, dword ptr fs:[{at} + 8]",
                "sub {left:e}, 1",
                "js 2f",
                "mov dword ptr fs:[{at} + 8], {left:e}",
                "2:",
                at = out(reg) _,
                left = out(reg) left,
                options(nostack),
            );
        }
        left + 1
    }

    /// Returns how many calls may be skipped.
    #[inline(always)]
    pub(crate) fn skips() -> i32 {
        let left: i32;
        // SAFETY: the invariant of `get`; only the calling thread's second word is read.
        unsafe {
            std::arch::asm!(
                "mov {at}, qword ptr [rip + tare_current@GOTTPOFF]",
                "mov {left:e}, dword ptr fs:[{at} + 8]",
                at = out(reg) _,
                left = out(reg) left,
                options(nostack, preserves_flags, readonly),
            );
        }
        left
    }

    /// Sets how many calls may be skipped from now on.
    #[inline(always)]
    pub(crate) fn set_skips(skips: i32) {
        // SAFETY: the invariant of `get`; only the calling thread's second word is written.
        unsafe {
            std::arch::asm!(
                "mov {at}, qword ptr [rip + tare_current@GOTTPOFF]",
                "mov dword ptr fs:[{at} + 8], {skips:e}",
                at = out(reg) _,
                skips = in(reg) skips,
                options(nostack, preserves_flags),
            );
        }
    }
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux", not(miri))))]
mod place {
    use std::cell::Cell;
    thread_local! {
        static CURRENT: Cell<usize> = const { Cell::new(0) };
        static SKIPS: Cell<i32> = const { Cell::new(0) };
    }

    pub(crate) fn get() -> usize {
        CURRENT.with(Cell::get)
    }

    pub(crate) fn set(value: usize) {
        CURRENT.with(|current| current.set(value));
    }

    pub(crate) fn take_skip() -> i32 {
        let skips = SKIPS.with(Cell::get);
        if skips > 0 {
            set_skips(skips - 1);
        }
        skips
    }

    pub(crate) fn skips() -> i32 {
        SKIPS.with(Cell::get)
    }

    pub(crate) fn set_skips(skips: i32) {
        SKIPS.with(|word| word.set(skips));
    }
}

pub(crate) use place::{get, set, set_skips, skips, take_skip};
