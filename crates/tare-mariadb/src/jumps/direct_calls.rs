//! Redirects the calls that the server makes to its built-in provider without using `PSI_server`.
//!
//! The server and the engines compiled into it call the built-in's functions for threads, mutexes, rwlocks,
//! condition variables, transactions and metadata locks by name (headers such as `pfs_thread_provider.h`).
//! Only plugins and the libraries below go through the function table for these. While the built-in is off
//! these functions do nothing. So the entry of every function in the built-in's table gets a jump to tare's
//! shim, once, on the main thread, before any other thread exists: every call, by name or through the table,
//! reaches tare. The jump of a slot that is routed by demand (`entry::routing`) reads the slot, so code is
//! written once and never again.
//!
//! [`Image`](super::built_in::Image) finds these functions. If anything is not exactly as expected, tare
//! disables itself.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};

use super::built_in::KEYS;
use super::error::DirectCallsError;
use crate::abi::Series;
use crate::entry::routing;
use crate::process::{Segments, symbol};

/// The size in bytes of a jump from a function's entry to any address. Functions begin at multiples of 16, so
/// the jump fits even into the shortest one.
pub(super) const JUMP: usize = 13;

/// The target of a jump.
#[derive(Clone, Copy)]
enum Target {
    /// This address.
    Address(usize),
    /// The address stored at this one.
    Slot(usize),
}

impl Target {
    /// Returns the jump's code. The registers used are free between a call and the function. It is `mov
    /// address, %r11` and `jmp *%r11`, with the address in the instruction, because an address in memory next
    /// to the code would be read as data and take a line of that cache, too; or it is `mov (slot), %rax` and
    /// `jmp *%rax`.
    fn jump(self) -> [u8; JUMP] {
        let (mut code, address) = match self {
            Target::Address(address) => ([0x49, 0xBB, 0, 0, 0, 0, 0, 0, 0, 0, 0x41, 0xFF, 0xE3], address),
            Target::Slot(slot) => ([0x48, 0xA1, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xE0, 0xCC], slot),
        };
        code[2..10].copy_from_slice(&address.to_le_bytes());
        code
    }
}

/// Redirects the direct calls to the functions in `table`, which has the layout of `series`. Each pair of
/// `further` is a function of the program and its replacement.
///
/// # Errors
///
/// Nothing is changed then.
pub(crate) fn redirect(
    series: Series,
    table: *const c_void,
    further: &[(usize, usize)],
) -> Result<(), DirectCallsError> {
    let program = Segments::of_program().ok_or(DirectCallsError::Unexpected("no program"))?;
    let keys = symbol(KEYS).map(|function| function.addr());
    let functions = program.image().functions(series, keys)?;
    let shim = |slot: usize| {
        let slot = table.cast::<usize>().wrapping_add(slot);
        // SAFETY: the table has a function pointer for each of the series' slots.
        if routing::may_change(slot) { Target::Slot(slot.addr()) } else { Target::Address(unsafe { *slot }) }
    };
    let functions = functions.into_iter().map(|(slot, from)| (from, shim(slot)));
    let further = further.iter().map(|(from, to)| (*from, Target::Address(*to)));
    write_jumps(&functions.chain(further).collect::<Vec<_>>())
}

/// Writes bytes into the program's code, within a cache line, while there is only one thread.
pub(super) fn overwrite<const N: usize>(at: usize, bytes: [u8; N]) -> std::io::Result<()> {
    let refused = |error: DirectCallsError| std::io::Error::other(error.to_string());
    with_writable_code(at, at + N, || {
        // SAFETY: the caller's: an instruction of the program that nobody runs, because this is the only
        // thread and it is here. The pages are writable.
        unsafe { (at as *mut [u8; N]).write_unaligned(bytes) };
    })
    .map_err(refused)
}

/// Makes the code's pages writable, writes every jump, and restores the pages' protection.
fn write_jumps(jumps: &[(usize, Target)]) -> Result<(), DirectCallsError> {
    let first = jumps.iter().map(|(from, _)| *from).min().unwrap_or(0);
    let last = jumps.iter().map(|(from, _)| from + JUMP).max().unwrap_or(0);
    with_writable_code(first, last, || {
        for (from, to) in jumps {
            let code = to.jump();
            // SAFETY: `JUMP` bytes at the entry of a function that is longer (the built-in's begin at
            // multiples of 16, the caller looked at more of a further one) and that nobody runs: this is the
            // only thread, and it is here. The pages are writable; the processor sees its own stores to code
            // before the next jump.
            unsafe { std::ptr::copy_nonoverlapping(code.as_ptr(), *from as *mut u8, JUMP) };
        }
    })
}

/// Runs `write` while the pages of the program's code between these addresses are writable.
fn with_writable_code(first: usize, last: usize, write: impl FnOnce()) -> Result<(), DirectCallsError> {
    // SAFETY: sysconf takes no pointers.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
    let (first, last) = (first / page * page, last.next_multiple_of(page));
    let protect = |flags: c_int| {
        // SAFETY: the range lies within the program's own code segment (the callers checked every address).
        match unsafe { libc::mprotect(first as *mut c_void, last - first, flags) } {
            0 => Ok(()),
            _ => Err(DirectCallsError::Refused(std::io::Error::last_os_error().to_string())),
        }
    };
    protect(libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC)?;
    write();
    // If the system refuses this, the pages stay writable; what was written is valid all the same.
    let _ = protect(libc::PROT_READ | libc::PROT_EXEC);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::mem::transmute;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use super::*;
    use crate::jumps::detour;

    extern "C" fn one() -> c_int {
        1
    }

    extern "C" fn two() -> c_int {
        2
    }

    #[test]
    fn a_jump_goes_to_its_address_or_where_its_slot_leads_now() {
        let slot = AtomicUsize::new(one as *const () as usize);
        let mut page = [0xCC; detour::PAGE];
        page[..JUMP].copy_from_slice(&Target::Address(two as *const () as usize).jump());
        page[64..][..JUMP].copy_from_slice(&Target::Slot(slot.as_ptr().addr()).jump());
        let at = detour::make_code(&page).expect("memory for code");
        // SAFETY: a jump to one of the functions above, which have this type.
        let call = |at: usize| unsafe { transmute::<usize, extern "C" fn() -> c_int>(at)() };
        assert_eq!((call(at), call(at + 64)), (2, 1));
        slot.store(two as *const () as usize, Relaxed);
        assert_eq!((call(at), call(at + 64)), (2, 2));
    }

    #[test]
    fn a_program_that_is_no_server_is_left_alone() {
        let table = [0usize; 160];
        let result = redirect(Series::V10_11, table.as_ptr().cast(), &[]);
        assert_eq!(result, Err(DirectCallsError::Unexpected("no init_server_psi_keys")));
    }
}
