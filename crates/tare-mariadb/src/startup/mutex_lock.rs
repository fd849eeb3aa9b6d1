//! The server's own `psi_mutex_lock`: what its code calls to lock a mutex that is instrumented.
//!
//! It asks the provider to begin a wait, locks the mutex, and tells it that the wait has ended. A mutex that is free needs
//! neither clock: tare's function in its place tries first, so that nobody can wait unseen. The function is exported; it is
//! taken for the known one if it reads the instance where a mutex of the C library ends, and calls the provider's slot.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_void};

use super::symbol;
use crate::abi::Series;

/// Where the server's mutex keeps the instance: behind the C library's mutex.
const INSTANCE: usize = size_of::<libc::pthread_mutex_t>();
/// Bytes of the function that are looked at; it is longer.
pub const LOOK: usize = 80;

/// The function.
pub const NAME: &CStr = c"psi_mutex_lock";

/// Where the function begins; `None`: this server has another one, and its mutexes are timed whether or not they are free.
pub(super) fn place(series: Series) -> Option<usize> {
    let function = symbol(NAME)?;
    // SAFETY: the symbol is a function of the program, and the program's code goes on behind it: a function that calls two
    // others is not its last bytes.
    let code = unsafe { std::slice::from_raw_parts(function.cast::<u8>(), LOOK) };
    is_known(series, code).then_some(function.addr())
}

/// Whether these first bytes of the function's are as known.
pub fn is_known(series: Series, code: &[u8]) -> bool {
    let slot = series.slot_names().iter().position(|slot| *slot == "start_mutex_wait");
    slot.is_some_and(|slot| calls(code, slot * size_of::<*const c_void>()))
}

/// Whether the code loads a register from [`INSTANCE`] and calls through a table's slot at `offset`.
fn calls(code: &[u8], offset: usize) -> bool {
    let Ok(offset) = u32::try_from(offset) else { return false };
    // mov r64, [r64 + disp8], but for a base that needs a further byte.
    let loads = |code: &[u8]| matches!(code, &[0x48 | 0x49, 0x8B, form, at] if form & 0xC0 == 0x40 && form & 7 != 4 && usize::from(at) == INSTANCE);
    // call [r64 + disp32].
    let is_call = |code: &[u8]| matches!(code, &[0xFF, 0x90..=0x97, a, b, c, d] if u32::from_le_bytes([a, b, c, d]) == offset);
    let Some(call) = code.windows(6).position(is_call) else { return false };
    code[..call].windows(4).any(loads)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `mov 0x28(%rdi),%rsi` and `call *0x190(%rax)`, as Debian's 10.11.19 has them.
    const LOAD: [u8; 4] = [0x48, 0x8B, 0x77, 0x28];
    const CALL: [u8; 6] = [0xFF, 0x90, 0x90, 0x01, 0x00, 0x00];

    #[test]
    fn the_function_is_known_by_what_it_reads_and_calls() {
        let code = |parts: &[&[u8]]| parts.concat();
        assert!(calls(&code(&[&[0x90; 20], &LOAD, &[0x90; 5], &CALL]), 0x190));
        assert!(!calls(&code(&[&LOAD, &CALL]), 0x198), "another slot");
        assert!(!calls(&code(&[&CALL, &LOAD]), 0x190), "it reads the instance too late");
        assert!(!calls(&code(&[&[0x48, 0x8B, 0x77, 0x30], &CALL]), 0x190), "the instance lies elsewhere");
        assert!(!calls(&LOAD, 0x190) && !calls(&[], 0x190));
    }

    #[test]
    fn a_program_without_the_function_has_no_place() {
        assert_eq!(place(Series::V10_11), None);
    }
}
