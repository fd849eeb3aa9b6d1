//! SELECTs answered from one moment of a table that keeps its rows: the first rows in the order of a number
//! (built once it is known which they are), sums over all rows, and counts of rows.

use std::ops::ControlFlow;

use tare_tables::{ColumnSet, Put, RowSnapshot, SqlType, Test, Value};

use super::sent::SentRows;
use super::{ClientSession, ServedData, Stop};
use crate::failure::ErrorPacket;
use crate::protocol::packet::PacketWriter;
use crate::sql::filter::RowFilter;
use crate::sql::statement::{ItemOf, OrderBy, Select};

/// Returns whether a SELECT asks for the first rows in the order of a number, with conditions on one column
/// each.
pub(super) fn lists(select: &Select) -> bool {
    let columns = select.table.columns();
    let is_number = |by: &OrderBy| {
        let column = &columns[by.column];
        column.sql_type == SqlType::BigIntUnsigned && !column.nullable
    };
    matches!(&select.order[..], [by] if is_number(by))
        && !select.is_aggregate()
        && tested(&select.filter).is_some()
}

/// Returns whether a SELECT asks only for sums over all rows and counts of rows.
fn sums(select: &Select) -> bool {
    let is_all = select.filter == RowFilter::TRUE;
    let is_told = |of: &ItemOf| match of {
        ItemOf::Sum(_) => is_all,
        of => matches!(of, ItemOf::CountRows | ItemOf::Constant(_)),
    };
    select.is_aggregate()
        && select.items.iter().all(|item| is_told(&item.of))
        && tested(&select.filter).is_some()
}

/// Returns the conditions that must all be true, each with its column; `None` if one of them concerns several
/// columns or none.
fn tested(filter: &RowFilter) -> Option<Vec<(usize, &RowFilter)>> {
    let one = |filter: &'_ RowFilter| {
        let mut columns = Vec::new();
        filter.columns(&mut |column| columns.push(column));
        columns.dedup();
        if let [column] = columns[..] { Some(column) } else { None }
    };
    filter.conjuncts().into_iter().map(|part| Some((one(part)?, part))).collect()
}

/// Answers a UNION ALL of SELECTs from one table. `parts` is not empty.
pub(super) fn union(
    source: &ServedData,
    session: &ClientSession,
    writer: &mut PacketWriter<'_>,
    parts: &[Select],
) -> Result<(), Stop> {
    let table = parts[0].table;
    if !parts.iter().all(|part| lists(part) || sums(part)) {
        let what = "UNION of anything but rows in the order of a number, sums over all rows and COUNT(*)";
        return Err(ErrorPacket::unsupported(what).into());
    }
    let columns = parts.iter().map(Select::columns).fold(ColumnSet::NONE, ColumnSet::and);
    let Some(kept) = table.keep(source.engine, columns) else {
        return Err(ErrorPacket::unsupported(format_args!("UNION of {}", table.name())).into());
    };
    select(source, session, writer, parts, kept)
}

/// Answers SELECTs from the kept rows of a table.
pub(super) fn select(
    source: &ServedData,
    session: &ClientSession,
    writer: &mut PacketWriter<'_>,
    parts: &[Select],
    kept: Box<dyn RowSnapshot + '_>,
) -> Result<(), Stop> {
    let mut moment = MomentAnswer { source, kept, judged: Vec::new() };
    // Refusals must come before the first packet of a result.
    let found = parts.iter().map(|part| moment.find(part)).collect::<Result<Vec<_>, Stop>>()?;
    let mut sent = SentRows::begin(source, session, writer, &parts[0])?;
    for (part, found) in parts.iter().zip(found) {
        sent.select = part;
        match found {
            PartAnswer::Rows(positions) => moment.send(part, &positions, &mut sent)?,
            PartAnswer::Sums(sums) if part.limit.skip == 0 && part.limit.rows > 0 => {
                send_sums(part, &sums, &mut sent)?
            }
            PartAnswer::Sums(_) => {}
        }
    }
    sent.finish()
}

/// Sends a row of sums.
fn send_sums(select: &Select, sums: &[Value<'_>], sent: &mut SentRows<'_, '_, '_>) -> Result<(), Stop> {
    for (at, (item, sum)) in select.items.iter().zip(sums).enumerate() {
        match item.of {
            ItemOf::Constant(_) => sent.own(at),
            _ => sent.value(sum, None),
        }
    }
    Ok(sent.rows.end_row()?)
}

/// The kept rows of a table and the conditions judged so far.
struct MomentAnswer<'a> {
    source: &'a ServedData,
    kept: Box<dyn RowSnapshot + 'a>,
    judged: Vec<MatchingRows>,
}

/// The rows that satisfy a condition, each with its number in a column. Cached because two SELECTs often have
/// the same condition.
struct MatchingRows {
    filter: RowFilter,
    by: Option<usize>,
    rows: Vec<(u64, usize)>,
}

/// The result of a SELECT.
enum PartAnswer {
    /// The positions of rows, in their order.
    Rows(Vec<usize>),
    /// A value for each item.
    Sums(Vec<Value<'static>>),
}

impl MomentAnswer<'_> {
    fn find(&mut self, select: &Select) -> Result<PartAnswer, Stop> {
        if self.source.is_stopping() {
            return Err(ErrorPacket::stopping().into());
        }
        match select.order[..] {
            [OrderBy { column, descending }] if !select.is_aggregate() => {
                Ok(PartAnswer::Rows(first(self.judge(select, Some(column)), descending, select)))
            }
            _ => self.sums(select).map(PartAnswer::Sums),
        }
    }

    fn sums(&mut self, select: &Select) -> Result<Vec<Value<'static>>, Stop> {
        let columns: Vec<usize> = select.items.iter().filter_map(|item| item.of.column()).collect();
        let Some(sums) = self.kept.sums(&columns) else {
            return Err(ErrorPacket::unsupported("SUM of anything but counts and sums in a UNION").into());
        };
        let counts = select.items.iter().any(|item| item.of == ItemOf::CountRows);
        let count = if counts { self.judge(select, None).len() as u64 } else { 0 };
        let mut sums = sums.into_iter();
        let mut value = |of: &ItemOf| match of {
            ItemOf::CountRows => Value::Unsigned(count),
            ItemOf::Sum(_) if self.kept.count() > 0 => {
                sums.next().map_or(Value::Null, |sum| sum.to_string().into())
            }
            _ => Value::Null,
        };
        Ok(select.items.iter().map(|item| value(&item.of)).collect())
    }

    /// Returns the rows that satisfy the condition, with their numbers in a column.
    fn judge(&mut self, select: &Select, by: Option<usize>) -> &[(u64, usize)] {
        let is_known = |it: &MatchingRows| it.filter == select.filter && (by.is_none() || it.by == by);
        let known = self.judged.iter().position(is_known).unwrap_or_else(|| {
            let declared = select.table.columns();
            let mut accepts: Vec<(usize, _)> = Vec::new();
            for (column, filter) in tested(&select.filter).unwrap_or_default() {
                accepts.push((column, move |value: &Value<'_>| filter.accepts_value(value, declared)));
            }
            let tests = accepts.iter_mut().map(|(column, accepts)| Test { column: *column, accepts });
            let rows = self.kept.judge(tests.collect(), by);
            self.judged.push(MatchingRows { filter: select.filter.clone(), by, rows });
            self.judged.len() - 1
        });
        &self.judged[known].rows
    }

    fn send(
        &mut self,
        select: &Select,
        positions: &[usize],
        sent: &mut SentRows<'_, '_, '_>,
    ) -> Result<(), Stop> {
        let items = select.columns_of_items();
        let mut columns = ColumnSet::NONE;
        items.iter().flatten().for_each(|column| columns.add(*column));
        let (source, mut end) = (self.source, Ok(()));
        self.kept.rows(positions, columns, &mut |row| {
            end = if source.is_stopping() {
                Err(ErrorPacket::stopping().into())
            } else {
                sent.row(&items, row)
            };
            if end.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        end
    }
}

/// Returns the positions of the first rows in the order of their numbers; earlier rows come first among
/// equals. Usually few of many rows are wanted, so rows beyond the current bound are skipped.
fn first(rows: &[(u64, usize)], descending: bool, select: &Select) -> Vec<usize> {
    let wanted = usize::try_from(select.limit.skip.saturating_add(select.limit.rows)).unwrap_or(usize::MAX);
    let Some(last) = wanted.checked_sub(1) else { return Vec::new() };
    let most = wanted.saturating_mul(2);
    let mut found: Vec<(u64, usize)> = Vec::with_capacity(most.min(rows.len()));
    let mut bound = u64::MAX;
    for (number, position) in rows {
        let rank = if descending { !*number } else { *number };
        if rank > bound {
            continue;
        }
        found.push((rank, *position));
        if found.len() == most {
            found.select_nth_unstable(last);
            found.truncate(wanted);
            bound = found[last].0;
        }
    }
    found.sort_unstable();
    found.truncate(wanted);
    let skip = usize::try_from(select.limit.skip).unwrap_or(usize::MAX);
    found.into_iter().skip(skip).map(|(_, position)| position).collect()
}
