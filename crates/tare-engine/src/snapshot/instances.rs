//! Rows of instances: files, sockets, tables, locks, programs, prepared statements.

use super::{IoStat, Kind, ObjectName, Stat, StatementStat};

/// A file: rows of `file_instances` and `file_summary_by_instance`.
#[derive(Clone, Debug)]
pub struct FileRow {
    /// FILE_NAME.
    pub file_name: String,
    /// EVENT_NAME.
    pub event_name: &'static str,
    /// OBJECT_INSTANCE_BEGIN.
    pub object_instance_begin: u64,
    /// OPEN_COUNT.
    pub open_count: u32,
    /// READ, WRITE, MISC.
    pub io: IoStat,
}

/// A socket: rows of `socket_instances` and `socket_summary_by_instance`.
#[derive(Clone, Debug)]
pub struct SocketRow {
    /// EVENT_NAME.
    pub event_name: &'static str,
    /// OBJECT_INSTANCE_BEGIN.
    pub object_instance_begin: u64,
    /// THREAD_ID of the owner.
    pub thread_id: Option<u64>,
    /// SOCKET_ID: the descriptor.
    pub socket_id: i32,
    /// IP.
    pub ip: String,
    /// PORT.
    pub port: u16,
    /// Whether STATE is IDLE, else ACTIVE.
    pub idle: bool,
    /// READ, WRITE, MISC.
    pub io: IoStat,
}

/// FETCH, INSERT, UPDATE, DELETE of a table or an index. READ is fetch; WRITE is the sum of the other three.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct TableIoStat {
    pub fetch: Stat,
    pub insert: Stat,
    pub update: Stat,
    pub delete: Stat,
}

/// Table locks by kind, in the order of `table_lock_waits_summary_by_table`: READ_NORMAL,
/// READ_WITH_SHARED_LOCKS, READ_HIGH_PRIORITY, READ_NO_INSERT, READ_EXTERNAL, WRITE_ALLOW_WRITE,
/// WRITE_CONCURRENT_INSERT, WRITE_DELAYED, WRITE_LOW_PRIORITY, WRITE_NORMAL, WRITE_EXTERNAL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableLockStat(pub [Stat; 11]);

/// One index of a table; `name` is `None` for access without an index.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct IndexRow {
    pub name: Option<String>,
    pub io: TableIoStat,
}

/// A table with all its statistics.
#[derive(Clone, Debug)]
pub struct TableRow {
    /// OBJECT_TYPE: `TABLE` or `TEMPORARY TABLE`.
    pub object_type: &'static str,
    /// OBJECT_SCHEMA.
    pub schema: String,
    /// OBJECT_NAME.
    pub name: String,
    /// Whether it has rows: `setup_objects` enables it, or the host decides about it.
    pub is_shown: bool,
    /// One entry per index of the table, then one for access without an index, if there was any.
    pub indexes: Vec<IndexRow>,
    /// Waits for table locks.
    pub locks: TableLockStat,
}

/// A synchronisation object: rows of `mutex_instances`, `rwlock_instances`, `cond_instances`.
#[derive(Clone, Debug)]
pub struct SyncRow {
    /// Mutex, rwlock, sxlock or cond.
    pub kind: Kind,
    /// NAME.
    pub name: &'static str,
    /// OBJECT_INSTANCE_BEGIN.
    pub object_instance_begin: u64,
    /// LOCKED_BY_THREAD_ID / WRITE_LOCKED_BY_THREAD_ID.
    pub locked_by_thread_id: Option<u64>,
    /// READ_LOCKED_BY_COUNT.
    pub read_locked_by_count: u32,
    /// Waits for this object, if they are counted by object.
    pub waits: Stat,
}

/// A stored program: rows of `events_statements_summary_by_program` and `objects_summary_global_by_type`.
#[derive(Clone, Debug)]
pub struct ProgramRow {
    /// OBJECT_TYPE.
    pub object_type: &'static str,
    /// OBJECT_SCHEMA.
    pub schema: String,
    /// OBJECT_NAME.
    pub name: String,
    /// Calls of the program.
    pub calls: Stat,
    /// Statements executed in the program.
    pub statements: StatementStat,
}

/// A metadata lock that is granted or waited for: a row of `metadata_locks`.
#[derive(Clone, Debug)]
pub struct MetadataLockRow {
    /// OBJECT_TYPE, OBJECT_SCHEMA, OBJECT_NAME.
    pub object: ObjectName,
    /// OBJECT_INSTANCE_BEGIN.
    pub object_instance_begin: u64,
    /// LOCK_TYPE.
    pub lock_type: &'static str,
    /// LOCK_DURATION.
    pub duration: &'static str,
    /// LOCK_STATUS.
    pub status: &'static str,
    /// SOURCE of the request.
    pub source: Option<String>,
    /// OWNER_THREAD_ID.
    pub owner_thread_id: u64,
    /// OWNER_EVENT_ID.
    pub owner_event_id: u64,
}

/// An open table: a row of `table_handles`.
#[derive(Clone, Debug)]
pub struct TableHandleRow {
    /// OBJECT_TYPE.
    pub object_type: &'static str,
    /// OBJECT_SCHEMA.
    pub schema: String,
    /// OBJECT_NAME.
    pub name: String,
    /// OBJECT_INSTANCE_BEGIN.
    pub object_instance_begin: u64,
    /// OWNER_THREAD_ID; 0 while unused.
    pub owner_thread_id: u64,
    /// OWNER_EVENT_ID; 0 while unused.
    pub owner_event_id: u64,
    /// INTERNAL_LOCK.
    pub internal_lock: Option<&'static str>,
    /// EXTERNAL_LOCK.
    pub external_lock: Option<&'static str>,
}

/// A prepared statement: a row of `prepared_statements_instances`.
#[derive(Clone, Debug)]
pub struct PreparedRow {
    /// OBJECT_INSTANCE_BEGIN.
    pub object_instance_begin: u64,
    /// STATEMENT_ID.
    pub statement_id: u64,
    /// STATEMENT_NAME; `None` for one of the binary protocol.
    pub name: Option<String>,
    /// SQL_TEXT.
    pub sql_text: String,
    /// OWNER_THREAD_ID.
    pub owner_thread_id: u64,
    /// OWNER_EVENT_ID.
    pub owner_event_id: u64,
    /// OWNER_OBJECT_*: the program it was prepared in, as long as that exists.
    pub owner: ObjectName,
    /// TIMER_PREPARE.
    pub prepare: Stat,
    /// COUNT_REPREPARE.
    pub reprepare: Stat,
    /// Executions.
    pub execute: StatementStat,
}
