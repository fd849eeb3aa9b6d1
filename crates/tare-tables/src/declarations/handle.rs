//! Files, sockets and waits by instance: the instances, and I/O by instance and by event name.

use std::marker::PhantomData;

use tare_engine::snapshot::{FileRow, IoStat, Reset, SocketRow, Stat, SyncRow};

use crate::framework::column::{ColumnDef, column, nullable, number, signed};
use crate::framework::definition::TableDef;
use crate::framework::statistic::{all_io, stat_columns};
use crate::table::SqlType::{BigInt, BigIntUnsigned, Enum, Int, IntUnsigned, VarChar};
use crate::table::Value;

/// I/O of all files or sockets of one instrument.
pub type NamedIo = (&'static str, IoStat);

/// The table `file_instances`.
pub static FILE_INSTANCES: TableDef<FileRow> = TableDef::new(
    "file_instances",
    "The files that the server has used, open or not; a row is removed when its file is deleted.",
    &[
        FILE_NAME,
        FILE_EVENT_NAME,
        &[column("OPEN_COUNT", IntUnsigned, "Handles open on the file now.", |row| row.open_count.into())],
    ],
    |engine, _, emit| {
        let _ = engine.files().iter().try_for_each(emit);
    },
)
.indexed(&[&["FILE_NAME"], &["EVENT_NAME"]]);

/// The table `file_summary_by_event_name`.
pub static FILE_BY_EVENT_NAME: TableDef<NamedIo> = TableDef::new(
    "file_summary_by_event_name",
    "I/O on files by instrument. Instruments without events appear with zeros.",
    &[IO_EVENT_NAME, Io::ALL, Io::READ, Io::FILE_BYTES_READ, Io::WRITE, Io::FILE_BYTES_WRITTEN, Io::MISC],
    |engine, _, emit| {
        let _ = engine.file_summary().iter().try_for_each(emit);
    },
)
.indexed(&[&["EVENT_NAME"]])
.truncated(Reset::Files);

/// The table `file_summary_by_instance`.
pub static FILE_BY_INSTANCE: TableDef<FileRow> = TableDef::new(
    "file_summary_by_instance",
    "I/O on each file the server knows, open or not.",
    &[
        FILE_NAME,
        FILE_EVENT_NAME,
        &[column("OBJECT_INSTANCE_BEGIN", BigIntUnsigned, "Identity of the file in memory.", |row| {
            row.object_instance_begin.into()
        })],
        Io::ALL,
        Io::READ,
        Io::FILE_BYTES_READ,
        Io::WRITE,
        Io::FILE_BYTES_WRITTEN,
        Io::MISC,
    ],
    |engine, _, emit| {
        let _ = engine.files().iter().try_for_each(emit);
    },
)
.indexed(&[&["OBJECT_INSTANCE_BEGIN"], &["FILE_NAME"], &["EVENT_NAME"]])
.truncated(Reset::Files);

/// The table `socket_instances`.
pub static SOCKET_INSTANCES: TableDef<SocketRow> = TableDef::new(
    "socket_instances",
    "The sockets the server has open: those it listens on and one per connection.",
    &[SOCKET_KEY, SOCKET_STATE],
    |engine, _, emit| {
        let _ = engine.sockets().iter().try_for_each(emit);
    },
)
.indexed(&[&["OBJECT_INSTANCE_BEGIN"], &["THREAD_ID"], &["SOCKET_ID"], &["IP", "PORT"], &["EVENT_NAME"]]);

/// The table `socket_summary_by_event_name`.
pub static SOCKET_BY_EVENT_NAME: TableDef<NamedIo> = TableDef::new(
    "socket_summary_by_event_name",
    "I/O on sockets by instrument, closed ones included.",
    &[IO_EVENT_NAME, Io::ALL, Io::READ, Io::SOCKET_BYTES_READ, Io::WRITE, Io::SOCKET_BYTES_WRITTEN, Io::MISC],
    |engine, _, emit| {
        let _ = engine.socket_summary().iter().try_for_each(emit);
    },
)
.indexed(&[&["EVENT_NAME"]])
.truncated(Reset::Sockets);

/// The table `socket_summary_by_instance`.
pub static SOCKET_BY_INSTANCE: TableDef<SocketRow> = TableDef::new(
    "socket_summary_by_instance",
    "I/O on each socket the server has open.",
    &[SOCKET_KEY, Io::ALL, Io::READ, Io::SOCKET_BYTES_READ, Io::WRITE, Io::SOCKET_BYTES_WRITTEN, Io::MISC],
    |engine, _, emit| {
        let _ = engine.sockets().iter().try_for_each(emit);
    },
)
.indexed(&[&["OBJECT_INSTANCE_BEGIN"], &["EVENT_NAME"]])
.truncated(Reset::Sockets);

/// Waits for one file, socket, mutex, rwlock or condition.
#[derive(Clone, Copy, Debug)]
pub struct InstanceRow {
    event_name: &'static str,
    object_instance_begin: u64,
    waits: Stat,
}

impl InstanceRow {
    pub(crate) fn of_file(file: &FileRow) -> Self {
        let FileRow { event_name, object_instance_begin, .. } = *file;
        InstanceRow { event_name, object_instance_begin, waits: all_io(&file.io) }
    }

    pub(crate) fn of_synch(synch: &SyncRow) -> Self {
        let SyncRow { name, object_instance_begin, waits, .. } = *synch;
        InstanceRow { event_name: name, object_instance_begin, waits }
    }

    pub(crate) fn of_socket(socket: &SocketRow) -> Self {
        let SocketRow { event_name, object_instance_begin, .. } = *socket;
        InstanceRow { event_name, object_instance_begin, waits: all_io(&socket.io) }
    }
}

/// The table `events_waits_summary_by_instance`.
pub static WAITS_BY_INSTANCE: TableDef<InstanceRow> = TableDef::new(
    "events_waits_summary_by_instance",
    "Waits by instance: of files and sockets; with the start-up option synch-waits-by-instance also of mutexes, rwlocks and \
     conditions. By default these are left out, unlike in MariaDB's own, because sums for each lock cost more. They are in the \
     summaries by instrument, and one by one in the histories.",
    &[INSTANCE, INSTANCE_WAITS],
    |engine, _, emit| {
        let (files, sockets) = (engine.files(), engine.sockets());
        let synchs = if engine.synch_waits_by_instance() { engine.synchs() } else { Vec::new() };
        let rows = files.iter().map(InstanceRow::of_file);
        let rows = rows.chain(sockets.iter().map(InstanceRow::of_socket));
        let rows = rows.chain(synchs.iter().map(InstanceRow::of_synch));
        let _ = rows.into_iter().try_for_each(|row| emit(&row));
    },
)
.indexed(&[&["OBJECT_INSTANCE_BEGIN"], &["EVENT_NAME"]])
.truncated(Reset::Instances);

const INSTANCE: &[ColumnDef<InstanceRow>] = &[
    column("EVENT_NAME", VarChar(128), "Name of the instrument.", |row| row.event_name.into()),
    column("OBJECT_INSTANCE_BEGIN", BigIntUnsigned, "Identity of the object in memory.", |row| {
        row.object_instance_begin.into()
    }),
];

const INSTANCE_WAITS: &[ColumnDef<InstanceRow>] =
    stat_columns!("STAR", "WAIT", "operations", row => row.waits);

const FILE_NAME: &[ColumnDef<FileRow>] =
    &[column("FILE_NAME", VarChar(512), "Path of the file.", |row| (&row.file_name).into())];

const FILE_EVENT_NAME: &[ColumnDef<FileRow>] =
    &[column("EVENT_NAME", VarChar(128), "Name of the file's instrument.", |row| row.event_name.into())];

const IO_EVENT_NAME: &[ColumnDef<NamedIo>] =
    &[column("EVENT_NAME", VarChar(128), "Name of the instrument.", |(name, _)| (*name).into())];

const SOCKET_KEY: &[ColumnDef<SocketRow>] = &[
    column("EVENT_NAME", VarChar(128), "Name of the socket's instrument.", |row| row.event_name.into()),
    column("OBJECT_INSTANCE_BEGIN", BigIntUnsigned, "Identity of the socket in memory.", |row| {
        row.object_instance_begin.into()
    }),
];

const SOCKET_STATE: &[ColumnDef<SocketRow>] = &[
    nullable("THREAD_ID", BigIntUnsigned, "Thread the socket belongs to.", |row| row.thread_id.into()),
    column("SOCKET_ID", Int, "File descriptor of the socket.", |row| row.socket_id.into()),
    column("IP", VarChar(64), "Address of the client; empty for a Unix socket.", |row| (&row.ip).into()),
    column("PORT", Int, "TCP port of the client; 0 for a Unix socket.", |row| Value::Signed(row.port.into())),
    column(
        "STATE",
        Enum(&["IDLE", "ACTIVE"]),
        "IDLE while it waits for the client's next request, else ACTIVE.",
        |row| if row.idle { "IDLE" } else { "ACTIVE" }.into(),
    ),
];

/// A row with the I/O of a file, of a socket or of their instrument.
pub(crate) trait HasIo: 'static {
    fn io(&self) -> &IoStat;
}

impl HasIo for NamedIo {
    fn io(&self) -> &IoStat {
        &self.1
    }
}

impl HasIo for FileRow {
    fn io(&self) -> &IoStat {
        &self.io
    }
}

impl HasIo for SocketRow {
    fn io(&self) -> &IoStat {
        &self.io
    }
}

/// Columns of I/O. The built-in declares the bytes of files signed, those of sockets unsigned.
struct Io<R>(PhantomData<R>);

impl<R: HasIo> Io<R> {
    const ALL: &'static [ColumnDef<R>] =
        stat_columns!("STAR", "WAIT", "operations", row => all_io(R::io(row)));
    const READ: &'static [ColumnDef<R>] =
        stat_columns!("READ", "READ", "read operations", row => R::io(row).read.stat);
    const WRITE: &'static [ColumnDef<R>] =
        stat_columns!("WRITE", "WRITE", "write operations", row => R::io(row).write.stat);
    const MISC: &'static [ColumnDef<R>] =
        stat_columns!("MISC", "MISC", "other operations", row => R::io(row).misc.stat);

    const FILE_BYTES_READ: &'static [ColumnDef<R>] =
        &[column("SUM_NUMBER_OF_BYTES_READ", BigInt, "Bytes that read operations returned.", |row| {
            signed(R::io(row).read.bytes)
        })];
    const FILE_BYTES_WRITTEN: &'static [ColumnDef<R>] =
        &[column("SUM_NUMBER_OF_BYTES_WRITE", BigInt, "Bytes that write operations wrote.", |row| {
            signed(R::io(row).write.bytes)
        })];
    const SOCKET_BYTES_READ: &'static [ColumnDef<R>] =
        &[number("SUM_NUMBER_OF_BYTES_READ", BigIntUnsigned, "Bytes received from the client.", |row| {
            R::io(row).read.bytes
        })];
    const SOCKET_BYTES_WRITTEN: &'static [ColumnDef<R>] =
        &[number("SUM_NUMBER_OF_BYTES_WRITE", BigIntUnsigned, "Bytes sent to the client.", |row| {
            R::io(row).write.bytes
        })];
}
