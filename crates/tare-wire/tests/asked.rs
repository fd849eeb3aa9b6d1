//! What a query asks of a table, and how many values it has made of its rows.

#![allow(clippy::unwrap_used)] // in a test a failure is a panic

mod fixture;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use fixture::*;
use tare_engine::Engine;
use tare_tables::{Column, ColumnSet, Query, RowSink, RowValues, SqlType, Table, Value};

const ROWS: u64 = 1000;

/// A table whose texts are dear: rows in no order by AMOUNT.
struct Dear {
    asked: Mutex<ColumnSet>,
    texts: AtomicU64,
}

static TABLES: &[&dyn Table] = &[&DEAR];
/// The tests share the table, and what it counts.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
static DEAR: Dear = Dear { asked: Mutex::new(ColumnSet::NONE), texts: AtomicU64::new(0) };

const fn column(name: &'static str, sql_type: SqlType) -> Column {
    Column { name, sql_type, nullable: false, default: None, doc: "A column." }
}

const COLUMNS: &[Column] = &[
    column("ID", SqlType::BigIntUnsigned),
    column("AMOUNT", SqlType::BigIntUnsigned),
    column("TEXT", SqlType::VarChar(128)),
];

/// A row by its number.
struct Row(u64);

impl RowValues for Row {
    fn value(&self, column: usize) -> Value<'_> {
        match column {
            0 => Value::Unsigned(self.0),
            1 => Value::Unsigned(self.0 * 617 % ROWS),
            _ => {
                DEAR.texts.fetch_add(1, SeqCst);
                Value::Text(format!("text {}", self.0).into())
            }
        }
    }
}

impl Table for Dear {
    fn name(&self) -> &'static str {
        "dear"
    }
    fn doc(&self) -> &'static str {
        "Texts are dear."
    }
    fn columns(&self) -> &[Column] {
        COLUMNS
    }
    fn scan(&self, _: &Engine, query: &Query<'_>, sink: RowSink<'_>) {
        *self.asked.lock().unwrap() = query.columns;
        let _ = (0..ROWS).try_for_each(|number| sink(&Row(number)));
    }
}

#[test]
fn a_query_asks_for_the_columns_it_names_and_makes_the_values_it_sends() {
    let _alone = ONE_AT_A_TIME.lock();
    let served = served_with(|config| config.tables = TABLES);
    let mut client = served.client();
    let mut asked = |sql: &str| {
        let found = rows(&mut client, sql).len();
        let columns = *DEAR.asked.lock().unwrap();
        let names = (0..COLUMNS.len()).filter(|column| columns.has(*column)).map(|at| COLUMNS[at].name);
        (found, names.collect::<Vec<_>>().join(" "), DEAR.texts.swap(0, SeqCst))
    };
    let all = ROWS as usize;
    // Whoever had the table before made texts too.
    DEAR.texts.store(0, SeqCst);
    assert_eq!(asked("SELECT * FROM dear"), (all, "ID AMOUNT TEXT".into(), ROWS));
    assert_eq!(asked("SELECT ID FROM dear"), (all, "ID".into(), 0));
    assert_eq!(asked("SELECT COUNT(*) FROM dear"), (1, String::new(), 0));
    assert_eq!(asked("SELECT SUM(AMOUNT) FROM dear"), (1, "AMOUNT".into(), 0));
    assert_eq!(asked("SELECT TEXT FROM dear WHERE AMOUNT < 10"), (10, "AMOUNT TEXT".into(), 10));
    assert_eq!(asked("SELECT TEXT FROM dear LIMIT 3"), (3, "TEXT".into(), 3));
    assert_eq!(asked("SELECT ID FROM dear ORDER BY TEXT LIMIT 3").1, "ID TEXT");
    // Once as many rows are held as are wanted, a text is made only of one that comes before the last of
    // them.
    let (found, columns, texts) = asked("SELECT TEXT FROM dear ORDER BY AMOUNT DESC LIMIT 10");
    assert_eq!((found, columns.as_str()), (10, "AMOUNT TEXT"));
    assert_eq!(texts, 158, "of a thousand, in this order");
    assert_eq!(asked("SHOW TABLE STATUS LIKE 'dear'"), (1, String::new(), 0));
}

#[test]
fn the_first_rows_in_an_order_are_those_of_all_in_that_order() {
    let _alone = ONE_AT_A_TIME.lock();
    let served = served_with(|config| config.tables = TABLES);
    let mut client = served.client();
    for order in ["AMOUNT DESC", "AMOUNT", "TEXT, ID"] {
        let all = names(&mut client, &format!("SELECT ID FROM dear ORDER BY {order}"));
        for (skip, count) in [(0, 1), (0, 10), (5, 70), (0, 999), (990, 50)] {
            let sql = format!("SELECT ID FROM dear ORDER BY {order} LIMIT {count} OFFSET {skip}");
            let end = all.len().min(skip + count);
            assert_eq!(names(&mut client, &sql), all[skip..end], "{sql}");
        }
    }
}
