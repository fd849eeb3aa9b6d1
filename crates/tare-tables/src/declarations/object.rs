//! Tables: row access by table and by index, locks, sums by object, and open tables.

use std::marker::PhantomData;

use tare_engine::Engine;
use tare_engine::snapshot::{ProgramRow, Reset, Stat, TableHandleRow, TableIoStat, TableLockStat, TableRow};

use crate::framework::column::{ColumnDef, column, nullable};
use crate::framework::definition::TableDef;
use crate::framework::statistic::{
    all_locks, all_table_io, merged, read_locks, stat_columns, write_locks, written,
};
use crate::table::SqlType::{BigIntUnsigned, VarChar};

/// Declares the columns of one kind of lock: name of the column group, position in [`TableLockStat`],
/// meaning.
macro_rules! lock_columns {
    ($kind:literal, $place:literal, $what:literal) => {
        stat_columns!($kind, $kind, $what, row => row.locks.0[$place])
    };
}

/// The table, or program, that a row is about.
#[derive(Clone, Debug)]
pub struct ObjectKey {
    object_type: &'static str,
    schema: String,
    name: String,
}

/// Row access to a table as a whole, or through one of its indexes.
#[derive(Clone, Debug)]
pub struct TableIoRow {
    key: ObjectKey,
    index: Option<String>,
    io: TableIoStat,
}

/// Locks of a table.
#[derive(Clone, Debug)]
pub struct TableLockRow {
    key: ObjectKey,
    locks: TableLockStat,
}

/// Sum of all waits for an object.
#[derive(Clone, Debug)]
pub struct ObjectRow {
    key: ObjectKey,
    stat: Stat,
}

/// The table `table_io_waits_summary_by_table`.
pub static IO_BY_TABLE: TableDef<TableIoRow> = TableDef::new(
    "table_io_waits_summary_by_table",
    "Rows fetched, inserted, updated and deleted, and the time it took, by table.",
    &[ObjectColumns::COLUMNS, IO_ALL, IO_READ, IO_WRITE, IO_FETCH, IO_INSERT, IO_UPDATE, IO_DELETE],
    |engine, _, emit| {
        let _ = watched(engine).iter().map(TableIoRow::whole).try_for_each(|row| emit(&row));
    },
)
.indexed(BY_OBJECT)
.truncated(Reset::TableIo);

/// The table `table_io_waits_summary_by_index_usage`.
pub static IO_BY_INDEX: TableDef<TableIoRow> = TableDef::new(
    "table_io_waits_summary_by_index_usage",
    "Rows fetched, inserted, updated and deleted, and the time it took, by the index that was used. Every \
     index of a table appears, used or not; access without an index appears, as INDEX_NAME NULL, when \
     there was any.",
    &[
        ObjectColumns::COLUMNS,
        INDEX_NAME,
        IO_ALL,
        IO_READ,
        IO_WRITE,
        IO_FETCH,
        IO_INSERT,
        IO_UPDATE,
        IO_DELETE,
    ],
    |engine, _, emit| {
        let _ = watched(engine).iter().flat_map(TableIoRow::shown_indexes).try_for_each(|row| emit(&row));
    },
)
.indexed(&[
    &["OBJECT_TYPE", "OBJECT_SCHEMA", "OBJECT_NAME", "INDEX_NAME"],
    &["OBJECT_SCHEMA", "OBJECT_NAME", "INDEX_NAME", "OBJECT_TYPE"],
])
.truncated(Reset::TableIo);

/// The table `table_lock_waits_summary_by_table`.
pub static LOCK_BY_TABLE: TableDef<TableLockRow> = TableDef::new(
    "table_lock_waits_summary_by_table",
    "Table locks by table and kind: internal ones the server's lock manager grants, external ones the \
     storage engine is told of.",
    &[
        ObjectColumns::COLUMNS,
        LOCK_ALL,
        LOCK_READ,
        LOCK_WRITE,
        lock_columns!("READ_NORMAL", 0, "normal read locks"),
        lock_columns!("READ_WITH_SHARED_LOCKS", 1, "shared read locks"),
        lock_columns!("READ_HIGH_PRIORITY", 2, "high-priority read locks"),
        lock_columns!("READ_NO_INSERT", 3, "read locks that bar inserts"),
        lock_columns!("READ_EXTERNAL", 4, "external read locks"),
        lock_columns!("WRITE_ALLOW_WRITE", 5, "write locks that allow other writers"),
        lock_columns!("WRITE_CONCURRENT_INSERT", 6, "concurrent-insert locks"),
        lock_columns!("WRITE_DELAYED", 7, "delayed write locks"),
        lock_columns!("WRITE_LOW_PRIORITY", 8, "low-priority write locks"),
        lock_columns!("WRITE_NORMAL", 9, "normal write locks"),
        lock_columns!("WRITE_EXTERNAL", 10, "external write locks"),
    ],
    |engine, _, emit| {
        let _ = watched(engine).iter().map(TableLockRow::of).try_for_each(|row| emit(&row));
    },
)
.indexed(BY_OBJECT)
.truncated(Reset::TableLock);

/// The table `objects_summary_global_by_type`.
pub static OBJECTS: TableDef<ObjectRow> = TableDef::new(
    "objects_summary_global_by_type",
    "Row access and locks together, by table; calls of stored programs.",
    &[ObjectColumns::COLUMNS, OBJECT_EVENTS],
    |engine, _, emit| {
        let tables = engine.tables();
        let programs = engine.programs();
        let rows = tables.iter().map(ObjectRow::of).chain(programs.iter().map(ObjectRow::of_program));
        let _ = rows.into_iter().try_for_each(|row| emit(&row));
    },
)
.indexed(BY_OBJECT)
.truncated(Reset::Objects);

/// The table `table_handles`.
pub static HANDLES: TableDef<TableHandleRow> = TableDef::new(
    "table_handles",
    "The tables that are open now and are instrumented by setup_objects, a row for each time that one is open, and \
     how they are locked. OWNER_THREAD_ID and OWNER_EVENT_ID are 0 while no thread uses it.",
    &[HANDLE],
    |engine, _, emit| {
        let _ = engine.table_handles().iter().try_for_each(emit);
    },
)
.indexed(&[
    &["OBJECT_TYPE", "OBJECT_SCHEMA", "OBJECT_NAME"],
    &["OBJECT_SCHEMA", "OBJECT_NAME", "OBJECT_TYPE"],
    &["OBJECT_INSTANCE_BEGIN"],
    &["OWNER_THREAD_ID", "OWNER_EVENT_ID"],
]);

const HANDLE: &[ColumnDef<TableHandleRow>] = &[
    column("OBJECT_TYPE", VarChar(64), "Kind of the table: TABLE or TEMPORARY TABLE.", |row| {
        row.object_type.into()
    }),
    column("OBJECT_SCHEMA", VarChar(64), "Schema that holds the table.", |row| (&row.schema).into()),
    column("OBJECT_NAME", VarChar(64), "Name of the table within its schema.", |row| (&row.name).into()),
    column("OBJECT_INSTANCE_BEGIN", BigIntUnsigned, "Identity of the open table in memory.", |row| {
        row.object_instance_begin.into()
    }),
    nullable("OWNER_THREAD_ID", BigIntUnsigned, "Thread that uses it; 0 for none.", |row| {
        row.owner_thread_id.into()
    }),
    nullable("OWNER_EVENT_ID", BigIntUnsigned, "Event that opened it; 0 for none.", |row| {
        row.owner_event_id.into()
    }),
    nullable("INTERNAL_LOCK", VarChar(64), "Lock that the server's lock manager has granted.", |row| {
        row.internal_lock.into()
    }),
    nullable("EXTERNAL_LOCK", VarChar(64), "Lock that the storage engine has been asked for.", |row| {
        row.external_lock.into()
    }),
];

const BY_OBJECT: &[&[&str]] =
    &[&["OBJECT_TYPE", "OBJECT_SCHEMA", "OBJECT_NAME"], &["OBJECT_SCHEMA", "OBJECT_NAME", "OBJECT_TYPE"]];

impl ObjectKey {
    fn of(table: &TableRow) -> Self {
        ObjectKey { object_type: table.object_type, schema: table.schema.clone(), name: table.name.clone() }
    }
}

impl TableIoRow {
    /// Returns the sums over all indexes of a table.
    pub(crate) fn whole(table: &TableRow) -> Self {
        let all = |kind: fn(&TableIoStat) -> Stat| merged(table.indexes.iter().map(|index| kind(&index.io)));
        let io = TableIoStat {
            fetch: all(|io| io.fetch),
            insert: all(|io| io.insert),
            update: all(|io| io.update),
            delete: all(|io| io.delete),
        };
        TableIoRow { key: ObjectKey::of(table), index: None, io }
    }

    /// Returns the indexes of a table as the built-in shows them. The engine has one without a name only if
    /// it was used.
    pub(crate) fn shown_indexes(table: &TableRow) -> impl Iterator<Item = Self> {
        table.indexes.iter().map(|index| TableIoRow {
            key: ObjectKey::of(table),
            index: index.name.clone(),
            io: index.io,
        })
    }
}

impl TableLockRow {
    pub(crate) fn of(table: &TableRow) -> Self {
        TableLockRow { key: ObjectKey::of(table), locks: table.locks }
    }
}

/// Returns the tables that `setup_objects` enables. The others have rows only in the summary by object.
fn watched(engine: &Engine) -> Vec<TableRow> {
    let mut tables = engine.tables();
    tables.retain(|table| table.is_shown);
    tables
}

impl ObjectRow {
    pub(crate) fn of_program(program: &ProgramRow) -> Self {
        let key = ObjectKey {
            object_type: program.object_type,
            schema: program.schema.clone(),
            name: program.name.clone(),
        };
        ObjectRow { key, stat: program.calls }
    }

    pub(crate) fn of(table: &TableRow) -> Self {
        let io = all_table_io(&TableIoRow::whole(table).io);
        ObjectRow { key: ObjectKey::of(table), stat: merged([io, all_locks(&table.locks)]) }
    }
}

/// A row about an object.
pub(crate) trait HasKey: 'static {
    fn key(&self) -> &ObjectKey;
}

macro_rules! keyed {
    ($($row:ty),*) => {
        $(impl HasKey for $row {
            fn key(&self) -> &ObjectKey {
                &self.key
            }
        })*
    };
}
keyed!(TableIoRow, TableLockRow, ObjectRow);

/// The columns that identify a row's object.
struct ObjectColumns<R>(PhantomData<R>);

impl<R: HasKey> ObjectColumns<R> {
    const COLUMNS: &'static [ColumnDef<R>] = &[
        nullable("OBJECT_TYPE", VarChar(64), "Kind of the object: TABLE or TEMPORARY TABLE.", |row: &R| {
            row.key().object_type.into()
        }),
        nullable("OBJECT_SCHEMA", VarChar(64), "Schema that holds the object.", |row: &R| {
            (&row.key().schema).into()
        }),
        nullable("OBJECT_NAME", VarChar(64), "Name of the object within its schema.", |row: &R| {
            (&row.key().name).into()
        }),
    ];
}

const INDEX_NAME: &[ColumnDef<TableIoRow>] = &[nullable(
    "INDEX_NAME",
    VarChar(64),
    "Index used, PRIMARY for the primary key; NULL for none.",
    |row| row.index.as_ref().into(),
)];

const IO_ALL: &[ColumnDef<TableIoRow>] =
    stat_columns!("STAR", "WAIT", "row accesses", row => all_table_io(&row.io));
const IO_READ: &[ColumnDef<TableIoRow>] = stat_columns!("READ", "READ", "rows read", row => row.io.fetch);
const IO_WRITE: &[ColumnDef<TableIoRow>] =
    stat_columns!("WRITE", "WRITE", "rows written", row => written(&row.io));
const IO_FETCH: &[ColumnDef<TableIoRow>] =
    stat_columns!("FETCH", "FETCH", "rows fetched", row => row.io.fetch);
const IO_INSERT: &[ColumnDef<TableIoRow>] =
    stat_columns!("INSERT", "INSERT", "rows inserted", row => row.io.insert);
const IO_UPDATE: &[ColumnDef<TableIoRow>] =
    stat_columns!("UPDATE", "UPDATE", "rows updated", row => row.io.update);
const IO_DELETE: &[ColumnDef<TableIoRow>] =
    stat_columns!("DELETE", "DELETE", "rows deleted", row => row.io.delete);

const OBJECT_EVENTS: &[ColumnDef<ObjectRow>] = stat_columns!("STAR", "WAIT", "events", row => row.stat);

const LOCK_ALL: &[ColumnDef<TableLockRow>] =
    stat_columns!("STAR", "WAIT", "table locks", row => all_locks(&row.locks));
const LOCK_READ: &[ColumnDef<TableLockRow>] =
    stat_columns!("READ", "READ", "read locks", row => read_locks(&row.locks));
const LOCK_WRITE: &[ColumnDef<TableLockRow>] =
    stat_columns!("WRITE", "WRITE", "write locks", row => write_locks(&row.locks));
