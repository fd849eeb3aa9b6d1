//! Which tables are served: the server's class of each, its indexes, and the callbacks of its share.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_int, c_void};
use std::sync::LazyLock;

use tare_host::process::{ENGINE, guard};
use tare_tables::{Shape, Table};

use super::field;
use super::handle::{self, Handle};
use crate::abi::{Callbacks, Position, answer};
use crate::original::Original;
use crate::server::{consumers, events as instruments_of_events, instruments};

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
            c_name(concat!("_ZN", $class, "7m_shareE\0")),
            c_name(concat!("_ZN", $class, "6createEP22PFS_engine_table_share\0")),
            c_name(concat!("_ZN", $class, "13get_row_countEv\0")),
            c_name(concat!("_ZN", $class, "15delete_all_rowsEv\0")),
        ]
    };
}

mod events;

const fn c_name(text: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(name) => name,
        Err(_) => panic!("one zero, at the end"),
    }
}

/// The tables of waits.
const WAITS: [Served; 8] = [
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

/// The tables by the module that lists them.
const LISTS: [&[Served]; 2] = [&WAITS, &events::EVENTS];

/// The number of tables that are served.
const NUMBER: usize = {
    let (mut at, mut sum) = (0, 0);
    while at < LISTS.len() {
        sum += LISTS[at].len();
        at += 1;
    }
    sum
};

/// Every table that is served.
pub(crate) static SERVED: [&Served; NUMBER] = {
    let mut all = [&WAITS[0]; NUMBER];
    let (mut list, mut at, mut to) = (0, 0, 0);
    while list < LISTS.len() {
        while at < LISTS[list].len() {
            all[to] = &LISTS[list][at];
            at += 1;
            to += 1;
        }
        (list, at) = (list + 1, 0);
    }
    all
};

/// The functions of a share, one set for each of [`SERVED`].
pub(crate) struct Functions {
    pub(crate) callbacks: Callbacks<Handle>,
    pub(crate) delete_all_rows: unsafe extern "C" fn() -> c_int,
}

/// Returns the functions of each table, in the order of [`SERVED`].
pub(crate) fn functions() -> Vec<Functions> {
    /// Returns the functions of the tables at eight positions from `$from` on.
    macro_rules! eight {
        ($($from:literal)*) => {
            [$(
                of::<{ $from }>, of::<{ $from + 1 }>, of::<{ $from + 2 }>, of::<{ $from + 3 }>,
                of::<{ $from + 4 }>, of::<{ $from + 5 }>, of::<{ $from + 6 }>, of::<{ $from + 7 }>,
            )*]
        };
    }
    const EACH: [fn() -> Functions; 64] = eight!(0 8 16 24 32 40 48 56);
    const { assert!(NUMBER <= EACH.len()) };
    EACH.iter().take(NUMBER).map(|functions| functions()).collect()
}

fn of<const AT: usize>() -> Functions {
    Functions { callbacks: handle::callbacks(open::<AT>), delete_all_rows: delete_all_rows::<AT> }
}

/// Returns the table at a position of [`SERVED`], with all of MySQL's columns in its order.
pub(crate) fn table(at: usize) -> Option<&'static dyn Table> {
    static TABLES: LazyLock<Vec<Option<&'static dyn Table>>> = LazyLock::new(|| {
        let named = |name: &str| Shape::Extended.tables().iter().copied().find(|table| table.name() == name);
        SERVED.iter().map(|served| named(served.name)).collect()
    });
    *TABLES.get(at)?
}

/// Returns whether the table at a position of [`SERVED`] is declared, with columns and indexes that can be
/// served.
pub(crate) fn can_serve(at: usize) -> bool {
    let Some(table) = table(at) else { return false };
    let has = |name: &&str| table.columns().iter().any(|column| column.name == *name);
    table.columns().iter().all(|column| field::can_hold(column.sql_type))
        && SERVED[at].indexes.iter().copied().flatten().all(has)
}

/// Opens a table. The position of its row is where the server copies it from.
unsafe extern "C" fn open<const AT: usize>(position: *mut *mut Position) -> *mut Handle {
    let opened = guard(None, || {
        consumers::follow();
        instruments::meet_all();
        instruments_of_events::meet_all();
        Some(Box::new(Handle::new(table(AT)?, SERVED.get(AT)?.indexes)))
    });
    let Some(mut opened) = opened else { return std::ptr::null_mut() };
    // SAFETY: the server passes a place for the address. It uses it until it closes the table.
    unsafe { position.write(opened.position()) };
    Box::into_raw(opened)
}

/// The built-in's functions that delete all rows: a table of sums by event name takes others with it.
static DELETES: [Original; NUMBER] = [const { Original::new() }; NUMBER];

/// Sets the built-in's function that deletes all rows of the table at a position of [`SERVED`].
pub(crate) fn set_delete(at: usize, function: *const c_void) {
    DELETES[at].set(function.expose_provenance());
}

unsafe extern "C" fn delete_all_rows<const AT: usize>() -> c_int {
    let done = guard(false, || table(AT).is_some_and(|table| table.truncate(&ENGINE).is_ok()));
    // SAFETY: the share's own function, of this type.
    let rest = unsafe { DELETES[AT % NUMBER].function::<unsafe extern "C" fn() -> c_int>()() };
    if done { rest } else { answer::OUT_OF_MEMORY }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_is_declared_with_columns_and_indexes_that_can_be_served() {
        for (at, served) in SERVED.iter().enumerate() {
            let table = table(at).unwrap_or_else(|| panic!("{} is not declared", served.name));
            let declared = tare_tables::mysql::columns(served.name);
            let names =
                |columns: &[tare_tables::Column]| columns.iter().map(|it| it.name).collect::<Vec<_>>();
            assert_eq!(names(table.columns()), names(declared), "{}", served.name);
            assert!(can_serve(at), "{}", served.name);
        }
    }
}
