//! HOT PATH: what the server tells of a statement by functions that a compiler has made part of their
//! callers, so that no call leads here. They write the text into the locker, and the number nowhere.
//!
//! Both are looked for when the statement is refined, when one within it begins, and when it ends.
#![allow(unsafe_code)]

use std::ptr::null;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use tare_engine::Statement;
use tare_host::process::{ENGINE, guard};

use super::bytes;
use crate::abi::events::StatementLocker;
use crate::server::thread::current;

/// Whether the server tells no number of a statement by a call.
static WITHOUT_NUMBER: AtomicBool = AtomicBool::new(false);

/// Notes that the server tells no number of a statement by a call.
pub(crate) fn set_without_number() {
    WITHOUT_NUMBER.store(true, Relaxed);
}

/// Notes what has been told of a statement since.
#[inline(always)]
pub(super) fn catch_up(statement: Statement, it: &mut StatementLocker) {
    if !it.text.is_null() {
        set_text(statement, it);
    }
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

#[inline(never)]
fn set_text(statement: Statement, it: &mut StatementLocker) {
    // SAFETY: the server's promise: a text of this length, that stays until the statement has ended.
    let sql = unsafe { bytes(it.text, it.text_length) };
    guard((), || ENGINE.set_statement_text(statement, sql));
    it.text = null();
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
