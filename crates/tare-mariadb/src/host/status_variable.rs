//! The server's status variables of the Performance Schema: `Performance_schema_*_lost`.
//!
//! The built-in registers one for each of its counters, on or off. Those are taken out by name, and one of ours is put
//! in their place: a function, which the server calls when somebody asks, and which answers with all of them. It is
//! what a storage engine does, through the same two exported functions the server registers its plugins' with.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::system_variable::VariableError;
use crate::entry::ENGINE;
use crate::startup::symbol;

/// `st_mysql_show_var` of the server's plugin interface: headers of 10.11 and 11.8, debug information of 10.11.5 and 11.4.5.
#[repr(C)]
struct ShowVariable {
    name: *const c_char,
    value: *mut c_void,
    kind: c_int,
}

const _: () = assert!(std::mem::size_of::<ShowVariable>() == 24);

/// Values of `enum_mysql_show_type`, the same in all series.
mod kind {
    use std::ffi::c_int;

    pub(super) const END: c_int = 0;
    pub(super) const UNSIGNED: c_int = 4;
    pub(super) const ARRAY: c_int = 7;
    pub(super) const FUNCTION: c_int = 8;
}

/// What the names begin with. The server puts it, and an underscore, before the names in the array.
const PREFIX: &str = "Performance_schema";

/// The reference's names after the prefix, without the counters' common end.
const REFERENCE: [&str; 30] = [
    "accounts",
    "cond_classes",
    "cond_instances",
    "digest",
    "file_classes",
    "file_handles",
    "file_instances",
    "hosts",
    "index_stat",
    "locker",
    "memory_classes",
    "metadata_lock",
    "mutex_classes",
    "mutex_instances",
    "nested_statement",
    "prepared_statements",
    "program",
    "rwlock_classes",
    "rwlock_instances",
    "session_connect_attrs",
    "socket_classes",
    "socket_instances",
    "stage_classes",
    "statement_classes",
    "table_handles",
    "table_instances",
    "table_lock_stat",
    "thread_classes",
    "thread_instances",
    "users",
];

/// What the server is shown: figures by their names, and the same as the server wants them.
struct Shown {
    figures: BTreeMap<String, &'static AtomicU64>,
    variables: Vec<ShowVariable>,
}

// SAFETY: what the pointers lead to lives as long as the process: names nobody changes, and atomics.
unsafe impl Sync for Shown {}
// SAFETY: as above.
unsafe impl Send for Shown {}

static SHOWN: OnceLock<Shown> = OnceLock::new();

/// A name for the server, for the life of the process.
fn name(text: &str) -> *const c_char {
    CString::new(text).map_or(std::ptr::null(), |text| text.into_raw().cast_const())
}

/// The end of a list.
const fn end() -> ShowVariable {
    ShowVariable { name: std::ptr::null(), value: std::ptr::null_mut(), kind: kind::END }
}

impl Shown {
    /// One variable for each of the reference's.
    fn new() -> Shown {
        let figure = |counter| -> (String, &'static AtomicU64) {
            (format!("{counter}_lost"), Box::leak(Box::new(AtomicU64::new(0))))
        };
        let figures: BTreeMap<String, &'static AtomicU64> = REFERENCE.into_iter().map(figure).collect();
        let variable = |(text, figure): (&String, &&'static AtomicU64)| ShowVariable {
            name: name(text),
            value: figure.as_ptr().cast(),
            kind: kind::UNSIGNED,
        };
        let variables = figures.iter().map(variable).chain([end()]).collect();
        Shown { figures, variables }
    }

    /// Takes the engine's counters over. A counter the engine does not have stays 0: there is nothing it could lose.
    fn refresh(&self) {
        for row in ENGINE.lost() {
            if let Some(figure) = self.figures.get(row.name) {
                figure.store(row.lost, Ordering::Relaxed);
            }
        }
    }
}

/// Called by a session that shows status variables, under the server's lock on their list.
extern "C" fn show(
    _session: *mut c_void,
    variable: *mut ShowVariable,
    _buffer: *mut c_void,
    _status: *mut c_void,
    _scope: c_int,
) -> c_int {
    let Some(shown) = SHOWN.get() else { return 0 };
    // A panic leaves the figures as they were.
    let _ = catch_unwind(AssertUnwindSafe(|| shown.refresh()));
    // SAFETY: the server passes a variable of its own, which it reads when this function has returned. It takes the
    // array to be of its own type without const, and only reads it.
    unsafe {
        (*variable).value = shown.variables.as_ptr().cast_mut().cast();
        (*variable).kind = kind::ARRAY;
    }
    0
}

/// Puts tare's counters in the place of the built-in's.
///
/// To be called on the server's main thread, before the first connection exists: in between there are none.
///
/// # Errors
/// When the server lacks the functions, or the memory for another entry in its list.
pub(crate) fn replace() -> Result<(), VariableError> {
    type Change = unsafe extern "C" fn(*mut ShowVariable) -> c_int;
    let function = |found: Option<*mut c_void>, name| {
        let found = found.ok_or(VariableError::NoSymbol(name))?;
        // SAFETY: the mangled name says that it takes a list of variables. One returns nothing, the other an int: a
        // register that is not looked at there.
        Ok(unsafe { std::mem::transmute::<*mut c_void, Change>(found) })
    };
    let remove = function(symbol(c"_Z18remove_status_varsP17st_mysql_show_var"), "remove_status_vars")?;
    let add = function(symbol(c"_Z15add_status_varsP17st_mysql_show_var"), "add_status_vars")?;
    SHOWN.get_or_init(Shown::new);

    let names = REFERENCE.map(|counter| CString::new(format!("{PREFIX}_{counter}_lost")).unwrap_or_default());
    let builtin = names.iter().map(|name| ShowVariable { name: name.as_ptr(), ..end() });
    let mut builtin: Vec<ShowVariable> = builtin.chain([end()]).collect();
    let own = ShowVariable { name: name(PREFIX), value: show as *mut c_void, kind: kind::FUNCTION };
    let mut own = [own, end()];
    // SAFETY: both lists end with an entry without a name. The server finds the first one's names in its list and takes
    // those entries out; it copies the second one's entries, whose names and function last as long as the process.
    let failed = unsafe {
        remove(builtin.as_mut_ptr());
        add(own.as_mut_ptr())
    };
    // The lower byte is the answer where a server returns a bool.
    if failed & 0xff == 0 { Ok(()) } else { Err(VariableError::Refused) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engines_counters_have_the_references_names() {
        let own = ENGINE.lost();
        let own: Vec<&str> = own.iter().map(|row| row.name).collect();
        let kept = REFERENCE.iter().filter(|counter| own.contains(&format!("{counter}_lost").as_str()));
        assert!(kept.count() >= 27, "{own:?}");
        assert_eq!(Shown::new().variables.len(), REFERENCE.len() + 1);
    }
}
