//! Which tables are served: the server's class of each, its indexes, and the callbacks of its share.
#![allow(unsafe_code)]

mod io;
mod memory;

use std::ffi::{CStr, c_int, c_void};
use std::sync::LazyLock;

use tare_host::process::{ENGINE, guard};
use tare_tables::{Shape, Table};

use super::field;
use super::handle::{self, Handle};
use crate::abi::{Callbacks, Position, answer};
use crate::original::Original;
use crate::server;

/// A table that is served.
#[derive(Debug)]
pub(crate) struct Served {
    /// The name in `performance_schema`.
    pub(crate) name: &'static str,
    /// The mangled names of its share, and of the share's functions that open the table, count and delete its
    /// rows.
    pub(crate) symbols: [&'static CStr; 4],
    /// The columns of its indexes, in the server's order.
    pub(crate) indexes: &'static [&'static [&'static str]],
}

/// Names the symbols of a server's class, whose mangled name begins with the length of its own.
macro_rules! symbols {
    ($class:literal) => {
        [
            $crate::tables::served::c_name(concat!("_ZN", $class, "7m_shareE\0")),
            $crate::tables::served::c_name(concat!("_ZN", $class, "6createEP22PFS_engine_table_share\0")),
            $crate::tables::served::c_name(concat!("_ZN", $class, "13get_row_countEv\0")),
            $crate::tables::served::c_name(concat!("_ZN", $class, "15delete_all_rowsEv\0")),
        ]
    };
}

mod events;
pub(crate) use symbols;

pub(crate) const fn c_name(text: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(name) => name,
        Err(_) => panic!("one zero, at the end"),
    }
}

/// Every table that is served.
static SERVED: LazyLock<Vec<&'static Served>> = LazyLock::new(|| {
    let events = [WAITS.as_slice(), events::EVENTS.as_slice(), io::IO.as_slice()];
    events.into_iter().chain([memory::MEMORY.as_slice()]).flatten().collect()
});

/// Returns every table that can be served, those of memory last. A table's position is its number here.
pub(crate) fn served() -> &'static [&'static Served] {
    &SERVED
}

/// Returns those that are served, with or without those of memory.
pub(crate) fn served_with(memory: bool) -> &'static [&'static Served] {
    if memory { served() } else { &served()[..served().len() - memory::MEMORY.len()] }
}

/// The tables of waits.
static WAITS: [Served; 8] = [
    Served {
        name: "events_waits_current",
        symbols: symbols!("26table_events_waits_current"),
        indexes: &[&["THREAD_ID", "EVENT_ID"]],
    },
    Served {
        name: "events_waits_history",
        symbols: symbols!("26table_events_waits_history"),
        indexes: &[&["THREAD_ID", "EVENT_ID"]],
    },
    Served {
        name: "events_waits_history_long",
        symbols: symbols!("31table_events_waits_history_long"),
        indexes: &[],
    },
    Served {
        name: "events_waits_summary_global_by_event_name",
        symbols: symbols!("30table_ews_global_by_event_name"),
        indexes: &[&["EVENT_NAME"]],
    },
    Served {
        name: "events_waits_summary_by_thread_by_event_name",
        symbols: symbols!("33table_ews_by_thread_by_event_name"),
        indexes: &[&["THREAD_ID", "EVENT_NAME"]],
    },
    Served {
        name: "events_waits_summary_by_account_by_event_name",
        symbols: symbols!("34table_ews_by_account_by_event_name"),
        indexes: &[&["USER", "HOST", "EVENT_NAME"]],
    },
    Served {
        name: "events_waits_summary_by_user_by_event_name",
        symbols: symbols!("31table_ews_by_user_by_event_name"),
        indexes: &[&["USER", "EVENT_NAME"]],
    },
    Served {
        name: "events_waits_summary_by_host_by_event_name",
        symbols: symbols!("31table_ews_by_host_by_event_name"),
        indexes: &[&["HOST", "EVENT_NAME"]],
    },
];

/// The functions of a share, one set for each of [`served`].
pub(crate) struct Functions {
    pub(crate) callbacks: Callbacks<Handle>,
    pub(crate) delete_all_rows: unsafe extern "C" fn() -> c_int,
    pub(crate) row_count: unsafe extern "C" fn() -> u64,
}

/// The most tables that can be served.
const MOST: usize = 64;

/// Returns the functions of each table, in the order of [`served`].
pub(crate) fn functions() -> Vec<Functions> {
    macro_rules! rows {
        ($($row:literal)*) => {
            [$(of::<{ 8 * $row }>(), of::<{ 8 * $row + 1 }>(), of::<{ 8 * $row + 2 }>(), of::<{ 8 * $row + 3 }>(),
               of::<{ 8 * $row + 4 }>(), of::<{ 8 * $row + 5 }>(), of::<{ 8 * $row + 6 }>(), of::<{ 8 * $row + 7 }>()),*]
        };
    }
    let all: [Functions; MOST] = rows!(0 1 2 3 4 5 6 7);
    all.into_iter().take(served().len()).collect()
}

fn of<const AT: usize>() -> Functions {
    Functions {
        callbacks: handle::callbacks(open::<AT>),
        delete_all_rows: delete_all_rows::<AT>,
        row_count: row_count::<AT>,
    }
}

/// Returns the table at a position of [`served`], with all of MySQL's columns in its order.
pub(crate) fn table(at: usize) -> Option<&'static dyn Table> {
    static TABLES: LazyLock<Vec<Option<&'static dyn Table>>> =
        LazyLock::new(|| served().iter().map(|served| named(served.name)).collect());
    *TABLES.get(at)?
}

/// Returns the tables whose rows the engine has, with or without those of memory.
pub(crate) fn tables_with(memory: bool) -> impl Iterator<Item = &'static dyn Table> {
    let global = memory.then(|| named("memory_summary_global_by_event_name")).flatten();
    (0..served_with(memory).len()).filter_map(table).chain(global)
}

/// Returns the table of a name, with all of MySQL's columns.
pub(super) fn named(name: &str) -> Option<&'static dyn Table> {
    Shape::Extended.tables().iter().copied().find(|table| table.name() == name)
}

/// Returns whether the table at a position of [`served`] is declared, with columns and indexes that can be
/// served.
pub(crate) fn can_serve(at: usize) -> bool {
    let Some(table) = table(at) else { return false };
    let has = |name: &&str| table.columns().iter().any(|column| column.name == *name);
    table.columns().iter().all(|column| field::can_hold(column.sql_type))
        && served()[at].indexes.iter().copied().flatten().all(has)
}

/// Opens a table. The position of its row is where the server copies it from.
unsafe extern "C" fn open<const AT: usize>(position: *mut *mut Position) -> *mut Handle {
    let opened = guard(None, || {
        server::meet_all();
        Some(Box::new(Handle::new(table(AT)?, served().get(AT)?.indexes)))
    });
    let Some(mut opened) = opened else { return std::ptr::null_mut() };
    // SAFETY: the server passes a place for the address. It uses it until it closes the table.
    unsafe { position.write(opened.position()) };
    Box::into_raw(opened)
}

/// The built-in's functions that delete all rows: a table of sums by event name takes others with it.
static DELETES: [Original; MOST] = [const { Original::new() }; MOST];

/// Sets the built-in's function that deletes all rows of the table at a position of [`served`].
pub(crate) fn set_delete(at: usize, function: *const c_void) {
    DELETES[at].set(function.expose_provenance());
}

/// The number of rows that the optimizer is told of where the built-in's own array has no room: it looks up
/// nothing by the index of a table without rows.
const SOME_ROWS: u64 = 1000;

/// The built-in's functions that estimate the number of rows.
static ROW_COUNTS: [Original; MOST] = [const { Original::new() }; MOST];

/// Sets the built-in's function that estimates the number of rows of the table at a position of [`served`].
pub(crate) fn set_row_count(at: usize, function: *const c_void) {
    ROW_COUNTS[at].set(function.expose_provenance());
}

unsafe extern "C" fn row_count<const AT: usize>() -> u64 {
    // SAFETY: the share's own function, of this type.
    let rows = unsafe { ROW_COUNTS[AT].function::<unsafe extern "C" fn() -> u64>()() };
    if rows == 0 { SOME_ROWS } else { rows }
}

unsafe extern "C" fn delete_all_rows<const AT: usize>() -> c_int {
    delete(|| table(AT), &DELETES[AT])
}

/// Resets what the engine counts of a table, then what the built-in does. `rest` is the function of the
/// table's share.
pub(super) fn delete(table: impl FnOnce() -> Option<&'static dyn Table>, rest: &Original) -> c_int {
    let done = guard(false, || table().is_some_and(|table| table.truncate(&ENGINE).is_ok()));
    // SAFETY: the share's own function, of this type.
    let rest = unsafe { rest.function::<unsafe extern "C" fn() -> c_int>()() };
    if done { rest } else { answer::OUT_OF_MEMORY }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_is_declared_with_columns_and_indexes_that_can_be_served() {
        assert!(served().len() <= MOST);
        for (at, served) in served().iter().enumerate() {
            let table = table(at).unwrap_or_else(|| panic!("{} is not declared", served.name));
            let declared = tare_tables::mysql::columns(served.name);
            let names =
                |columns: &[tare_tables::Column]| columns.iter().map(|it| it.name).collect::<Vec<_>>();
            // MariaDB's own columns may follow; the server asks for its own only.
            assert!(names(table.columns()).starts_with(&names(declared)), "{}", served.name);
            assert!(can_serve(at), "{}", served.name);
        }
    }
}
