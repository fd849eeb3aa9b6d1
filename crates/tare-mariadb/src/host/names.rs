//! Numbers of the server and the names that the tables show for them.
//!
//! They are the same in 10.11.5 and 11.4.5 (debug information) and in 10.11.19 and 11.8.9 (name tables read
//! from the programs; lock types, commands and states were seen in calls and compared with the output of the
//! built-in's tables).

use tare_engine::SystemThread;
use tare_engine::snapshot::WaitClass;
use tare_words::metadata_lock::Namespace;
use tare_words::stage;

/// The numbers of the commands with which the server's own threads begin; sessions begin with the first.
const CONNECT: u32 = 11;
const DELAYED_INSERT: u32 = 16;
const DAEMON: u32 = 29;

/// Returns what SHOW PROCESSLIST says of one of the server's own threads, by its instrument. The server gives
/// such a thread its user and its command before it runs and tells no one; it reports the account of whoever
/// created the thread.
pub fn system_thread(name: &str) -> Option<SystemThread> {
    fn of(user: &'static str, host: &'static str, command: u32) -> SystemThread {
        SystemThread { user: Some(user), host, command }
    }
    Some(match name.as_bytes() {
        b"thread/sql/event_scheduler" => of("event_scheduler", "localhost", DAEMON),
        // The thread runs as its event's definer, whom no call reports.
        b"thread/sql/event_worker" => SystemThread { user: None, host: "", command: CONNECT },
        b"thread/sql/slave_io" | b"thread/sql/slave_sql" | b"thread/sql/rpl_parallel_thread" => {
            of("system user", "", CONNECT)
        }
        b"thread/sql/delayed_insert" => of("delayed", "", DELAYED_INSERT),
        _ => return None,
    })
}

/// Returns whether a session with this command works for its client. Of the others some wait for the client,
/// and some are the server's own.
pub(crate) const fn is_working_command(number: i32) -> bool {
    // Sleep; Connect, Delayed insert, Connect Out, Binlog Dump, Register Slave, Daemon; those of replicas.
    !matches!(number, 0 | 11 | 16 | 18 | 20 | 21 | 29 | 30 | 251..=253) && number >= 0 && number < 254
}

/// Returns what a thread waits for that does not run while it is in the stage of this name; `None`: the stage
/// does not say.
pub(crate) fn stage_wait(name: &str) -> Option<WaitClass> {
    stage::wait_class(name.strip_prefix("stage/sql/")?).and_then(WaitClass::named)
}

/// Returns CONNECTION_TYPE for a vio type (`set_connection_type`); `None` is SQL NULL (never set, or closed).
pub const fn connection_type(number: i32) -> Option<&'static str> {
    match number {
        1 => Some("TCP/IP"),
        2 => Some("Socket"),
        3 => Some("Named Pipe"),
        4 => Some("SSL/TLS"),
        _ => None,
    }
}

/// The kind of a table lock, numbered like the columns of `table_lock_waits_summary_by_table`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)] // the columns' names
pub enum TableLock {
    ReadNormal,
    ReadWithSharedLocks,
    ReadHighPriority,
    ReadNoInsert,
    ReadExternal,
    WriteAllowWrite,
    WriteConcurrentInsert,
    WriteDelayed,
    WriteLowPriority,
    WriteNormal,
    WriteExternal,
}

impl TableLock {
    /// Every kind, by number.
    pub const ALL: [TableLock; 11] = [
        TableLock::ReadNormal,
        TableLock::ReadWithSharedLocks,
        TableLock::ReadHighPriority,
        TableLock::ReadNoInsert,
        TableLock::ReadExternal,
        TableLock::WriteAllowWrite,
        TableLock::WriteConcurrentInsert,
        TableLock::WriteDelayed,
        TableLock::WriteLowPriority,
        TableLock::WriteNormal,
        TableLock::WriteExternal,
    ];
}

/// The request of a `start_table_lock_wait` call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableLockRequest {
    /// A wait of this kind begins.
    Lock(TableLock),
    /// The external lock is released: there is no wait, and the locker is NULL.
    Unlock,
}

/// Returns the request of `start_table_lock_wait(…, op, flags, …)`.
///
/// `op` 0: `flags` is a thr_lock_type. The built-in counts types without a kind (SKIP LOCKED 6 and 12,
/// defaults, write-only, unlock) as READ_NORMAL. `op` 1: `flags` is F_RDLCK, F_WRLCK or F_UNLCK.
pub const fn table_lock(op: u32, flags: u64) -> TableLockRequest {
    let kind = match (op, flags) {
        (0, 3) => TableLock::ReadWithSharedLocks,
        (0, 4) => TableLock::ReadHighPriority,
        (0, 5) => TableLock::ReadNoInsert,
        (0, 7) => TableLock::WriteAllowWrite,
        (0, 8) => TableLock::WriteConcurrentInsert,
        (0, 9) => TableLock::WriteDelayed,
        (0, 11) => TableLock::WriteLowPriority,
        (0, 13) => TableLock::WriteNormal,
        (0, _) => TableLock::ReadNormal,
        (_, 0) => TableLock::ReadExternal,
        (_, 2) => return TableLockRequest::Unlock,
        _ => TableLock::WriteExternal,
    };
    TableLockRequest::Lock(kind)
}

/// Returns OBJECT_TYPE of a stored program (`get_sp_share`, `drop_sp`).
pub const fn program(number: u32) -> Option<&'static str> {
    match number {
        1 => Some("FUNCTION"),
        2 => Some("PROCEDURE"),
        3 => Some("PACKAGE"),
        4 => Some("PACKAGE BODY"),
        5 => Some("TRIGGER"),
        6 => Some("EVENT"),
        _ => None,
    }
}

/// Returns ISOLATION_LEVEL.
pub const fn isolation_level(number: i32) -> Option<&'static str> {
    match number {
        0 => Some("READ UNCOMMITTED"),
        1 => Some("READ COMMITTED"),
        2 => Some("REPEATABLE READ"),
        3 => Some("SERIALIZABLE"),
        _ => None,
    }
}

/// XA_STATE after a commit.
pub const XA_COMMITTED: &str = "COMMITTED";
/// XA_STATE after a rollback.
pub const XA_ROLLED_BACK: &str = "ROLLBACK ONLY";

/// Returns XA_STATE of an active transaction (`set_transaction_xid`, `set_transaction_xa_state`).
pub const fn xa_state(number: i32) -> &'static str {
    match number {
        0 => "ACTIVE",
        1 => "IDLE",
        2 => "PREPARED",
        3 => XA_ROLLED_BACK,
        4 => XA_COMMITTED,
        _ => "NOTR",
    }
}

/// Returns OBJECT_TYPE of a metadata lock.
pub const fn mdl_namespace(number: u8) -> Option<&'static str> {
    match number {
        0 => Some("BACKUP"),
        1 => Some("SCHEMA"),
        2 => Some("TABLE"),
        3 => Some("FUNCTION"),
        4 => Some("PROCEDURE"),
        5 => Some("PACKAGE BODY"),
        6 => Some("TRIGGER"),
        7 => Some("EVENT"),
        8 => Some("USER LEVEL LOCK"),
        _ => None,
    }
}

/// Returns the namespace whose types and rules metadata locks of this namespace have.
pub(crate) const fn mdl_rules(number: u8) -> Namespace {
    match number {
        0 => Namespace::Backup,
        1 => Namespace::Scope,
        _ => Namespace::Object,
    }
}

/// Returns LOCK_TYPE of a metadata lock; locks of the namespace `BACKUP` have types of their own.
pub const fn mdl_type(namespace: u8, number: i32) -> Option<&'static str> {
    match (namespace, number) {
        // MySQL's types follow.
        (1.., 10..) | (_, ..0) => None,
        _ => mdl_rules(namespace).type_name(number as usize),
    }
}

/// Returns LOCK_DURATION of a metadata lock.
pub const fn mdl_duration(number: i32) -> Option<&'static str> {
    match number {
        0 => Some("STATEMENT"),
        1 => Some("TRANSACTION"),
        2 => Some("EXPLICIT"),
        _ => None,
    }
}

/// Returns LOCK_STATUS of a metadata lock. Besides the states of the wait slot, the server reports two
/// notifications.
pub const fn mdl_status(number: i32) -> Option<&'static str> {
    match number {
        0 => Some("PENDING"),
        1 => Some("GRANTED"),
        2 => Some("VICTIM"),
        3 => Some("TIMEOUT"),
        4 => Some("KILLED"),
        5 => Some("PRE_ACQUIRE_NOTIFY"),
        6 => Some("POST_RELEASE_NOTIFY"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_kinds_are_numbered_by_their_columns() {
        for (number, kind) in TableLock::ALL.iter().enumerate() {
            assert_eq!(*kind as usize, number);
        }
        assert_eq!(table_lock(1, 2), TableLockRequest::Unlock);
        assert_eq!(table_lock(1, 0), TableLockRequest::Lock(TableLock::ReadExternal));
        assert_eq!(table_lock(0, 13), TableLockRequest::Lock(TableLock::WriteNormal));
        assert_eq!(table_lock(0, 6), TableLockRequest::Lock(TableLock::ReadNormal));
    }

    #[test]
    fn metadata_types_depend_on_the_namespace() {
        assert_eq!(mdl_type(0, 8), Some("BACKUP_TRANS_DML"));
        assert_eq!(mdl_type(2, 8), Some("SHARED_NO_READ_WRITE"));
        assert_eq!(mdl_type(8, 9), Some("EXCLUSIVE"));
        assert_eq!([mdl_type(1, 10), mdl_type(2, 10), mdl_type(0, 14)], [None; 3]);
        assert_eq!(mdl_type(0, -1), None);
    }

    #[test]
    fn commands_and_stages_say_what_a_session_does() {
        let working = [0, 1, 3, 11, 18, 23, 29, 250, 253].map(is_working_command);
        assert_eq!(working, [false, true, true, false, false, true, false, true, false]);
        assert_eq!(stage_wait("stage/sql/User sleep"), Some(WaitClass::Sleep));
        assert_eq!(stage_wait("stage/sql/Waiting for table metadata lock"), Some(WaitClass::MetadataLock));
        assert_eq!(
            stage_wait("stage/sql/Waiting for stored function metadata lock"),
            Some(WaitClass::MetadataLock)
        );
        assert_eq!(stage_wait("stage/sql/User lock"), Some(WaitClass::UserLock));
        assert_eq!([stage_wait("stage/sql/Sending data"), stage_wait("")], [None, None]);
    }
}
