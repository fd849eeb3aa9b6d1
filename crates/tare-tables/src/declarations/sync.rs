//! Existing mutexes, rwlocks, conditions and metadata locks.

use tare_engine::Engine;
use tare_engine::snapshot::{Kind, MetadataLockRow, SyncRow};

use crate::framework::column::{ColumnDef, column, nullable};
use crate::framework::definition::{Emit, TableDef};
use crate::table::SqlType::{BigIntUnsigned, IntUnsigned, VarChar};
use crate::table::Value;

/// The table `mutex_instances`.
pub static MUTEX_INSTANCES: TableDef<SyncRow> = TableDef::new(
    "mutex_instances",
    "The mutexes that exist now, and who holds them.",
    &[
        IDENTITY,
        &[nullable(
            "LOCKED_BY_THREAD_ID",
            BigIntUnsigned,
            "Thread that holds it; NULL if none does.",
            |row| row.locked_by_thread_id.into(),
        )],
    ],
    |engine, _, emit| of_kinds(engine, &[Kind::Mutex], emit),
)
.indexed(&[&["OBJECT_INSTANCE_BEGIN"], &["NAME"], &["LOCKED_BY_THREAD_ID"]]);

/// The table `rwlock_instances`.
pub static RWLOCK_INSTANCES: TableDef<SyncRow> = TableDef::new(
    "rwlock_instances",
    "The rwlocks and sxlocks that exist now, and who holds them.",
    &[
        IDENTITY,
        &[
            nullable(
                "WRITE_LOCKED_BY_THREAD_ID",
                BigIntUnsigned,
                "Thread that holds it for writing; NULL when none does.",
                |row| row.locked_by_thread_id.into(),
            ),
            column("READ_LOCKED_BY_COUNT", IntUnsigned, "How many hold it for reading.", |row| {
                row.read_locked_by_count.into()
            }),
        ],
    ],
    |engine, _, emit| of_kinds(engine, &[Kind::Rwlock, Kind::Sxlock], emit),
)
.indexed(&[&["OBJECT_INSTANCE_BEGIN"], &["NAME"], &["WRITE_LOCKED_BY_THREAD_ID"]]);

/// The table `cond_instances`.
pub static COND_INSTANCES: TableDef<SyncRow> = TableDef::new(
    "cond_instances",
    "The condition variables that exist now.",
    &[IDENTITY],
    |engine, _, emit| of_kinds(engine, &[Kind::Cond], emit),
)
.indexed(&[&["OBJECT_INSTANCE_BEGIN"], &["NAME"]]);

/// The table `metadata_locks`.
pub static METADATA_LOCKS: TableDef<MetadataLockRow> = TableDef::new(
    "metadata_locks",
    "The metadata locks that sessions hold or wait for. A session that reads this table through the server holds one \
     on it, which is shown, too.",
    &[METADATA_LOCK],
    |engine, _, emit| {
        let _ = engine.metadata_locks().iter().try_for_each(emit);
    },
)
.indexed(&[
    &["OBJECT_TYPE", "OBJECT_SCHEMA", "OBJECT_NAME"],
    &["OBJECT_SCHEMA", "OBJECT_NAME", "OBJECT_TYPE"],
    &["OBJECT_INSTANCE_BEGIN"],
    &["OWNER_THREAD_ID", "OWNER_EVENT_ID"],
])
.extended(&[&[nullable("COLUMN_NAME", VarChar(64), "Always NULL: no lock is on a column.", |_| Value::Null)]]);

const METADATA_LOCK: &[ColumnDef<MetadataLockRow>] = &[
    column("OBJECT_TYPE", VarChar(64), "Kind of the object, such as TABLE or USER LEVEL LOCK.", |row| {
        row.object.object_type.into()
    }),
    nullable("OBJECT_SCHEMA", VarChar(64), "Schema that holds the object.", |row| {
        row.object.schema.as_ref().into()
    }),
    nullable("OBJECT_NAME", VarChar(64), "Name of what is locked; NULL for a schema or a backup.", |row| {
        row.object.name.as_ref().into()
    }),
    column("OBJECT_INSTANCE_BEGIN", BigIntUnsigned, "Identity of the lock in memory.", |row| {
        row.object_instance_begin.into()
    }),
    column("LOCK_TYPE", VarChar(32), "Type of the lock, such as SHARED_READ.", |row| row.lock_type.into()),
    column("LOCK_DURATION", VarChar(32), "For how long: STATEMENT, TRANSACTION or EXPLICIT.", |row| {
        row.duration.into()
    }),
    column("LOCK_STATUS", VarChar(32), "PENDING while it is waited for, GRANTED while it is held.", |row| {
        row.status.into()
    }),
    nullable("SOURCE", VarChar(64), "Source file and line that asked for it.", |row| {
        row.source.as_ref().into()
    }),
    nullable("OWNER_THREAD_ID", BigIntUnsigned, "Thread that asked for it.", |row| {
        row.owner_thread_id.into()
    }),
    nullable("OWNER_EVENT_ID", BigIntUnsigned, "Event that asked for it.", |row| row.owner_event_id.into()),
];

const IDENTITY: &[ColumnDef<SyncRow>] = &[
    column("NAME", VarChar(128), "Name of the instrument.", |row| row.name.into()),
    column("OBJECT_INSTANCE_BEGIN", BigIntUnsigned, "Identity of the object in memory.", |row| {
        row.object_instance_begin.into()
    }),
];

fn of_kinds(engine: &Engine, kinds: &[Kind], emit: Emit<'_, SyncRow>) {
    let synchs = engine.synchs();
    let _ = synchs.iter().filter(|row| kinds.contains(&row.kind)).try_for_each(emit);
}
