//! Tests of every table's getters on the sample rows.

use std::collections::BTreeMap;

use tare_engine::snapshot::*;

use super::Sample;
use super::instance::table;
use crate::declarations::object::{ObjectRow, TableIoRow, TableLockRow};
use crate::framework::definition::TableDef;
use crate::table::{Column, SqlType, Table, Value};

/// Returns whether a column is NULL in every row, in the built-in too.
fn always_null(table: &str, column: &str) -> bool {
    match column {
        "SPINS" => true,
        "DOCUMENTATION" => table.starts_with("setup_"),
        "RESOURCE_GROUP" => table == "threads",
        "COLUMN_NAME" => table == "metadata_locks",
        "ROLE" => table == "threads",
        "OBJECT_INSTANCE_BEGIN" => {
            table.starts_with("events_statements") || table.starts_with("events_transactions")
        }
        _ => false,
    }
}

/// Returns whether a value fits a column.
fn fits(column: &Column, value: &Value) -> bool {
    match (column.sql_type, value) {
        (_, Value::Null) => column.nullable,
        (SqlType::BigIntUnsigned, Value::Unsigned(_)) | (SqlType::BigInt, Value::Signed(_)) => true,
        // The shape `extended` declares it wider.
        (SqlType::BigIntUnsigned, Value::Signed(figure)) => *figure >= 0,
        (SqlType::IntUnsigned, Value::Unsigned(figure)) => u32::try_from(*figure).is_ok(),
        (SqlType::Int, Value::Signed(figure)) => i32::try_from(*figure).is_ok(),
        (SqlType::Double(..), Value::Double(_)) => true,
        (SqlType::DoubleUnsigned(..), Value::Double(figure)) => *figure >= 0.0,
        (SqlType::Char(limit) | SqlType::VarChar(limit), Value::Text(text)) => {
            text.chars().count() <= limit.into()
        }
        (SqlType::Text | SqlType::MediumText | SqlType::LongText, Value::Text(_))
        | (SqlType::LongBlob, Value::Bytes(_)) => true,
        (SqlType::Enum(members), Value::Text(text)) => members.contains(&text.as_ref()),
        (SqlType::Set(members), Value::Text(text)) => {
            text.is_empty() || text.split(',').all(|member| members.contains(&member))
        }
        (SqlType::Timestamp | SqlType::TimestampMicros, Value::Timestamp(_)) => true,
        _ => false,
    }
}

/// Runs every getter of a table in both shapes on the sample rows. Returns the table's name.
fn checked<R: Sample>(def: &TableDef<R>) -> &'static str {
    read(def);
    read(&def.mysqls());
    def.name()
}

fn read<R: Sample>(def: &TableDef<R>) {
    for (row, full) in [(R::full(), true), (R::bare(), false)] {
        let values = def.read(&row);
        assert_eq!(values.len(), def.columns().len(), "{}", def.name());
        for (column, value) in def.columns().iter().zip(&values) {
            let at = format!("{}.{} = {value:?}", def.name(), column.name);
            assert!(fits(column, value), "{at}");
            if full && column.doc != crate::mysql::ABSENT {
                assert_eq!(*value == Value::Null, always_null(def.name(), column.name), "{at}");
            }
        }
    }
}

/// Returns the values of a row by column name.
fn by_name<R>(def: &TableDef<R>, row: &R) -> BTreeMap<&'static str, Value<'static>> {
    def.columns().iter().map(|column| column.name).zip(def.read(row)).collect()
}

macro_rules! checked {
    ($($table:path),* $(,)?) => {
        vec![$(checked(&$table)),*]
    };
}

fn checked_levels() -> Vec<&'static str> {
    use crate::declarations::summary::{memory, stage, statement, transaction, wait};
    checked![
        wait::GLOBAL,
        wait::THREAD,
        wait::ACCOUNT,
        wait::USER_NAME,
        wait::HOST_NAME,
        stage::GLOBAL,
        stage::THREAD,
        stage::ACCOUNT,
        stage::USER_NAME,
        stage::HOST_NAME,
        statement::GLOBAL,
        statement::THREAD,
        statement::ACCOUNT,
        statement::USER_NAME,
        statement::HOST_NAME,
        transaction::GLOBAL,
        transaction::THREAD,
        transaction::ACCOUNT,
        transaction::USER_NAME,
        transaction::HOST_NAME,
        memory::GLOBAL,
        memory::THREAD,
        memory::ACCOUNT,
        memory::USER_NAME,
        memory::HOST_NAME,
    ]
}

#[test]
fn every_getter_of_every_table_gives_a_value_of_its_columns_type() {
    use crate::{
        account, active, budget, digest, error, event, handle, histogram, host_cache, level, log, object,
        program, replication, session, setup, status, sync, thread, timer,
    };
    let mut names = checked_levels();
    names.extend(checked![
        status::STATUS,
        setup::INSTRUMENTS,
        level::LEVELS,
        budget::PRICES,
        budget::DECISIONS,
        active::HISTORY,
        setup::CONSUMERS,
        setup::ACTORS,
        setup::OBJECTS,
        setup::THREADS,
        error::GLOBAL,
        error::THREAD,
        error::ACCOUNT,
        error::USER_NAME,
        error::HOST_NAME,
        log::ERROR_LOG,
        thread::THREADS,
        thread::PROCESSLIST,
        account::ACCOUNTS,
        account::USERS,
        account::HOSTS,
        account::CONNECT_ATTRIBUTES,
        timer::PERFORMANCE_TIMERS,
        timer::SETUP_TIMERS,
        event::wait::CURRENT,
        event::wait::HISTORY,
        event::wait::HISTORY_LONG,
        event::stage::CURRENT,
        event::stage::HISTORY,
        event::stage::HISTORY_LONG,
        event::statement::CURRENT,
        event::statement::HISTORY,
        event::statement::HISTORY_LONG,
        event::transaction::CURRENT,
        event::transaction::HISTORY,
        event::transaction::HISTORY_LONG,
        digest::BY_DIGEST,
        histogram::STATEMENTS,
        histogram::BY_DIGEST,
        histogram::STATEMENTS_BY_EVENT_NAME,
        histogram::STAGES_BY_EVENT_NAME,
        histogram::WAITS_BY_EVENT_NAME,
        histogram::TRANSACTIONS_BY_EVENT_NAME,
        program::BY_PROGRAM,
        program::PREPARED,
        handle::FILE_INSTANCES,
        handle::FILE_BY_EVENT_NAME,
        handle::FILE_BY_INSTANCE,
        handle::SOCKET_INSTANCES,
        handle::SOCKET_BY_EVENT_NAME,
        handle::SOCKET_BY_INSTANCE,
        handle::WAITS_BY_INSTANCE,
        object::IO_BY_TABLE,
        object::IO_BY_INDEX,
        object::LOCK_BY_TABLE,
        object::OBJECTS,
        object::HANDLES,
        sync::METADATA_LOCKS,
        sync::MUTEX_INSTANCES,
        sync::RWLOCK_INSTANCES,
        sync::COND_INSTANCES,
        session::STATUS_BY_THREAD,
        session::STATUS_BY_ACCOUNT,
        session::STATUS_BY_USER,
        session::STATUS_BY_HOST,
        session::USER_VARIABLES_BY_THREAD,
        host_cache::HOST_CACHE,
        replication::CONNECTION_CONFIGURATION,
        replication::CONNECTION_STATUS,
        replication::APPLIER_CONFIGURATION,
        replication::APPLIER_STATUS,
        replication::APPLIER_STATUS_BY_COORDINATOR,
        replication::APPLIER_STATUS_BY_WORKER,
    ]);
    // Their row types have no values, so their getters cannot be run.
    names.extend(crate::declarations::absent::TABLES.iter().map(|table| table.name()));
    for table in crate::Shape::Extended.served() {
        assert!(names.contains(&table.name()), "{} has no sample rows", table.name());
    }
}

#[test]
fn statement_counters_stand_in_their_own_columns() {
    let numbers = |values: Vec<Value<'static>>, skip| -> Vec<Value<'static>> {
        values.into_iter().skip(skip).take(18).collect()
    };
    let wanted: Vec<Value> = (2..=19).map(Value::Unsigned).collect();
    let statement = crate::declarations::event::statement::CURRENT.read(&StatementRow::full());
    let digest = crate::declarations::digest::BY_DIGEST.read(&DigestRow::full());
    let summary = crate::declarations::summary::statement::GLOBAL.read(&Summary::full());
    assert_eq!(numbers(statement, 20), wanted, "after MESSAGE_TEXT");
    assert_eq!(numbers(digest, 9), wanted, "after SUM_LOCK_TIME");
    assert_eq!(numbers(summary, 7), wanted, "after SUM_LOCK_TIME");
}

#[test]
fn quantiles_stand_in_their_own_columns() {
    let row = by_name(&crate::declarations::digest::BY_DIGEST.mysqls(), &DigestRow::full());
    let quantiles = ["QUANTILE_95", "QUANTILE_99", "QUANTILE_999"].map(|name| row[name].clone());
    assert_eq!(quantiles, [10_000_000, 10_964_781, u64::MAX].map(Value::Unsigned));
}

#[test]
fn file_and_socket_columns_add_up() {
    let file = by_name(&crate::declarations::handle::FILE_BY_INSTANCE, &FileRow::full());
    let socket = by_name(&crate::declarations::handle::SOCKET_BY_INSTANCE, &SocketRow::full());
    for (row, read, write) in
        [(file, Value::Signed(100), Value::Signed(200)), (socket, Value::Unsigned(100), Value::Unsigned(200))]
    {
        let counts = ["COUNT_READ", "COUNT_WRITE", "COUNT_MISC", "COUNT_STAR"].map(|name| row[name].clone());
        assert_eq!(counts, [1, 2, 4, 7].map(Value::Unsigned));
        assert_eq!(row["SUM_TIMER_WAIT"], Value::Unsigned(140));
        assert_eq!(
            (&row["MIN_TIMER_WAIT"], &row["AVG_TIMER_WAIT"]),
            (&Value::Unsigned(10), &Value::Unsigned(20))
        );
        assert_eq!(row["MAX_TIMER_WAIT"], Value::Unsigned(30));
        assert_eq!((&row["SUM_NUMBER_OF_BYTES_READ"], &row["SUM_NUMBER_OF_BYTES_WRITE"]), (&read, &write));
    }
}

#[test]
fn table_columns_add_up() {
    let count =
        |row: &BTreeMap<&str, Value<'static>>, name: &str| row[format!("COUNT_{name}").as_str()].clone();
    let whole = by_name(&crate::declarations::object::IO_BY_TABLE, &TableIoRow::whole(&table()));
    let counts = ["STAR", "READ", "WRITE", "FETCH", "INSERT", "UPDATE", "DELETE"].map(|it| count(&whole, it));
    assert_eq!(counts, [30, 2, 28, 2, 4, 8, 16].map(Value::Unsigned), "two indexes");

    let locks = by_name(&crate::declarations::object::LOCK_BY_TABLE, &TableLockRow::of(&table()));
    assert_eq!(count(&locks, "STAR"), Value::Unsigned(0b111_1111_1111));
    assert_eq!(count(&locks, "READ"), Value::Unsigned(0b1_1111));
    assert_eq!(count(&locks, "WRITE"), Value::Unsigned(0b111_1110_0000));
    let kinds = crate::declarations::object::LOCK_BY_TABLE.columns()[18..]
        .iter()
        .step_by(5)
        .map(|it| locks[it.name].clone());
    assert!(kinds.eq((0..11).map(|kind| Value::Unsigned(1 << kind))), "each kind in its own column");

    let object = by_name(&crate::declarations::object::OBJECTS, &ObjectRow::of(&table()));
    assert_eq!(object["COUNT_STAR"], Value::Unsigned(30 + 0b111_1111_1111));
}

#[test]
fn transactions_add_up() {
    let row = by_name(&crate::declarations::summary::transaction::GLOBAL, &Summary::full());
    assert_eq!(row["COUNT_STAR"], Value::Unsigned(3));
    assert_eq!(row["COUNT_READ_WRITE"], Value::Unsigned(2));
    assert_eq!(row["COUNT_READ_ONLY"], Value::Unsigned(1));
    assert_eq!(row["SUM_TIMER_WAIT"], Value::Unsigned(60));
}

#[test]
fn every_index_the_engine_has_appears_used_or_not() {
    let mut table = table();
    for index in &mut table.indexes {
        index.io = TableIoStat::default();
    }
    let names: Vec<Value> = TableIoRow::shown_indexes(&table)
        .map(|row| by_name(&crate::declarations::object::IO_BY_INDEX, &row)["INDEX_NAME"].clone())
        .collect();
    assert_eq!(names, ["PRIMARY".into(), Value::Null]);
}
