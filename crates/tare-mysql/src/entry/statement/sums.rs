//! HOT PATH: the built-in's sums of a stored program's and of a prepared statement's statements, whose tables
//! it serves. As the built-in does, these are written with plain loads and stores: an event may be lost where
//! several threads run a program.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tare_engine::EndedStatement;
use tare_host::process::ENGINE;

use crate::abi::events::{
    Diagnostics, EXECUTE_SUMS, PREPARE_SUMS, PREPARE_SUMS_LENGTH, PROGRAM_SUMS, StatementLocker,
    StatementSums, outcome,
};

/// Adds an ended statement to the sums of its program and of its prepared statement.
#[inline(never)]
pub(super) fn add(it: &StatementLocker, diagnostics: &Diagnostics, ended: EndedStatement) {
    let values = values(it, diagnostics);
    let taken = ENGINE.nanoseconds_of(ended);
    let sums = |object: *const u8, at: usize| {
        // SAFETY: null, or an object of the built-in's that exists while its statement runs, with sums at
        // this place (`startup::checks`).
        unsafe { object.cast::<StatementSums>().byte_add(at).as_ref() }.filter(|_| !object.is_null())
    };
    if let Some(sums) = sums(it.program, PROGRAM_SUMS) {
        add_to(sums, &values, taken);
    }
    let (at, length) = match it.in_prepare {
        0 => (EXECUTE_SUMS, values.len()),
        _ => (PREPARE_SUMS, PREPARE_SUMS_LENGTH),
    };
    if let Some(sums) = sums(it.prepared, at) {
        add_to(&sums[..length], &values, taken);
    }
}

/// Returns what a statement adds to each of the sums, except for the first four, which are those of its time.
fn values(it: &StatementLocker, diagnostics: &Diagnostics) -> [u64; 27] {
    let mut values = [0; 27];
    (values[4], values[5], values[6]) = match diagnostics.status {
        outcome::OK => (0, diagnostics.warnings.into(), diagnostics.rows_affected),
        outcome::EOF => (0, diagnostics.warnings.into(), 0),
        outcome::ERROR => (1, 0, 0),
        _ => (0, 0, 0),
    };
    (values[7], values[8], values[9]) = (it.lock_time, it.rows_sent, it.rows_examined);
    values[10..21].copy_from_slice(&it.counters);
    (values[21], values[22]) = (it.no_index_used.into(), it.no_good_index_used.into());
    values[26] = it.is_secondary.into();
    values
}

fn add_to(sums: &[AtomicU64], values: &[u64; 27], taken: Option<u64>) {
    let change = |word: &AtomicU64, by: u64| word.store(word.load(Relaxed).wrapping_add(by), Relaxed);
    let [count, sum, min, max, ..] = sums else { return };
    change(count, 1);
    if let Some(taken) = taken {
        change(sum, taken);
        min.store(min.load(Relaxed).min(taken), Relaxed);
        max.store(max.load(Relaxed).max(taken), Relaxed);
    }
    for (sum, value) in sums.iter().zip(values).filter(|(_, value)| **value != 0) {
        change(sum, *value);
    }
}
