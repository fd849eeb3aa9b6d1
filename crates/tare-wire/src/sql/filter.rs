//! WHERE conditions over a row, with three-valued logic.

use std::borrow::Cow;
use std::cmp::Ordering;

use tare_tables::{Column, Condition, Operator, RowValues, SqlType, Value};

use crate::text::calendar;
use crate::text::collation::{ColumnCollation, Pattern};

/// A condition.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RowFilter {
    /// True if all parts are true.
    All(Vec<RowFilter>),
    /// True if any part is true.
    Any(Vec<RowFilter>),
    /// The negation of a condition.
    Not(Box<RowFilter>),
    /// `left operator right`
    Compare { left: Term, operator: ComparisonOperator, right: Term, collation: ColumnCollation },
    /// `column IN (…)`
    In { column: usize, list: Vec<Term>, collation: ColumnCollation },
    /// `term LIKE pattern`
    Like { term: Term, pattern: Box<Pattern>, collation: ColumnCollation },
    /// `term IS NULL`
    IsNull(Term),
    /// A bare term; true if it is not zero.
    Holds(Term),
}

impl RowFilter {
    /// Calls `see` with each column that the condition reads.
    pub(crate) fn columns(&self, see: &mut dyn FnMut(usize)) {
        let mut term = |term: &Term| {
            if let Term::Column(column) = term {
                see(*column);
            }
        };
        match self {
            RowFilter::Compare { left, right, .. } => [left, right].into_iter().for_each(term),
            RowFilter::In { column, .. } => see(*column),
            RowFilter::Like { term: of, .. } | RowFilter::IsNull(of) | RowFilter::Holds(of) => term(of),
            RowFilter::All(of) | RowFilter::Any(of) => of.iter().for_each(|of| of.columns(see)),
            RowFilter::Not(of) => of.columns(see),
        }
    }
}

/// A side of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Term {
    /// A column, by position.
    Column(usize),
    /// A literal.
    Constant(Constant),
    /// A literal compared with a time column, in microseconds since the epoch.
    Moment(u64),
}

/// A literal.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Constant {
    Null,
    Integer(i128),
    Double(f64),
    Text(Vec<u8>),
}

impl Constant {
    /// Returns the literal as text, for the name of a result column.
    pub(crate) fn shown(&self) -> String {
        match self {
            Constant::Null => "NULL".into(),
            Constant::Integer(number) => number.to_string(),
            Constant::Double(number) => number.to_string(),
            Constant::Text(text) => String::from_utf8_lossy(text).into_owned(),
        }
    }
}

/// The operator of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ComparisonOperator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    NullSafeEqual,
}

impl ComparisonOperator {
    fn accepts(self, order: Ordering) -> bool {
        match self {
            ComparisonOperator::Equal | ComparisonOperator::NullSafeEqual => order.is_eq(),
            ComparisonOperator::NotEqual => order.is_ne(),
            ComparisonOperator::Less => order.is_lt(),
            ComparisonOperator::LessOrEqual => order.is_le(),
            ComparisonOperator::Greater => order.is_gt(),
            ComparisonOperator::GreaterOrEqual => order.is_ge(),
        }
    }

    /// Returns the operator for exchanged sides.
    fn mirrored(self) -> Self {
        match self {
            ComparisonOperator::Less => ComparisonOperator::Greater,
            ComparisonOperator::LessOrEqual => ComparisonOperator::GreaterOrEqual,
            ComparisonOperator::Greater => ComparisonOperator::Less,
            ComparisonOperator::GreaterOrEqual => ComparisonOperator::LessOrEqual,
            same => same,
        }
    }

    fn operator(self) -> Operator {
        match self {
            ComparisonOperator::Equal | ComparisonOperator::NullSafeEqual => Operator::Equal,
            ComparisonOperator::NotEqual => Operator::NotEqual,
            ComparisonOperator::Less => Operator::Less,
            ComparisonOperator::LessOrEqual => Operator::LessOrEqual,
            ComparisonOperator::Greater => Operator::Greater,
            ComparisonOperator::GreaterOrEqual => Operator::GreaterOrEqual,
        }
    }
}

impl RowFilter {
    /// The condition that every row satisfies.
    pub(crate) const TRUE: RowFilter = RowFilter::All(Vec::new());

    /// Evaluates the condition; `None` is SQL's "unknown".
    pub(crate) fn test(&self, row: &dyn RowValues, columns: &[Column]) -> Option<bool> {
        match self {
            RowFilter::All(parts) => combine(parts, row, columns, false),
            RowFilter::Any(parts) => combine(parts, row, columns, true),
            RowFilter::Not(part) => part.test(row, columns).map(|truth| !truth),
            RowFilter::Compare {
                left: Term::Column(column), operator, right: Term::Moment(moment), ..
            } => match row.value(*column) {
                Value::Timestamp(at) => {
                    Some(operator.accepts(shown(at, columns[*column].sql_type).0.cmp(moment)))
                }
                _ => None,
            },
            RowFilter::Compare { left, operator, right, collation } => {
                let (left, right) = (left.read(row, columns), right.read(row, columns));
                let both_null = left == Datum::Null && right == Datum::Null;
                match compare(&left, &right, *collation) {
                    None if *operator == ComparisonOperator::NullSafeEqual => Some(both_null),
                    order => order.map(|order| operator.accepts(order)),
                }
            }
            RowFilter::In { column, list, collation } => {
                let (value, sql_type) = (row.value(*column), columns[*column].sql_type);
                let mut found = Some(false);
                for member in list {
                    if let (Value::Text(text), Term::Constant(Constant::Text(member))) = (&value, member)
                        && collation.tells_apart_at_once(text.as_bytes(), member)
                    {
                        continue;
                    }
                    let value = Datum::of(value.borrowed(), sql_type);
                    match compare(&value, &member.read(row, columns), *collation) {
                        Some(Ordering::Equal) => return Some(true),
                        Some(_) => {}
                        None => found = None,
                    }
                }
                found
            }
            RowFilter::Like { term, pattern, collation } => match term.read(row, columns) {
                Datum::Null => None,
                datum => Some(collation.like(&datum.text(), pattern)),
            },
            RowFilter::IsNull(term) => Some(term.read(row, columns) == Datum::Null),
            RowFilter::Holds(term) => match term.read(row, columns) {
                Datum::Null => None,
                datum => Some(datum.number() != 0.0),
            },
        }
    }

    /// Returns whether a row satisfies the condition.
    pub(crate) fn accepts(&self, row: &dyn RowValues, columns: &[Column]) -> bool {
        self.test(row, columns) == Some(true)
    }

    /// Returns whether a value satisfies a condition that reads one column only.
    #[inline]
    pub(crate) fn accepts_value(&self, value: &Value<'_>, columns: &[Column]) -> bool {
        match (self, value) {
            // This fast path runs for thousands of digests in a row.
            (
                RowFilter::Compare {
                    left: Term::Column(column), operator, right: Term::Moment(moment), ..
                },
                Value::Timestamp(at),
            ) => operator.accepts(shown(*at, columns[*column].sql_type).0.cmp(moment)),
            _ => self.accepts(&Only(value), columns),
        }
    }

    /// Returns whether no row can satisfy the condition because a part without columns is not true, as in
    /// `WHERE 1=0`.
    pub(crate) fn is_never(&self) -> bool {
        self.conjuncts().into_iter().any(|part| match part {
            RowFilter::Compare { left: Term::Constant(_), right: Term::Constant(_), .. } => {
                !part.accepts(&[], &[])
            }
            RowFilter::Holds(Term::Constant(_)) => !part.accepts(&[], &[]),
            _ => false,
        })
    }

    /// Returns the parts of a conjunction, including nested ones. The parser bounds the nesting.
    pub(crate) fn conjuncts(&self) -> Vec<&RowFilter> {
        match self {
            RowFilter::All(parts) => parts.iter().flat_map(RowFilter::conjuncts).collect(),
            other => vec![other],
        }
    }

    /// Returns the conditions that a table may use to skip rows.
    pub(crate) fn hints(&self, columns: &[Column]) -> Vec<Condition> {
        self.conjuncts().into_iter().filter_map(|part| hint(part, columns)).collect()
    }

    /// Returns the column that this compares with a literal for equality, or with NULL by IS NULL.
    pub(crate) fn pinned(&self) -> Option<usize> {
        match self {
            RowFilter::IsNull(Term::Column(column)) => Some(*column),
            RowFilter::Compare {
                left,
                operator: ComparisonOperator::Equal | ComparisonOperator::NullSafeEqual,
                right,
                ..
            } => match (left, right) {
                (Term::Column(_), Term::Column(_)) => None,
                (Term::Column(column), _) | (_, Term::Column(column)) => Some(*column),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns the condition with equality of texts made byte-wise, to find a row that was read before.
    pub(crate) fn exact(self) -> Self {
        match self {
            RowFilter::All(parts) => RowFilter::All(parts.into_iter().map(RowFilter::exact).collect()),
            RowFilter::Compare { left, operator: operator @ ComparisonOperator::Equal, right, .. } => {
                RowFilter::Compare { left, operator, right, collation: ColumnCollation::Binary }
            }
            other => other,
        }
    }
}

/// A row of which only one column is read.
struct Only<'v>(&'v Value<'v>);

impl RowValues for Only<'_> {
    fn value(&self, _: usize) -> Value<'_> {
        self.0.borrowed()
    }
}

/// Evaluates parts until one decides: false for AND, true for OR.
fn combine(parts: &[RowFilter], row: &dyn RowValues, columns: &[Column], decisive: bool) -> Option<bool> {
    let mut all = Some(!decisive);
    for part in parts {
        match part.test(row, columns) {
            Some(truth) if truth == decisive => return Some(decisive),
            Some(_) => {}
            None => all = None,
        }
    }
    all
}

fn hint(filter: &RowFilter, columns: &[Column]) -> Option<Condition> {
    let condition = |column, operator, value| Some(Condition { column, operator, value });
    match filter {
        RowFilter::IsNull(Term::Column(column)) => condition(*column, Operator::IsNull, Value::Null),
        RowFilter::Not(_) => condition(filter.nullness(false)?, Operator::IsNotNull, Value::Null),
        // NULL <=> NULL is true; no other comparison with NULL is.
        RowFilter::Compare { operator: ComparisonOperator::NullSafeEqual, .. } => None,
        RowFilter::Compare {
            left: Term::Column(column), operator, right: Term::Constant(constant), ..
        } => condition(*column, operator.operator(), hint_value(constant, &columns[*column])?),
        RowFilter::Compare {
            left: Term::Constant(constant), operator, right: Term::Column(column), ..
        } => condition(*column, operator.mirrored().operator(), hint_value(constant, &columns[*column])?),
        _ => None,
    }
}

/// Converts a literal into a value of the column's own type; `None` if it needs another conversion.
fn hint_value(constant: &Constant, column: &Column) -> Option<Value<'static>> {
    match (constant, column.sql_type) {
        (
            Constant::Integer(number),
            SqlType::BigInt | SqlType::BigIntUnsigned | SqlType::Int | SqlType::IntUnsigned,
        ) => u64::try_from(*number)
            .map(Value::Unsigned)
            .or_else(|_| i64::try_from(*number).map(Value::Signed))
            .ok(),
        (
            Constant::Text(text),
            SqlType::Char(_) | SqlType::VarChar(_) | SqlType::LongText | SqlType::Enum(_) | SqlType::Set(_),
        ) => Some(Value::Text(Cow::Owned(String::from_utf8(text.clone()).ok()?))),
        _ => None,
    }
}

/// A value during a comparison.
#[derive(Clone, Debug, PartialEq)]
enum Datum<'r> {
    Null,
    Integer(i128),
    Double(f64),
    Text(Cow<'r, [u8]>),
    /// The text of an enum member and its number.
    Member(Cow<'r, str>, usize),
    /// Microseconds since the epoch, and the number of decimals.
    Time(u64, u8),
}

impl Term {
    fn read<'r>(&'r self, row: &'r dyn RowValues, columns: &[Column]) -> Datum<'r> {
        match self {
            Term::Constant(Constant::Null) => Datum::Null,
            Term::Constant(Constant::Integer(number)) => Datum::Integer(*number),
            Term::Constant(Constant::Double(number)) => Datum::Double(*number),
            Term::Constant(Constant::Text(text)) => Datum::Text(Cow::Borrowed(text)),
            Term::Moment(microseconds) => Datum::Time(*microseconds, 6),
            Term::Column(column) => Datum::of(row.value(*column), columns[*column].sql_type),
        }
    }
}

impl<'r> Datum<'r> {
    fn of(value: Value<'r>, sql_type: SqlType) -> Self {
        match value {
            Value::Null => Datum::Null,
            Value::Unsigned(number) => Datum::Integer(i128::from(number)),
            Value::Signed(number) => Datum::Integer(i128::from(number)),
            Value::Double(number) => Datum::Double(rounded(number, sql_type)),
            Value::Text(text) => match sql_type {
                SqlType::Enum(members) => {
                    let number = members.iter().position(|member| *member == text).map_or(0, |at| at + 1);
                    Datum::Member(text, number)
                }
                _ => Datum::Text(match text {
                    Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
                    Cow::Owned(text) => Cow::Owned(text.into_bytes()),
                }),
            },
            Value::Bytes(bytes) => Datum::Text(bytes),
            Value::Timestamp(microseconds) => {
                let (microseconds, decimals) = shown(microseconds, sql_type);
                Datum::Time(microseconds, decimals)
            }
        }
    }

    fn text(&self) -> Cow<'_, [u8]> {
        match self {
            Datum::Null => Cow::Borrowed(b""),
            Datum::Integer(number) => Cow::Owned(number.to_string().into_bytes()),
            Datum::Double(number) => Cow::Owned(number.to_string().into_bytes()),
            Datum::Text(text) => Cow::Borrowed(text),
            Datum::Member(text, _) => Cow::Borrowed(text.as_bytes()),
            Datum::Time(microseconds, decimals) => {
                Cow::Owned(calendar::text(*microseconds, *decimals).into_bytes())
            }
        }
    }

    fn number(&self) -> f64 {
        match self {
            Datum::Null => 0.0,
            Datum::Integer(number) => *number as f64,
            Datum::Double(number) => *number,
            Datum::Text(text) => leading_number(text),
            Datum::Member(_, number) => *number as f64,
            // A time becomes a number as in MySQL: 20260102030405.
            Datum::Time(..) => {
                let is_kept = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
                let digits: Vec<u8> = self.text().iter().copied().filter(is_kept).collect();
                leading_number(&digits)
            }
        }
    }
}

/// Returns a time as the client sees it, and its number of decimals.
fn shown(microseconds: u64, sql_type: SqlType) -> (u64, u8) {
    match sql_type {
        SqlType::TimestampMicros => (microseconds, 6),
        _ => (microseconds - microseconds % 1_000_000, 0),
    }
}

/// Rounds a double to what the client sees, so that a value it sends back is found again.
fn rounded(number: f64, sql_type: SqlType) -> f64 {
    match sql_type {
        SqlType::DoubleUnsigned(_, decimals) => {
            format!("{number:.*}", usize::from(decimals)).parse().unwrap_or(number)
        }
        _ => number,
    }
}

/// Returns the number that a text begins with, else 0.
fn leading_number(text: &[u8]) -> f64 {
    let text = text.trim_ascii_start();
    let part = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+' | b'-');
    let end = text.iter().take(64).position(|byte| !part(byte)).unwrap_or(text.len().min(64));
    let number = |end: usize| std::str::from_utf8(&text[..end]).ok()?.parse().ok();
    (1..=end).rev().find_map(number).unwrap_or(0.0)
}

/// Compares two values; returns `None` if either is NULL.
fn compare(left: &Datum<'_>, right: &Datum<'_>, collation: ColumnCollation) -> Option<Ordering> {
    match (left, right) {
        (Datum::Null, _) | (_, Datum::Null) => None,
        (Datum::Integer(left), Datum::Integer(right)) => Some(left.cmp(right)),
        (Datum::Time(left, _), Datum::Time(right, _)) => Some(left.cmp(right)),
        (Datum::Time(time, decimals), Datum::Text(text)) => Some(compare_time(*time, *decimals, text)),
        (Datum::Text(text), Datum::Time(time, decimals)) => {
            Some(compare_time(*time, *decimals, text).reverse())
        }
        (Datum::Text(_) | Datum::Member(..), Datum::Text(_) | Datum::Member(..)) => {
            Some(collation.compare(&left.text(), &right.text()))
        }
        _ => left.number().partial_cmp(&right.number()),
    }
}

fn compare_time(microseconds: u64, decimals: u8, text: &[u8]) -> Ordering {
    match calendar::parse(text) {
        Some(other) => microseconds.cmp(&other),
        None => calendar::text(microseconds, decimals).as_bytes().cmp(text),
    }
}

/// Orders two values of one column with NULL first, for ORDER BY, MIN and MAX.
pub(crate) fn order(
    left: &Value<'_>,
    right: &Value<'_>,
    sql_type: SqlType,
    collation: ColumnCollation,
) -> Ordering {
    let (left, right) = (Datum::of(left.borrowed(), sql_type), Datum::of(right.borrowed(), sql_type));
    match (&left, &right) {
        (Datum::Null, Datum::Null) => Ordering::Equal,
        (Datum::Null, _) => Ordering::Less,
        (_, Datum::Null) => Ordering::Greater,
        (Datum::Member(_, left), Datum::Member(_, right)) => left.cmp(right),
        _ => compare(&left, &right, collation).unwrap_or(Ordering::Equal),
    }
}
