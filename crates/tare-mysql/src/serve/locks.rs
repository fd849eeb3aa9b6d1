//! `metadata_locks` as the server has it, to read.

use tare_engine::{Engine, Host};
use tare_tables::{Column, Query, RowSink, SqlType, Table, Value};

use super::sessions::{NUMBER, some, text};
use super::setup::{column, nullable};
use crate::server::ServerHost;
use crate::server::metadata_locks::{self, LockRow};
use crate::server::presence::while_there;

/// The table `metadata_locks`.
pub(super) struct MetadataLocks;

/// Returns SOURCE: the name of a file and a line.
fn source(row: &LockRow) -> Value<'static> {
    let (file, line) = row.source;
    let file = (file != 0).then(|| ServerHost.source_file(file)).flatten();
    file.map_or(Value::Null, |file| format!("{file}:{line}").into())
}

fn values(row: &LockRow) -> [Value<'_>; 11] {
    let object = &row.object;
    [
        object.object_type.map_or(Value::Null, Into::into),
        text(&object.schema),
        text(&object.name),
        text(&row.column),
        row.identity.into(),
        row.lock_type.into(),
        row.duration.into(),
        row.status.into(),
        source(row),
        some(row.owner),
        some(row.event),
    ]
}

impl Table for MetadataLocks {
    fn name(&self) -> &'static str {
        "metadata_locks"
    }

    fn doc(&self) -> &'static str {
        "Metadata locks and user locks, granted and waited for."
    }

    fn columns(&self) -> &[Column] {
        const NAME: SqlType = SqlType::VarChar(64);
        const KIND: SqlType = SqlType::VarChar(32);
        const {
            &[
                column("OBJECT_TYPE", NAME, "What is locked: TABLE, SCHEMA, USER LEVEL LOCK and others."),
                nullable("OBJECT_SCHEMA", NAME, "Schema of the object."),
                nullable("OBJECT_NAME", NAME, "Name of the object."),
                nullable("COLUMN_NAME", NAME, "Column whose statistics are locked."),
                column("OBJECT_INSTANCE_BEGIN", NUMBER, "Address of the lock."),
                column("LOCK_TYPE", KIND, "Kind of the lock, such as SHARED_READ."),
                column("LOCK_DURATION", KIND, "STATEMENT, TRANSACTION or EXPLICIT."),
                column("LOCK_STATUS", KIND, "GRANTED, or PENDING while it is waited for."),
                nullable("SOURCE", NAME, "Place in the server's source that has wanted the lock."),
                nullable("OWNER_THREAD_ID", NUMBER, "Thread that has or wants the lock."),
                nullable("OWNER_EVENT_ID", NUMBER, "Event of this thread in which it has wanted the lock."),
            ]
        }
    }

    fn scan(&self, _: &Engine, _: &Query<'_>, sink: RowSink<'_>) {
        let rows = while_there(metadata_locks::all).unwrap_or_default();
        let _ended = rows.iter().try_for_each(|row| sink(&values(row)));
    }
}
