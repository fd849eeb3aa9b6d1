//! The calls the server makes to its built-in provider without asking `PSI_server`.
//!
//! The server and the engines compiled into it call the built-in's functions for threads, mutexes, rwlocks,
//! conds, transactions and metadata locks by name (headers such as `pfs_thread_provider.h`); only plugins and
//! the libraries below go through the vtable for these. With the built-in off they do nothing. So every
//! function of the built-in's vtable gets a jump to tare's shim at its entry, once, on the main thread, before
//! any other thread exists: whoever calls it, by name or through the vtable, reaches tare. A slot that leads elsewhere while nobody
//! wants its events (`entry::lead`) is read by the jump, so that code is written once and never again.
//!
//! Which functions these are is found out by [`Image`]. Whatever is not exactly as expected: tare stands back.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};

use super::built_in::KEYS;
use super::segments::Segments;
use super::symbol;
use crate::abi::Series;
use crate::entry::lead;

/// Why the calls could not be redirected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DirectCallsError {
    /// The server looks otherwise than the ones known.
    #[error("the server's own instrumentation is not where it is expected: {0}")]
    Unexpected(&'static str),
    /// The system does not let a program change its code.
    #[error("the system refuses to redirect the server's direct calls: {0}")]
    Refused(String),
}

/// Bytes of a jump from a function's entry to any address. Functions begin at multiples of 16, so it fits even before the
/// shortest one's neighbour.
pub(super) const JUMP: usize = 13;

/// Where a jump goes.
#[derive(Clone, Copy)]
enum Target {
    /// To this address.
    Address(usize),
    /// To the address that is at this one.
    Slot(usize),
}

impl Target {
    /// The jump's code. The registers are nobody's between a call and the function: `mov address, %r11` and `jmp *%r11`, with the
    /// address in the instruction, for one in memory behind it would be read as data, and take a line of that cache, too; or
    /// `mov (slot), %rax` and `jmp *%rax`.
    fn jump(self) -> [u8; JUMP] {
        let (mut code, address) = match self {
            Target::Address(address) => ([0x49, 0xBB, 0, 0, 0, 0, 0, 0, 0, 0, 0x41, 0xFF, 0xE3], address),
            Target::Slot(slot) => ([0x48, 0xA1, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xE0, 0xCC], slot),
        };
        code[2..10].copy_from_slice(&address.to_le_bytes());
        code
    }
}

/// Leads the direct calls to the functions in `table`, which has the layout of `series`; and of each pair of `further`, a
/// function of the program's and another one, the first to the second.
///
/// # Errors
/// Nothing is changed then.
pub(super) fn redirect(
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
        if lead::may_change(slot) { Target::Slot(slot.addr()) } else { Target::Address(unsafe { *slot }) }
    };
    let functions = functions.into_iter().map(|(slot, from)| (from, shim(slot)));
    let further = further.iter().map(|(from, to)| (*from, Target::Address(*to)));
    write_jumps(&functions.chain(further).collect::<Vec<_>>())
}

/// Writes bytes into the program's code, within a line, while there is one thread.
pub(super) fn overwrite<const N: usize>(at: usize, bytes: [u8; N]) -> std::io::Result<()> {
    let refused = |error: DirectCallsError| std::io::Error::other(error.to_string());
    with_writable_code(at, at + N, || {
        // SAFETY: the caller's: an instruction of the program's own that nobody runs, this is the only thread, and it is here. The
        // pages are writable.
        unsafe { (at as *mut [u8; N]).write_unaligned(bytes) };
    })
    .map_err(refused)
}

/// Makes the code's pages writable, writes every jump, makes them what they were.
fn write_jumps(jumps: &[(usize, Target)]) -> Result<(), DirectCallsError> {
    let first = jumps.iter().map(|(from, _)| *from).min().unwrap_or(0);
    let last = jumps.iter().map(|(from, _)| from + JUMP).max().unwrap_or(0);
    with_writable_code(first, last, || {
        for (from, to) in jumps {
            let code = to.jump();
            // SAFETY: `JUMP` bytes at the entry of a function that is longer (the built-in's begin at multiples of 16, the caller
            // looked at more of a further one) and that nobody runs: this is the only thread, and it is here. The pages are
            // writable; the processor sees its own stores to code before the next jump.
            unsafe { std::ptr::copy_nonoverlapping(code.as_ptr(), *from as *mut u8, JUMP) };
        }
    })
}

/// Does something while the pages of the program's code between these addresses can be written to.
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
    // Should the system refuse this, the pages stay writable; what was written is right all the same.
    let _ = protect(libc::PROT_READ | libc::PROT_EXEC);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::mem::transmute;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use super::*;
    use crate::startup::detour;

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
