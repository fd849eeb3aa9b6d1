//! Conditions as hints: which rows can be left out before their columns are read.
//!
//! Only what is certain counts. The host compares text by its own collation, where letter case, accents and
//! trailing spaces may not matter, and converts between types. What this file cannot judge stays in.

use std::cmp::Ordering;

use crate::table::{Condition, Operator, Value};

impl Condition {
    /// Returns whether a row whose column holds `value` certainly fails this condition.
    pub(crate) fn excludes(&self, value: &Value) -> bool {
        match self.operator {
            Operator::IsNull => *value != Value::Null,
            Operator::IsNotNull => *value == Value::Null,
            Operator::Like => *value == Value::Null,
            // A comparison with NULL is neither true nor false, so it excludes the row.
            _ if *value == Value::Null => true,
            Operator::Equal => differ(value, &self.value),
            Operator::NotEqual => number_order(value, &self.value) == Some(Ordering::Equal),
            Operator::Less => {
                matches!(number_order(value, &self.value), Some(Ordering::Equal | Ordering::Greater))
            }
            Operator::LessOrEqual => number_order(value, &self.value) == Some(Ordering::Greater),
            Operator::Greater => {
                matches!(number_order(value, &self.value), Some(Ordering::Equal | Ordering::Less))
            }
            Operator::GreaterOrEqual => number_order(value, &self.value) == Some(Ordering::Less),
        }
    }
}

/// Returns whether two values are unequal under every collation.
fn differ(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Text(left), Value::Text(right)) => {
            left.is_ascii() && right.is_ascii() && !trimmed(left).eq_ignore_ascii_case(trimmed(right))
        }
        _ => number_order(left, right).is_some_and(Ordering::is_ne),
    }
}

/// Returns a text without trailing spaces, which padded comparison ignores.
fn trimmed(text: &str) -> &str {
    text.trim_end_matches(' ')
}

/// Returns the order of two integers; `None` if either is something else.
fn number_order(left: &Value, right: &Value) -> Option<Ordering> {
    Some(integer(left)?.cmp(&integer(right)?))
}

/// Returns an integer, wide enough for both signs; `None` if the value is something else.
pub(crate) fn integer(value: &Value) -> Option<i128> {
    match value {
        Value::Unsigned(figure) => Some(i128::from(*figure)),
        Value::Signed(figure) => Some(i128::from(*figure)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn excludes(operator: Operator, wanted: Value<'static>, held: Value<'_>) -> bool {
        Condition { column: 0, operator, value: wanted }.excludes(&held)
    }

    fn text(text: &str) -> Value<'static> {
        Value::Text(text.to_owned().into())
    }

    #[test]
    fn text_is_excluded_only_when_no_collation_can_call_it_equal() {
        assert!(excludes(Operator::Equal, text("idle"), text("transaction")));
        assert!(!excludes(Operator::Equal, text("IDLE "), text("idle")));
        assert!(!excludes(Operator::Equal, text("ídle"), text("idle")));
        assert!(
            !excludes(Operator::Equal, Value::Unsigned(1), text("YES")),
            "enums compare with numbers too"
        );
        assert!(!excludes(Operator::Less, text("a"), text("b")), "the order of text is the collation's");
    }

    #[test]
    fn numbers_are_judged_by_every_operator() {
        let five = || Value::Unsigned(5);
        let judged =
            |operator| [4, 5, 6].map(|held| excludes(operator, Value::Signed(5), Value::Unsigned(held)));
        assert_eq!(judged(Operator::Equal), [true, false, true]);
        assert_eq!(judged(Operator::NotEqual), [false, true, false]);
        assert_eq!(judged(Operator::Less), [false, true, true]);
        assert_eq!(judged(Operator::LessOrEqual), [false, false, true]);
        assert_eq!(judged(Operator::Greater), [true, true, false]);
        assert_eq!(judged(Operator::GreaterOrEqual), [true, false, false]);
        assert!(!excludes(Operator::Equal, text("5"), five()), "the host converts text");
        assert!(excludes(Operator::Equal, Value::Signed(-1), Value::Unsigned(u64::MAX)));
    }

    #[test]
    fn null_satisfies_only_is_null() {
        assert!(excludes(Operator::Equal, Value::Unsigned(5), Value::Null));
        assert!(excludes(Operator::NotEqual, Value::Unsigned(5), Value::Null));
        assert!(excludes(Operator::Like, text("%"), Value::Null));
        assert!(excludes(Operator::IsNotNull, Value::Null, Value::Null));
        assert!(!excludes(Operator::IsNull, Value::Null, Value::Null));
        assert!(excludes(Operator::IsNull, Value::Null, Value::Unsigned(5)));
    }
}
