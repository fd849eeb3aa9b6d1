//! The built-in's memory. What this library keeps itself the built-in need not keep as well: the records of
//! statements and the digests get no room. What it reserves and never uses takes none.
//!
//! The built-in reads its sizes when it starts. They are set back before anybody can ask for them.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tare_host::process::guard;

use crate::abi::layout::layout;
use crate::abi::memory::ZEROED;
use crate::original::Original;

/// The built-in's first function that reads one of these sizes.
pub(crate) static FIRST_SIZES: Original = Original::new();
/// Its last function that reads sizes.
pub(crate) static LAST_SIZES: Original = Original::new();
/// The function by which it gets memory.
pub(crate) static ALLOCATE: Original = Original::new();

/// The functions that make arrays of threads, accounts, users and hosts.
pub(crate) static MAKE_ARRAY: [Original; 4] = [const { Original::new() }; 4];

/// What the sizes were.
static KEPT: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];

/// Blocks below this are left alone.
const LARGE: usize = 1 << 14;

/// Returns a size.
///
/// # Safety
///
/// The server's: its sizes, which one thread uses while the built-in starts.
unsafe fn size<'a>(sizes: *mut c_void, at: usize) -> &'a AtomicU64 {
    // SAFETY: the caller's promise, and a number is at this place (`startup::checks`).
    unsafe { &*sizes.byte_add(at).cast::<AtomicU64>() }
}

pub(crate) unsafe extern "C" fn first_sizes(sizes: *mut c_void) -> c_int {
    for (kept, at) in KEPT.iter().zip(layout().sizes) {
        // SAFETY: the server's promise.
        kept.store(unsafe { size(sizes, at) }.swap(0, Relaxed), Relaxed);
    }
    // SAFETY: the function's own type and argument.
    unsafe { FIRST_SIZES.function::<unsafe extern "C" fn(*mut c_void) -> c_int>()(sizes) }
}

pub(crate) unsafe extern "C" fn last_sizes(sizes: *mut c_void) -> c_int {
    for (kept, at) in KEPT.iter().zip(layout().sizes) {
        // SAFETY: the server's promise.
        unsafe { size(sizes, at) }.store(kept.load(Relaxed), Relaxed);
    }
    // SAFETY: as above.
    unsafe { LAST_SIZES.function::<unsafe extern "C" fn(*mut c_void) -> c_int>()(sizes) }
}

pub(crate) unsafe extern "C" fn allocate(class: *mut c_void, size: usize, flags: c_int) -> *mut c_void {
    type Allocate = unsafe extern "C" fn(*mut c_void, usize, c_int) -> *mut c_void;
    // SAFETY: the function's own type and arguments.
    let block = unsafe { ALLOCATE.function::<Allocate>()(class, size, flags) };
    if size >= LARGE && flags & ZEROED != 0 && !block.is_null() {
        // SAFETY: a block that the server has just got and filled with zeros, which nobody else knows.
        unsafe { give_back(block.cast(), size) };
        guard((), || {
            if let Some(mut made) = MADE.take() {
                made.push((block.expose_provenance(), size));
                MADE.set(Some(made));
            }
        });
    }
    block
}

thread_local! {
    /// The blocks of the array that the calling thread makes; `None`: it makes none.
    static MADE: Cell<Option<Vec<(usize, usize)>>> = const { Cell::new(None) };
}

/// Makes an array of threads, accounts, users or hosts, with their sums. Nobody else knows it yet, and most
/// of it is zeros, which its maker has written again.
pub(crate) unsafe extern "C" fn make_array<const AT: usize>(of: *mut c_void, array: *mut c_void) -> c_int {
    type Make = unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int;
    guard((), || MADE.set(Some(Vec::new())));
    // SAFETY: the function's own type and arguments.
    let rc = unsafe { MAKE_ARRAY[AT].function::<Make>()(of, array) };
    guard((), || {
        let made = MADE.take().filter(|_| rc == 0);
        for (block, size) in made.into_iter().flatten() {
            // SAFETY: the server has just got the block, and has not shown it to another thread yet.
            unsafe { give_back(std::ptr::with_exposed_provenance_mut(block), size) };
        }
    });
    rc
}

/// Gives back the pages of a block that are zeros: they are so again when somebody touches them.
///
/// # Safety
///
/// The block has `size` bytes, and no other thread uses it meanwhile.
unsafe fn give_back(block: *mut u8, size: usize) {
    const PAGE: usize = 1 << 12;
    let (start, end) = (block.addr().next_multiple_of(PAGE), (block.addr() + size) / PAGE * PAGE);
    let mut zeros: Option<usize> = None;
    for at in (start..end).step_by(PAGE).chain([end]) {
        // SAFETY: a page of the block (the caller's promise).
        let is_zeros = at < end
            && unsafe { std::slice::from_raw_parts(block.with_addr(at).cast::<u64>(), PAGE / 8) }
                .iter()
                .all(|word| *word == 0);
        match (zeros, is_zeros) {
            (None, true) => zeros = Some(at),
            (Some(from), false) => {
                // SAFETY: whole pages of the block, which are zeros before and after. Nothing happens if they
                // are of a kind that cannot be given back.
                unsafe { libc::madvise(block.with_addr(from).cast(), at - from, libc::MADV_DONTNEED) };
                zeros = None;
            }
            _ => {}
        }
    }
}
