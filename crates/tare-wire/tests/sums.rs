//! Sums that outgrow their column: they begin anew, as the built-in's do, and are whole for who asks for it.

mod fixture;

use std::ops::ControlFlow;

use fixture::{rows, served_with};
use mysql::prelude::Queryable;
use tare_engine::Engine;
use tare_tables::{Column, Put, Query, RowSink, RowValues, SqlType, Table, Value};

/// The sums of the table `sums`.
const SUMS: [u128; 3] = [7, u64::MAX as u128, 3 * (u64::MAX as u128)];

struct SumTable;

struct Row(u128);

impl RowValues for Row {
    fn value(&self, _: usize) -> Value<'_> {
        Value::Unsigned(self.0 as u64)
    }

    fn put(&self, _: &[Column], items: &[Option<usize>], to: &mut dyn Put) {
        for (at, item) in items.iter().enumerate() {
            match item {
                Some(_) => to.sum(self.0),
                None => to.own(at),
            }
        }
    }
}

impl Table for SumTable {
    fn name(&self) -> &'static str {
        "sums"
    }

    fn doc(&self) -> &'static str {
        "Sums."
    }

    fn columns(&self) -> &[Column] {
        const COLUMNS: &[Column] = &[Column {
            name: "SUM_TIMER_WAIT",
            sql_type: SqlType::BigIntUnsigned,
            nullable: false,
            default: None,
            doc: "A sum.",
        }];
        COLUMNS
    }

    fn scan(&self, _: &Engine, _: &Query<'_>, sink: RowSink<'_>) {
        let _ = SUMS.iter().try_for_each(|sum| match sink(&Row(*sum)) {
            ControlFlow::Continue(()) => Some(()),
            ControlFlow::Break(()) => None,
        });
    }
}

#[test]
fn sums_begin_anew_and_are_whole_for_who_asks() {
    let served = served_with(|config| config.tables = &[&SumTable]);
    let (mut plain, mut whole) = (served.client(), served.client());
    whole.query_drop("SET tare_whole_sums = 1").expect("a setting");
    let shown = |client: &mut mysql::Conn| -> Vec<String> {
        let rows = rows(client, "SELECT SUM_TIMER_WAIT, 5 FROM sums");
        assert!(rows.iter().all(|row| row[1].as_deref() == Some("5")), "{rows:?}");
        rows.into_iter().filter_map(|row| row[0].clone()).collect()
    };
    assert_eq!(shown(&mut plain), SUMS.map(|sum| (sum as u64).to_string()));
    assert_eq!(shown(&mut whole), SUMS.map(|sum| sum.to_string()));
    whole.query_drop("SET SESSION tare_whole_sums = 0, autocommit = 1").expect("a setting");
    assert_eq!(shown(&mut whole), shown(&mut plain));
}
