//! What a declaration of a table consists of, and how any declaration is served.

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::sync::OnceLock;

use tare_engine::Engine;
use tare_engine::snapshot::{Parts, Reset};

use crate::change::Changes;
use crate::column::{ColumnDef, Get};
use crate::condition::integer;
use crate::kept::{Keeper, Kept, KeptRows};
use crate::mysql;
use crate::record::Record;
use crate::table::{
    Access, Column, Columns, Condition, Operator, Query, Sink, SqlType, Table, TableError, Value, Values,
};

/// Hands out the rows of a table, with those parts at least.
type Source<R> = fn(&Engine, Parts, Emit<'_, R>);

/// Takes the rows of a source until it breaks.
pub type Emit<'a, R> = &'a mut dyn FnMut(&R) -> ControlFlow<()>;

/// A table whose rows are `R`.
///
/// Declared as a `static`: name, doc, columns and source first, then whatever else it can do.
pub struct TableDef<R: 'static> {
    name: &'static str,
    doc: &'static str,
    columns: &'static [&'static [ColumnDef<R>]],
    further: &'static [&'static [ColumnDef<R>]],
    source: Source<R>,
    finders: &'static [Finder<R>],
    keeper: Option<Keeper<R>>,
    indexes: &'static [&'static [&'static str]],
    reset: Option<Reset>,
    update: Option<Update>,
    edit: Option<Edit>,
    shape: OnceLock<Shape<R>>,
    extended: OnceLock<&'static TableDef<R>>,
}

/// A column of numbers by which rows are found without reading the others, and how. It may give more rows than those.
pub(crate) type Finder<R> = (&'static str, fn(&Engine, u64, Parts, Emit<'_, R>));

/// The columns that may be updated, and what an update does.
#[derive(Clone, Copy)]
pub(crate) struct Update {
    pub(crate) columns: &'static [&'static str],
    pub(crate) apply: fn(&Engine, &Changes<'_>) -> Result<bool, TableError>,
}

/// What INSERT and DELETE of a row do.
#[derive(Clone, Copy)]
struct Edit {
    insert: fn(&Engine, &Changes<'_>) -> Result<(), TableError>,
    delete: fn(&Engine, &Changes<'_>) -> Result<bool, TableError>,
}

/// What follows from a declaration and is asked for often.
struct Shape<R: 'static> {
    columns: Vec<Column>,
    getters: Vec<Getter<R>>,
    indexes: &'static [&'static [usize]],
}

/// How a column is read, how long its text may be, and what stands for NULL where there is none.
pub(crate) struct Getter<R: 'static> {
    pub(crate) get: Get<R>,
    limit: usize,
    null: Value<'static>,
    pub(crate) parts: Parts,
    /// A count or a sum, as the names of such columns say.
    pub(crate) is_sum: bool,
}

impl<R> Getter<R> {
    fn of(def: &ColumnDef<R>) -> Self {
        let limit = match def.column.sql_type {
            SqlType::Char(limit) | SqlType::VarChar(limit) => limit.into(),
            _ => usize::MAX,
        };
        let null = if def.column.nullable { Value::Null } else { zero(def.column.sql_type) };
        let is_sum = ["COUNT_", "SUM_"].iter().any(|it| def.column.name.starts_with(it));
        Getter { get: def.get, limit, null, parts: def.parts, is_sum }
    }

    /// What rows are ordered by: the column's value where it is an unsigned number, else 0. A sum that a column does not hold is as
    /// large as can be.
    pub(crate) fn number(&self, row: &R) -> u64 {
        match self.get {
            Get::Number(get) => get(row),
            Get::Sum(get) => u64::try_from(get(row)).unwrap_or(u64::MAX),
            Get::Value(_) => {
                if let Value::Unsigned(number) = self.read(row) {
                    number
                } else {
                    0
                }
            }
        }
    }

    /// The column's value, cut where the host would refuse it as too long.
    pub(crate) fn read<'r>(&'r self, row: &'r R) -> Value<'r> {
        match self.get.read(row) {
            // Many are numbers, moved by their parts: a processor that reads at once what was written in two parts waits.
            Value::Unsigned(number) => Value::Unsigned(number),
            Value::Text(text) if text.len() > self.limit => {
                Value::Text(text.chars().take(self.limit).collect::<String>().into())
            }
            Value::Null => self.null.borrowed(),
            value => value,
        }
    }
}

/// What stands for NULL in a column that cannot hold it, because MySQL's cannot.
fn zero(sql_type: SqlType) -> Value<'static> {
    match sql_type {
        SqlType::BigInt | SqlType::Int | SqlType::SmallInt | SqlType::TinyInt => Value::Signed(0),
        SqlType::BigIntUnsigned | SqlType::IntUnsigned | SqlType::MediumIntUnsigned => Value::Unsigned(0),
        SqlType::Double(..) | SqlType::DoubleUnsigned(..) => Value::Double(0.0),
        SqlType::Timestamp | SqlType::TimestampMicros | SqlType::Date => Value::Timestamp(0),
        SqlType::Enum(members) => members.first().copied().unwrap_or_default().into(),
        SqlType::LongBlob => Value::Bytes(Cow::Borrowed(&[])),
        _ => "".into(),
    }
}

impl<R: 'static> TableDef<R> {
    /// A table that can be read: groups of columns in their order, and where the rows come from.
    pub(crate) const fn new(
        name: &'static str,
        doc: &'static str,
        columns: &'static [&'static [ColumnDef<R>]],
        source: Source<R>,
    ) -> Self {
        TableDef {
            name,
            doc,
            columns,
            further: &[],
            source,
            finders: &[],
            keeper: None,
            indexes: &[],
            reset: None,
            update: None,
            edit: None,
            shape: OnceLock::new(),
            extended: OnceLock::new(),
        }
    }

    /// Further columns in the shape `extended`: those of MySQL's that the built-in has not.
    pub(crate) const fn extended(mut self, further: &'static [&'static [ColumnDef<R>]]) -> Self {
        self.further = further;
        self
    }

    /// Indexes by column names, most useful first. Where rows can be updated the first one names a single row.
    ///
    /// The host's optimizer takes every lookup for two rows, and of two that do prefers the shorter index. So an index is
    /// of what few rows have in common, and where two share columns each has all of them: whichever is taken, every
    /// condition arrives.
    pub(crate) const fn indexed(mut self, indexes: &'static [&'static [&'static str]]) -> Self {
        self.indexes = indexes;
        self
    }

    /// Rows with one value of these columns need not be looked for among all.
    pub(crate) const fn found(mut self, finders: &'static [Finder<R>]) -> Self {
        self.finders = finders;
        self
    }

    /// Its rows can be looked at more than once.
    pub(crate) const fn kept(mut self, keeper: Keeper<R>) -> Self {
        self.keeper = Some(keeper);
        self
    }

    /// TRUNCATE is allowed and resets this.
    pub(crate) const fn truncated(mut self, reset: Reset) -> Self {
        self.reset = Some(reset);
        self
    }

    /// UPDATE of `columns` is allowed.
    pub(crate) const fn updated(
        mut self,
        columns: &'static [&'static str],
        apply: fn(&Engine, &Changes<'_>) -> Result<bool, TableError>,
    ) -> Self {
        self.update = Some(Update { columns, apply });
        self
    }

    /// INSERT and DELETE are allowed.
    pub(crate) const fn edited(
        mut self,
        insert: fn(&Engine, &Changes<'_>) -> Result<(), TableError>,
        delete: fn(&Engine, &Changes<'_>) -> Result<bool, TableError>,
    ) -> Self {
        self.edit = Some(Edit { insert, delete });
        self
    }

    /// The table in the shape `extended`: what MySQL declares of it, in MySQL's order, and then what it does not. A
    /// column that is NULL here and cannot be in MySQL's is 0, or empty.
    pub(crate) fn mysqls(&self) -> TableDef<R> {
        let declared = mysql::columns(self.name);
        let defs: Vec<ColumnDef<R>> = [self.columns, self.further].concat().concat();
        let of_mysqls = declared.iter().filter_map(|it| {
            let def = defs.iter().find(|def| def.column.name == it.name)?;
            Some(ColumnDef { column: mysql::widened(def.column, it), ..*def })
        });
        let is_own = |def: &&ColumnDef<R>| !declared.iter().any(|it| it.name == def.column.name);
        let columns: Vec<ColumnDef<R>> = of_mysqls.chain(defs.iter().filter(is_own).copied()).collect();
        TableDef {
            columns: vec![&*columns.leak()].leak(),
            further: &[],
            shape: OnceLock::new(),
            extended: OnceLock::new(),
            update: self.update,
            edit: self.edit,
            ..*self
        }
    }

    /// The row as a write sees it that sets nothing.
    fn whole<'a>(&'a self, row: &'a [Value<'a>]) -> Changes<'a> {
        Changes { columns: self.columns(), row, set: &[] }
    }

    /// Reads every column of a row.
    pub fn read(&self, row: &R) -> Vec<Value<'static>> {
        self.shape().getters.iter().map(|getter| getter.read(row).into_owned()).collect()
    }

    /// The rows these conditions may be true of: those with the number that one of them asks for, or all.
    fn rows(&self, engine: &Engine, query: &Query<'_>, emit: Emit<'_, R>) {
        let Shape { columns, getters, .. } = self.shape();
        let asked = |name: &str| {
            let column = columns.iter().position(|column| column.name == name)?;
            u64::try_from(pinned(query.conditions, column)?).ok()
        };
        let parts = parts(getters, query.columns);
        match self.finders.iter().find_map(|(column, find)| Some((find, asked(column)?))) {
            Some((find, number)) => find(engine, number, parts, emit),
            None => (self.source)(engine, parts, emit),
        }
    }

    fn shape(&self) -> &Shape<R> {
        self.shape.get_or_init(|| {
            let defs = || self.columns.iter().copied().flatten();
            let columns: Vec<Column> = defs().map(|def| def.column).collect();
            let indexes = positions(&columns, self.indexes);
            Shape { columns, getters: defs().map(Getter::of).collect(), indexes }
        })
    }
}

/// The parts of a row that these columns are read from.
pub(crate) fn parts<R>(getters: &[Getter<R>], columns: Columns) -> Parts {
    columns.parts(getters.iter().map(|getter| getter.parts))
}

/// Index columns as positions. Leaked: once per table and process, because the contract wants them `'static`.
/// A name that is not a column becomes a position no column has, which a test refuses.
fn positions(columns: &[Column], indexes: &[&[&str]]) -> &'static [&'static [usize]] {
    let position = |name: &&str| columns.iter().position(|column| column.name == *name).unwrap_or(usize::MAX);
    let index = |names: &&[&str]| -> &'static [usize] {
        Box::leak(names.iter().map(position).collect::<Box<[usize]>>())
    };
    Box::leak(indexes.iter().map(index).collect::<Box<[_]>>())
}

impl<R: 'static> Table for TableDef<R> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn doc(&self) -> &'static str {
        self.doc
    }

    fn access(&self) -> Access {
        match (&self.edit, &self.update, self.reset) {
            (Some(_), _, _) => Access::Edit,
            (None, Some(_), _) => Access::Update,
            (None, None, Some(_)) => Access::Truncate,
            (None, None, None) => Access::Read,
        }
    }

    fn extended(&'static self) -> Option<&'static dyn Table> {
        if mysql::columns(self.name).is_empty() {
            return None;
        }
        let extended = self.extended.get_or_init(|| Box::leak(Box::new(self.mysqls())));
        Some(*extended)
    }

    fn columns(&self) -> &[Column] {
        &self.shape().columns
    }

    fn indexes(&self) -> &'static [&'static [usize]] {
        self.shape().indexes
    }

    fn scan(&self, engine: &Engine, query: &Query<'_>, sink: Sink<'_>) {
        let getters = &self.shape().getters;
        self.rows(engine, query, &mut |row| {
            let row = Record { getters, row };
            let excludes = |it: &Condition| it.column < getters.len() && it.excludes(&row.value(it.column));
            if query.conditions.iter().any(excludes) { ControlFlow::Continue(()) } else { sink(&row) }
        });
    }

    fn keep<'e>(&'e self, engine: &'e Engine, columns: Columns) -> Option<Box<dyn Kept + 'e>> {
        let getters = &self.shape().getters;
        let moment = self.keeper?(engine, parts(getters, columns));
        Some(Box::new(KeptRows { getters, moment }))
    }

    fn update(&self, engine: &Engine, row: &[Value], set: &[(usize, Value)]) -> Result<bool, TableError> {
        let update = self.update.as_ref().ok_or(TableError::Denied("UPDATE"))?;
        let columns = self.columns();
        if set.iter().all(|(column, value)| row.get(*column).is_some_and(|held| same(held, value))) {
            // The built-in never asks its engine about an UPDATE that leaves the row as it is.
            return Ok(false);
        }
        let named = |(column, _): &(usize, Value)| columns.get(*column).map(|column| column.name);
        if !set.iter().all(|it| named(it).is_some_and(|name| update.columns.contains(&name))) {
            return Err(TableError::WrongUsage);
        }
        (update.apply)(engine, &Changes { columns, row, set })
    }

    fn insert(&self, engine: &Engine, row: &[Value]) -> Result<(), TableError> {
        let edit = self.edit.as_ref().ok_or(TableError::Denied("INSERT"))?;
        (edit.insert)(engine, &self.whole(row))
    }

    fn delete(&self, engine: &Engine, row: &[Value]) -> Result<bool, TableError> {
        let edit = self.edit.as_ref().ok_or(TableError::Denied("DELETE"))?;
        (edit.delete)(engine, &self.whole(row))
    }

    fn truncate(&self, engine: &Engine) -> Result<(), TableError> {
        engine.reset(self.reset.ok_or(TableError::WrongUsage)?);
        Ok(())
    }
}

/// The one number that these conditions leave a column: `= 5`, or `>= 5` and `<= 5`, as a range over several columns
/// of an index says it.
fn pinned(conditions: &[Condition], column: usize) -> Option<i128> {
    let number = |operator: Operator| {
        let of_column = |it: &&Condition| it.column == column && it.operator == operator;
        conditions.iter().find(of_column).and_then(|it| integer(&it.value))
    };
    let [least, most] = [Operator::GreaterOrEqual, Operator::LessOrEqual].map(number);
    number(Operator::Equal).or(least.filter(|least| most == Some(*least)))
}

/// True when writing `new` over `held` changes nothing.
fn same(held: &Value, new: &Value) -> bool {
    match (integer(held), integer(new)) {
        (Some(held), Some(new)) => held == new,
        _ => held == new,
    }
}

#[cfg(test)]
mod tests {
    use tare_engine::snapshot::{EventHead, StatementRow};

    use super::*;
    use crate::column::{YES_NO, column, nullable, yes_no};
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
        let engine = crate::sample::engine();
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

    fn whole(row: &dyn Values) -> Vec<Value<'static>> {
        (0..COLUMNS.len()).map(|column| row.value(column).into_owned()).collect()
    }

    fn scanned(conditions: &[Condition], limit: usize) -> Vec<Vec<Value<'static>>> {
        let mut rows = Vec::new();
        let query = Query { conditions, ..Query::ALL };
        READ_ONLY.scan(&crate::sample::engine(), &query, &mut |row| {
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

    /// Its rows say which of their parts were asked for.
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
            PARTED.scan(&crate::sample::engine(), &query, &mut |row| {
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

    /// Rows found by their number come from the finder, which here gives two and names them differently.
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
            FOUND.scan(&crate::sample::engine(), &query, &mut |row| {
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
        UPDATABLE.update(&crate::sample::engine(), &row, set)
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
}
