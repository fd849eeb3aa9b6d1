//! Writes jumps into the program's code.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::io;

/// The size in bytes of a jump from a function's entry to any address. Where functions begin at multiples of
/// 16, it fits even into the shortest one.
pub const JUMP: usize = 13;

/// The target of a jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JumpTarget {
    /// This address.
    Address(usize),
    /// The address stored at this one.
    Slot(usize),
}

impl JumpTarget {
    /// Returns the jump's code. The registers used are free between a call and the function. It is `mov
    /// address, %r11` and `jmp *%r11`, with the address in the instruction, because an address in memory next
    /// to the code would be read as data and take a line of that cache, too; or it is `mov (slot), %rax` and
    /// `jmp *%rax`.
    pub fn jump(self) -> [u8; JUMP] {
        let (mut code, address) = match self {
            JumpTarget::Address(address) => ([0x49, 0xBB, 0, 0, 0, 0, 0, 0, 0, 0, 0x41, 0xFF, 0xE3], address),
            JumpTarget::Slot(slot) => ([0x48, 0xA1, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xE0, 0xCC], slot),
        };
        code[2..10].copy_from_slice(&address.to_le_bytes());
        code
    }
}

/// Writes bytes into the program's code.
///
/// # Errors
///
/// When the system does not let the program change its code. Nothing is changed then.
///
/// # Safety
///
/// The address lies in the program's code, nobody runs what is there meanwhile, and the code is valid
/// afterwards.
pub unsafe fn overwrite<const N: usize>(at: usize, bytes: [u8; N]) -> io::Result<()> {
    with_writable_code(at, at + N, || {
        // SAFETY: the caller's: an instruction of the program that nobody runs. The pages are writable.
        unsafe { (at as *mut [u8; N]).write_unaligned(bytes) };
    })
}

/// Writes a jump at the entry of each function.
///
/// # Errors
///
/// When the system does not let the program change its code. Nothing is changed then.
///
/// # Safety
///
/// Each function has [`JUMP`] bytes, counting what fills the space behind it, lies in the program's code, and
/// nobody runs it meanwhile. Each target is a function of the same type, or a slot that always holds one.
pub unsafe fn write_jumps(jumps: &[(usize, JumpTarget)]) -> io::Result<()> {
    let first = jumps.iter().map(|(from, _)| *from).min().unwrap_or(0);
    let last = jumps.iter().map(|(from, _)| from + JUMP).max().unwrap_or(0);
    with_writable_code(first, last, || {
        for (from, to) in jumps {
            let code = to.jump();
            // SAFETY: `JUMP` bytes at the entry of a function that nobody runs (the caller's). The pages are
            // writable; the processor sees its own stores to code before the next jump.
            unsafe { std::ptr::copy_nonoverlapping(code.as_ptr(), *from as *mut u8, JUMP) };
        }
    })
}

/// Runs `write` while the pages of the program's code between these addresses are writable.
pub(super) fn with_writable_code(first: usize, last: usize, write: impl FnOnce()) -> io::Result<()> {
    // SAFETY: sysconf takes no pointers.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
    let (first, last) = (first / page * page, last.next_multiple_of(page));
    let protect = |flags: c_int| {
        // SAFETY: the range lies within the program's own code segment (the callers checked every address).
        match unsafe { libc::mprotect(first as *mut c_void, last - first, flags) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
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

    use super::super::detour;
    use super::*;

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
        page[..JUMP].copy_from_slice(&JumpTarget::Address(two as *const () as usize).jump());
        page[64..][..JUMP].copy_from_slice(&JumpTarget::Slot(slot.as_ptr().addr()).jump());
        let at = detour::make_code(&page).expect("memory for code");
        // SAFETY: a jump to one of the functions above, which have this type.
        let call = |at: usize| unsafe { transmute::<usize, extern "C" fn() -> c_int>(at)() };
        assert_eq!((call(at), call(at + 64)), (2, 1));
        slot.store(two as *const () as usize, Relaxed);
        assert_eq!((call(at), call(at + 64)), (2, 2));
    }
}
