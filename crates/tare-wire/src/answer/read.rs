//! SELECT from a table. Rows are sent as the scan produces them.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::ControlFlow;

use tare_tables::{Column, ColumnSet, Query, RowSink, RowValues, SqlType, Value};

use super::present::Threads;
use super::sent::SentRows;
use super::{ClientSession, HeldRow, OwnedRow, ServedData, Stop, moment};
use crate::failure::ErrorPacket;
use crate::protocol::field::ResultColumn;
use crate::protocol::packet::PacketWriter;
use crate::protocol::reply::ResultWriter;
use crate::sql::filter::{self, Constant};
use crate::sql::statement::{ItemOf, OrderBy, Select, SelectItem};
use crate::text::collation::ColumnCollation;

/// The number of rows beyond the LIMIT that are collected before a sorted list is cut.
const SORT_SLACK: usize = 64;

/// Answers a SELECT from the table, or from the rows of `threads` kept for the host's current statement.
pub(super) fn select(
    source: &ServedData,
    session: &ClientSession,
    writer: &mut PacketWriter<'_>,
    select: &Select,
    threads: Option<&Threads>,
) -> Result<(), Stop> {
    if select.is_aggregate() {
        return aggregate(source, session, writer, select);
    }
    if moment::lists(select)
        && let Some(kept) = select.table.keep(source.engine, select.columns())
    {
        return moment::select(source, session, writer, std::slice::from_ref(select), kept);
    }
    // A refused sort must be reported before the first packet of a result.
    let sorted = if select.order.is_empty() { None } else { Some(sorted(source, select)?) };
    let mut sent = SentRows::begin(source, session, writer, select)?;
    let items = select.columns_of_items();
    match sorted {
        Some(list) => {
            for row in &list {
                sent.row(&items, row)?;
            }
        }
        None => stream(&mut sent, &items, threads.map(|threads| (session, threads)))?,
    }
    sent.finish()
}

/// Receives a row and decides whether the scan continues.
pub(super) type TakeRow<'t> = &'t mut dyn FnMut(&dyn RowValues) -> Result<ControlFlow<()>, Stop>;

/// Scans the table and calls `sink` with each matching row until it breaks. Only `columns` of a row can be
/// read.
pub(super) fn matching(
    source: &ServedData,
    select: &Select,
    columns: ColumnSet,
    sink: TakeRow<'_>,
) -> Result<(), Stop> {
    let scan = |query: &Query<'_>, sink: RowSink<'_>| select.table.scan(source.engine, query, sink);
    matching_of(source, select, columns, scan, sink)
}

/// Filters the rows that `scan` produces and calls `sink` with each match until it breaks.
fn matching_of(
    source: &ServedData,
    select: &Select,
    columns: ColumnSet,
    scan: impl FnOnce(&Query<'_>, RowSink<'_>),
    sink: TakeRow<'_>,
) -> Result<(), Stop> {
    if select.filter.is_never() {
        return Ok(());
    }
    let declared = select.table.columns();
    let conditions = select.filter.hints(declared);
    let mut end = Ok(());
    scan(&Query { columns, conditions: &conditions }, &mut |row| {
        if source.is_stopping() {
            end = Err(ErrorPacket::stopping().into());
            return ControlFlow::Break(());
        }
        if !select.filter.accepts(row, declared) {
            return ControlFlow::Continue(());
        }
        sink(row).unwrap_or_else(|stop| {
            end = Err(stop);
            ControlFlow::Break(())
        })
    });
    end
}

fn stream(
    sent: &mut SentRows<'_, '_, '_>,
    items: &[Option<usize>],
    kept: Option<(&ClientSession, &Threads)>,
) -> Result<(), Stop> {
    let (source, select) = (sent.source, sent.select);
    let (mut skip, mut left) = (select.limit.skip, select.limit.rows);
    if left == 0 {
        return Ok(());
    }
    let mut send = |row: &dyn RowValues| {
        if skip > 0 {
            skip -= 1;
            return Ok(ControlFlow::Continue(()));
        }
        sent.row(items, row)?;
        left -= 1;
        Ok(if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    };
    match kept {
        None => matching(source, select, select.columns(), &mut send),
        Some((session, threads)) => {
            let scan = |query: &Query<'_>, sink: RowSink<'_>| {
                session.host_statement.scan(select.table, threads, query, sink);
            };
            matching_of(source, select, select.columns(), scan, &mut send)
        }
    }
}

fn sorted(source: &ServedData, select: &Select) -> Result<Vec<OwnedRow>, Stop> {
    let wanted = usize::try_from(select.limit.skip.saturating_add(select.limit.rows)).unwrap_or(usize::MAX);
    let columns = select.table.columns();
    let collations: Vec<ColumnCollation> =
        select.order.iter().map(|it| ColumnCollation::of(select.table.name(), &columns[it.column])).collect();
    let compare = |left: &dyn RowValues, right: &dyn RowValues| {
        compare(&select.order, &collations, columns, left, right)
    };
    let order = |left: &OwnedRow, right: &OwnedRow| compare(left, right);
    let mut held = HeldRow::new(select.table, select.columns());
    // Whether the rows up to the LIMIT are sorted; rows that do not come before the last of them are skipped.
    let mut is_cut = false;
    matching(source, select, select.columns(), &mut |row| {
        let last = wanted.checked_sub(1).and_then(|at| held.rows.get(at)).filter(|_| is_cut);
        if wanted == 0 || last.is_some_and(|last| compare(row, last).is_ge()) {
            return Ok(ControlFlow::Continue(()));
        }
        held.push(row)?;
        if held.rows.len() >= wanted.saturating_mul(2).saturating_add(SORT_SLACK) {
            held.rows.sort_by(order);
            held.truncate(wanted);
            is_cut = true;
        }
        Ok(ControlFlow::Continue(()))
    })?;
    held.rows.sort_by(order);
    held.rows.truncate(wanted);
    let skip = usize::try_from(select.limit.skip).unwrap_or(usize::MAX).min(held.rows.len());
    Ok(held.rows.split_off(skip))
}

fn compare(
    orders: &[OrderBy],
    collations: &[ColumnCollation],
    columns: &[Column],
    left: &dyn RowValues,
    right: &dyn RowValues,
) -> Ordering {
    for (by, collation) in orders.iter().zip(collations) {
        let sql_type = columns[by.column].sql_type;
        let (left, right) = (left.value(by.column), right.value(by.column));
        let order = filter::order(&left, &right, sql_type, *collation);
        if order.is_ne() {
            return if by.descending { order.reverse() } else { order };
        }
    }
    Ordering::Equal
}

// Aggregates.

fn aggregate(
    source: &ServedData,
    session: &ClientSession,
    writer: &mut PacketWriter<'_>,
    select: &Select,
) -> Result<(), Stop> {
    let columns = select.table.columns();
    let mut sums: Vec<RunningAggregate> =
        select.items.iter().map(|item| RunningAggregate::new(select, item)).collect();
    matching(source, select, select.columns(), &mut |row| {
        sums.iter_mut().for_each(|sum| sum.add(row, columns));
        Ok(ControlFlow::Continue(()))
    })?;
    let fields: Vec<ResultColumn> = select.items.iter().map(|item| field(select, item)).collect();
    let mut rows = ResultWriter::begin(writer, &fields, session.narrow)?;
    if select.limit.skip == 0 && select.limit.rows > 0 {
        sums.iter().for_each(|sum| sum.put(&mut rows));
        rows.end_row()?;
    }
    source.traffic.add(rows.count());
    Ok(rows.finish()?)
}

struct RunningAggregate {
    of: ItemOf,
    collation: ColumnCollation,
    decimals: Option<u8>,
    count: u64,
    integers: i128,
    doubles: Option<f64>,
    extreme: Value<'static>,
}

impl RunningAggregate {
    fn new(select: &Select, item: &SelectItem) -> Self {
        let column = item.of.column().map(|column| &select.table.columns()[column]);
        let collation =
            column.map_or(ColumnCollation::Binary, |column| ColumnCollation::of(select.table.name(), column));
        RunningAggregate {
            of: item.of.clone(),
            collation,
            decimals: column.and_then(|column| column.sql_type.decimals()),
            count: 0,
            integers: 0,
            doubles: None,
            extreme: Value::Null,
        }
    }

    fn add(&mut self, row: &dyn RowValues, columns: &[Column]) {
        let Some(column) = self.of.column() else {
            self.count += 1;
            return;
        };
        let value = row.value(column);
        match &value {
            Value::Null => return,
            Value::Unsigned(number) => self.integers += i128::from(*number),
            Value::Signed(number) => self.integers += i128::from(*number),
            Value::Double(number) => self.doubles = Some(self.doubles.unwrap_or(0.0) + number),
            Value::Text(_) | Value::Bytes(_) | Value::Timestamp(_) => {}
        }
        self.count += 1;
        let wanted = match self.of {
            ItemOf::Min(_) => Ordering::Less,
            ItemOf::Max(_) => Ordering::Greater,
            _ => return,
        };
        let order = filter::order(&value, &self.extreme, columns[column].sql_type, self.collation);
        if self.extreme == Value::Null || order == wanted {
            self.extreme = value.into_owned();
        }
    }

    fn put(&self, rows: &mut ResultWriter<'_, '_>) {
        match &self.of {
            ItemOf::CountRows | ItemOf::Count(_) => rows.value(&Value::Unsigned(self.count), None),
            ItemOf::Sum(_) if self.count == 0 => rows.value(&Value::Null, None),
            ItemOf::Sum(_) => match self.doubles {
                Some(sum) => rows.value(&Value::Double(sum), None),
                None => rows.value(&Value::Text(Cow::Owned(self.integers.to_string())), None),
            },
            ItemOf::Constant(constant) => put_constant(rows, constant),
            ItemOf::Min(_) | ItemOf::Max(_) | ItemOf::Column(_) => rows.value(&self.extreme, self.decimals),
        }
    }
}

// Columns of the result.

pub(super) fn field(select: &Select, item: &SelectItem) -> ResultColumn {
    let name = item.name.clone();
    let double =
        |column: &usize| matches!(select.table.columns()[*column].sql_type, SqlType::DoubleUnsigned(..));
    match &item.of {
        ItemOf::Column(column) => ResultColumn::of_table(select.table, *column, name),
        ItemOf::Min(column) | ItemOf::Max(column) => {
            ResultColumn::of_table(select.table, *column, name).nullable()
        }
        ItemOf::Sum(column) if double(column) => ResultColumn::double(name),
        ItemOf::Sum(_) => ResultColumn::decimal(name),
        ItemOf::CountRows | ItemOf::Count(_) => ResultColumn::integer(name),
        ItemOf::Constant(constant) => constant_field(name, constant),
    }
}

pub(super) fn constant_field(name: String, constant: &Constant) -> ResultColumn {
    match constant {
        Constant::Integer(number) if i64::try_from(*number).is_ok() => ResultColumn::integer(name),
        Constant::Integer(_) => ResultColumn::decimal(name),
        Constant::Double(_) => ResultColumn::double(name),
        Constant::Null | Constant::Text(_) => ResultColumn::text(name),
    }
}

pub(super) fn put_constant(rows: &mut ResultWriter<'_, '_>, constant: &Constant) {
    match constant {
        Constant::Null => rows.value(&Value::Null, None),
        Constant::Integer(number) => rows.text(&number.to_string()),
        Constant::Double(number) => rows.value(&Value::Double(*number), None),
        Constant::Text(text) => rows.value(&Value::Bytes(text.into()), None),
    }
}
