//! HOT PATH: the built-in's sums of a stored program's and of a prepared statement's statements, whose tables
//! it serves. As the built-in does, these are written with plain loads and stores: an event may be lost where
//! several threads run a program.
#![allow(unsafe_code)]

use std::hint::cold_path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tare_engine::EndedStatement;
use tare_host::process::ENGINE;

use crate::abi::events::{
    Diagnostics, EXECUTE_SUMS, PREPARE_SUMS, PROGRAM_SUMS, StatementLocker, StatementSums, outcome,
};

// Where the sums are.
const ERRORS: usize = 4;
const WARNINGS: usize = 5;
const ROWS_AFFECTED: usize = 6;
const LOCK_TIME: usize = 7;
const ROWS_SENT: usize = 8;
const ROWS_EXAMINED: usize = 9;
const COUNTERS: usize = 10;
const NO_INDEX_USED: usize = 21;
const NO_GOOD_INDEX_USED: usize = 22;
const CPU_TIME: usize = 23;
const CONTROLLED_MEMORY: usize = 24;
const TOTAL_MEMORY: usize = 25;
const SECONDARY: usize = 26;

/// A statement that has ended, and whether any of its counters is not 0.
pub(super) struct Ended<'a> {
    pub(super) locker: &'a StatementLocker,
    pub(super) has_counters: bool,
    pub(super) diagnostics: &'a Diagnostics,
    pub(super) statement: EndedStatement,
}

/// Adds an ended statement to the sums of its program and of its prepared statement.
#[inline(never)]
pub(super) fn add(ended: &Ended<'_>) {
    let it = ended.locker;
    // SAFETY: an object of the built-in's that exists while its statement runs; of preparations only the
    // first four sums are looked at.
    let sums = |object, at| unsafe { sums_of(object, at) };
    if let Some(program) = sums(it.program.cast(), PROGRAM_SUMS) {
        cold_path();
        add_all(program, ended);
    }
    if it.prepared.is_null() {
        // The server sets `in_prepare` together with `prepared`.
        return;
    }
    if it.in_prepare == 0 {
        if let Some(executions) = sums(it.prepared, EXECUTE_SUMS) {
            add_all(executions, ended);
        }
    } else if let Some(preparations) = sums(it.prepared, PREPARE_SUMS) {
        cold_path();
        add_time(preparations, ended);
    }
}

/// Adds everything that is told of an ended statement.
#[inline(always)]
fn add_all(sums: &StatementSums, ended: &Ended<'_>) {
    add_outcome(sums, ended);
    let it = ended.locker;
    change(&sums[LOCK_TIME], it.lock_time);
    change(&sums[ROWS_SENT], it.rows_sent);
    change(&sums[ROWS_EXAMINED], it.rows_examined);
    if ended.has_counters || it.no_index_used | it.no_good_index_used | it.is_secondary != 0 {
        add_counters(sums, it);
    }
    for (most, peak) in [CONTROLLED_MEMORY, TOTAL_MEMORY].into_iter().zip(ended.statement.memory()) {
        raise(&sums[most], peak);
    }
}

/// Adds the CPU time in nanoseconds of an ended statement. It is measured only on the engine's slow path.
pub(super) fn add_cpu_time(it: &StatementLocker, taken: u64) {
    let prepared = if it.in_prepare != 0 { std::ptr::null() } else { it.prepared };
    for (object, at) in [(it.program.cast(), PROGRAM_SUMS), (prepared, EXECUTE_SUMS)] {
        // SAFETY: as above.
        if let Some(sums) = unsafe { sums_of(object, at) } {
            change(&sums[CPU_TIME], taken);
        }
    }
}

/// Returns the sums of an object; `None` for null.
///
/// # Safety
///
/// Null, or an object of the built-in's that has sums at this place (`startup::checks`) and exists during
/// `'a`. Of preparations there are the first four only.
#[inline(always)]
unsafe fn sums_of<'a>(object: *const u8, at: usize) -> Option<&'a StatementSums> {
    // SAFETY: the caller's promise.
    (!object.is_null()).then(|| unsafe { &*object.add(at).cast() })
}

#[inline(always)]
fn change(sum: &AtomicU64, by: u64) {
    if by != 0 {
        sum.store(sum.load(Relaxed).wrapping_add(by), Relaxed);
    }
}

#[inline(always)]
fn raise(most: &AtomicU64, to: u64) {
    if to > most.load(Relaxed) {
        most.store(to, Relaxed);
    }
}

#[inline(always)]
fn add_time([count, sum, min, max, ..]: &StatementSums, ended: &Ended<'_>) {
    change(count, 1);
    if let Some(taken) = ENGINE.nanoseconds_of(ended.statement) {
        change(sum, taken);
        if taken < min.load(Relaxed) {
            min.store(taken, Relaxed);
        }
        raise(max, taken);
    }
}

#[inline(always)]
fn add_outcome(sums: &StatementSums, ended: &Ended<'_>) {
    add_time(sums, ended);
    let diagnostics = ended.diagnostics;
    match diagnostics.status {
        outcome::EOF => change(&sums[WARNINGS], diagnostics.warnings.into()),
        outcome::OK => {
            change(&sums[WARNINGS], diagnostics.warnings.into());
            change(&sums[ROWS_AFFECTED], diagnostics.rows_affected);
        }
        outcome::ERROR => change(&sums[ERRORS], 1),
        _ => {}
    }
}

#[inline(never)]
fn add_counters(sums: &StatementSums, it: &StatementLocker) {
    sums[COUNTERS..].iter().zip(it.counters).for_each(|(sum, value)| change(sum, value));
    change(&sums[NO_INDEX_USED], it.no_index_used.into());
    change(&sums[NO_GOOD_INDEX_USED], it.no_good_index_used.into());
    change(&sums[SECONDARY], it.is_secondary.into());
}
