//! The OPERATION of waits: one byte in a record, a name in a row. Each family begins at its constant and
//! continues in the order of the interface's own enumeration, where it has one.

/// The operations of mutexes: `lock`, `try_lock`.
pub const MUTEX: u8 = 0;
/// The operations of rwlocks: `read_lock` … `try_exclusive_lock`, ten of them.
pub const RWLOCK: u8 = 2;
/// The operations of conds: `wait`, `timed_wait`.
pub const COND: u8 = 12;
/// The operations of files: `create` … `sync`, seventeen of them.
pub const FILE: u8 = 14;
/// The operations of table I/O: `fetch`, `insert`, `update`, `delete`.
pub const TABLE_IO: u8 = 31;
/// The operations of table locks: `read normal` … `write external`, eleven of them, in the order of the
/// columns of the table of locks.
pub const TABLE_LOCK: u8 = 35;
/// The operations of sockets: `create` … `select`, fifteen of them.
pub const SOCKET: u8 = 46;
/// The operation `idle`.
pub const IDLE: u8 = 61;
/// The operation `metadata lock`.
pub const METADATA: u8 = 62;

/// The names of table locks in `table_handles`, in the order of [`TABLE_LOCK`].
const LOCK_NAMES: [&str; 11] = [
    "READ",
    "READ WITH SHARED LOCKS",
    "READ HIGH PRIORITY",
    "READ NO INSERT",
    "READ EXTERNAL",
    "WRITE ALLOW WRITE",
    "WRITE CONCURRENT INSERT",
    "WRITE DELAYED",
    "WRITE LOW PRIORITY",
    "WRITE",
    "WRITE EXTERNAL",
];

/// Returns INTERNAL_LOCK or EXTERNAL_LOCK for a kind of table lock.
pub(crate) fn table_lock_name(kind: u8) -> Option<&'static str> {
    LOCK_NAMES.get(kind as usize).copied()
}

const NAMES: [&str; 63] = [
    "lock",
    "try_lock",
    "read_lock",
    "write_lock",
    "try_read_lock",
    "try_write_lock",
    "shared_lock",
    "shared_exclusive_lock",
    "exclusive_lock",
    "try_shared_lock",
    "try_shared_exclusive_lock",
    "try_exclusive_lock",
    "wait",
    "timed_wait",
    "create",
    "create",
    "open",
    "open",
    "close",
    "close",
    "read",
    "write",
    "seek",
    "tell",
    "flush",
    "stat",
    "stat",
    "chsize",
    "delete",
    "rename",
    "sync",
    "fetch",
    "insert",
    "update",
    "delete",
    "read normal",
    "read with shared locks",
    "read high priority",
    "read no inserts",
    "read external",
    "write allow write",
    "write concurrent insert",
    "write delayed",
    "write low priority",
    "write normal",
    "write external",
    "create",
    "connect",
    "bind",
    "close",
    "send",
    "recv",
    "sendto",
    "recvfrom",
    "sendmsg",
    "recvmsg",
    "seek",
    "opt",
    "stat",
    "shutdown",
    "select",
    "idle",
    "metadata lock",
];

/// Returns whether NUMBER_OF_BYTES applies: to read, write and chsize of files, sending and receiving, and
/// rows of tables.
pub(crate) fn moves(operation: u8) -> bool {
    const READ: u8 = FILE + 6;
    const WRITE: u8 = FILE + 7;
    const CHSIZE: u8 = FILE + 13;
    const SEND: u8 = SOCKET + 4;
    const RECVMSG: u8 = SOCKET + 9;
    matches!(operation, READ | WRITE | CHSIZE | TABLE_IO..TABLE_LOCK | SEND..=RECVMSG)
}

/// Returns the OPERATION column.
pub(crate) fn name(operation: u8) -> &'static str {
    NAMES.get(operation as usize).copied().unwrap_or("unknown")
}
