//! HOT PATH: the number of a statement where a compiler has made the function that tells it part of its
//! callers, so that no call leads here.
//!
//! It is taken from the session when the statement is refined, when one within it begins, and when it ends.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use tare_engine::Statement;
use tare_host::process::ENGINE;

use crate::server::thread::current;

/// Whether the server tells no number of a statement by a call.
static WITHOUT_NUMBER: AtomicBool = AtomicBool::new(false);

/// Notes that the server tells no number of a statement by a call.
pub(crate) fn set_without_number() {
    WITHOUT_NUMBER.store(true, Relaxed);
}

/// Notes the number of a statement.
#[inline(always)]
pub(super) fn catch_up(statement: Statement) {
    if WITHOUT_NUMBER.load(Relaxed) && statement.is_recorded() {
        set_number(statement);
    }
}

/// Notes the number of the statement in which another one of a stored program begins.
#[inline(always)]
pub(super) fn catch_up_outer() {
    if WITHOUT_NUMBER.load(Relaxed)
        && let Some(statement) = ENGINE.current_statement()
    {
        set_number(statement);
    }
}

/// Sets the number of the session's statement, which is that of this one until one within it has begun.
#[inline(never)]
fn set_number(statement: Statement) {
    if statement.statement_id() == 0
        && let Some(number) = current().and_then(|thread| thread.statement_number())
    {
        ENGINE.set_statement_id(statement, number);
    }
}
