//! Stored programs and prepared statements.

use tare_engine::snapshot::{PreparedRow, ProgramRow, Reset};

use super::setup::OBJECT_TYPES;
use super::shared::{ENGINES, counter_columns, further_columns};
use crate::framework::column::{ColumnDef, column, nullable, sum};
use crate::framework::definition::TableDef;
use crate::framework::statistic::{average, stat_columns};
use crate::table::SqlType::{BigIntUnsigned, Enum, LongText, VarChar};
use crate::table::Value;

/// The table `events_statements_summary_by_program`.
pub static BY_PROGRAM: TableDef<ProgramRow> = TableDef::new(
    "events_statements_summary_by_program",
    "Calls of stored programs, and the statements in them. Rows of packages have no OBJECT_TYPE: MariaDB's own list of \
     types has none for them.",
    &[PROGRAM, CALLS, STATEMENTS, PROGRAM_LOCK_TIME, PROGRAM_COUNTERS],
    |engine, _, emit| {
        let _ = engine.programs().iter().try_for_each(emit);
    },
)
.indexed(&[&["OBJECT_TYPE", "OBJECT_SCHEMA", "OBJECT_NAME"], &["OBJECT_SCHEMA", "OBJECT_NAME", "OBJECT_TYPE"]])
.extended(&[PROGRAM_FURTHER])
.truncated(Reset::Programs);

/// Returns the type of a program if the built-in's tables can hold it, else NULL.
fn program_type(object_type: Option<&'static str>) -> Value<'static> {
    object_type.filter(|name| OBJECT_TYPES.contains(name)).into()
}

const PROGRAM: &[ColumnDef<ProgramRow>] = &[
    nullable("OBJECT_TYPE", Enum(OBJECT_TYPES), "Kind of the program; NULL for a package.", |row| {
        program_type(Some(row.object_type))
    }),
    column("OBJECT_SCHEMA", VarChar(64), "Schema that holds the program.", |row| (&row.schema).into()),
    column("OBJECT_NAME", VarChar(64), "Name of the program within its schema.", |row| (&row.name).into()),
];

const CALLS: &[ColumnDef<ProgramRow>] = stat_columns!("STAR", "WAIT", "calls", row => row.calls);

const STATEMENTS: &[ColumnDef<ProgramRow>] = &[
    column("COUNT_STATEMENTS", BigIntUnsigned, "Number of statements in it that were executed.", |row| {
        row.statements.stat.count.into()
    }),
    sum("SUM_STATEMENTS_WAIT", "Total time of the timed statements in it, in picoseconds.", |row| {
        row.statements.stat.sum_ps
    }),
    column(
        "MIN_STATEMENTS_WAIT",
        BigIntUnsigned,
        "Shortest time among the timed statements in it, in picoseconds; 0 when there is none.",
        |row| row.statements.stat.min_ps.into(),
    ),
    column(
        "AVG_STATEMENTS_WAIT",
        BigIntUnsigned,
        "Total time divided by the number of statements in it, in picoseconds.",
        |row| average(&row.statements.stat).into(),
    ),
    column(
        "MAX_STATEMENTS_WAIT",
        BigIntUnsigned,
        "Longest time among the timed statements in it, in picoseconds.",
        |row| row.statements.stat.max_ps.into(),
    ),
];

const PROGRAM_LOCK_TIME: &[ColumnDef<ProgramRow>] = &[column(
    "SUM_LOCK_TIME",
    BigIntUnsigned,
    "Time spent waiting for table locks, in picoseconds.",
    |row| row.statements.sum.lock_time_ps.into(),
)];

const PROGRAM_COUNTERS: &[ColumnDef<ProgramRow>] = counter_columns!("SUM_", row => row.statements.sum);

const PROGRAM_FURTHER: &[ColumnDef<ProgramRow>] = further_columns!(row => row.statements.sum);

/// The table `prepared_statements_instances`.
pub static PREPARED: TableDef<PreparedRow> = TableDef::new(
    "prepared_statements_instances",
    "The prepared statements there are now, by SQL and by the binary protocol. The owner is shown while the program exists the \
     statement was prepared in.",
    &[PREPARED_IDENTITY, PREPARED_OWNER, PREPARING, EXECUTIONS, PREPARED_LOCK_TIME, PREPARED_COUNTERS],
    |engine, _, emit| {
        let _ = engine.prepared_statements().iter().try_for_each(emit);
    },
)
.indexed(&[&["OBJECT_INSTANCE_BEGIN"], &["OWNER_THREAD_ID", "OWNER_EVENT_ID"], &["STATEMENT_ID"]])
.extended(&[PREPARED_ENGINE, PREPARED_FURTHER])
.truncated(Reset::Prepared);

const PREPARED_IDENTITY: &[ColumnDef<PreparedRow>] = &[
    column("OBJECT_INSTANCE_BEGIN", BigIntUnsigned, "Identity of the statement in memory.", |row| {
        row.object_instance_begin.into()
    }),
    column("STATEMENT_ID", BigIntUnsigned, "Number the server gave it.", |row| row.statement_id.into()),
    nullable("STATEMENT_NAME", VarChar(64), "Name in SQL; NULL for the binary protocol.", |row| {
        row.name.as_ref().into()
    }),
    column("SQL_TEXT", LongText, "What was prepared, its first 1,024 bytes.", |row| (&row.sql_text).into()),
];

const PREPARED_OWNER: &[ColumnDef<PreparedRow>] = &[
    column("OWNER_THREAD_ID", BigIntUnsigned, "Thread that prepared it.", |row| row.owner_thread_id.into()),
    column("OWNER_EVENT_ID", BigIntUnsigned, "Event that prepared it; 0 for none.", |row| {
        row.owner_event_id.into()
    }),
    nullable("OWNER_OBJECT_TYPE", Enum(OBJECT_TYPES), "Kind of the program it was prepared in.", |row| {
        program_type(row.owner.object_type)
    }),
    nullable("OWNER_OBJECT_SCHEMA", VarChar(64), "Schema of that program.", |row| {
        row.owner.schema.as_ref().into()
    }),
    nullable("OWNER_OBJECT_NAME", VarChar(64), "Name of that program.", |row| row.owner.name.as_ref().into()),
];

const PREPARING: &[ColumnDef<PreparedRow>] = &[
    column("TIMER_PREPARE", BigIntUnsigned, "Time that preparing took, in picoseconds.", |row| {
        (row.prepare.sum_ps as u64).into()
    }),
    column("COUNT_REPREPARE", BigIntUnsigned, "How often it had to be prepared again.", |row| {
        row.reprepare.count.into()
    }),
];

const EXECUTIONS: &[ColumnDef<PreparedRow>] =
    stat_columns!("EXECUTE", "EXECUTE", "executions", row => row.execute.stat);

const PREPARED_LOCK_TIME: &[ColumnDef<PreparedRow>] = &[column(
    "SUM_LOCK_TIME",
    BigIntUnsigned,
    "Time spent waiting for table locks, in picoseconds.",
    |row| row.execute.sum.lock_time_ps.into(),
)];

const PREPARED_COUNTERS: &[ColumnDef<PreparedRow>] = counter_columns!("SUM_", row => row.execute.sum);

const PREPARED_FURTHER: &[ColumnDef<PreparedRow>] = further_columns!(row => row.execute.sum);

const PREPARED_ENGINE: &[ColumnDef<PreparedRow>] =
    &[nullable("EXECUTION_ENGINE", ENGINES, "Always PRIMARY: there is no other.", |_| "PRIMARY".into())];
