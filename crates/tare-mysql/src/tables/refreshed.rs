//! Tables that the built-in serves, from its own objects: their rows mix what tare counts with what only the
//! built-in knows. When such a table is opened, tare's sums are written into these objects first.
//!
//! `events_waits_summary_by_instance` has locks, whose sums tare keeps in the built-in's objects anyway, and
//! files and sockets. `objects_summary_global_by_type` has tables, and stored programs, which are the
//! built-in's. `memory_summary_global_by_event_name` has the built-in's own memory as well.
//!
//! `accounts`, `users` and `hosts` have nothing of tare's, but their TRUNCATE resets what it counts of them.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::ffi::{CStr, c_int, c_void};
use std::ops::ControlFlow;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::Relaxed};

use tare_engine::snapshot::{Grouping, MemoryStat};
use tare_engine::{FileHandle, SocketHandle};
use tare_host::process::{ENGINE, guard};

use super::served;
use crate::abi::io::{File, IoStat, Socket, TableLocks, TableShare};
use crate::abi::memory::MemorySums;
use crate::original::Original;
use crate::server::carriers::{FILES, SOCKETS, TABLE_SHARES};
use crate::server::memory;

/// A table that is refreshed when it is opened.
pub(crate) struct Refreshed {
    /// See [`super::served::Served::symbols`].
    pub(crate) symbols: [&'static CStr; 4],
    /// The built-in's function that opens it.
    pub(crate) open: Original,
    /// The built-in's function that deletes all its rows.
    pub(crate) delete: Original,
    /// What stands in for the one that opens it; `None`: nothing does.
    pub(crate) open_here: Option<unsafe extern "C" fn(*mut c_void) -> *mut c_void>,
    /// What stands in for the one that deletes all its rows.
    pub(crate) delete_here: unsafe extern "C" fn() -> c_int,
}

/// Every table that is refreshed.
pub(crate) static REFRESHED: [Refreshed; 6] = [
    Refreshed {
        symbols: [
            c"_ZN38table_events_waits_summary_by_instance7m_shareE",
            c"_ZN38table_events_waits_summary_by_instance6createEP22PFS_engine_table_share",
            c"_ZN15table_all_instr13get_row_countEv",
            c"_ZN38table_events_waits_summary_by_instance15delete_all_rowsEv",
        ],
        open: Original::new(),
        delete: Original::new(),
        open_here: Some(open_waits_by_instance),
        delete_here: delete_waits_by_instance,
    },
    Refreshed {
        symbols: [
            c"_ZN23table_os_global_by_type7m_shareE",
            c"_ZN23table_os_global_by_type6createEP22PFS_engine_table_share",
            c"_ZN23table_os_global_by_type13get_row_countEv",
            c"_ZN23table_os_global_by_type15delete_all_rowsEv",
        ],
        open: Original::new(),
        delete: Original::new(),
        open_here: Some(open_objects),
        delete_here: delete_objects,
    },
    Refreshed {
        symbols: [
            c"_ZN14table_accounts7m_shareE",
            c"_ZN14table_accounts6createEP22PFS_engine_table_share",
            c"_ZN17cursor_by_account13get_row_countEv",
            c"_ZN14table_accounts15delete_all_rowsEv",
        ],
        open: Original::new(),
        delete: Original::new(),
        open_here: None,
        delete_here: delete_accounts,
    },
    Refreshed {
        symbols: [
            c"_ZN11table_users7m_shareE",
            c"_ZN11table_users6createEP22PFS_engine_table_share",
            c"_ZN14cursor_by_user13get_row_countEv",
            c"_ZN11table_users15delete_all_rowsEv",
        ],
        open: Original::new(),
        delete: Original::new(),
        open_here: None,
        delete_here: delete_users,
    },
    Refreshed {
        symbols: [
            c"_ZN11table_hosts7m_shareE",
            c"_ZN11table_hosts6createEP22PFS_engine_table_share",
            c"_ZN14cursor_by_host13get_row_countEv",
            c"_ZN11table_hosts15delete_all_rowsEv",
        ],
        open: Original::new(),
        delete: Original::new(),
        open_here: None,
        delete_here: delete_hosts,
    },
    Refreshed {
        symbols: served::symbols!("31table_mems_global_by_event_name"),
        open: Original::new(),
        delete: Original::new(),
        open_here: Some(open_memory),
        delete_here: delete_memory,
    },
];

/// Returns every table that is refreshed, with or without that of memory, which is the last one.
pub(crate) fn refreshed_with(memory: bool) -> &'static [Refreshed] {
    if memory { &REFRESHED } else { &REFRESHED[..REFRESHED.len() - 1] }
}

/// Where the built-in keeps the address of its sums of memory by instrument. Set before any table is opened.
pub(crate) static MEMORY_SUMS: OnceLock<&'static AtomicPtr<MemorySums>> = OnceLock::new();

/// Returns the sums of a table's locks, which are made if there are none yet.
pub(crate) type FindLocks = unsafe extern "C" fn(*const TableShare) -> *const TableLocks;

/// Set before any table is opened.
pub(crate) static FIND_LOCKS: OnceLock<FindLocks> = OnceLock::new();

fn write(place: &[AtomicU64; 4], sums: [u64; 4]) {
    for (word, sum) in place.iter().zip(sums) {
        word.store(sum, Relaxed);
    }
}

/// Writes sums where the built-in keeps those of a file's or a socket's operations: all as one kind, because
/// the table shows their sum.
fn write_io(places: &[IoStat; 3], sums: [u64; 4]) {
    write(&places[2].waits, sums);
}

unsafe extern "C" fn open_waits_by_instance(share: *mut c_void) -> *mut c_void {
    guard((), || {
        FILES.each(|address, known| {
            let at = std::ptr::with_exposed_provenance::<File>(address);
            // SAFETY: a file of the built-in's, which it never unmaps, and the address of one of the
            // engine's.
            let pair =
                unsafe { (at.as_ref(), FileHandle::from_address(std::ptr::with_exposed_provenance(known))) };
            if let (Some(file), Some(known)) = pair {
                write_io(&file.io, ENGINE.file_ticks(known));
            }
        });
        SOCKETS.each(|address, known| {
            let at = std::ptr::with_exposed_provenance::<Socket>(address);
            // SAFETY: a socket of the built-in's, which it never unmaps, and the address of one of the
            // engine's.
            let pair = unsafe {
                (at.as_ref(), SocketHandle::from_address(std::ptr::with_exposed_provenance(known)))
            };
            if let (Some(socket), Some(known)) = pair {
                write_io(&socket.io, ENGINE.socket_ticks(known));
            }
        });
    });
    // SAFETY: the share's own function, of this type.
    unsafe { REFRESHED[0].open.function::<unsafe extern "C" fn(*mut c_void) -> *mut c_void>()(share) }
}

unsafe extern "C" fn open_objects(share: *mut c_void) -> *mut c_void {
    guard((), || {
        let sums: HashMap<usize, [u64; 4]> =
            ENGINE.tables_ticks().into_iter().map(|(known, sums)| (known.address().addr(), sums)).collect();
        TABLE_SHARES.each(|address, known| {
            let at = std::ptr::with_exposed_provenance::<TableShare>(address);
            let (Some(find), Some(sums)) = (FIND_LOCKS.get(), sums.get(&known)) else { return };
            // SAFETY: a definition of the built-in's, which it never unmaps, and its function for it.
            if let Some(locks) = unsafe { find(at).as_ref() } {
                write(&locks.first, *sums);
            }
        });
    });
    // SAFETY: the share's own function, of this type.
    unsafe { REFRESHED[1].open.function::<unsafe extern "C" fn(*mut c_void) -> *mut c_void>()(share) }
}

/// Writes the sums of all memory where the built-in keeps those of what belongs to no thread. Of threads and
/// accounts it counts nothing.
fn write_memory(to: &MemorySums, stat: &MemoryStat) {
    to.is_used.store(1, Relaxed);
    write(&to.sums, [stat.count_alloc, stat.count_free, stat.bytes_alloc, stat.bytes_free]);
    let room = [
        stat.high_count - stat.current_count,
        stat.current_count - stat.low_count,
        stat.high_bytes - stat.current_bytes,
        stat.current_bytes - stat.low_bytes,
    ];
    write(&to.room, room.map(|room| u64::try_from(room).unwrap_or(0)));
}

unsafe extern "C" fn open_memory(share: *mut c_void) -> *mut c_void {
    guard((), || {
        memory::meet_all();
        let Some(sums) = MEMORY_SUMS.get().map(|sums| sums.load(Relaxed)).filter(|sums| !sums.is_null())
        else {
            return;
        };
        let numbers: HashMap<&str, usize> = memory::numbers().collect();
        ENGINE.memory_summary(Grouping::Global, &mut |row| {
            if let Some(number) = numbers.get(row.name) {
                // SAFETY: the built-in's array, which has sums for each of its instruments.
                write_memory(unsafe { &*sums.add(*number) }, &row.stat);
            }
            ControlFlow::Continue(())
        });
    });
    // SAFETY: the share's own function, of this type.
    unsafe { REFRESHED[5].open.function::<unsafe extern "C" fn(*mut c_void) -> *mut c_void>()(share) }
}

unsafe extern "C" fn delete_memory() -> c_int {
    served::delete(|| served::named("memory_summary_global_by_event_name"), &REFRESHED[5].delete)
}

unsafe extern "C" fn delete_accounts() -> c_int {
    served::delete(|| served::named("accounts"), &REFRESHED[2].delete)
}

unsafe extern "C" fn delete_users() -> c_int {
    served::delete(|| served::named("users"), &REFRESHED[3].delete)
}

unsafe extern "C" fn delete_hosts() -> c_int {
    served::delete(|| served::named("hosts"), &REFRESHED[4].delete)
}

unsafe extern "C" fn delete_waits_by_instance() -> c_int {
    served::delete(|| served::named("events_waits_summary_by_instance"), &REFRESHED[0].delete)
}

unsafe extern "C" fn delete_objects() -> c_int {
    served::delete(|| served::named("objects_summary_global_by_type"), &REFRESHED[1].delete)
}
