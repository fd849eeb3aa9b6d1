//! The server's own functions that take an instrumented lock; its code calls them for mutexes and rwlocks.
//!
//! Each asks the provider to begin a wait, takes the lock, and reports the end of the wait. An uncontended
//! lock needs no clock: tare's replacements (`entry::lock`) try it first, so that nobody can wait unseen. The
//! functions are exported. A function is recognized if it reads the instance at the end of the lock and calls
//! the provider's slot; for the server's own lock, its functions must also change the members that tare's
//! change.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_void};

use tare_host::process::symbol;

use crate::abi::Series;
use crate::entry::lock::{
    self, MUTEX_INSTANCE, PRLOCK, PRLOCK_INSTANCE, PRLOCK_READERS, PRLOCK_WRITER, RWLOCK_INSTANCE, TakePrlock,
};

/// The bytes of a function that are examined; functions that get a jump are longer.
pub const LOOK: usize = 80;

/// A function of the server that takes a lock.
pub struct LockFunction {
    /// The exported name.
    pub name: &'static CStr,
    /// The slot by which it begins to wait.
    slot: &'static str,
    /// The offset of the instance in its lock.
    instance: usize,
    /// The functions it depends on, and the checks of their code.
    needs: &'static [NeededFunctions],
}

/// An exported function, and the check of its first bytes.
type NeededFunctions = (&'static CStr, fn(&[u8]) -> bool);

/// The functions that take and release the server's own rwlock.
const PRLOCK_FUNCTIONS: &[NeededFunctions] =
    &[(READ_PRLOCK, counts_readers), (WRITE_PRLOCK, notes_writer), (c"rw_pr_unlock", forgets_writer)];
const READ_PRLOCK: &CStr = c"rw_pr_rdlock";
const WRITE_PRLOCK: &CStr = c"rw_pr_wrlock";

/// The functions that are replaced; tare's are in `entry::lock::functions`, in this order.
pub const FUNCTIONS: [LockFunction; 6] = [
    LockFunction { name: c"psi_mutex_lock", slot: "start_mutex_wait", instance: MUTEX_INSTANCE, needs: &[] },
    LockFunction {
        name: c"psi_mutex_trylock",
        slot: "start_mutex_wait",
        instance: MUTEX_INSTANCE,
        needs: &[],
    },
    LockFunction {
        name: c"psi_rwlock_rdlock",
        slot: "start_rwlock_rdwait",
        instance: RWLOCK_INSTANCE,
        needs: &[],
    },
    LockFunction {
        name: c"psi_rwlock_wrlock",
        slot: "start_rwlock_wrwait",
        instance: RWLOCK_INSTANCE,
        needs: &[],
    },
    LockFunction {
        name: c"psi_prlock_rdlock",
        slot: "start_rwlock_rdwait",
        instance: PRLOCK_INSTANCE,
        needs: PRLOCK_FUNCTIONS,
    },
    LockFunction {
        name: c"psi_prlock_wrlock",
        slot: "start_rwlock_wrwait",
        instance: PRLOCK_INSTANCE,
        needs: PRLOCK_FUNCTIONS,
    },
];

impl LockFunction {
    /// Returns whether this function is as known. `code` returns the first [`LOOK`] bytes of an exported
    /// function.
    pub fn is_known<'a>(&self, series: Series, code: impl Fn(&CStr) -> Option<&'a [u8]>) -> bool {
        let slot = series.slot_names().iter().position(|slot| *slot == self.slot);
        let Some(offset) = slot.and_then(|slot| u32::try_from(slot * size_of::<*const c_void>()).ok()) else {
            return false;
        };
        let known = |name, is_known: &dyn Fn(&[u8]) -> bool| code(name).is_some_and(is_known);
        known(self.name, &|code| calls(code, self.instance, offset))
            && self.needs.iter().all(|(name, is_known)| known(name, is_known))
    }
}

/// Returns the addresses of the recognized functions with tare's replacements. Locks of other functions are
/// timed even if they are uncontended.
pub(crate) fn places(series: Series) -> Vec<(usize, usize)> {
    if let (Some(read), Some(write)) = (symbol(READ_PRLOCK), symbol(WRITE_PRLOCK)) {
        // SAFETY: the server's functions of these names take a lock of its own and return an error number.
        let functions =
            [read, write].map(|function| unsafe { std::mem::transmute::<_, TakePrlock>(function) });
        let _ = PRLOCK.set(functions);
    }
    // SAFETY: an exported function is the program's code, which continues after it: none of these is its last
    // bytes.
    let code =
        |name: &CStr| symbol(name).map(|at| unsafe { std::slice::from_raw_parts(at.cast::<u8>(), LOOK) });
    let known =
        FUNCTIONS.iter().zip(lock::functions()).filter(|(function, _)| function.is_known(series, code));
    known.filter_map(|(function, to)| Some((symbol(function.name)?.addr(), to))).collect()
}

/// Returns whether the code loads a register from `instance` and calls through a table's slot at `offset`.
fn calls(code: &[u8], instance: usize, offset: u32) -> bool {
    // mov r64, [r64 + disp8], except for a base that needs a further byte.
    let loads = |code: &[u8]| matches!(code, &[0x48 | 0x49, 0x8B, form, at] if form & 0xC0 == 0x40 && form & 7 != 4 && usize::from(at) == instance);
    // call [r64 + disp32].
    let is_call = |code: &[u8]| matches!(code, &[0xFF, 0x90..=0x97, a, b, c, d] if u32::from_le_bytes([a, b, c, d]) == offset);
    let Some(call) = code.windows(6).position(is_call) else { return false };
    code[..call].windows(4).any(loads)
}

/// Returns the code up to the first `ret`, or what may be one.
fn body(code: &[u8]) -> &[u8] {
    &code[..code.iter().position(|byte| *byte == 0xC3).unwrap_or(code.len())]
}

/// Returns whether a function's body has an instruction on a member addressed by a register (not rsp) and a
/// one-byte displacement: opcode, the instruction within the opcode, the member, an operand.
fn has(code: &[u8], opcode: u8, which: u8, member: usize, operand: u8) -> bool {
    let form = 0x40 | which << 3;
    let goes_on = |member_at: &[u8]| usize::from(member_at[0]) == member && member_at[1] == operand;
    let by_other =
        |code: &[u8]| code[0] == opcode && code[1] & 0xF8 == form && code[1] & 7 != 4 && goes_on(&code[2..]);
    // r12 takes a byte of its own, and so does rsp, without the prefix.
    let by_r12 = |code: &[u8]| code[..4] == [0x41, opcode, form | 4, 0x24] && goes_on(&code[4..]);
    body(code).windows(4).any(by_other) || body(code).windows(6).any(by_r12)
}

/// Recognizes `add [r64 + readers], 1`.
fn counts_readers(code: &[u8]) -> bool {
    has(code, 0x83, 0, PRLOCK_READERS, 1)
}

/// Recognizes `mov r32, [r64 + readers]` and `mov byte [r64 + writer], 1`.
fn notes_writer(code: &[u8]) -> bool {
    let reads = |code: &[u8]| matches!(code, &[0x8B, form, at] if form & 0xC0 == 0x40 && form & 7 != 4 && usize::from(at) == PRLOCK_READERS);
    has(code, 0xC6, 0, PRLOCK_WRITER, 1) && body(code).windows(3).any(reads)
}

/// Recognizes `cmp byte [r64 + writer], 0` and `mov byte [r64 + writer], 0`.
fn forgets_writer(code: &[u8]) -> bool {
    has(code, 0x80, 7, PRLOCK_WRITER, 0) && has(code, 0xC6, 0, PRLOCK_WRITER, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `mov 0x28(%rdi),%rsi` and `call *0x190(%rax)` from Debian's 10.11.19.
    const LOAD: [u8; 4] = [0x48, 0x8B, 0x77, 0x28];
    const CALL: [u8; 6] = [0xFF, 0x90, 0x90, 0x01, 0x00, 0x00];

    fn code(parts: &[&[u8]]) -> Vec<u8> {
        parts.concat()
    }

    #[test]
    fn a_function_is_known_by_what_it_reads_and_calls() {
        let calls = |code: &[u8], offset| super::calls(code, MUTEX_INSTANCE, offset);
        assert!(calls(&code(&[&[0x90; 20], &LOAD, &[0x90; 5], &CALL]), 0x190));
        assert!(!calls(&code(&[&LOAD, &CALL]), 0x198), "another slot");
        assert!(!calls(&code(&[&CALL, &LOAD]), 0x190), "it reads the instance too late");
        assert!(!calls(&code(&[&[0x48, 0x8B, 0x77, 0x30], &CALL]), 0x190), "the instance lies elsewhere");
        assert!(!calls(&LOAD, 0x190) && !calls(&[], 0x190));
    }

    /// Instructions from Debian's 10.11.19: `addl $1,0x58(%rbx)`; `mov 0x58(%rbx),%edx` and `movb
    /// $1,0x60(%rbx)`; `cmpb $0,0x60(%rdi)` and `movb $0,0x60(%rdi)`.
    const READS: [u8; 4] = [0x83, 0x43, 0x58, 0x01];
    const ASKS: [u8; 3] = [0x8B, 0x53, 0x58];
    const WRITES: [u8; 4] = [0xC6, 0x43, 0x60, 0x01];
    const COMPARES: [u8; 4] = [0x80, 0x7F, 0x60, 0x00];
    const FORGETS: [u8; 4] = [0xC6, 0x47, 0x60, 0x00];

    #[test]
    fn the_servers_own_rwlock_is_known_by_what_its_functions_change() {
        let ret = [0xC3];
        assert!(counts_readers(&code(&[&[0x55], &READS, &ret])));
        assert!(!counts_readers(&code(&[&ret, &READS])), "another function's");
        // `addl $1,0x58(%r12)` from Ubuntu's 10.6.23, and by rsp.
        assert!(counts_readers(&[0x41, 0x83, 0x44, 0x24, 0x58, 0x01]));
        assert!(!counts_readers(&[0x90, 0x83, 0x44, 0x24, 0x58, 0x01]));
        assert!(notes_writer(&code(&[&ASKS, &WRITES, &ret])));
        assert!(!notes_writer(&WRITES) && !notes_writer(&ASKS) && !notes_writer(&code(&[&ASKS, &FORGETS])));
        assert!(forgets_writer(&code(&[&COMPARES, &FORGETS, &ret])));
        assert!(!forgets_writer(&code(&[&COMPARES, &WRITES])) && !forgets_writer(&FORGETS));
        assert!(!counts_readers(&[0x83, 0x43, 0x5C, 0x01]), "another member");
    }

    #[test]
    fn a_function_needs_those_it_goes_with() {
        let series = Series::V10_11;
        let slot =
            series.slot_names().iter().position(|slot| *slot == "start_rwlock_wrwait").expect("a slot");
        let [a, b, ..] = ((slot * 8) as u32).to_le_bytes();
        let taking = code(&[&[0x48, 0x8B, 0x77, 0x68], &[0xFF, 0x90, a, b, 0, 0]]);
        let unlock = code(&[&COMPARES, &FORGETS]);
        let write = code(&[&ASKS, &WRITES]);
        let all = |missing: &'static CStr| {
            let (taking, unlock, write) = (&taking, &unlock, &write);
            move |name: &CStr| match name.to_bytes() {
                _ if name == missing => None,
                b"psi_prlock_wrlock" => Some(&taking[..]),
                b"rw_pr_unlock" => Some(&unlock[..]),
                b"rw_pr_wrlock" => Some(&write[..]),
                b"rw_pr_rdlock" => Some(&READS[..]),
                _ => None,
            }
        };
        let function = &FUNCTIONS[5];
        assert!(function.is_known(series, all(c"none")));
        for missing in [c"psi_prlock_wrlock", c"rw_pr_unlock", c"rw_pr_wrlock", c"rw_pr_rdlock"] {
            assert!(!function.is_known(series, all(missing)), "{missing:?}");
        }
    }

    #[test]
    fn a_program_without_the_functions_has_no_places() {
        assert!(places(Series::V10_11).is_empty());
    }
}
