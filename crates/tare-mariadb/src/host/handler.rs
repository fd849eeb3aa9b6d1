//! FederatedX's handlers of tare's tables: they begin no transactions, and refuse what the built-in's refuse.
//!
//! When the server locks a FEDERATED table for writing, FederatedX begins a transaction at the far end (`SET AUTOCOMMIT=0`).
//! A connection that has been in one is dangerous to the server. After the COMMIT it goes on naming the session that wrote
//! (`NET::thd`), and whoever closes it later (FLUSH TABLES of another session, the table cache, shutdown) reads and writes
//! that session's freed memory. Before the COMMIT it lies in memory that FLUSH TABLES of another session frees, and the
//! COMMIT follows it there. A connection that only ever read does neither: in autocommit mode FederatedX makes it forget
//! its session, and gives it back, when the table is unlocked.
//!
//! Nothing of tare's tables can be rolled back, as nothing of the built-in's can. So their handlers are told of a read lock
//! where the server takes a write lock, and of no statements inside LOCK TABLES: then FederatedX writes in autocommit mode,
//! and a connection that wrote is one that read. A handler is an object of a C++ class, which begins with the address of
//! its class's functions; [`settle`] puts a copy in its place, some functions exchanged. Handlers of other FEDERATED tables
//! keep theirs.
//!
//! Where a build of FederatedX is not as expected nothing is exchanged, and the endpoint, which lets no session of the
//! server's leave autocommit mode, refuses the write.
//!
//! Three more functions are exchanged where they are found. OPTIMIZE and REPAIR say that the engine has no such thing; of
//! FEDERATED's own a REPAIR looks for the table's file, which is on no disk. And an UPDATE or DELETE of a session with
//! `sql_safe_updates` is told that no range of a key can be read: the built-in's tables have no keys, so it refuses such a
//! statement (1175) unless it has a LIMIT.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use crate::abi::types::ServerTableShare;
use crate::host::command::{self, Command};
use crate::host::warning;
use crate::startup::error_log::{Severity, line};
use crate::startup::symbol;

/// What every handler begins with.
#[repr(C)]
pub(crate) struct Handler {
    functions: *const usize,
    share: *const ServerTableShare,
}

/// `ha_federatedx`'s table of functions, and the two that are exchanged: mangled names, which carry the signatures.
const CLASS: &CStr = c"_ZTV13ha_federatedx";
const EXTERNAL_LOCK: &CStr = c"_ZN13ha_federatedx13external_lockEP3THDi";
const START_STMT: &CStr = c"_ZN13ha_federatedx10start_stmtEP3THD13thr_lock_type";
const OPTIMIZE: &CStr = c"_ZN13ha_federatedx8optimizeEP3THDP15st_ha_check_opt";
const REPAIR: &CStr = c"_ZN13ha_federatedx6repairEP3THDP15st_ha_check_opt";
/// The server's own estimate of ranges, which the class inherits: until 10.11, and from 11.4 on, with a limit more.
const RANGES: &CStr = c"_ZN7handler27multi_range_read_info_constEjP15st_range_seq_ifPvjPjS3_P13Cost_estimate";
const RANGES_LIMITED: &CStr =
    c"_ZN7handler27multi_range_read_info_constEjP15st_range_seq_ifPvjPjS3_yP13Cost_estimate";
/// Words of a class's table before its functions: the distance to the whole object, and the type.
const PREFIX: usize = 2;
/// The words of a copy before its functions: the original `external_lock` and estimate of ranges, then the prefix.
const COPY_PREFIX: usize = KEPT + PREFIX;
const KEPT: usize = 2;

/// `HA_ADMIN_NOT_IMPLEMENTED`
const NOT_IMPLEMENTED: c_int = -1;
/// `HA_POS_ERROR`: these ranges cannot be read.
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

/// A function of the class that another one stands in the place of.
#[derive(Clone, Copy)]
struct Replaced {
    from: usize,
    by: usize,
    /// Without it nothing is exchanged.
    is_needed: bool,
}

/// FederatedX's class and the copy of it.
struct Class {
    /// Where its functions are.
    place: usize,
    /// Its table, as it was when it was copied.
    theirs: &'static [usize],
    /// The copy. Handlers point into it, so it is never freed.
    ours: &'static [usize],
}

static KNOWN: Mutex<Option<Class>> = Mutex::new(None);

/// The table whose use the built-in warns of, and its share while it is open; only compared, never followed.
const DEPRECATED: &[u8] = b"setup_timers";
static DEPRECATED_SHARE: AtomicPtr<ServerTableShare> = AtomicPtr::new(null_mut());
/// ER_WARN_DEPRECATED_SYNTAX_NO_REPLACEMENT
const DEPRECATION: (u32, &CStr) =
    (1681, c"'performance_schema.setup_timers' is deprecated and will be removed in a future release");

/// Notes whether the share of a table of tare's, which has just been opened, is that of the deprecated one. A share that lies
/// where that one lay is no longer it.
pub(crate) fn note_deprecated(share: *const ServerTableShare, table: &[u8]) {
    if table == DEPRECATED {
        DEPRECATED_SHARE.store(share.cast_mut(), Relaxed);
    } else {
        let _it_is_another =
            DEPRECATED_SHARE.compare_exchange(share.cast_mut(), null_mut(), Relaxed, Relaxed);
    }
}

/// The share of an open handler.
///
/// # Safety
/// `handler` is a handler the server has opened.
pub(crate) unsafe fn share(handler: *const c_void) -> *const ServerTableShare {
    // SAFETY: the caller's promise.
    unsafe { (*handler.cast::<Handler>()).share }
}

/// Makes a handler one of tare's tables, if it is FederatedX's and one that is known.
///
/// # Safety
/// `handler` is a handler the server has just opened, which no other thread uses yet.
pub(crate) unsafe fn settle(handler: *const c_void) {
    let handler = handler.cast_mut().cast::<Handler>();
    // SAFETY: the caller's promise.
    let functions = unsafe { (*handler).functions };
    // Nobody panics while holding it.
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: an object's class is in memory as long as the object.
    if !known.as_ref().is_some_and(|class| unsafe { class.is_at(functions) }) {
        // SAFETY: as above.
        let Some(class) = (unsafe { Class::at(functions) }) else { return };
        *known = Some(class);
    }
    if let Some(class) = &*known {
        // SAFETY: the caller's promise; the copy lives for ever.
        unsafe { (*handler).functions = class.ours[COPY_PREFIX..].as_ptr() };
    }
}

impl Class {
    /// Whether it is still what lies there: a plugin can be uninstalled, and another one loaded in its place.
    ///
    /// # Safety
    /// A class's functions are at `functions`.
    unsafe fn is_at(&self, functions: *const usize) -> bool {
        // SAFETY: a class's functions lie there, as many as when they were copied if it is the same.
        self.place == functions.addr()
            && unsafe { std::slice::from_raw_parts(functions.sub(PREFIX), self.theirs.len()) } == self.theirs
    }

    /// Copies the class of these functions, if it is FederatedX's; says so once where that can't be done.
    ///
    /// # Safety
    /// A class's functions are at `functions`.
    unsafe fn at(functions: *const usize) -> Option<Class> {
        let start = functions.wrapping_sub(PREFIX);
        let symbol = Symbol::at(start.cast())?;
        let class = if symbol.name == CLASS && symbol.start == start.addr() {
            // SAFETY: the linker says that the table is there and how long it is.
            let theirs = unsafe { std::slice::from_raw_parts(start, symbol.size / size_of::<usize>()) };
            Class::copy(functions.addr(), theirs, &replaced(&symbol))
        } else {
            None
        };
        if class.is_none() && symbol.is_federated() {
            tell_once();
        }
        class
    }

    /// A copy of a table with functions replaced, the first ones kept before it. Each that is needed must be in the table
    /// exactly once; another one that is not stays.
    fn copy(place: usize, table: &[usize], replaced: &[Replaced]) -> Option<Class> {
        let mut ours: Vec<usize> = replaced.iter().take(KEPT).map(|it| it.from).collect();
        ours.resize(KEPT, 0);
        ours.extend_from_slice(table);
        for Replaced { from, by, is_needed } in replaced {
            let mut places = ours.iter_mut().skip(COPY_PREFIX).filter(|word| **word == *from && *from != 0);
            match (places.next(), places.next()) {
                (Some(word), None) => *word = *by,
                _ if *is_needed => return None,
                _ => {}
            }
        }
        Some(Class { place, theirs: table.to_vec().leak(), ours: ours.leak() })
    }
}

/// What is replaced of the class with this symbol: first those whose originals are called on.
fn replaced(class: &Symbol<'_>) -> [Replaced; 5] {
    let address = |function: Option<*mut c_void>| function.map_or(0, |it| it.addr());
    let (ranges_from, ranges_by) = match symbol(RANGES) {
        Some(known) => (known.addr(), ranges as *const () as usize),
        None => (address(symbol(RANGES_LIMITED)), ranges_limited as *const () as usize),
    };
    let own = |name: &CStr, by: usize, is_needed| Replaced { from: class.neighbour(name), by, is_needed };
    let not_implemented = not_implemented as *const () as usize;
    [
        own(EXTERNAL_LOCK, external_lock as *const () as usize, true),
        Replaced { from: ranges_from, by: ranges_by, is_needed: false },
        own(START_STMT, start_stmt as *const () as usize, true),
        own(OPTIMIZE, not_implemented, false),
        own(REPAIR, not_implemented, false),
    ]
}

/// Stands in the place of `ha_federatedx::external_lock`: a write lock is told as a read lock. A statement that uses a table
/// begins here, so its session is warned of the deprecated one.
unsafe extern "C" fn external_lock(handler: *mut Handler, session: *mut c_void, lock: c_int) -> c_int {
    // SAFETY: the server passes a handler it has opened.
    let uses_it = lock != libc::F_UNLCK && unsafe { (*handler).share } == DEPRECATED_SHARE.load(Relaxed);
    if uses_it && command::current() != Some(Command::Lock) {
        warning::push(DEPRECATION.0, DEPRECATION.1);
    }
    let lock = if lock == libc::F_WRLCK { libc::F_RDLCK } else { lock };
    // SAFETY: only handlers whose functions are a copy of ours get here, and before those lies the original.
    let original = unsafe { (*handler).functions.sub(COPY_PREFIX).cast::<ExternalLock>().read() };
    // SAFETY: passed on as it came.
    unsafe { original(handler, session, lock) }
}

/// Stands in the place of `ha_federatedx::start_stmt`, which begins a transaction for a statement inside LOCK TABLES.
unsafe extern "C" fn start_stmt(_handler: *mut Handler, _session: *mut c_void, _lock: c_int) -> c_int {
    0
}

/// Stands in the place of `ha_federatedx::optimize` and `repair`.
unsafe extern "C" fn not_implemented(
    _handler: *mut Handler,
    _session: *mut c_void,
    _how: *mut c_void,
) -> c_int {
    NOT_IMPLEMENTED
}

/// Whether the session is to look at every row, as it would have to in the built-in's tables.
fn refuses_ranges() -> bool {
    command::is_safe() && command::current() == Some(Command::Change)
}

/// Stands in the place of the server's estimate of ranges.
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
    // SAFETY: only handlers whose functions are a copy of ours get here, and before those lies the original.
    let original = unsafe { (*handler).functions.sub(COPY_PREFIX - 1).cast::<Ranges>().read() };
    // SAFETY: passed on as it came.
    unsafe { original(handler, key, sequence, parameter, count, size, mode, cost) }
}

/// The same where the server says how many rows it wants.
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
    // SAFETY: as above.
    let original = unsafe { (*handler).functions.sub(COPY_PREFIX - 1).cast::<RangesLimited>().read() };
    // SAFETY: passed on as it came.
    unsafe { original(handler, key, sequence, parameter, count, size, mode, limit, cost) }
}

fn tell_once() {
    static TOLD: std::sync::Once = std::sync::Once::new();
    TOLD.call_once(|| {
        let text = "the tables can be read, but not written through the server: its ha_federatedx is not one tare knows; \
                    tare's own socket takes writes";
        line(Severity::Warning, text);
    });
}

/// A symbol of a loaded object.
pub(crate) struct Symbol<'a> {
    name: &'a CStr,
    pub(crate) start: usize,
    /// In bytes.
    pub(crate) size: usize,
    /// The object's path.
    object: &'a CStr,
}

impl<'a> Symbol<'a> {
    /// The symbol that covers an address in an object that stays loaded during `'a`; without a name where none does.
    pub(crate) fn at(address: *const c_void) -> Option<Symbol<'a>> {
        unsafe extern "C" {
            /// glibc's: as `dladdr`, and with the flag 1 the symbol's entry, too.
            fn dladdr1(
                address: *const c_void,
                info: *mut libc::Dl_info,
                entry: *mut *const libc::Elf64_Sym,
                flags: c_int,
            ) -> c_int;
        }
        // SAFETY: plain pointers, for which null is valid.
        let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
        let mut entry: *const libc::Elf64_Sym = std::ptr::null();
        // SAFETY: it takes any address, and fills both places.
        if unsafe { dladdr1(address, &mut info, &mut entry, 1) } == 0 {
            return None;
        }
        // SAFETY: texts of the loader's, which live as long as the object is loaded; `entry` is null or one of its.
        let (text, size) = unsafe {
            let text = |text: *const c_char| if text.is_null() { c"" } else { CStr::from_ptr(text) };
            (
                [text(info.dli_sname), text(info.dli_fname)],
                entry.as_ref().map_or(0, |entry| entry.st_size as usize),
            )
        };
        Some(Symbol { name: text[0], start: info.dli_saddr.addr(), size, object: text[1] })
    }

    /// Whether the object is a build of FederatedX.
    fn is_federated(&self) -> bool {
        self.object.to_bytes().ends_with(b"/ha_federatedx.so")
    }

    /// The address of another symbol of the same object; 0 where there is none.
    fn neighbour(&self, name: &CStr) -> usize {
        // SAFETY: a path, and flags that load nothing; the object stays loaded, this only counts one use more of it.
        let object = unsafe { libc::dlopen(self.object.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        if object.is_null() {
            return 0;
        }
        // SAFETY: a loaded object and a NUL-terminated name; then the use is given back.
        unsafe {
            let found = libc::dlsym(object, name.as_ptr());
            libc::dlclose(object);
            found.addr()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replaced(from: usize, by: usize, is_needed: bool) -> Replaced {
        Replaced { from, by, is_needed }
    }

    #[test]
    fn functions_are_exchanged_where_each_is_there_once() {
        let needed = [replaced(11, 21, true), replaced(12, 22, false), replaced(13, 23, true)];
        let copied = |table: &[usize]| Class::copy(99, table, &needed).map(|class| class.ours);
        assert_eq!(copied(&[0, 5, 10, 11, 12, 13]).expect("a copy"), [11, 12, 0, 5, 10, 21, 22, 23]);
        let class = Class::copy(99, &[0, 5, 10, 11, 12, 13], &needed).expect("a copy");
        assert_eq!(class.theirs, [0, 5, 10, 11, 12, 13]);
        // One that can be done without is left alone where it is not there, or twice.
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
        assert!(Class::copy(99, &[0, 5, 0, 13], &unknown).is_none(), "a function that was not found");
        let unknown = [replaced(11, 21, true), replaced(0, 22, false)];
        let class = Class::copy(99, &[0, 5, 0, 11], &unknown).expect("a copy");
        assert_eq!(class.ours, [11, 0, 0, 5, 0, 21]);
    }

    #[test]
    fn a_handler_of_another_class_stays_as_it_is() {
        let functions = [0, 5, 10, 11];
        let handler = Handler { functions: &raw const functions[2], share: std::ptr::null() };
        // SAFETY: it begins as every handler does.
        unsafe { settle((&raw const handler).cast()) };
        assert_eq!(handler.functions, &raw const functions[2]);
    }

    #[test]
    fn a_symbol_is_found_by_its_address() {
        let write = libc::write as *const c_void;
        let symbol = Symbol::at(write).expect("libc is loaded");
        assert!(symbol.size > 0 && symbol.start == write.addr(), "{:?}", symbol.name);
        assert!(!symbol.is_federated());
        let read = libc::read as *const () as usize;
        assert_eq!((symbol.neighbour(c"read"), symbol.neighbour(c"no such function")), (read, 0));
        assert!(Symbol::at(std::ptr::null()).is_none());
    }
}
