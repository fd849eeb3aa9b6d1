//! Interface of a table to those who serve it: metadata, a scan, and the few writes that the Performance
//! Schema allows.

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
    /// `date`, without a value in any row
    Date,
}

impl SqlType {
    /// Returns whether a record holds only length and position of the type's values.
    #[must_use]
    pub const fn is_blob(self) -> bool {
        matches!(self, SqlType::Text | SqlType::MediumText | SqlType::LongText | SqlType::LongBlob)
    }

    /// Returns the decimals of the type's values; `None`: as many as they need.
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
    /// Name in the built-in's spelling.
    pub name: &'static str,
    /// Type as declared by the built-in.
    pub sql_type: SqlType,
    /// Whether NULL is allowed.
    pub nullable: bool,
    /// Value of an inserted row without this column, if that is a text.
    pub default: Option<&'static str>,
    /// Meaning in one sentence, units included.
    pub doc: &'static str,
}

/// A value on its way to a client, borrowed from the row where possible. Enums and sets are sent as text,
/// timestamps as `Timestamp`.
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
    /// Text, enum, set or char.
    Text(Cow<'r, str>),
    /// Bytes.
    Bytes(Cow<'r, [u8]>),
    /// Microseconds since the Unix epoch, UTC.
    Timestamp(u64),
}

impl Value<'_> {
    /// Returns the same value, borrowed from this one.
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

    /// Returns the same value with owned content.
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

/// The values of a row. Each is made when it is read, so a row costs only what is read of it.
pub trait Values {
    /// Returns the value of a column. Meaningful only for columns named in the [`Query`].
    fn value(&self, column: usize) -> Value<'_>;
    /// Puts items in order: each is a column, or `None` for something of the receiver's own.
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

/// Callback that receives rows until it breaks.
pub type Sink<'a> = &'a mut dyn FnMut(&dyn Values) -> ControlFlow<()>;

/// A set of a table's columns, by position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Columns(u128);

impl Columns {
    /// Maximum number of columns of a table.
    pub const MOST: usize = u128::BITS as usize;
    /// The empty set.
    pub const NONE: Columns = Columns(0);
    /// The set of all columns.
    pub const ALL: Columns = Columns(u128::MAX);

    /// Adds a column.
    pub fn add(&mut self, column: usize) {
        self.0 |= 1 << column;
    }

    /// Returns the union of two sets.
    #[must_use]
    pub const fn and(self, others: Columns) -> Columns {
        Columns(self.0 | others.0)
    }

    /// Returns whether the set contains a column.
    #[must_use]
    pub const fn has(self, column: usize) -> bool {
        self.0 >> column & 1 != 0
    }

    /// Returns the parts of a row that these columns read; `all` has the parts of every column.
    pub(crate) fn parts(self, all: impl Iterator<Item = Parts>) -> Parts {
        let asked = (0..).zip(all).filter(|(column, _)| self.has(*column));
        asked.fold(Parts::NONE, |parts, (_, of)| parts.and(of))
    }
}

/// A request to a table.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    /// The columns that will be read, including those of the conditions. The table may save the cost of
    /// others.
    pub columns: Columns,
    /// Hints which rows may be left out.
    pub conditions: &'a [Condition],
}

impl Query<'_> {
    /// Every column of every row.
    pub const ALL: Query<'static> = Query { columns: Columns::ALL, conditions: &[] };
    /// The number of rows.
    pub const COUNT: Query<'static> = Query { columns: Columns::NONE, conditions: &[] };
}

/// Statements that a client may use on a table, given the grants.
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

/// One comparison of a WHERE clause, all joined by AND. A scan may use them to skip work. The requester
/// filters the rows again, so ignoring them is correct.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// Position of the column.
    pub column: usize,
    /// Comparison operator.
    pub operator: Operator,
    /// Value to compare with. `Null` only for [`Operator::IsNull`] and [`Operator::IsNotNull`].
    pub value: Value<'static>,
}

/// Comparison operators that FEDERATED and clients send.
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

/// Reason why a write was refused. Numbers and texts are the built-in's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableError {
    /// 1683 ER_WRONG_PERFSCHEMA_USAGE "Invalid performance_schema usage"
    WrongUsage,
    /// 1142 ER_TABLEACCESS_DENIED_ERROR: the table does not allow this command.
    Denied(&'static str),
    /// 1062 ER_DUP_ENTRY
    Duplicate,
    /// 1114 ER_RECORD_FILE_FULL: the table has its maximum number of rows.
    Full,
    /// 1452 ER_NO_REFERENCED_ROW_2: a rule has an empty enum, which is what a host in non-strict mode stores
    /// for an invalid value.
    NoReference,
    /// 1265 WARN_DATA_TRUNCATED: invalid value of this column.
    BadValue(&'static str),
    /// 1231 ER_WRONG_VALUE_FOR_VAR: invalid value of the setting in this row.
    WrongValue {
        /// Name of the setting.
        name: String,
        /// The value given.
        value: String,
        /// The allowed values.
        allowed: &'static str,
    },
}

/// A table that can be served.
///
/// By default methods that change the table refuse, as the built-in does, and there are no indexes.
pub trait Table: Sync {
    /// Returns the name in `performance_schema`, in lower case.
    fn name(&self) -> &'static str;
    /// Returns what the table shows, and where it differs from the built-in.
    fn doc(&self) -> &'static str;
    /// Returns which statements are allowed.
    fn access(&self) -> Access {
        Access::Read
    }
    /// Returns the table in the shape `extended`, made once: with all columns of MySQL's, in MySQL's order.
    /// `None`: it is the same in both shapes.
    fn extended(&'static self) -> Option<&'static dyn Table> {
        None
    }
    /// Returns the columns in the built-in's order.
    fn columns(&self) -> &[Column];
    /// Returns the indexes as column positions, most useful first. Each is offered to the host's optimizer.
    fn indexes(&self) -> &'static [&'static [usize]] {
        &[]
    }
    /// Returns the SELECT of a view, whose rows the host itself has; `None` for other tables.
    fn body(&self) -> Option<String> {
        None
    }
    /// Calls `sink` with each row until it breaks.
    fn scan(&self, engine: &Engine, query: &Query<'_>, sink: Sink<'_>);
    /// Keeps the rows of one point in time, with these columns; `None`: they can be read only once.
    fn keep<'e>(&'e self, _: &'e Engine, _: Columns) -> Option<Box<dyn Kept + 'e>> {
        None
    }
    /// Returns the table as one of what threads are doing, whose rows can be consistent with those of other
    /// such tables.
    fn present(&self) -> Option<&dyn PresentRows> {
        None
    }
    /// Returns the table as a stream, whose rows are what has ended since they were last read.
    fn stream(&self) -> Option<&dyn Stream> {
        None
    }
    /// Updates the one row that equals `row` (all columns, as read). Returns whether it changed.
    fn update(&self, _: &Engine, _row: &[Value], _set: &[(usize, Value)]) -> Result<bool, TableError> {
        Err(TableError::Denied("UPDATE"))
    }
    /// Inserts a row, with one value per column.
    fn insert(&self, _: &Engine, _row: &[Value]) -> Result<(), TableError> {
        Err(TableError::Denied("INSERT"))
    }
    /// Deletes the one row that equals `row`. Returns whether there was one.
    fn delete(&self, _: &Engine, _row: &[Value]) -> Result<bool, TableError> {
        Err(TableError::Denied("DELETE"))
    }
    /// Resets the table as documented for TRUNCATE.
    fn truncate(&self, _: &Engine) -> Result<(), TableError> {
        Err(TableError::WrongUsage)
    }
}
