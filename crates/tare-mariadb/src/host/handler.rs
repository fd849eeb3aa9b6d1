//! FederatedX's handlers of tare's tables: they begin no transactions, and refuse what the built-in's refuse.
//!
//! When the server locks a FEDERATED table for writing, FederatedX begins a transaction at the far end (`SET
//! AUTOCOMMIT=0`). A connection that has been in a transaction is dangerous to the server. After the COMMIT
//! it still refers to the session that wrote (`NET::thd`), and whoever closes it later (FLUSH TABLES of
//! another session, the table cache, shutdown) reads and writes that session's freed memory. Before the
//! COMMIT it lies in memory that FLUSH TABLES of another session frees, and the COMMIT follows it there. A
//! connection that only ever read does neither: in autocommit mode FederatedX clears its session and returns
//! it when the table is unlocked.
//!
//! Nothing in tare's tables can be rolled back, as in the built-in's. So their handlers see a read lock where
//! the server takes a write lock, and no statements inside LOCK TABLES. FederatedX then writes in autocommit
//! mode, and a connection that wrote is treated like one that read. A handler is an object of a C++ class and
//! begins with the address of its class's vtable; [`settle`] replaces that by a copy in which some functions
//! are exchanged. Handlers of other FEDERATED tables keep theirs.
//!
//! If a build of FederatedX is not as expected, nothing is exchanged. The endpoint, which lets no session of
//! the server leave autocommit mode, then refuses the write.
//!
//! Three more functions are exchanged where they are found. OPTIMIZE and REPAIR report that the engine does
//! not support them; FEDERATED's own REPAIR looks for the table's file, which is on no disk. And an UPDATE or
//! DELETE of a session with `sql_safe_updates` gets the answer that no range of a key can be read: the
//! built-in's tables have no keys, so it refuses such a statement (1175) unless it has a LIMIT.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_int, c_uint, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use tare_host::process::log::{Severity, line};
use tare_host::process::{Symbol, symbol};

use crate::abi::types::ServerTableShare;
use crate::host::command::{self, TableCommand};
use crate::host::warning;

/// The first members of every handler.
#[repr(C)]
pub(crate) struct Handler {
    functions: *const usize,
    share: *const ServerTableShare,
}

/// The vtable of `ha_federatedx` and its functions that are exchanged: mangled names, which carry the
/// signatures.
const CLASS: &CStr = c"_ZTV13ha_federatedx";
const EXTERNAL_LOCK: &CStr = c"_ZN13ha_federatedx13external_lockEP3THDi";
const START_STMT: &CStr = c"_ZN13ha_federatedx10start_stmtEP3THD13thr_lock_type";
const OPTIMIZE: &CStr = c"_ZN13ha_federatedx8optimizeEP3THDP15st_ha_check_opt";
const REPAIR: &CStr = c"_ZN13ha_federatedx6repairEP3THDP15st_ha_check_opt";
/// The server's own estimate of ranges, which the class inherits: until 10.11, and from 11.4 on with an
/// additional limit.
const RANGES: &CStr = c"_ZN7handler27multi_range_read_info_constEjP15st_range_seq_ifPvjPjS3_P13Cost_estimate";
const RANGES_LIMITED: &CStr =
    c"_ZN7handler27multi_range_read_info_constEjP15st_range_seq_ifPvjPjS3_yP13Cost_estimate";
/// The words of a vtable before its functions: the offset to the whole object, and the type information.
const PREFIX: usize = 2;
/// The words of a copy before its functions: the original `external_lock` and estimate of ranges, then the
/// prefix.
const COPY_PREFIX: usize = KEPT + PREFIX;
const KEPT: usize = 2;

/// The server's `HA_ADMIN_NOT_IMPLEMENTED`.
const NOT_IMPLEMENTED: c_int = -1;
/// The server's `HA_POS_ERROR`: these ranges cannot be read.
const NO_RANGES: u64 = u64::MAX;

type ExternalLock = unsafe extern "C" fn(*mut Handler, *mut c_void, c_int) -> c_int;
type Ranges = unsafe extern "C" fn(
    *mut Handler,
    c_uint,
    *mut c_void,
    *mut c_void,
    c_uint,
    *mut c_uint,
    *mut c_uint,
    *mut c_void,
) -> u64;
type RangesLimited = unsafe extern "C" fn(
    *mut Handler,
    c_uint,
    *mut c_void,
    *mut c_void,
    c_uint,
    *mut c_uint,
    *mut c_uint,
    u64,
    *mut c_void,
) -> u64;

/// A function of the class and its replacement.
#[derive(Clone, Copy)]
struct ReplacedMethod {
    from: usize,
    by: usize,
    /// Whether nothing is exchanged if this function is missing.
    is_needed: bool,
}

/// FederatedX's vtable and our copy of it.
struct HandlerClass {
    /// The address of the class's functions.
    place: usize,
    /// The vtable as it was when it was copied.
    theirs: &'static [usize],
    /// The copy. Handlers point into it, so it is never freed.
    ours: &'static [usize],
}

static KNOWN: Mutex<Option<HandlerClass>> = Mutex::new(None);

/// The table whose use the built-in warns of, and its share while it is open. The share is only compared,
/// never dereferenced.
const DEPRECATED: &[u8] = b"setup_timers";
static DEPRECATED_SHARE: AtomicPtr<ServerTableShare> = AtomicPtr::new(null_mut());
/// ER_WARN_DEPRECATED_SYNTAX_NO_REPLACEMENT with its text.
const DEPRECATION: (u32, &CStr) =
    (1681, c"'performance_schema.setup_timers' is deprecated and will be removed in a future release");

/// Notes whether the share of a table of tare that has just been opened belongs to the deprecated table.
/// Another share at the same address replaces it.
pub(crate) fn note_deprecated(share: *const ServerTableShare, table: &[u8]) {
    if table == DEPRECATED {
        DEPRECATED_SHARE.store(share.cast_mut(), Relaxed);
    } else {
        let _it_is_another =
            DEPRECATED_SHARE.compare_exchange(share.cast_mut(), null_mut(), Relaxed, Relaxed);
    }
}

/// Returns the share of an open handler.
///
/// # Safety
///
/// `handler` is a handler the server has opened.
pub(crate) unsafe fn share(handler: *const c_void) -> *const ServerTableShare {
    // SAFETY: the caller's promise.
    unsafe { (*handler.cast::<Handler>()).share }
}

/// Gives a handler our copy of its class's functions, if it is FederatedX's and of a known build.
///
/// # Safety
///
/// `handler` is a handler the server has just opened, which no other thread uses yet.
pub(crate) unsafe fn settle(handler: *const c_void) {
    let handler = handler.cast_mut().cast::<Handler>();
    // SAFETY: the caller's promise.
    let functions = unsafe { (*handler).functions };
    // Nobody panics while holding the lock.
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: an object's class is in memory as long as the object.
    if !known.as_ref().is_some_and(|class| unsafe { class.is_at(functions) }) {
        // SAFETY: as above.
        let Some(class) = (unsafe { HandlerClass::at(functions) }) else { return };
        *known = Some(class);
    }
    if let Some(class) = &*known {
        // SAFETY: the caller's promise; the copy is never freed.
        unsafe { (*handler).functions = class.ours[COPY_PREFIX..].as_ptr() };
    }
}

impl HandlerClass {
    /// Returns whether this class is still at its address: a plugin can be uninstalled, and another one
    /// loaded in its place.
    ///
    /// # Safety
    ///
    /// A class's functions are at `functions`.
    unsafe fn is_at(&self, functions: *const usize) -> bool {
        // SAFETY: a class's functions lie there, as many as when they were copied if it is the same.
        self.place == functions.addr()
            && unsafe { std::slice::from_raw_parts(functions.sub(PREFIX), self.theirs.len()) } == self.theirs
    }

    /// Copies the class of these functions if it is FederatedX's. Logs once if that is not possible.
    ///
    /// # Safety
    ///
    /// A class's functions are at `functions`.
    unsafe fn at(functions: *const usize) -> Option<HandlerClass> {
        let start = functions.wrapping_sub(PREFIX);
        let symbol = Symbol::at(start.cast())?;
        let class = if symbol.name == CLASS && symbol.start == start.addr() {
            // SAFETY: the linker's symbol says that the table is there and how long it is.
            let theirs = unsafe { std::slice::from_raw_parts(start, symbol.size / size_of::<usize>()) };
            HandlerClass::copy(functions.addr(), theirs, &replaced(&symbol))
        } else {
            None
        };
        if class.is_none() && is_federated(&symbol) {
            tell_once();
        }
        class
    }

    /// Copies a vtable with functions replaced, and keeps the first originals before it. Each needed function
    /// must be in the table exactly once; another one that is not stays unchanged.
    fn copy(place: usize, table: &[usize], replaced: &[ReplacedMethod]) -> Option<HandlerClass> {
        let mut ours: Vec<usize> = replaced.iter().take(KEPT).map(|it| it.from).collect();
        ours.resize(KEPT, 0);
        ours.extend_from_slice(table);
        for ReplacedMethod { from, by, is_needed } in replaced {
            let mut places = ours.iter_mut().skip(COPY_PREFIX).filter(|word| **word == *from && *from != 0);
            match (places.next(), places.next()) {
                (Some(word), None) => *word = *by,
                _ if *is_needed => return None,
                _ => {}
            }
        }
        Some(HandlerClass { place, theirs: table.to_vec().leak(), ours: ours.leak() })
    }
}

/// Returns the replacements for the class with this symbol; those whose originals are called come first.
fn replaced(class: &Symbol<'_>) -> [ReplacedMethod; 5] {
    let address = |function: Option<*mut c_void>| function.map_or(0, |it| it.addr());
    let (ranges_from, ranges_by) = match symbol(RANGES) {
        Some(known) => (known.addr(), ranges as *const () as usize),
        None => (address(symbol(RANGES_LIMITED)), ranges_limited as *const () as usize),
    };
    let own =
        |name: &CStr, by: usize, is_needed| ReplacedMethod { from: class.neighbour(name), by, is_needed };
    let not_implemented = not_implemented as *const () as usize;
    [
        own(EXTERNAL_LOCK, external_lock as *const () as usize, true),
        ReplacedMethod { from: ranges_from, by: ranges_by, is_needed: false },
        own(START_STMT, start_stmt as *const () as usize, true),
        own(OPTIMIZE, not_implemented, false),
        own(REPAIR, not_implemented, false),
    ]
}

/// Replaces `ha_federatedx::external_lock`: passes a write lock on as a read lock. A statement's use of a
/// table begins here, so its session is warned of the deprecated table.
unsafe extern "C" fn external_lock(handler: *mut Handler, session: *mut c_void, lock: c_int) -> c_int {
    // SAFETY: the server passes a handler it has opened.
    let uses_it = lock != libc::F_UNLCK && unsafe { (*handler).share } == DEPRECATED_SHARE.load(Relaxed);
    if uses_it && command::current() != Some(TableCommand::Lock) {
        warning::push(DEPRECATION.0, DEPRECATION.1);
    }
    let lock = if lock == libc::F_WRLCK { libc::F_RDLCK } else { lock };
    // SAFETY: only handlers whose functions are a copy of ours get here, and the original precedes those.
    let original = unsafe { (*handler).functions.sub(COPY_PREFIX).cast::<ExternalLock>().read() };
    // SAFETY: passed on unchanged, except for the kind of lock.
    unsafe { original(handler, session, lock) }
}

/// Replaces `ha_federatedx::start_stmt`, which begins a transaction for a statement inside LOCK TABLES.
unsafe extern "C" fn start_stmt(_handler: *mut Handler, _session: *mut c_void, _lock: c_int) -> c_int {
    0
}

/// Replaces `ha_federatedx::optimize` and `repair`.
unsafe extern "C" fn not_implemented(
    _handler: *mut Handler,
    _session: *mut c_void,
    _how: *mut c_void,
) -> c_int {
    NOT_IMPLEMENTED
}

/// Returns whether the session must read every row, as in the built-in's tables.
fn refuses_ranges() -> bool {
    command::is_safe() && command::current() == Some(TableCommand::Change)
}

/// Replaces the server's estimate of ranges.
unsafe extern "C" fn ranges(
    handler: *mut Handler,
    key: c_uint,
    sequence: *mut c_void,
    parameter: *mut c_void,
    count: c_uint,
    size: *mut c_uint,
    mode: *mut c_uint,
    cost: *mut c_void,
) -> u64 {
    if refuses_ranges() {
        return NO_RANGES;
    }
    // SAFETY: only handlers whose functions are a copy of ours get here, and the original precedes those.
    let original = unsafe { (*handler).functions.sub(COPY_PREFIX - 1).cast::<Ranges>().read() };
    // SAFETY: passed on unchanged.
    unsafe { original(handler, key, sequence, parameter, count, size, mode, cost) }
}

/// Replaces the estimate of ranges of servers that also pass the number of rows wanted.
unsafe extern "C" fn ranges_limited(
    handler: *mut Handler,
    key: c_uint,
    sequence: *mut c_void,
    parameter: *mut c_void,
    count: c_uint,
    size: *mut c_uint,
    mode: *mut c_uint,
    limit: u64,
    cost: *mut c_void,
) -> u64 {
    if refuses_ranges() {
        return NO_RANGES;
    }
    // SAFETY: only handlers whose functions are a copy of ours get here, and the original precedes those.
    let original = unsafe { (*handler).functions.sub(COPY_PREFIX - 1).cast::<RangesLimited>().read() };
    // SAFETY: passed on unchanged.
    unsafe { original(handler, key, sequence, parameter, count, size, mode, limit, cost) }
}

/// Returns whether a symbol is of a build of FederatedX.
fn is_federated(symbol: &Symbol<'_>) -> bool {
    symbol.object.to_bytes().ends_with(b"/ha_federatedx.so")
}

fn tell_once() {
    static TOLD: std::sync::Once = std::sync::Once::new();
    TOLD.call_once(|| {
        let text = "the tables can be read, but not written through the server: its ha_federatedx is not one tare knows; \
                    tare's own socket takes writes";
        line(Severity::Warning, text);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replaced(from: usize, by: usize, is_needed: bool) -> ReplacedMethod {
        ReplacedMethod { from, by, is_needed }
    }

    #[test]
    fn functions_are_exchanged_where_each_is_there_once() {
        let needed = [replaced(11, 21, true), replaced(12, 22, false), replaced(13, 23, true)];
        let copied = |table: &[usize]| HandlerClass::copy(99, table, &needed).map(|class| class.ours);
        assert_eq!(copied(&[0, 5, 10, 11, 12, 13]).expect("a copy"), [11, 12, 0, 5, 10, 21, 22, 23]);
        let class = HandlerClass::copy(99, &[0, 5, 10, 11, 12, 13], &needed).expect("a copy");
        assert_eq!(class.theirs, [0, 5, 10, 11, 12, 13]);
        // An optional function that is missing, or present twice, stays unchanged.
        assert_eq!(copied(&[0, 5, 13, 11]).expect("a copy"), [11, 12, 0, 5, 23, 21]);
        assert_eq!(copied(&[0, 5, 13, 11, 12, 12]).expect("a copy"), [11, 12, 0, 5, 23, 21, 12, 12]);
        for table in [
            &[][..],
            &[0],
            &[11, 13],
            &[0, 5],
            &[0, 5, 10, 11, 12],
            &[0, 5, 10, 13, 12],
            &[0, 5, 11, 11, 13],
            &[0, 5, 11, 13, 13],
        ] {
            assert!(copied(table).is_none(), "{table:?}");
        }
        let unknown = [replaced(0, 21, true), replaced(13, 23, true)];
        assert!(HandlerClass::copy(99, &[0, 5, 0, 13], &unknown).is_none(), "a function that was not found");
        let unknown = [replaced(11, 21, true), replaced(0, 22, false)];
        let class = HandlerClass::copy(99, &[0, 5, 0, 11], &unknown).expect("a copy");
        assert_eq!(class.ours, [11, 0, 0, 5, 0, 21]);
    }

    #[test]
    fn a_handler_of_another_class_stays_as_it_is() {
        let functions = [0, 5, 10, 11];
        let handler = Handler { functions: &raw const functions[2], share: std::ptr::null() };
        // SAFETY: the stand-in begins as every handler does.
        unsafe { settle((&raw const handler).cast()) };
        assert_eq!(handler.functions, &raw const functions[2]);
    }
}
