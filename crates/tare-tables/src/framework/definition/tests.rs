use tare_engine::snapshot::{EventHead, StatementRow};

use super::*;
use crate::framework::column::{YES_NO, column, nullable, yes_no};
use crate::table::SqlType::{BigIntUnsigned, VarChar};

type Row = (u64, &'static str, Option<bool>);

const COLUMNS: &[ColumnDef<Row>] = &[
    column("ID", BigIntUnsigned, "Number.", |row| row.0.into()),
    column("NAME", VarChar(4), "Name.", |row| row.1.into()),
    nullable("ON", YES_NO, "State.", |row| row.2.map(yes_no).into()),
];

static READ_ONLY: TableDef<Row> = TableDef::new("read_only", "", &[COLUMNS], |_, _, emit| {
    let rows = [(1, "one", Some(true)), (2, "two", None), (3, "thréé", Some(false))];
    let _ = rows.iter().try_for_each(emit);
});

static UPDATABLE: TableDef<Row> = TableDef::new("updatable", "", &[COLUMNS], |_, _, _| {})
    .updated(&["ON"], |_, changes| Ok(changes.flag("ON")? == Some(true)));

static EDITABLE: TableDef<Row> =
    TableDef::new("editable", "", &[COLUMNS], |_, _, _| {}).updated(&["ON"], |_, _| Ok(true)).edited(
        |_, row| if row.text("NAME")? == "one" { Err(TableError::Duplicate) } else { Ok(()) },
        |_, row| row.state("ON"),
    );

#[test]
fn rows_are_inserted_and_deleted_where_a_declaration_says_how() {
    let engine = Engine::new();
    let row = |name: &'static str, on: Value<'static>| [Value::Unsigned(1), name.into(), on];
    assert_eq!(EDITABLE.access(), Access::Edit);
    assert_eq!(EDITABLE.insert(&engine, &row("two", "YES".into())), Ok(()));
    assert_eq!(EDITABLE.insert(&engine, &row("one", "YES".into())), Err(TableError::Duplicate));
    assert_eq!(EDITABLE.delete(&engine, &row("one", "YES".into())), Ok(true));
    assert_eq!(EDITABLE.delete(&engine, &row("one", Value::Null)), Err(TableError::BadValue("ON")));
    assert_eq!(EDITABLE.delete(&engine, &row("one", "".into())), Err(TableError::NoReference));
    assert_eq!(READ_ONLY.insert(&engine, &row("two", Value::Null)), Err(TableError::Denied("INSERT")));
    assert_eq!(READ_ONLY.delete(&engine, &row("two", Value::Null)), Err(TableError::Denied("DELETE")));
}

fn whole(row: &dyn RowValues) -> Vec<Value<'static>> {
    (0..COLUMNS.len()).map(|column| row.value(column).into_owned()).collect()
}

fn scanned(conditions: &[Condition], limit: usize) -> Vec<Vec<Value<'static>>> {
    let mut rows = Vec::new();
    let query = Query { conditions, ..Query::ALL };
    READ_ONLY.scan(&tare_engine::Engine::new(), &query, &mut |row| {
        rows.push(whole(row));
        if rows.len() == limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    rows
}

#[test]
fn a_scan_gives_every_column_of_every_row_until_it_is_stopped() {
    assert_eq!(scanned(&[], 9).len(), 3);
    assert_eq!(scanned(&[], 2).len(), 2);
    assert_eq!(scanned(&[], 1), [[Value::Unsigned(1), "one".into(), "YES".into()]]);
}

#[test]
fn text_is_cut_to_what_its_column_holds() {
    assert_eq!(READ_ONLY.read(&(1, "thréé", None))[1], "thré".into());
    assert_eq!(READ_ONLY.read(&(1, "thré", None))[1], "thré".into());
}

#[test]
fn conditions_leave_rows_out() {
    let equal = |column, value| Condition { column, operator: Operator::Equal, value };
    assert_eq!(scanned(&[equal(0, Value::Unsigned(2))], 9).len(), 1);
    assert_eq!(scanned(&[equal(0, Value::Unsigned(2)), equal(1, "one".into())], 9).len(), 0);
    assert_eq!(scanned(&[equal(2, "YES".into())], 9).len(), 1);
    assert_eq!(scanned(&[equal(7, "YES".into())], 9).len(), 3, "no such column");
}

/// A table whose rows tell which of their parts were requested.
static PARTED: TableDef<Parts> = TableDef::new(
    "parted",
    "",
    &[&[
        column("FREE", BigIntUnsigned, "", |_| Value::Null),
        column("SOURCE", BigIntUnsigned, "", |_: &Parts| Value::Null).of(EventHead::SOURCE),
        column("TEXT", BigIntUnsigned, "", |_: &Parts| Value::Null).of(StatementRow::SQL_TEXT),
        column("ASKED", BigIntUnsigned, "", |parts| {
            let asked = |part| u64::from(parts.has(part));
            (10 * asked(EventHead::SOURCE) + asked(StatementRow::SQL_TEXT)).into()
        }),
    ]],
    |_, parts, emit| _ = emit(&parts),
);

#[test]
fn a_source_is_asked_for_the_parts_that_the_columns_are_read_from() {
    let asked = |columns: &[usize]| {
        let mut query = Query::COUNT;
        columns.iter().for_each(|column| query.columns.add(*column));
        let mut asked = None;
        PARTED.scan(&tare_engine::Engine::new(), &query, &mut |row| {
            asked = Some(row.value(3).into_owned());
            ControlFlow::Continue(())
        });
        asked.expect("a row")
    };
    assert_eq!(asked(&[]), Value::Unsigned(0));
    assert_eq!(asked(&[0, 2]), Value::Unsigned(1));
    assert_eq!(asked(&[1, 3]), Value::Unsigned(10));
    assert_eq!(asked(&[0, 1, 2, 3]), Value::Unsigned(11));
}

/// A table whose finder emits two rows, named differently from those of the source.
static FOUND: TableDef<Row> = TableDef::new("found", "", &[COLUMNS], |_, _, emit| {
    let _ = [(1, "all", None), (2, "all", None), (3, "all", None)].iter().try_for_each(emit);
})
.found(&[("ID", |_, id, _, emit| {
    let _ = [(id, "one", None), (id + 1, "more", None)].iter().try_for_each(emit);
})]);

#[test]
fn rows_with_one_number_are_found_and_the_others_not_read() {
    let names = |conditions: &[(usize, Operator, Value<'static>)]| {
        let condition = |(column, operator, value): &(usize, Operator, Value<'static>)| Condition {
            column: *column,
            operator: *operator,
            value: value.clone(),
        };
        let conditions: Vec<Condition> = conditions.iter().map(condition).collect();
        let mut names = Vec::new();
        let query = Query { conditions: &conditions, ..Query::ALL };
        FOUND.scan(&tare_engine::Engine::new(), &query, &mut |row| {
            names.push((row.value(0).into_owned(), row.value(1).into_owned()));
            ControlFlow::Continue(())
        });
        names
    };
    let number = Value::Unsigned;
    let (equal, least, most) = (Operator::Equal, Operator::GreaterOrEqual, Operator::LessOrEqual);
    let one = [(number(2), "one".into())];
    assert_eq!(names(&[(0, equal, number(2))]), one);
    assert_eq!(names(&[(0, least, Value::Signed(2)), (0, most, number(2))]), one);
    assert_eq!(names(&[(0, equal, number(2)), (1, equal, "x".into())]), []);
    let all = [2, 3].map(|id| (number(id), "all".into()));
    assert_eq!(names(&[(0, least, number(2)), (0, most, number(3))]), all);
    assert_eq!(names(&[(0, least, number(2))]), all);
    assert_eq!(names(&[(0, equal, Value::Signed(-1))]), []);
    assert_eq!(names(&[(0, equal, "2".into())]).len(), 3, "the host converts text");
    assert_eq!(names(&[]).len(), 3);
}

fn update(set: &[(usize, Value)]) -> Result<bool, TableError> {
    let row = [Value::Unsigned(1), "one".into(), "NO".into()];
    UPDATABLE.update(&tare_engine::Engine::new(), &row, set)
}

#[test]
fn an_update_may_name_only_the_columns_that_can_change() {
    assert_eq!(update(&[(2, "YES".into())]), Ok(true));
    assert_eq!(update(&[(1, "two".into())]), Err(TableError::WrongUsage));
    assert_eq!(update(&[(1, "one".into()), (2, "YES".into())]), Err(TableError::WrongUsage));
    assert_eq!(update(&[(7, "YES".into())]), Err(TableError::WrongUsage));
}

#[test]
fn an_update_that_leaves_the_row_as_it_is_does_nothing() {
    assert_eq!(update(&[(1, "one".into())]), Ok(false));
    assert_eq!(update(&[(0, Value::Signed(1)), (2, "NO".into())]), Ok(false));
}

#[test]
fn a_flag_that_is_none_is_refused() {
    assert_eq!(update(&[(2, "yes".into())]), Ok(true));
    assert_eq!(update(&[(2, "maybe".into())]), Err(TableError::BadValue("ON")));
    assert_eq!(update(&[(2, Value::Null)]), Err(TableError::BadValue("ON")));
}
