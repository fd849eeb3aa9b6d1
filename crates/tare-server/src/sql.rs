//! Quoting for SQL: literals, identifiers and patterns. Names come from servers' tables and from people, and
//! may contain anything.
//!
//! Everything is quoted for sessions without `NO_BACKSLASH_ESCAPES`.

/// Quotes a text as a literal.
#[must_use]
pub fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

/// Quotes texts as literals for the parentheses of IN.
#[must_use]
pub fn literals<T: AsRef<str>>(texts: &[T]) -> String {
    texts.iter().map(|text| literal(text.as_ref())).collect::<Vec<_>>().join(", ")
}

/// Quotes the name of a schema, table, column or account's variable.
#[must_use]
pub fn identifier(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// Returns whether a name matches a pattern of LIKE, but without `_`, which is common in names, and
/// case-sensitively.
#[must_use]
pub fn is_like(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('%');
    let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_those_of_sql() {
        for (pattern, name, expected) in [
            ("wait/synch/%", "wait/synch/mutex/sql/a", true),
            ("%mutex%a", "wait/synch/mutex/sql/a", true),
            ("%mutex%b", "wait/synch/mutex/sql/a", false),
            ("transaction", "transaction", true),
            ("transaction", "transactions", false),
            ("%", "x", true),
            ("a%a", "a", false),
        ] {
            assert_eq!(is_like(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn texts_and_names_are_quoted() {
        assert_eq!(literal(r"stage/a 'b' \c"), r"'stage/a ''b'' \\c'");
        assert_eq!(literals(&["a", "b'"]), "'a', 'b'''");
        assert_eq!(identifier("a`b"), "`a``b`");
    }
}
