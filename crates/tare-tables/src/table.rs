//! What a table is, for those who serve it: metadata, a scan, and the few writes the Performance Schema allows.

use std::borrow::Cow;
use std::ops::ControlFlow;

use tare_engine::Engine;
use tare_engine::snapshot::Parts;

use crate::kept::Kept;
use crate::present::PresentRows;
use crate::stream::{Put, Stream};

/// SQL type of a column, as the built-in declares it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SqlType {
    /// `bigint(20)`
    BigInt,
    /// `bigint(20) unsigned`
    BigIntUnsigned,
    /// `int(11)`
    Int,
    /// `int(10) unsigned`
    IntUnsigned,
    /// `mediumint(8) unsigned`
    MediumIntUnsigned,
    /// `smallint(6)`
    SmallInt,
    /// `tinyint(4)`
    TinyInt,
    /// `double(m,d)`
    Double(u8, u8),
    /// `double(m,d) unsigned`
    DoubleUnsigned(u8, u8),
    /// `char(n)`, n in characters
    Char(u16),
    /// `varchar(n)`, n in characters
    VarChar(u16),
    /// `text`
    Text,
    /// `mediumtext`
    MediumText,
    /// `longtext`
    LongText,
    /// `longblob`
    LongBlob,
    /// `enum(…)`
    Enum(&'static [&'static str]),
    /// `set(…)`, at most eight members
    Set(&'static [&'static str]),
    /// `timestamp` (no fractional seconds)
    Timestamp,
    /// `timestamp(6)`
    TimestampMicros,
    /// `date`; no row has one
    Date,
}

impl SqlType {
    /// Whether a record holds but the length and the place of its values.
    #[must_use]
    pub const fn is_blob(self) -> bool {
        matches!(self, SqlType::Text | SqlType::MediumText | SqlType::LongText | SqlType::LongBlob)
    }

    /// Decimals of its values; `None`: as many as they need.
    #[must_use]
    pub const fn decimals(self) -> Option<u8> {
        match self {
            SqlType::Double(_, decimals) | SqlType::DoubleUnsigned(_, decimals) => Some(decimals),
            SqlType::TimestampMicros => Some(6),
            _ => None,
        }
    }
}

/// Name, type and meaning of a column. The getter belongs to the table's own row type.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// As the built-in spells it.
    pub name: &'static str,
    /// As the built-in declares it.
    pub sql_type: SqlType,
    /// NULL allowed.
    pub nullable: bool,
    /// What a row holds that is inserted without it, where that is a text.
    pub default: Option<&'static str>,
    /// One sentence, units included.
    pub doc: &'static str,
}

/// A value on its way to a client, borrowed from the row where it can be. Enums and sets travel as their text; timestamps as
/// `Timestamp`.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'r> {
    /// SQL NULL.
    Null,
    /// Any unsigned integer.
    Unsigned(u64),
    /// Any signed integer.
    Signed(i64),
    /// `double`.
    Double(f64),
    /// Text, enum or char.
    Text(Cow<'r, str>),
    /// Bytes.
    Bytes(Cow<'r, [u8]>),
    /// Microseconds since the Unix epoch, UTC.
    Timestamp(u64),
}

impl Value<'_> {
    /// The same value, borrowed from this one.
    #[must_use]
    pub fn borrowed(&self) -> Value<'_> {
        match self {
            Value::Null => Value::Null,
            Value::Unsigned(number) => Value::Unsigned(*number),
            Value::Signed(number) => Value::Signed(*number),
            Value::Double(number) => Value::Double(*number),
            Value::Text(text) => Value::Text(Cow::Borrowed(text)),
            Value::Bytes(bytes) => Value::Bytes(Cow::Borrowed(bytes)),
            Value::Timestamp(microseconds) => Value::Timestamp(*microseconds),
        }
    }

    /// The same value, to be kept.
    #[must_use]
    pub fn into_owned(self) -> Value<'static> {
        match self {
            Value::Null => Value::Null,
            Value::Unsigned(number) => Value::Unsigned(number),
            Value::Signed(number) => Value::Signed(number),
            Value::Double(number) => Value::Double(number),
            Value::Text(text) => Value::Text(Cow::Owned(text.into_owned())),
            Value::Bytes(bytes) => Value::Bytes(Cow::Owned(bytes.into_owned())),
            Value::Timestamp(microseconds) => Value::Timestamp(microseconds),
        }
    }
}

/// The values of a row, each of which is made when it is asked for: a row costs what is read of it.
pub trait Values {
    /// The value of a column that was asked for; of another one it may be wrong.
    fn value(&self, column: usize) -> Value<'_>;
    /// Puts items of a row with these columns, one after the other: each is a column, or something of the taker's own.
    fn put(&self, columns: &[Column], items: &[Option<usize>], to: &mut dyn Put) {
        for (item, column) in items.iter().enumerate() {
            match column {
                Some(column) => to.value(&self.value(*column), columns[*column].sql_type.decimals()),
                None => to.own(item),
            }
        }
    }
}

impl Values for Vec<Value<'_>> {
    fn value(&self, column: usize) -> Value<'_> {
        self[column].borrowed()
    }
}

impl<const N: usize> Values for [Value<'_>; N] {
    fn value(&self, column: usize) -> Value<'_> {
        self[column].borrowed()
    }
}

/// Takes rows until it breaks.
pub type Sink<'a> = &'a mut dyn FnMut(&dyn Values) -> ControlFlow<()>;

/// Some of a table's columns, by position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Columns(u128);

impl Columns {
    /// As many columns as a table may have.
    pub const MOST: usize = u128::BITS as usize;
    /// None of them.
    pub const NONE: Columns = Columns(0);
    /// All of them.
    pub const ALL: Columns = Columns(u128::MAX);

    /// Adds a column.
    pub fn add(&mut self, column: usize) {
        self.0 |= 1 << column;
    }

    /// These and those.
    #[must_use]
    pub const fn and(self, others: Columns) -> Columns {
        Columns(self.0 | others.0)
    }

    /// Whether a column is among them.
    #[must_use]
    pub const fn has(self, column: usize) -> bool {
        self.0 >> column & 1 != 0
    }

    /// The parts of a row that they are read from, of all columns' parts.
    pub(crate) fn parts(self, all: impl Iterator<Item = Parts>) -> Parts {
        let asked = (0..).zip(all).filter(|(column, _)| self.has(*column));
        asked.fold(Parts::NONE, |parts, (_, of)| parts.and(of))
    }
}

/// What is asked of a table.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    /// The columns that are going to be read, those of the conditions included: what others would cost is spared.
    pub columns: Columns,
    /// Hints which rows may be left out.
    pub conditions: &'a [Condition],
}

impl Query<'_> {
    /// Every column of every row.
    pub const ALL: Query<'static> = Query { columns: Columns::ALL, conditions: &[] };
    /// How many rows there are.
    pub const COUNT: Query<'static> = Query { columns: Columns::NONE, conditions: &[] };
}

/// What a client may do with a table, given the grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// SELECT.
    Read,
    /// SELECT, TRUNCATE.
    Truncate,
    /// SELECT, UPDATE of some columns.
    Update,
    /// SELECT, INSERT, UPDATE, DELETE, TRUNCATE.
    Edit,
}

/// One comparison of a WHERE clause, all joined by AND. A scan may use them to skip work; whoever asked
/// filters the rows again, so ignoring them is correct.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// Index into the table's columns.
    pub column: usize,
    /// How it compares.
    pub operator: Operator,
    /// With what (`Null` only for [`Operator::IsNull`] and [`Operator::IsNotNull`]).
    pub value: Value<'static>,
}

/// Comparison operators FEDERATED and clients send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Like,
    IsNull,
    IsNotNull,
}

/// Why a write was refused; numbers and texts are the built-in's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableError {
    /// 1683 ER_WRONG_PERFSCHEMA_USAGE "Invalid performance_schema usage"
    WrongUsage,
    /// 1142 ER_TABLEACCESS_DENIED_ERROR: the command is not for this table.
    Denied(&'static str),
    /// 1062 ER_DUP_ENTRY
    Duplicate,
    /// 1114 ER_RECORD_FILE_FULL: the table's bound is reached.
    Full,
    /// 1452 ER_NO_REFERENCED_ROW_2: a rule without the value of an enum that decides: what a host that is not strict
    /// stores for a wrong one.
    NoReference,
    /// 1265 WARN_DATA_TRUNCATED: not a value of the column.
    BadValue(&'static str),
    /// 1231 ER_WRONG_VALUE_FOR_VAR: not a value of what the row says, and what would be one.
    WrongValue {
        /// What is set.
        name: String,
        /// To what.
        value: String,
        /// What it may be set to.
        allowed: &'static str,
    },
}

/// A table that can be served.
///
/// A table nobody may change needs no methods that change it: they refuse, as the built-in does. Nor does one without
/// indexes say so.
pub trait Table: Sync {
    /// Name under `performance_schema`, lower case.
    fn name(&self) -> &'static str;
    /// What it shows, where it differs from the built-in.
    fn doc(&self) -> &'static str;
    /// What may be done with it.
    fn access(&self) -> Access {
        Access::Read
    }
    /// The same table in the shape `extended`, made once: with all columns that MySQL's has, in their order. None where
    /// it is the same in both shapes.
    fn extended(&'static self) -> Option<&'static dyn Table> {
        None
    }
    /// Columns in the built-in's order.
    fn columns(&self) -> &[Column];
    /// Indexes as column positions, most useful first; each is offered to the host's optimizer.
    fn indexes(&self) -> &'static [&'static [usize]] {
        &[]
    }
    /// The SELECT it is, when its rows are the host's own; the host makes a view of it.
    fn body(&self) -> Option<String> {
        None
    }
    /// Calls `sink` with each row until it breaks.
    fn scan(&self, engine: &Engine, query: &Query<'_>, sink: Sink<'_>);
    /// Its rows at one moment, of which these columns can be read; `None` where they can be looked at only once.
    fn keep<'e>(&'e self, _: &'e Engine, _: Columns) -> Option<Box<dyn Kept + 'e>> {
        None
    }
    /// It, if its rows are what threads are doing, and can be those of one moment with other such tables'.
    fn present(&self) -> Option<&dyn PresentRows> {
        None
    }
    /// It, if its rows are what has ended since they were last read.
    fn stream(&self) -> Option<&dyn Stream> {
        None
    }
    /// Updates the one row that equals `row` (all columns, as read); returns whether it changed.
    fn update(&self, _: &Engine, _row: &[Value], _set: &[(usize, Value)]) -> Result<bool, TableError> {
        Err(TableError::Denied("UPDATE"))
    }
    /// Inserts a row (one value per column).
    fn insert(&self, _: &Engine, _row: &[Value]) -> Result<(), TableError> {
        Err(TableError::Denied("INSERT"))
    }
    /// Deletes the one row that equals `row`.
    fn delete(&self, _: &Engine, _row: &[Value]) -> Result<bool, TableError> {
        Err(TableError::Denied("DELETE"))
    }
    /// Resets the table as the manual says.
    fn truncate(&self, _: &Engine) -> Result<(), TableError> {
        Err(TableError::WrongUsage)
    }
}
