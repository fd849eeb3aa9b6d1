//! UPDATE, INSERT, DELETE and TRUNCATE, as far as the Performance Schema allows them.
//!
//! Rows are found before they are written, so no table is written during its scan.

use std::borrow::Cow;
use std::ops::ControlFlow;

use tare_tables::{Access, Column, ColumnSet, SqlType, Table, TableError, Value};

use super::{ClientSession, HeldRow, OwnedRow, ServedData, Stop, read};
use crate::failure::ErrorPacket;
use crate::protocol::packet::PacketWriter;
use crate::protocol::reply;
use crate::sql::filter::{Constant, RowFilter};
use crate::sql::statement::{Delete, Insert, RowLimit, Select, UpdateStatement};
use crate::text::calendar;

/// Answers an UPDATE.
pub(super) fn update(
    source: &ServedData,
    session: &ClientSession,
    writer: &mut PacketWriter<'_>,
    update: UpdateStatement,
) -> Result<(), Stop> {
    refuse_if_denied(update.table, session, "UPDATE")?;
    let columns = update.table.columns();
    let set = update.set.iter().map(|(column, constant)| Ok((*column, value(&columns[*column], constant)?)));
    let set = set.collect::<Result<Vec<(usize, Value<'static>)>, ErrorPacket>>()?;
    let rows = find(source, session, update.table, update.filter, update.limit)?;
    let mut changed = 0;
    for row in &rows {
        let done = update.table.update(source.engine, row, &set);
        changed += u64::from(done.map_err(|error| refusal(&error, update.table, session))?);
    }
    let found = rows.len() as u64;
    let affected = if session.found_rows { found } else { changed };
    let info = format!("Rows matched: {found}  Changed: {changed}  Warnings: 0");
    Ok(writer.packet(&reply::ok(affected, &info))?)
}

/// Answers a DELETE.
pub(super) fn delete(
    source: &ServedData,
    session: &ClientSession,
    writer: &mut PacketWriter<'_>,
    delete: Delete,
) -> Result<(), Stop> {
    refuse_if_denied(delete.table, session, "DELETE")?;
    let rows = find(source, session, delete.table, delete.filter, delete.limit)?;
    let mut gone = 0;
    for row in &rows {
        let done = delete.table.delete(source.engine, row);
        gone += u64::from(done.map_err(|error| refusal(&error, delete.table, session))?);
    }
    Ok(writer.packet(&reply::ok(gone, ""))?)
}

/// Answers an INSERT.
pub(super) fn insert(
    source: &ServedData,
    session: &ClientSession,
    writer: &mut PacketWriter<'_>,
    insert: &Insert,
) -> Result<(), Stop> {
    refuse_if_denied(insert.table, session, "INSERT")?;
    let columns = insert.table.columns();
    let mut added = 0;
    // FEDERATED warns of a single row that exists already if it receives the error; for several rows it
    // cannot.
    let ignore = insert.ignore && !(session.is_federated() && insert.rows.len() == 1);
    for constants in &insert.rows {
        let mut row = vec![None; columns.len()];
        for (column, constant) in insert.columns.iter().zip(constants) {
            row[*column] = Some(value(&columns[*column], constant)?);
        }
        let filled =
            row.into_iter().zip(columns).map(|(value, column)| value.map_or_else(|| default(column), Ok));
        let row = filled.collect::<Result<Vec<Value<'static>>, ErrorPacket>>()?;
        match insert.table.insert(source.engine, &row) {
            Ok(()) => added += 1,
            Err(TableError::Duplicate) if ignore => {}
            Err(error) => return Err(refusal(&error, insert.table, session).into()),
        }
    }
    Ok(writer.packet(&reply::ok(added, ""))?)
}

/// Answers a TRUNCATE.
pub(super) fn truncate(
    source: &ServedData,
    session: &ClientSession,
    writer: &mut PacketWriter<'_>,
    table: &'static dyn Table,
) -> Result<(), Stop> {
    table.truncate(source.engine).map_err(|error| refusal(&error, table, session))?;
    Ok(writer.packet(&reply::ok(0, ""))?)
}

fn refusal(error: &TableError, table: &dyn Table, session: &ClientSession) -> ErrorPacket {
    ErrorPacket::of_table(error, table.name(), &session.user)
}

/// Refuses a command that the table would refuse for any row.
fn refuse_if_denied(
    table: &dyn Table,
    session: &ClientSession,
    command: &'static str,
) -> Result<(), ErrorPacket> {
    match table.access() {
        Access::Edit => Ok(()),
        Access::Update if command == "UPDATE" => Ok(()),
        _ => Err(refusal(&TableError::Denied(command), table, session)),
    }
}

/// Finds the rows to write.
fn find(
    source: &ServedData,
    session: &ClientSession,
    table: &'static dyn Table,
    filter: RowFilter,
    limit: u64,
) -> Result<Vec<OwnedRow>, Stop> {
    let filter = if session.is_federated() { filter.without_contradictions() } else { filter };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    if session.is_federated()
        && let Some(key) = key(table, &filter)
    {
        // FEDERATED has already chosen this row. Its other conditions are the values the row had when it was
        // read; they may have changed since, such as the time of a thread's state.
        for key in [key.clone().exact(), key] {
            let keyed = collect(source, table, key, 2)?;
            if keyed.len() == 1 {
                return Ok(keyed);
            }
        }
    }
    if session.is_federated() {
        // Rows that differ in letter case only are different rows.
        let exact = collect(source, table, filter.clone().exact(), limit)?;
        if !exact.is_empty() {
            return Ok(exact);
        }
    }
    collect(source, table, filter, limit)
}

/// Returns the conditions on the table's first index if the filter gives one value for each of its columns.
fn key(table: &dyn Table, filter: &RowFilter) -> Option<RowFilter> {
    let index = table.indexes().first()?;
    let parts = filter.conjuncts();
    let pin =
        |column: &usize| parts.iter().find(|part| part.pinned() == Some(*column)).map(|part| (*part).clone());
    index.iter().map(pin).collect::<Option<Vec<_>>>().map(RowFilter::All)
}

fn collect(
    source: &ServedData,
    table: &'static dyn Table,
    filter: RowFilter,
    limit: usize,
) -> Result<Vec<OwnedRow>, Stop> {
    let mut held = HeldRow::new(table, ColumnSet::ALL);
    let select = Select { table, items: Vec::new(), filter, order: Vec::new(), limit: RowLimit::NONE };
    if limit > 0 {
        read::matching(source, &select, ColumnSet::ALL, &mut |row| {
            held.push(row)?;
            Ok(if held.rows.len() >= limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
    }
    Ok(held.rows)
}

/// Converts a literal into a value of the column's type.
fn value(column: &Column, constant: &Constant) -> Result<Value<'static>, ErrorPacket> {
    let bad = || ErrorPacket::bad_value(column.name);
    let range = || ErrorPacket::out_of_range(column.name);
    match (constant, column.sql_type) {
        (Constant::Null, _) if column.nullable => Ok(Value::Null),
        (Constant::Null, _) => Err(ErrorPacket::null_value(column.name)),
        (_, SqlType::BigIntUnsigned) => {
            u64::try_from(integer(constant).ok_or_else(bad)?).map(Value::Unsigned).map_err(|_| range())
        }
        (_, SqlType::IntUnsigned | SqlType::MediumIntUnsigned) => {
            u32::try_from(integer(constant).ok_or_else(bad)?)
                .map(|it| Value::Unsigned(it.into()))
                .map_err(|_| range())
        }
        (_, SqlType::BigInt) => {
            i64::try_from(integer(constant).ok_or_else(bad)?).map(Value::Signed).map_err(|_| range())
        }
        (_, SqlType::Int | SqlType::SmallInt | SqlType::TinyInt) => {
            i32::try_from(integer(constant).ok_or_else(bad)?)
                .map(|it| Value::Signed(it.into()))
                .map_err(|_| range())
        }
        (_, SqlType::Double(..) | SqlType::DoubleUnsigned(..)) => {
            double(constant).map(Value::Double).ok_or_else(bad)
        }
        (_, SqlType::Enum(members)) => member(constant, members).ok_or_else(bad),
        (Constant::Text(text), SqlType::Timestamp | SqlType::TimestampMicros) => {
            calendar::parse(text).map(Value::Timestamp).ok_or_else(bad)
        }
        (_, SqlType::Timestamp | SqlType::TimestampMicros | SqlType::Date) => Err(bad()),
        (Constant::Text(bytes), SqlType::LongBlob) => Ok(Value::Bytes(Cow::Owned(bytes.clone()))),
        (_, SqlType::Char(length) | SqlType::VarChar(length)) => {
            let mut text = text(constant).ok_or_else(bad)?;
            // A host with the sql_mode PAD_CHAR_TO_FULL_LENGTH pads such columns with blanks.
            if matches!(column.sql_type, SqlType::Char(_)) {
                text.truncate(text.trim_end_matches(' ').len());
            }
            if text.chars().count() > usize::from(length) {
                Err(bad())
            } else {
                Ok(Value::Text(Cow::Owned(text)))
            }
        }
        (
            _,
            SqlType::Text | SqlType::MediumText | SqlType::LongText | SqlType::LongBlob | SqlType::Set(_),
        ) => text(constant).map(|it| Value::Text(Cow::Owned(it))).ok_or_else(bad),
    }
}

fn integer(constant: &Constant) -> Option<i128> {
    match constant {
        Constant::Integer(number) => Some(*number),
        Constant::Double(number) if number.is_finite() => Some(number.round() as i128),
        Constant::Text(text) => std::str::from_utf8(text).ok()?.trim().parse().ok(),
        _ => None,
    }
}

fn double(constant: &Constant) -> Option<f64> {
    match constant {
        Constant::Integer(number) => Some(*number as f64),
        Constant::Double(number) => Some(*number),
        Constant::Text(text) => std::str::from_utf8(text).ok()?.trim().parse().ok(),
        Constant::Null => None,
    }
}

fn text(constant: &Constant) -> Option<String> {
    match constant {
        Constant::Text(text) => String::from_utf8(text.clone()).ok(),
        Constant::Integer(number) => Some(number.to_string()),
        Constant::Double(number) => Some(number.to_string()),
        Constant::Null => None,
    }
}

/// Finds a member of an enum by text or by number. A host in non-strict mode stores the empty text for an
/// invalid member; the table decides what that means.
fn member(constant: &Constant, members: &'static [&'static str]) -> Option<Value<'static>> {
    let found = match constant {
        Constant::Text(text) if text.is_empty() => Some(&""),
        Constant::Text(text) => {
            let text = text.trim_ascii_end();
            members.iter().find(|member| member.as_bytes().eq_ignore_ascii_case(text))
        }
        Constant::Integer(number) => usize::try_from(number - 1).ok().and_then(|at| members.get(at)),
        _ => None,
    };
    found.map(|member| Value::Text(Cow::Borrowed(member)))
}

/// Returns the value of a column that an INSERT omits.
fn default(column: &Column) -> Result<Value<'static>, ErrorPacket> {
    match column.default {
        Some(text) => Ok(Value::Text(Cow::Borrowed(text))),
        None if column.nullable => Ok(Value::Null),
        None => Err(ErrorPacket::no_default(column.name)),
    }
}
