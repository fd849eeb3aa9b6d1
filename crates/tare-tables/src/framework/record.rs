//! A row of the engine as the endpoint reads it: each value is made by its column's getter when asked for.

use super::column::Get;
use super::getter::Getter;
use crate::table::{Column, Put, RowValues, Value};

/// Maximum number of numbers that are put at once.
const RUN: usize = 32;

/// A row and the getters of its columns.
pub(crate) struct DefinedRow<'t, R: 'static> {
    pub(crate) getters: &'t [Getter<R>],
    pub(crate) row: &'t R,
}

impl<R> RowValues for DefinedRow<'_, R> {
    fn value(&self, column: usize) -> Value<'_> {
        self.getters[column].read(self.row)
    }

    fn put(&self, columns: &[Column], items: &[Option<usize>], to: &mut dyn Put) {
        // Numbers mostly follow numbers, so they are put together.
        let (mut numbers, mut count) = ([0; RUN], 0);
        let (getters, row) = (self.getters, self.row);
        for (item, column) in items.iter().enumerate() {
            let Some(column) = *column else {
                to.numbers(&numbers[..count]);
                count = 0;
                to.own(item);
                continue;
            };
            let getter = &getters[column];
            let number = match getter.get {
                Get::Number(get) => Some(get(row)),
                Get::Sum(get) => u64::try_from(get(row)).ok(),
                Get::Value(_) => None,
            };
            if let Some(number) = number.filter(|_| count < RUN) {
                numbers[count] = number;
                count += 1;
                continue;
            }
            to.numbers(&numbers[..count]);
            count = 0;
            if let Get::Sum(get) = getter.get {
                to.sum(get(row));
                continue;
            }
            to.value(&getter.read(row), columns[column].sql_type.decimals());
        }
        to.numbers(&numbers[..count]);
    }
}

#[cfg(test)]
mod tests {
    use tare_engine::snapshot::Stat;

    use super::*;
    use crate::framework::column::{ColumnDef, number};
    use crate::framework::definition::TableDef;
    use crate::framework::statistic::stat_columns;
    use crate::table::{Query, SqlType, Table};

    static SUMS: TableDef<Stat> = TableDef::new(
        "sums",
        "",
        &[
            &[number("ID", SqlType::BigIntUnsigned, "Number.", |row: &Stat| row.count + 1)]
                as &[ColumnDef<Stat>],
            stat_columns!("STAR", "WAIT", "waits", row => row),
        ],
        |_, _, emit| {
            let most = u128::from(u64::MAX);
            for sum_ps in [7, most, 3 * most] {
                let _ = emit(&Stat { count: 2, sum_ps, min_ps: 1, max_ps: 9 });
            }
        },
    );

    /// Test double of [`Put`] that collects texts, and sums unchanged.
    #[derive(Default)]
    struct TextSink(Vec<String>);

    impl Put for TextSink {
        fn null(&mut self) {
            self.0.push("NULL".into());
        }

        fn unsigned(&mut self, number: u64) {
            self.0.push(number.to_string());
        }

        fn sum(&mut self, sum: u128) {
            self.0.push(sum.to_string());
        }

        fn text(&mut self, text: &str) {
            self.0.push(text.into());
        }

        fn value(&mut self, value: &Value<'_>, _: Option<u8>) {
            self.0.push(format!("{value:?}"));
        }

        fn own(&mut self, _: usize) {
            self.0.push("own".into());
        }
    }

    #[test]
    fn a_sum_is_whole_on_its_way_and_begins_anew_as_a_value() {
        let (mut whole, mut values) = (Vec::new(), Vec::new());
        let items = [Some(0), Some(2), None, Some(2), Some(1)];
        SUMS.scan(&tare_engine::Engine::new(), &Query::ALL, &mut |row| {
            let mut texts = TextSink::default();
            row.put(SUMS.columns(), &items, &mut texts);
            whole.push(texts.0.join(" "));
            values.push(row.value(2).into_owned());
            std::ops::ControlFlow::Continue(())
        });
        let sum = 3 * u128::from(u64::MAX);
        let most = u64::MAX;
        let wanted =
            ["3 7 own 7 2".to_owned(), format!("3 {most} own {most} 2"), format!("3 {sum} own {sum} 2")];
        assert_eq!(whole, wanted);
        // Sums wrap as in the built-in's columns: differences of two samples stay correct.
        assert_eq!(values, [7, most, most - 2].map(Value::Unsigned));
    }
}
