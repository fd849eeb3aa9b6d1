//! Sample rows of instances: files, sockets, tables, locks, programs.

use tare_engine::snapshot::*;

use super::{IO, Sample, TABLE_IO, object, some, stat};
use crate::declarations::handle::NamedIo;
use crate::declarations::object::{ObjectRow, TableIoRow, TableLockRow};

impl Sample for NamedIo {
    fn full() -> Self {
        ("wait/io/file/sql/FRM", IO)
    }
    fn bare() -> Self {
        ("wait/io/file/sql/FRM", IoStat::default())
    }
}

impl Sample for FileRow {
    fn full() -> Self {
        FileRow {
            file_name: "./test/t.frm".to_owned(),
            event_name: "wait/io/file/sql/FRM",
            object_instance_begin: 0x7f00,
            open_count: 1,
            io: IO,
        }
    }
    fn bare() -> Self {
        FileRow { open_count: 0, io: IoStat::default(), ..Self::full() }
    }
}

impl Sample for SocketRow {
    fn full() -> Self {
        SocketRow {
            event_name: "wait/io/socket/sql/client_connection",
            object_instance_begin: 0x7f00,
            thread_id: Some(7),
            socket_id: 33,
            ip: "127.0.0.1".to_owned(),
            port: 65535,
            idle: true,
            io: IO,
        }
    }
    fn bare() -> Self {
        SocketRow { thread_id: None, ip: String::new(), port: 0, idle: false, ..Self::full() }
    }
}

/// Returns a table with an index of its own and access without one. The counts of all kinds of locks differ.
pub(crate) fn table() -> TableRow {
    let mut locks = TableLockStat::default();
    for (kind, lock) in locks.0.iter_mut().enumerate() {
        *lock = stat(1 << kind);
    }
    let index = |name: Option<&str>| IndexRow { name: name.map(str::to_owned), io: TABLE_IO };
    TableRow {
        is_shown: true,
        object_type: "TABLE",
        schema: "test".to_owned(),
        name: "t".to_owned(),
        indexes: vec![index(Some("PRIMARY")), index(None)],
        locks,
    }
}

macro_rules! object_rows {
    ($($row:ty: $full:expr, $bare:expr;)*) => {
        $(impl Sample for $row {
            fn full() -> Self {
                $full(&table())
            }
            fn bare() -> Self {
                $bare(&TableRow { indexes: vec![], locks: TableLockStat::default(), ..table() })
            }
        })*
    };
}

object_rows! {
    TableIoRow: first_index, TableIoRow::whole;
    TableLockRow: TableLockRow::of, TableLockRow::of;
    ObjectRow: ObjectRow::of, ObjectRow::of;
}

fn first_index(table: &TableRow) -> TableIoRow {
    TableIoRow::shown_indexes(table).next().expect("the sample has an index")
}

impl Sample for SyncRow {
    fn full() -> Self {
        SyncRow {
            kind: Kind::Rwlock,
            name: "wait/synch/rwlock/sql/LOCK_grant",
            object_instance_begin: 0x7f00,
            locked_by_thread_id: Some(7),
            read_locked_by_count: 2,
            waits: Stat::full(),
        }
    }
    fn bare() -> Self {
        SyncRow { locked_by_thread_id: None, read_locked_by_count: 0, ..Self::full() }
    }
}

impl Sample for MetadataLockRow {
    fn full() -> Self {
        MetadataLockRow {
            object: object(true),
            object_instance_begin: 0x7f00,
            lock_type: "SHARED_READ",
            duration: "TRANSACTION",
            status: "GRANTED",
            source: some("sql_base.cc:1"),
            owner_thread_id: 7,
            owner_event_id: 11,
        }
    }
    fn bare() -> Self {
        let object = ObjectName { object_type: Some("BACKUP"), ..object(false) };
        MetadataLockRow { object, source: None, ..Self::full() }
    }
}

impl Sample for TableHandleRow {
    fn full() -> Self {
        TableHandleRow {
            object_type: "TABLE",
            schema: "test".to_owned(),
            name: "t".to_owned(),
            object_instance_begin: 0x7f00,
            owner_thread_id: 7,
            owner_event_id: 11,
            internal_lock: Some("WRITE"),
            external_lock: Some("WRITE EXTERNAL"),
        }
    }
    fn bare() -> Self {
        TableHandleRow {
            owner_thread_id: 0,
            owner_event_id: 0,
            internal_lock: None,
            external_lock: None,
            ..Self::full()
        }
    }
}

impl Sample for ProgramRow {
    fn full() -> Self {
        ProgramRow {
            object_type: "PROCEDURE",
            schema: "test".to_owned(),
            name: "p".to_owned(),
            calls: stat(2),
            statements: StatementStat::full(),
        }
    }
    fn bare() -> Self {
        let (calls, statements) = Default::default();
        ProgramRow { object_type: "PACKAGE BODY", calls, statements, ..Self::full() }
    }
}

impl Sample for PreparedRow {
    fn full() -> Self {
        PreparedRow {
            object_instance_begin: 0x7f00,
            statement_id: 3,
            name: some("p"),
            sql_text: "SELECT ?".to_owned(),
            owner_thread_id: 7,
            owner_event_id: 11,
            owner: object(true),
            prepare: stat(1),
            reprepare: stat(1),
            execute: StatementStat::full(),
        }
    }
    fn bare() -> Self {
        PreparedRow { name: None, owner: object(false), owner_event_id: 0, ..Self::full() }
    }
}
