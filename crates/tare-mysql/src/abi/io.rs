//! Layouts of the built-in's files, sockets and tables, and of their lockers.

use std::ffi::{c_char, c_void};
use std::mem::offset_of;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64};

use super::{Class, Locker};

/// Count, sum, minimum and maximum of operations, in cycles, and their bytes.
#[repr(C)]
#[derive(Debug)]
pub struct IoStat {
    pub(crate) waits: [AtomicU64; 4],
    pub(crate) bytes: AtomicU64,
}

/// A file (`PFS_file`).
#[repr(C)]
#[derive(Debug)]
pub struct File {
    version: AtomicU32,
    /// Whether its operations are events.
    pub enabled: AtomicU8,
    /// Whether its operations are timed.
    pub timed: AtomicU8,
    page: *mut c_void,
    identity: usize,
    pub(crate) name: [c_char; 512],
    pub(crate) name_length: u64,
    /// Its instrument.
    pub class: *const Class,
    open_count: AtomicU32,
    /// Reads, writes and other operations.
    pub(crate) io: [IoStat; 3],
    is_temporary: AtomicU8,
}

/// The locker of a file operation. The built-in's own functions that open, close, delete and rename read it
/// down to `thread`; the rest keeps the wait.
#[repr(C)]
#[derive(Debug)]
pub struct FileLocker {
    pub(crate) flags: u32,
    pub(crate) operation: u32,
    pub(crate) file: *const File,
    pub(crate) name: *const c_char,
    pub(crate) class: *const Class,
    pub(crate) thread: *mut c_void,
    pub(crate) places: u64,
    pub(crate) start: u64,
    pub(crate) slab: *mut c_void,
    pub(crate) wait: u64,
}

/// A socket (`PFS_socket`). The server's own code tests the first byte before it calls.
#[repr(C)]
#[derive(Debug)]
pub struct Socket {
    first: AtomicU8,
    version: AtomicU32,
    /// Whether its operations are timed.
    pub timed: AtomicU8,
    page: *mut c_void,
    /// OBJECT_INSTANCE_BEGIN.
    pub identity: usize,
    /// The thread that uses it.
    pub owner: AtomicPtr<c_void>,
    pub(crate) fd: i32,
    padding: u32,
    /// Its address, as the system has it.
    pub(crate) address: [u8; 0x80],
    pub(crate) address_length: u32,
    /// Whether it waits for the client's next command: then nothing is timed.
    pub is_idle: AtomicU8,
    /// Its instrument.
    pub class: *const Class,
    /// Reads, writes and other operations.
    pub(crate) io: [IoStat; 3],
}

/// A table's definition in use (`PFS_table_share`).
#[repr(C)]
#[derive(Debug)]
pub struct TableShare {
    version: AtomicU32,
    /// Whether `setup_objects` enables the table.
    pub enabled: AtomicU8,
    /// Whether `setup_objects` has it timed.
    pub timed: AtomicU8,
    padding: [u8; 2],
    /// See [`TABLE`].
    pub(crate) object_type: u8,
    rest: [u8; 7],
    pub(crate) schema: [c_char; 192],
    pub(crate) schema_length: u64,
    pub(crate) name: [c_char; 192],
    pub(crate) name_length: u64,
    /// The number of its keys.
    pub(crate) keys: AtomicU32,
    between: [u64; 2],
    /// The sums of its locks; null: none yet.
    pub(crate) locks: AtomicPtr<TableLocks>,
    /// The sums of its keys, which know their names.
    pub(crate) indexes: [AtomicPtr<TableIndex>; 65],
}

/// `TableShare::object_type` of a table that is not temporary.
pub const TABLE: u8 = 4;

/// Sums of one key of a table (`PFS_table_share_index`).
#[repr(C)]
#[derive(Debug)]
pub struct TableIndex {
    version: AtomicU32,
    pub(crate) name: [c_char; 192],
    pub(crate) name_length: u32,
}

/// Sums of a table's locks (`PFS_table_share_lock`).
#[repr(C)]
#[derive(Debug)]
pub struct TableLocks {
    version: AtomicU32,
    /// Count, sum, minimum and maximum of the first kind of locks.
    pub(crate) first: [AtomicU64; 4],
}

/// An open table (`PFS_table`).
#[repr(C)]
#[derive(Debug)]
pub struct Table {
    /// Whether its I/O is an event.
    pub io_enabled: AtomicU8,
    /// Whether its locks are events.
    pub lock_enabled: AtomicU8,
    /// Whether its I/O is timed.
    pub io_timed: AtomicU8,
    /// Whether its locks are timed.
    pub lock_timed: AtomicU8,
    has_sums: [u8; 2],
    version: AtomicU32,
    owner: *mut c_void,
    owner_event: u64,
    /// The table's definition.
    pub share: *const TableShare,
    /// OBJECT_INSTANCE_BEGIN.
    pub identity: usize,
    sums: [u8; 0x23C8],
    /// The kind of its internal lock, by the built-in's numbers; [`NO_LOCK`]: none.
    pub internal_lock: AtomicU32,
    /// The kind of its external lock.
    pub external_lock: AtomicU32,
}

/// See [`Table::internal_lock`].
pub const NO_LOCK: u32 = 99;

/// The locker of a socket operation, or of a wait for a table.
#[repr(C)]
#[derive(Debug)]
pub struct ObjectLocker {
    pub(crate) of: Locker,
    /// The operation, or the kind of lock.
    pub(crate) operation: u32,
    pub(crate) index: u32,
}

const _: () = {
    assert!(offset_of!(File, name) == 0x18 && offset_of!(File, name_length) == 0x218);
    assert!(offset_of!(File, class) == 0x220 && offset_of!(File, io) == 0x230);
    assert!(offset_of!(File, is_temporary) == 0x2A8 && offset_of!(File, timed) == 5);
    assert!(offset_of!(FileLocker, class) == 0x18 && offset_of!(FileLocker, thread) == 0x20);
    // The built-in's has a pointer to its event here, which is the last word.
    assert!(offset_of!(FileLocker, wait) == 0x40 && size_of::<FileLocker>() == 0x48);
    assert!(offset_of!(Socket, timed) == 8 && offset_of!(Socket, identity) == 0x18);
    assert!(offset_of!(Socket, owner) == 0x20 && offset_of!(Socket, is_idle) == 0xB4);
    assert!(offset_of!(Socket, address) == 0x30);
    assert!(offset_of!(Socket, class) == 0xB8 && offset_of!(Socket, io) == 0xC0);
    assert!(offset_of!(TableShare, object_type) == 8 && offset_of!(TableShare, schema_length) == 0xD0);
    assert!(offset_of!(TableShare, name) == 0xD8 && offset_of!(TableShare, name_length) == 0x198);
    assert!(offset_of!(TableShare, keys) == 0x1A0 && offset_of!(TableShare, indexes) == 0x1C0);
    assert!(offset_of!(TableIndex, name) == 4 && offset_of!(TableIndex, name_length) == 0xC4);
    assert!(offset_of!(Table, share) == 0x20 && offset_of!(Table, identity) == 0x28);
    assert!(offset_of!(Table, internal_lock) == 0x23F8 && offset_of!(Table, external_lock) == 0x23FC);
    assert!(offset_of!(ObjectLocker, operation) == 40 && size_of::<ObjectLocker>() == 48);
};
