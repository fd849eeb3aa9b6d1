//! A result being sent; each value is written directly into the send buffer.

use tare_tables::{Put, RowValues, Value};

use super::read::{field, put_constant};
use super::{ClientSession, ServedData, Stop};
use crate::protocol::field::ResultColumn;
use crate::protocol::packet::PacketWriter;
use crate::protocol::reply::ResultWriter;
use crate::sql::statement::{ItemOf, Select};

/// The answer to a SELECT of columns and constants.
pub(super) struct SentRows<'a, 'w, 's> {
    pub(super) source: &'a ServedData,
    pub(super) select: &'a Select,
    pub(super) rows: ResultWriter<'w, 's>,
    /// Whether sums are sent whole even if they exceed their column's type.
    whole_sums: bool,
    /// The first error.
    pub(super) end: Result<(), Stop>,
}

impl<'a, 'w, 's> SentRows<'a, 'w, 's> {
    /// Sends the columns.
    pub(super) fn begin(
        source: &'a ServedData,
        session: &ClientSession,
        writer: &'w mut PacketWriter<'s>,
        select: &'a Select,
    ) -> Result<Self, Stop> {
        let fields: Vec<ResultColumn> = select.items.iter().map(|item| field(select, item)).collect();
        let rows = ResultWriter::begin(writer, &fields, session.narrow)?;
        Ok(SentRows { source, select, rows, whole_sums: session.whole_sums, end: Ok(()) })
    }

    /// Sends a row of these items.
    pub(super) fn row(&mut self, items: &[Option<usize>], row: &dyn RowValues) -> Result<(), Stop> {
        row.put(self.select.table.columns(), items, self);
        Ok(self.rows.end_row()?)
    }

    /// Ends the result.
    pub(super) fn finish(self) -> Result<(), Stop> {
        self.end?;
        self.source.traffic.add(self.rows.count());
        Ok(self.rows.finish()?)
    }
}

impl Put for SentRows<'_, '_, '_> {
    #[inline]
    fn null(&mut self) {
        self.rows.null();
    }

    fn nulls(&mut self, count: usize) {
        self.rows.nulls(count);
    }

    fn unsigned(&mut self, number: u64) {
        self.rows.unsigned(number);
    }

    fn sum(&mut self, sum: u128) {
        match u64::try_from(sum) {
            Err(_) if self.whole_sums => self.rows.text(&sum.to_string()),
            _ => self.rows.unsigned(sum as u64),
        }
    }

    fn numbers(&mut self, numbers: &[u64]) {
        self.rows.numbers(numbers);
    }

    fn text(&mut self, text: &str) {
        self.rows.text(text);
    }

    fn value(&mut self, value: &Value<'_>, decimals: Option<u8>) {
        self.rows.value(value, decimals);
    }

    fn own(&mut self, item: usize) {
        if let Some(ItemOf::Constant(constant)) = self.select.items.get(item).map(|item| &item.of) {
            put_constant(&mut self.rows, constant);
        }
    }
}
