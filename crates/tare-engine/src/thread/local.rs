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

    /// Takes one of the calls that may be skipped, but not the last one. Returns whether there was one. The
    /// comparison jumps itself, so a function that returns then saves no register.
    #[inline(always)]
    pub(crate) fn take_skip() -> bool {
        // SAFETY: the invariant of `get`; only the calling thread's second word is read and written.
        unsafe {
            std::arch::asm!(
                "mov {at}, qword ptr [rip + tare_current@GOTTPOFF]",
                "cmp dword ptr fs:[{at} + 8], 2",
                "jl {none}",
                "sub dword ptr fs:[{at} + 8], 1",
                at = out(reg) _,
                none = label { return false },
                options(nostack),
            );
        }
        true
    }

    /// Returns whether calls may be skipped, by a comparison that jumps itself.
    #[inline(always)]
    pub(crate) fn is_skipping() -> bool {
        // SAFETY: the invariant of `get`; only the calling thread's second word is read.
        unsafe {
            std::arch::asm!(
                "mov {at}, qword ptr [rip + tare_current@GOTTPOFF]",
                "cmp dword ptr fs:[{at} + 8], 0",
                "jg {some}",
                at = out(reg) _,
                some = label { return true },
                options(nostack, readonly),
            );
        }
        false
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

    pub(crate) fn take_skip() -> bool {
        let skips = skips();
        if skips > 1 {
            set_skips(skips - 1);
        }
        skips > 1
    }

    pub(crate) fn is_skipping() -> bool {
        skips() > 0
    }

    pub(crate) fn skips() -> i32 {
        SKIPS.with(Cell::get)
    }

    pub(crate) fn set_skips(skips: i32) {
        SKIPS.with(|word| word.set(skips));
    }
}

pub(crate) use place::{get, is_skipping, set, set_skips, skips, take_skip};
