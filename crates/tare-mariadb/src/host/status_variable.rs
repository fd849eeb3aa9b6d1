//! The server's status variables of the Performance Schema: `Performance_schema_*_lost`.
//!
//! The built-in registers one for each of its counters, whether it is on or off. Those are removed by name
//! and replaced by tare's, through the two exported functions by which the server registers the variables of
//! its plugins. `FLUSH STATUS` sets them to zero, like the built-in's.
#![allow(unsafe_code)]

use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::atomic::AtomicU64;

use tare_host::process::ENGINE;
use tare_host::process::symbol;

use super::system_variable::VariableError;

/// `st_mysql_show_var` of the server's plugin interface: headers of 10.11 and 11.8, debug information of
/// 10.11.5 and 11.4.5.
#[repr(C)]
struct ShowVariable {
    name: *const c_char,
    value: *mut c_void,
    kind: c_int,
}

const _: () = assert!(std::mem::size_of::<ShowVariable>() == 24);

/// The values of `enum_mysql_show_type`, the same in all series.
mod kind {
    use std::ffi::c_int;

    pub(super) const END: c_int = 0;
    /// An unsigned long that the server may set to zero.
    pub(super) const COUNTER: c_int = 3;
}

/// The common beginning of the names.
const PREFIX: &str = "Performance_schema";

/// The built-in's names after the prefix and without their common ending.
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

/// The value of a counter that the engine lacks, because it has nothing to lose there.
static NOTHING: AtomicU64 = AtomicU64::new(0);

/// Returns a name for the server that lives as long as the process.
fn name(text: &str) -> *const c_char {
    CString::new(text).map_or(std::ptr::null(), |text| text.into_raw().cast_const())
}

/// Returns the end of a list.
const fn end() -> ShowVariable {
    ShowVariable { name: std::ptr::null(), value: std::ptr::null_mut(), kind: kind::END }
}

/// Returns one variable for each of the built-in's, with the engine's counter of that name.
fn own() -> Vec<ShowVariable> {
    let counter = |lost: &str| {
        let counter = ENGINE.lost_counters().find(|(name, _)| *name == lost);
        counter.map_or(&NOTHING, |(_, counter)| counter)
    };
    let variable = |what| {
        let lost = format!("{what}_lost");
        ShowVariable {
            name: name(&format!("{PREFIX}_{lost}")),
            value: counter(&lost).as_ptr().cast(),
            kind: kind::COUNTER,
        }
    };
    REFERENCE.into_iter().map(variable).chain([end()]).collect()
}

/// Replaces the built-in's counters by tare's.
///
/// Call it on the server's main thread before the first session exists, because in between there are none.
///
/// # Errors
///
/// When the server lacks the functions, or the memory for another entry in its list.
pub(crate) fn replace() -> Result<(), VariableError> {
    type Change = unsafe extern "C" fn(*mut ShowVariable) -> c_int;
    let function = |found: Option<*mut c_void>, name| {
        let found = found.ok_or(VariableError::NoSymbol(name))?;
        // SAFETY: the mangled name says that it takes a list of variables. One returns nothing, the other an
        // int; the result register of the former is not read.
        Ok(unsafe { std::mem::transmute::<*mut c_void, Change>(found) })
    };
    let remove = function(symbol(c"_Z18remove_status_varsP17st_mysql_show_var"), "remove_status_vars")?;
    let add = function(symbol(c"_Z15add_status_varsP17st_mysql_show_var"), "add_status_vars")?;

    let names = REFERENCE.map(|counter| CString::new(format!("{PREFIX}_{counter}_lost")).unwrap_or_default());
    let builtin = names.iter().map(|name| ShowVariable { name: name.as_ptr(), ..end() });
    let mut builtin: Vec<ShowVariable> = builtin.chain([end()]).collect();
    let mut own = own();
    // SAFETY: both lists end with an entry without a name. The server removes the entries with the first
    // list's names from its own list; it copies the second one's entries, whose names and counters last as
    // long as the process.
    let failed = unsafe {
        remove(builtin.as_mut_ptr());
        add(own.as_mut_ptr())
    };
    // Only the lower byte is the result if a server returns a bool.
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
    }
}
