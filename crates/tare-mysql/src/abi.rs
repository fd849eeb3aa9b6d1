//! Layouts of the built-in's objects in MySQL 9.7, as far as they are read or written here.
//!
//! None of them is in a header of the server that may be linked against, so `startup::checks` compares each
//! number with the machine code of a small exported function that uses it. All fields that several threads
//! use are atomics.

pub mod events;
pub mod io;
pub mod layout;
pub mod lists;
pub mod memory;

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::mem::offset_of;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64};

/// An instrument (`PFS_instr_class`).
#[repr(C)]
#[derive(Debug)]
pub struct Class {
    kind: u32,
    /// ENABLED.
    pub enabled: AtomicU8,
    /// TIMED.
    pub timed: AtomicU8,
    /// Its properties; see [`events::PROGRESS`].
    pub flags: u32,
    /// Those of its properties that can be changed; see [`memory::CONTROLLED`].
    pub enforced_flags: AtomicU32,
    volatility: i32,
    /// Its number among all instruments of waits, or among those of its kind.
    pub index: u32,
    /// The full name; no zero ends it.
    pub name: [u8; 128],
    /// The name's length in bytes.
    pub name_length: u32,
}

/// A mutex, rwlock or condition variable. `first` is the first byte of each, which the server's own code
/// tests before it calls.
#[repr(C)]
#[derive(Debug)]
pub struct Instance {
    first: AtomicU8,
    version: AtomicU32,
    /// Whether its waits are timed.
    pub timed: AtomicU8,
    page: *mut c_void,
    /// OBJECT_INSTANCE_BEGIN: a number that no other object has.
    pub identity: usize,
    /// Its instrument.
    pub class: *const Class,
    /// Count, sum, minimum and maximum of its waits, in cycles: the row of
    /// `events_waits_summary_by_instance`, which the built-in serves.
    pub waits: [AtomicU64; 4],
    /// The thread that holds a mutex, or that holds a rwlock for writing.
    pub owner: AtomicPtr<c_void>,
    /// The number of readers of a rwlock.
    pub readers: AtomicU32,
}

/// A metadata lock.
#[repr(C)]
#[derive(Debug)]
pub struct MetadataLock {
    version: AtomicU32,
    /// Whether its waits are events.
    pub enabled: AtomicU8,
    /// Whether its waits are timed.
    pub timed: AtomicU8,
    padding: u64,
    /// OBJECT_INSTANCE_BEGIN.
    pub identity: usize,
}

/// The locker of a wait that is tare's from start to end. It lies on the caller's stack, where the server
/// keeps room for the built-in's. The built-in's flags stay 0, so any part of it that the compiler has put
/// into its callers does nothing.
#[repr(C)]
#[derive(Debug)]
pub struct Locker {
    pub(crate) flags: u32,
    pub(crate) wait: u32,
    pub(crate) object: *const c_void,
    pub(crate) thread: *mut c_void,
    pub(crate) start: u64,
    pub(crate) places: u64,
}

/// The locker of a mutex, a rwlock or a condition variable.
#[repr(C)]
#[derive(Debug)]
pub struct SynchLocker {
    pub(crate) of: Locker,
    pub(crate) operation: u32,
    rest: u32,
}

/// How far apart the places of a thread's events of waits are.
pub const WAIT_SIZE: u64 = 0xB0;

/// Where a transaction of InnoDB's has the transaction that it waits for, and its session; null: none.
pub const TRX_WAITS_FOR: usize = 0x98;
/// See [`TRX_WAITS_FOR`].
pub const TRX_SESSION: usize = 0x198;

/// A number on its way to a column (`PSI_ulonglong` and its siblings of 64 bits).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Number {
    pub(crate) value: u64,
    pub(crate) is_null: bool,
}

/// A number of a key (`PSI_plugin_key_ubigint`).
#[repr(C)]
#[derive(Debug)]
pub struct NumberKey {
    pub(crate) name: *const c_char,
    pub(crate) find_flags: c_int,
    pub(crate) is_null: bool,
    pub(crate) value: u64,
}

/// A text of a key (`PSI_plugin_key_string`).
#[repr(C)]
#[derive(Debug)]
pub struct TextKey {
    pub(crate) name: *const c_char,
    pub(crate) find_flags: c_int,
    pub(crate) is_null: bool,
    pub(crate) value: *mut c_char,
    pub(crate) length: c_uint,
    pub(crate) capacity: c_uint,
}

/// Where a row of a table is: what the server copies and writes back, maybe into another handle.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Position {
    /// Its number in the handle that has read it.
    pub(crate) number: u64,
    /// What identifies it in any: a hash of its key.
    pub(crate) identity: u64,
}

/// The callbacks of a table that is not the built-in's own (`PFS_engine_table_proxy`, the public service
/// `pfs_plugin_table_v1`). `T` is the table's handle, `None` the writes that it does not allow.
#[repr(C)]
#[derive(Debug)]
pub struct Callbacks<T> {
    pub(crate) rnd_next: Option<unsafe extern "C" fn(*mut T) -> c_int>,
    pub(crate) rnd_init: Option<unsafe extern "C" fn(*mut T, bool) -> c_int>,
    pub(crate) rnd_pos: Option<unsafe extern "C" fn(*mut T) -> c_int>,
    pub(crate) index_init: Option<unsafe extern "C" fn(*mut T, c_uint, bool, *mut *mut T) -> c_int>,
    pub(crate) index_read: Option<unsafe extern "C" fn(*mut T, *mut c_void, c_uint, c_int) -> c_int>,
    pub(crate) index_next: Option<unsafe extern "C" fn(*mut T) -> c_int>,
    pub(crate) read_column_value: Option<unsafe extern "C" fn(*mut T, *mut c_void, c_uint) -> c_int>,
    pub(crate) reset_position: Option<unsafe extern "C" fn(*mut T)>,
    pub(crate) writes: [*const c_void; 5],
    pub(crate) open_table: Option<unsafe extern "C" fn(*mut *mut Position) -> *mut T>,
    pub(crate) close_table: Option<unsafe extern "C" fn(*mut T)>,
}

/// The share of a table of `performance_schema` (`PFS_engine_table_share`).
#[repr(C)]
#[derive(Debug)]
pub struct Share<T> {
    access: *const c_void,
    pub(crate) open_table: *const c_void,
    pub(crate) write_row: *const c_void,
    pub(crate) delete_all_rows: *const c_void,
    pub(crate) row_count: *const c_void,
    pub(crate) position_length: c_uint,
    lock: *const c_void,
    definition: *const c_void,
    pub(crate) is_perpetual: bool,
    pub(crate) callbacks: Callbacks<T>,
    pub(crate) references: c_int,
    pub(crate) is_in_purgatory: bool,
}

/// Answers of callbacks, and what the server's handlers call them.
pub mod answer {
    use std::ffi::c_int;

    /// There is a row.
    pub const ROW: c_int = 0;
    /// `HA_ERR_OUT_OF_MEM`
    pub const OUT_OF_MEMORY: c_int = 128;
    /// `HA_ERR_RECORD_DELETED`
    pub const NO_SUCH_ROW: c_int = 134;
    /// `HA_ERR_END_OF_FILE`
    pub const NO_MORE_ROWS: c_int = 137;
}

const _: () = {
    assert!(offset_of!(Class, index) == 0x14 && offset_of!(Class, name) == 24);
    assert!(
        offset_of!(Class, enabled) == 4
            && offset_of!(Class, enforced_flags) == 12
            && offset_of!(Class, name_length) == 152
    );
    assert!(offset_of!(Instance, timed) == 8 && offset_of!(Instance, class) == 0x20);
    assert!(offset_of!(Instance, owner) == 0x48 && offset_of!(Instance, readers) == 0x50);
    assert!(offset_of!(MetadataLock, enabled) == 4 && offset_of!(MetadataLock, identity) == 0x10);
    // The shortest of the built-in's, that of an idle wait, has as much.
    assert!(size_of::<Locker>() == 40 && size_of::<SynchLocker>() == 48);
    assert!(size_of::<Callbacks<()>>() == 120 && size_of::<Share<()>>() == 200);
};
