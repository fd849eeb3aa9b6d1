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
//! [`functions`](super::built_in::functions) finds these functions. If anything is not exactly as expected,
//! tare disables itself.
#![allow(unsafe_code)]

use std::ffi::c_void;

use tare_host::jumps::{JumpTarget, write_jumps};
use tare_host::process::{Segments, symbol};

use super::built_in::{self, KEYS};
use super::error::DirectCallsError;
use crate::abi::Series;
use crate::entry::routing;

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
    let functions = built_in::functions(&program.image(), series, keys)?;
    let shim = |slot: usize| {
        let slot = table.cast::<usize>().wrapping_add(slot);
        if routing::may_change(slot) {
            JumpTarget::Slot(slot.addr())
        } else {
            // SAFETY: the table has a function pointer for each of the series' slots.
            JumpTarget::Address(unsafe { *slot })
        }
    };
    let functions = functions.into_iter().map(|(slot, from)| (from, shim(slot)));
    let further = further.iter().map(|(from, to)| (*from, JumpTarget::Address(*to)));
    let jumps = functions.chain(further).collect::<Vec<_>>();
    // SAFETY: the built-in's functions begin at multiples of 16, so each has the bytes; the caller looked at
    // more of a further one. Nobody runs them: this is the only thread, and it is here. Shims have the types
    // of their slots.
    unsafe { write_jumps(&jumps) }.map_err(|error| DirectCallsError::Refused(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_no_server_is_left_alone() {
        let table = [0usize; 160];
        let result = redirect(Series::V10_11, table.as_ptr().cast(), &[]);
        assert_eq!(result, Err(DirectCallsError::Unexpected("no init_server_psi_keys")));
    }
}
