//! Mutexes, rwlocks and conditions that exist now.

use tare_engine::Engine;
use tare_engine::snapshot::{Kind, SyncRow};

use crate::column::{ColumnDef, column, nullable};
use crate::definition::{Emit, TableDef};
use crate::table::SqlType::{BigIntUnsigned, IntUnsigned, VarChar};

/// `mutex_instances`
pub static MUTEX_INSTANCES: TableDef<SyncRow> = TableDef::new(
    "mutex_instances",
    "The mutexes that exist now, and who holds them.",
    &[
        IDENTITY,
        &[nullable("LOCKED_BY_THREAD_ID", BigIntUnsigned, "Thread that holds it; NULL when free.", |row| {
            row.locked_by_thread_id.into()
        })],
    ],
    |engine, emit| of_kinds(engine, &[Kind::Mutex], emit),
)
.indexed(&[&["OBJECT_INSTANCE_BEGIN"], &["NAME"], &["LOCKED_BY_THREAD_ID"]]);

/// `rwlock_instances`
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
    |engine, emit| of_kinds(engine, &[Kind::Rwlock, Kind::Sxlock], emit),
)
.indexed(&[&["OBJECT_INSTANCE_BEGIN"], &["NAME"], &["WRITE_LOCKED_BY_THREAD_ID"]]);

/// `cond_instances`
pub static COND_INSTANCES: TableDef<SyncRow> = TableDef::new(
    "cond_instances",
    "The conditions threads can wait for that exist now.",
    &[IDENTITY],
    |engine, emit| of_kinds(engine, &[Kind::Cond], emit),
)
.indexed(&[&["OBJECT_INSTANCE_BEGIN"], &["NAME"]]);

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
