//! HOT PATH: the number of a statement where a compiler has made the function that tells it part of its
//! callers, so that no call leads here.
//!
//! It is taken from the session when the parser has told its kind, when one within it begins, and when it
//! ends.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use tare_engine::Statement;
use tare_host::process::ENGINE;

use crate::abi::Class;
use crate::server::thread::current;

/// How the names of statements begin whose kind the parser has told.
const OF_SQL: &[u8] = b"statement/sql/";

/// Whether the server tells no number of a statement by a call.
static WITHOUT_NUMBER: AtomicBool = AtomicBool::new(false);

/// Notes that the server tells no number of a statement by a call.
pub(crate) fn set_without_number() {
    WITHOUT_NUMBER.store(true, Relaxed);
}

/// Notes the number of a statement that was refined. While its kind is only known from the packet, the
/// session still has the number of the statement before.
#[inline(always)]
pub(super) fn catch_up_refined(statement: Statement, class: &Class) {
    if WITHOUT_NUMBER.load(Relaxed) && statement.is_recorded() && class.name.starts_with(OF_SQL) {
        set_number(statement);
    }
}

/// Notes the number of a statement that ends.
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
