//! The built-in's memory. What this library keeps itself the built-in need not keep as well: the records of
//! statements and the digests get no room. What it reserves and never uses takes none.
//!
//! The built-in reads its sizes when it starts. They are set back before anybody can ask for them.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::abi::memory::{SIZES, ZEROED};
use crate::original::Original;

/// The built-in's first function that reads one of these sizes.
pub(crate) static FIRST_SIZES: Original = Original::new();
/// Its last function that reads sizes.
pub(crate) static LAST_SIZES: Original = Original::new();
/// The function by which it gets memory.
pub(crate) static ALLOCATE: Original = Original::new();

/// What the sizes were.
static KEPT: [AtomicU64; SIZES.len()] = [const { AtomicU64::new(0) }; SIZES.len()];

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
    for (kept, at) in KEPT.iter().zip(SIZES) {
        // SAFETY: the server's promise.
        kept.store(unsafe { size(sizes, at) }.swap(0, Relaxed), Relaxed);
    }
    // SAFETY: the function's own type and argument.
    unsafe { FIRST_SIZES.function::<unsafe extern "C" fn(*mut c_void) -> c_int>()(sizes) }
}

pub(crate) unsafe extern "C" fn last_sizes(sizes: *mut c_void) -> c_int {
    for (kept, at) in KEPT.iter().zip(SIZES) {
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
        give_back(block.addr(), size);
    }
    block
}

/// Gives back the pages of a block of zeros: they are zeros again when somebody touches them.
fn give_back(block: usize, size: usize) {
    const PAGE: usize = 1 << 12;
    let (start, end) = (block.next_multiple_of(PAGE), (block + size) / PAGE * PAGE);
    let pages = std::ptr::with_exposed_provenance_mut(start);
    // SAFETY: whole pages of a block that the server has just got and filled with zeros, which nobody else
    // knows. If the memory is of a kind whose pages cannot be given back, nothing happens.
    unsafe { libc::madvise(pages, end - start, libc::MADV_DONTNEED) };
}
