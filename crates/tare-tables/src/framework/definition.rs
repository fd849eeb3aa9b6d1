//! Declarations of tables, and how they are served.

mod present;

use std::ops::ControlFlow;
use std::sync::OnceLock;

use tare_engine::Engine;
use tare_engine::snapshot::{Parts, Reset};

use self::present::Showing;
use super::change::RowChanges;
use super::column::ColumnDef;
use super::condition::integer;
use super::getter::{Getter, parts};
use super::kept::{KeepRows, KeptRows};
use super::record::DefinedRow;
use crate::mysql;
use crate::table::{
    Access, Column, ColumnSet, Condition, Operator, PresentRows, Query, RowSink, RowSnapshot, RowValues,
    Table, TableError, Value,
};

/// Function that emits the rows of a table, with at least these parts.
type ScanFn<R> = fn(&Engine, Parts, Emit<'_, R>);

/// Callback that receives the rows of a source until it breaks.
pub type Emit<'a, R> = &'a mut dyn FnMut(&R) -> ControlFlow<()>;

/// A table with rows of type `R`.
///
/// Declared as a `static`: name, doc, columns and source first, then whatever else it can do.
pub struct TableDef<R: 'static> {
    name: &'static str,
    doc: &'static str,
    columns: &'static [&'static [ColumnDef<R>]],
    further: &'static [&'static [ColumnDef<R>]],
    source: ScanFn<R>,
    finders: &'static [Finder<R>],
    keeper: Option<KeepRows<R>>,
    showing: Option<Showing<R>>,
    indexes: &'static [&'static [&'static str]],
    reset: Option<Reset>,
    update: Option<UpdatableColumns>,
    edit: Option<Edit>,
    shape: OnceLock<DerivedFacts<R>>,
    extended: OnceLock<&'static TableDef<R>>,
}

/// A column of numbers, and a function that finds rows by it without reading all others. It may emit
/// additional rows.
pub(crate) type Finder<R> = (&'static str, fn(&Engine, u64, Parts, Emit<'_, R>));

/// The columns that may be updated, and the function that does it.
#[derive(Clone, Copy)]
pub(crate) struct UpdatableColumns {
    pub(crate) columns: &'static [&'static str],
    pub(crate) apply: fn(&Engine, &RowChanges<'_>) -> Result<bool, TableError>,
}

/// The functions that insert and delete a row.
#[derive(Clone, Copy)]
struct Edit {
    insert: fn(&Engine, &RowChanges<'_>) -> Result<(), TableError>,
    delete: fn(&Engine, &RowChanges<'_>) -> Result<bool, TableError>,
}

/// Facts derived from a declaration once, because they are used often.
struct DerivedFacts<R: 'static> {
    columns: Vec<Column>,
    getters: Vec<Getter<R>>,
    indexes: &'static [&'static [usize]],
}

impl<R: 'static> TableDef<R> {
    /// Declares a table that can be read: groups of columns in order, and the source of the rows.
    pub(crate) const fn new(
        name: &'static str,
        doc: &'static str,
        columns: &'static [&'static [ColumnDef<R>]],
        source: ScanFn<R>,
    ) -> Self {
        TableDef {
            name,
            doc,
            columns,
            further: &[],
            source,
            finders: &[],
            keeper: None,
            showing: None,
            indexes: &[],
            reset: None,
            update: None,
            edit: None,
            shape: OnceLock::new(),
            extended: OnceLock::new(),
        }
    }

    /// Adds columns for the shape `extended`: those of MySQL that the built-in lacks.
    pub(crate) const fn extended(mut self, further: &'static [&'static [ColumnDef<R>]]) -> Self {
        self.further = further;
        self
    }

    /// Adds indexes by column names, most useful first. If rows can be updated, the first one identifies a
    /// single row.
    ///
    /// The host's optimizer assumes two rows per lookup, and prefers the shorter of two such indexes. So an
    /// index consists of what few rows have in common. Where two indexes share columns, each has all of them:
    /// whichever is taken, every condition arrives.
    pub(crate) const fn indexed(mut self, indexes: &'static [&'static [&'static str]]) -> Self {
        self.indexes = indexes;
        self
    }

    /// Adds finders, by which rows with one value of a column are found without reading all rows.
    pub(crate) const fn found(mut self, finders: &'static [Finder<R>]) -> Self {
        self.finders = finders;
        self
    }

    /// Allows rows to be kept and read more than once.
    pub(crate) const fn kept(mut self, keeper: KeepRows<R>) -> Self {
        self.keeper = Some(keeper);
        self
    }

    /// Declares that the table shows what threads are doing.
    pub(crate) const fn present(mut self, showing: Showing<R>) -> Self {
        self.showing = Some(showing);
        self
    }

    /// Allows TRUNCATE, which performs this reset.
    pub(crate) const fn truncated(mut self, reset: Reset) -> Self {
        self.reset = Some(reset);
        self
    }

    /// Allows UPDATE of `columns`.
    pub(crate) const fn updated(
        mut self,
        columns: &'static [&'static str],
        apply: fn(&Engine, &RowChanges<'_>) -> Result<bool, TableError>,
    ) -> Self {
        self.update = Some(UpdatableColumns { columns, apply });
        self
    }

    /// Allows INSERT and DELETE.
    pub(crate) const fn edited(
        mut self,
        insert: fn(&Engine, &RowChanges<'_>) -> Result<(), TableError>,
        delete: fn(&Engine, &RowChanges<'_>) -> Result<bool, TableError>,
    ) -> Self {
        self.edit = Some(Edit { insert, delete });
        self
    }

    /// Returns the table in the shape `extended`: MySQL's columns in MySQL's order, then the others. A column
    /// that is NULL here but cannot be in MySQL is 0, or empty.
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

    /// Returns the row as a write that sets nothing.
    fn whole<'a>(&'a self, row: &'a [Value<'a>]) -> RowChanges<'a> {
        RowChanges { columns: self.columns(), row, set: &[] }
    }

    /// Reads every column of a row.
    pub fn read(&self, row: &R) -> Vec<Value<'static>> {
        self.shape().getters.iter().map(|getter| getter.read(row).into_owned()).collect()
    }

    /// Emits the rows that may satisfy these conditions: those with the number that one of them requires, or
    /// all.
    fn rows(&self, engine: &Engine, query: &Query<'_>, emit: Emit<'_, R>) {
        let parts = parts(&self.shape().getters, query.columns);
        let asked = |name: &str| self.pinned(query.conditions, name);
        match self.finders.iter().find_map(|(column, find)| Some((find, asked(column)?))) {
            Some((find, number)) => find(engine, number, parts, emit),
            None => (self.source)(engine, parts, emit),
        }
    }

    /// Returns the only number that these conditions allow for a column.
    pub(crate) fn pinned(&self, conditions: &[Condition], name: &str) -> Option<u64> {
        let column = self.shape().columns.iter().position(|column| column.name == name)?;
        u64::try_from(pinned(conditions, column)?).ok()
    }

    /// Emits a row unless a condition excludes it.
    pub(crate) fn emit(&self, row: &R, conditions: &[Condition], sink: RowSink<'_>) -> ControlFlow<()> {
        let getters = &self.shape().getters;
        let row = DefinedRow { getters, row };
        let excludes = |it: &Condition| it.column < getters.len() && it.excludes(&row.value(it.column));
        if conditions.iter().any(excludes) { ControlFlow::Continue(()) } else { sink(&row) }
    }

    fn shape(&self) -> &DerivedFacts<R> {
        self.shape.get_or_init(|| {
            let defs = || self.columns.iter().copied().flatten();
            let columns: Vec<Column> = defs().map(|def| def.column).collect();
            let indexes = positions(&columns, self.indexes);
            DerivedFacts { columns, getters: defs().map(Getter::of).collect(), indexes }
        })
    }
}

/// Converts index columns to positions. Leaked once per table and process, because [`Table::indexes`] returns
/// `'static`. A name that is not a column becomes an invalid position, which a test rejects.
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

    fn scan(&self, engine: &Engine, query: &Query<'_>, sink: RowSink<'_>) {
        self.rows(engine, query, &mut |row| self.emit(row, query.conditions, &mut *sink));
    }

    fn present(&self) -> Option<&dyn PresentRows> {
        self.as_present()
    }

    fn keep<'e>(&'e self, engine: &'e Engine, columns: ColumnSet) -> Option<Box<dyn RowSnapshot + 'e>> {
        let getters = &self.shape().getters;
        let moment = self.keeper?(engine, parts(getters, columns));
        Some(Box::new(KeptRows { getters, moment }))
    }

    fn update(&self, engine: &Engine, row: &[Value], set: &[(usize, Value)]) -> Result<bool, TableError> {
        let update = self.update.as_ref().ok_or(TableError::Denied("UPDATE"))?;
        let columns = self.columns();
        if set.iter().all(|(column, value)| row.get(*column).is_some_and(|held| same(held, value))) {
            // The built-in never asks its engine about an UPDATE that leaves the row unchanged.
            return Ok(false);
        }
        let named = |(column, _): &(usize, Value)| columns.get(*column).map(|column| column.name);
        if !set.iter().all(|it| named(it).is_some_and(|name| update.columns.contains(&name))) {
            return Err(TableError::WrongUsage);
        }
        (update.apply)(engine, &RowChanges { columns, row, set })
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

/// Returns the only number that these conditions allow for a column: `= 5`, or `>= 5` and `<= 5`, which is
/// how a range over several columns of an index is sent.
fn pinned(conditions: &[Condition], column: usize) -> Option<i128> {
    let number = |operator: Operator| {
        let of_column = |it: &&Condition| it.column == column && it.operator == operator;
        conditions.iter().find(of_column).and_then(|it| integer(&it.value))
    };
    let [least, most] = [Operator::GreaterOrEqual, Operator::LessOrEqual].map(number);
    number(Operator::Equal).or(least.filter(|least| most == Some(*least)))
}

/// Returns whether writing `new` over `held` changes nothing.
fn same(held: &Value, new: &Value) -> bool {
    match (integer(held), integer(new)) {
        (Some(held), Some(new)) => held == new,
        _ => held == new,
    }
}

#[cfg(test)]
mod tests;
