//! HOT PATH: statements and their digests. What the server counts of a statement stays in its locker until
//! the end, because parts of the built-in that the compiler has put elsewhere write it there.
//!
//! While a telemetry session is attached to a thread, its statements are the built-in's.
#![allow(unsafe_code)]

pub(crate) mod inlined;
mod sums;

use std::ffi::{c_char, c_uint};
use std::hint::cold_path;
use std::ptr::{null, null_mut};
use std::sync::atomic::Ordering::Relaxed;

use tare_engine::snapshot::ClassId;
use tare_engine::{Counter, DigestTokens, EndedStatement, Outcome, ProgramRef, Source, Statement};
use tare_host::process::{ENGINE, guard};

use crate::abi::events::{
    COLLECT_DIGEST, COLLECT_TEXT, Diagnostics, DigestStorage, StatementLocker, outcome,
};
use crate::abi::layout::layout;
use crate::original::Original;
use crate::server::thread::{ServerThread, current, settled};
use crate::server::{digest, events, programs};
use sums::Ended;

/// The built-in's functions.
pub(crate) static START: Original = Original::new();
/// See [`START`].
pub(crate) static REFINE: Original = Original::new();
/// See [`START`].
pub(crate) static END: Original = Original::new();

type Start = unsafe extern "C" fn(*mut StatementLocker, *const c_char, c_uint, *const c_char, c_uint);
type Refine = unsafe extern "C" fn(*mut StatementLocker, c_uint) -> *mut StatementLocker;
type End = unsafe extern "C" fn(*mut StatementLocker, *const Diagnostics);

/// The most bytes of a text for a telemetry session.
const LONGEST_TEXT: c_uint = 1024;

/// Whether the engine counts what only the shape `extended` of its tables shows.
const EXTENDED: bool = true;

/// The counters of a locker, in its order.
const COUNTERS: [Counter; 11] = [
    Counter::CreatedTmpDiskTables,
    Counter::CreatedTmpTables,
    Counter::SelectFullJoin,
    Counter::SelectFullRangeJoin,
    Counter::SelectRange,
    Counter::SelectRangeCheck,
    Counter::SelectScan,
    Counter::SortMergePasses,
    Counter::SortRange,
    Counter::SortRows,
    Counter::SortScan,
];

/// Returns the statement of a locker, if it is counted here.
///
/// # Safety
///
/// The server's: a locker that [`start_statement`] has filled, of a statement that has not ended.
#[inline(always)]
pub(super) unsafe fn kept(it: &StatementLocker) -> Option<Statement> {
    // SAFETY: the place is null, or both are of one `pack`, and the thread is the one that runs it.
    unsafe { Statement::unpack(it.place, it.slab) }
}

/// Returns the bytes of a text; empty for null.
///
/// # Safety
///
/// The server's: a text of this length that stays valid during `'a`.
#[inline(always)]
pub(super) unsafe fn bytes<'a>(text: *const c_char, length: c_uint) -> &'a [u8] {
    // SAFETY: the caller's promise.
    if text.is_null() { &[] } else { unsafe { std::slice::from_raw_parts(text.cast(), length as usize) } }
}

pub(crate) unsafe extern "C" fn start_statement(
    locker: *mut StatementLocker,
    schema: *const c_char,
    schema_length: c_uint,
    file: *const c_char,
    line: c_uint,
) {
    if current().is_some_and(|thread| thread.word(layout().thread.telemetry).load(Relaxed) != 0) {
        cold_path();
        // SAFETY: the server's promise: its locker; and the function's own type and arguments.
        return unsafe {
            START.function::<Start>()(locker, schema, schema_length, file, line);
            (*locker).set_size_aside();
        };
    }
    // SAFETY: the server's promise: its locker, with an instrument, a character set and a program.
    let it = unsafe { &mut *locker };
    clear(it);
    let Some(thread) = settled() else { return };
    let Some(statement) = open(it) else { return };
    // SAFETY: the server's promise.
    let schema = unsafe { bytes(schema, schema_length) };
    ENGINE.start_statement(statement, schema, Source::new(file, line));
    if it.program.is_null() {
        thread.begin_memory();
    } else {
        cold_path();
        [it.controlled_before, it.total_before] = thread.begin_nested_memory();
    }
    let (place, slab) = statement.pack();
    (it.place, it.slab, it.thread) = (place, slab.address(), thread.address());
    it.collect = COLLECT_TEXT | if statement.wants_digest() { COLLECT_DIGEST } else { 0 };
    thread.word(layout().thread.event_id).store(slab.next_event_id(), Relaxed);
}

/// Makes a locker that of a statement which nobody counts.
#[inline(always)]
fn clear(it: &mut StatementLocker) {
    (it.is_secondary, it.no_index_used, it.no_good_index_used) = (0, 0, 0);
    (it.collect, it.flags, it.telemetry_flags) = (0, 0, 0);
    it.place = null_mut();
    it.event = null_mut();
    (it.lock_time, it.rows_sent, it.rows_examined) = (0, 0, 0);
    it.counters = [0; 11];
    it.digest = null();
    (it.text, it.text_length, it.is_text_cut) = (null(), 0, 0);
    it.schema_length = 0;
    it.prepared = null();
    it.telemetry_scope = 0;
    it.telemetry_session = null_mut();
}

#[inline(always)]
fn open(it: &StatementLocker) -> Option<Statement> {
    // SAFETY: instruments are never removed.
    let class = events::statement(unsafe { it.class.as_ref() }?);
    if it.program.is_null()
        && let Some(statement) = ENGINE.open_statement_fast::<EXTENDED>(class, it.charset)
    {
        return Some(statement);
    }
    if it.program.is_null() { open_slow(class, it.charset, None) } else { open_of_program(class, it) }
}

/// Opens a statement of a stored program.
#[inline(never)]
fn open_of_program(class: ClassId, it: &StatementLocker) -> Option<Statement> {
    inlined::catch_up_outer();
    if ENGINE.skips_instruction(class) {
        return None;
    }
    let program = programs::known(it.program);
    if let Some(program) = program
        && let Some(statement) = ENGINE.open_next_statement_fast::<EXTENDED>(class, it.charset, program)
    {
        return Some(statement);
    }
    open_slow(class, it.charset, program)
}

#[cold]
#[inline(never)]
fn open_slow(class: ClassId, charset: u32, program: Option<ProgramRef>) -> Option<Statement> {
    guard(None, || {
        if ENGINE.skips_instruction(class) {
            return None;
        }
        ENGINE.open_unusual_statement(class, charset, program)
    })
}

pub(crate) unsafe extern "C" fn refine_statement(
    locker: *mut StatementLocker,
    key: c_uint,
) -> *mut StatementLocker {
    // SAFETY: the function's own type and arguments.
    let returned = unsafe { REFINE.function::<Refine>()(locker, key) };
    // SAFETY: the server's promise: its locker, or null.
    let Some(it) = (unsafe { locker.as_mut() }) else { return returned };
    // SAFETY: as above; instruments are never removed.
    if let (Some(statement), Some(class)) = unsafe { (kept(it), it.class.as_ref()) } {
        inlined::catch_up_refined(statement, class);
        let is_wanted = guard(false, || ENGINE.refine_statement(statement, events::statement(class)));
        if !is_wanted {
            let _peaks = end_memory(it);
            (it.place, it.collect) = (null_mut(), 0);
        }
    }
    returned
}

pub(crate) unsafe extern "C" fn set_statement_text(
    locker: *mut StatementLocker,
    text: *const c_char,
    length: c_uint,
) {
    // SAFETY: the server's promise: its locker.
    let it = unsafe { &mut *locker };
    // SAFETY: the server's promise: its locker, and a text of this length.
    if let (Some(statement), sql) = unsafe { (kept(it), bytes(text, length)) } {
        guard((), || ENGINE.set_statement_text(statement, sql));
    } else if it.collect & COLLECT_TEXT != 0 {
        // For a telemetry session.
        (it.text, it.text_length) = (text, length.min(LONGEST_TEXT));
        it.is_text_cut = u8::from(length > LONGEST_TEXT);
    }
}

pub(crate) unsafe extern "C" fn set_statement_query_id(locker: *mut StatementLocker, id: u64) {
    // SAFETY: the server's promise: its locker, or null.
    let statement = unsafe { locker.as_ref().and_then(|it| kept(it)) };
    if let Some(statement) = statement {
        ENGINE.set_statement_id(statement, id);
    }
}

pub(crate) unsafe extern "C" fn digest_end(locker: *mut StatementLocker, digest: *const DigestStorage) {
    // SAFETY: the server's promise: its locker, and tokens that stay until the statement has ended.
    unsafe {
        match kept(&*locker) {
            Some(statement) => {
                (*locker).digest = digest;
                statement.set_tokens(digest.expose_provenance());
            }
            // For a telemetry session, which wants the text only.
            None if (*locker).collect & COLLECT_DIGEST != 0 => (*locker).digest = digest,
            None => {}
        }
    }
}

pub(crate) unsafe extern "C" fn end_statement(locker: *mut StatementLocker, diagnostics: *const Diagnostics) {
    // SAFETY: the server's promise: its locker, once.
    let it = unsafe { &mut *locker };
    // SAFETY: as above.
    let Some(statement) = (unsafe { kept(it) }) else {
        it.put_size_back();
        // SAFETY: the function's own type and arguments.
        return unsafe { END.function::<End>()(locker, diagnostics) };
    };
    // SAFETY: the server's promise: it passes what its session tells of the statement.
    let diagnostics = unsafe { &*diagnostics };
    inlined::catch_up(statement);
    let has_counters = it.has_counters();
    set_counters(statement, it, has_counters);
    set_memory(statement, it);
    if diagnostics.status != outcome::EOF || diagnostics.warnings != 0 {
        set_outcome(statement, diagnostics);
    }
    let further = |ended| {
        if !it.digest.is_null() {
            count_digest(statement, it.digest);
        }
        if !it.program.is_null() || !it.prepared.is_null() {
            sums::add(&Ended { locker: it, has_counters, diagnostics, statement: ended });
        }
    };
    if !ENGINE.end_statement_fast::<EXTENDED>(statement, further) {
        end_slow(statement, it, diagnostics);
    }
    (it.place, it.collect) = (null_mut(), 0);
}

/// Ends a statement's look at the memory of its session. Returns the peaks of controlled memory and of all.
#[inline(always)]
fn end_memory(it: &StatementLocker) -> [u64; 2] {
    let Some(thread) = ServerThread::at(it.thread) else { return [0; 2] };
    if it.program.is_null() {
        return thread.end_memory();
    }
    cold_path();
    thread.end_nested_memory([it.controlled_before, it.total_before])
}

/// Tells the engine the peaks of the session's memory.
#[inline(always)]
fn set_memory(statement: Statement, it: &StatementLocker) {
    let [controlled, total] = end_memory(it);
    if controlled != 0 {
        ENGINE.set_statement_counter(statement, Counter::ControlledMemory, controlled);
    }
    statement.set_memory_peak(total);
}

/// Tells the engine what the server has counted.
#[inline(always)]
fn set_counters(statement: Statement, it: &StatementLocker, has_counters: bool) {
    let set = |counter, value| {
        if value != 0 {
            ENGINE.set_statement_counter(statement, counter, value);
        }
    };
    set(Counter::LockTime, it.lock_time);
    set(Counter::RowsSent, it.rows_sent);
    set(Counter::RowsExamined, it.rows_examined);
    if has_counters {
        COUNTERS.into_iter().zip(it.counters).for_each(|(counter, value)| set(counter, value));
    }
    if it.no_index_used | it.no_good_index_used != 0 {
        set(Counter::NoIndexUsed, it.no_index_used.into());
        set(Counter::NoGoodIndexUsed, it.no_good_index_used.into());
    }
}

#[inline(never)]
fn set_outcome(statement: Statement, diagnostics: &Diagnostics) {
    guard((), || {
        let it = diagnostics;
        let message = it.message.get(..it.message_length as usize).unwrap_or_default();
        let warnings = u64::from(it.warnings);
        let outcome = match it.status {
            outcome::OK => Outcome {
                sqlstate: Some(*b"00000"),
                message,
                warnings,
                rows_affected: it.rows_affected,
                ..Outcome::default()
            },
            outcome::EOF => Outcome { warnings, ..Outcome::default() },
            outcome::ERROR => Outcome {
                errno: it.errno,
                sqlstate: Some(it.sqlstate),
                message,
                errors: 1,
                ..Outcome::default()
            },
            _ => Outcome::default(),
        };
        ENGINE.set_statement_outcome(statement, &outcome);
    });
}

#[inline(never)]
fn count_digest(statement: Statement, digest: *const DigestStorage) {
    guard((), || {
        if let Some(tokens) = tokens(digest) {
            ENGINE.count_statement_digest(statement, &tokens);
        }
    });
}

/// Returns the tokens of a statement that ends; `None` if there are none.
#[inline(always)]
fn tokens<'a>(digest: *const DigestStorage) -> Option<DigestTokens<'a>> {
    // SAFETY: null, or what the parser has filled for the session, which still runs this statement.
    let digest = unsafe { digest.as_ref() }?;
    let is_valid = !digest.tokens.is_null() && digest.length <= digest.capacity;
    // SAFETY: as above: as many bytes as it says.
    let bytes = is_valid.then(|| unsafe { std::slice::from_raw_parts(digest.tokens, digest.length) })?;
    Some(DigestTokens { bytes, charset: digest.charset, cut: digest.is_full, hash: digest::hash })
}

#[cold]
#[inline(never)]
fn end_slow(statement: Statement, it: &StatementLocker, diagnostics: &Diagnostics) {
    guard((), || {
        let tokens = tokens(it.digest);
        let ended: EndedStatement = ENGINE.end_unusual_statement(statement, tokens.as_ref());
        if !it.program.is_null() || !it.prepared.is_null() {
            let has_counters = it.has_counters();
            sums::add(&Ended { locker: it, has_counters, diagnostics, statement: ended });
            sums::add_cpu_time(it, ended.cpu_time());
        }
    });
}
