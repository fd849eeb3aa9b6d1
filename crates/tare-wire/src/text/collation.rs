//! Text comparison exactly as the host does it.
//!
//! FEDERATED relies on the endpoint here: the host does not check the rows of a key lookup again. A row too
//! many is a wrong row in a join, and a row too few is missing.

use std::cmp::Ordering;

use tare_tables::{Column, SqlType};

use super::general_ci::weight;

/// The comparison rules of a text column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColumnCollation {
    /// `utf8mb3_general_ci`, which ignores case, accents and trailing blanks.
    GeneralCi,
    /// `utf8mb3_bin`, which ignores trailing blanks only.
    Bin,
    /// Byte-wise comparison.
    Binary,
}

impl ColumnCollation {
    /// Returns the collation that the built-in declares for a column: `utf8mb3_bin` for `char`, the type of
    /// users and hosts, and for the tables of connection attributes.
    pub(crate) fn of(table: &str, column: &Column) -> Self {
        let attributes = table.starts_with("session_") && table.ends_with("connect_attrs");
        match column.sql_type {
            SqlType::LongBlob => ColumnCollation::Binary,
            SqlType::Char(_) if column.name != "LAST_SEEN_TRANSACTION" => ColumnCollation::Bin,
            SqlType::VarChar(_) if attributes || (table, column.name) == ("host_cache", "HOST") => {
                ColumnCollation::Bin
            }
            _ => ColumnCollation::GeneralCi,
        }
    }

    /// Returns whether the first characters already show that two texts differ, in a few instructions.
    /// `false` leaves that open.
    #[inline]
    pub(crate) fn tells_apart_at_once(self, left: &[u8], right: &[u8]) -> bool {
        let (Some(left), Some(right)) = (left.first(), right.first()) else { return false };
        (left | right).is_ascii() && !left.eq_ignore_ascii_case(right)
    }

    /// Compares two texts. The shorter one counts as padded with blanks, except under `Binary`.
    pub(crate) fn compare(self, left: &[u8], right: &[u8]) -> Ordering {
        if self == ColumnCollation::Binary {
            return left.cmp(right);
        }
        let (Ok(left_text), Ok(right_text)) = (std::str::from_utf8(left), std::str::from_utf8(right)) else {
            return left.cmp(right);
        };
        if left_text == right_text {
            return Ordering::Equal;
        }
        let mut left = self.weights(left_text);
        let mut right = self.weights(right_text);
        let blank = u16::from(b' ');
        loop {
            let (left, right) = match (left.next(), right.next()) {
                (None, None) => return Ordering::Equal,
                (left, right) => (left.unwrap_or(blank), right.unwrap_or(blank)),
            };
            if left != right {
                return left.cmp(&right);
            }
        }
    }

    /// Returns the weights of a text's characters. A character that utf8mb3 lacks is sent as four `?` and
    /// weighs like them.
    fn weights(self, text: &str) -> impl Iterator<Item = u16> {
        let as_sent = |char| std::iter::repeat_n(char, if char > '\u{ffff}' { 4 } else { 1 });
        text.chars().flat_map(as_sent).map(move |char| self.weight(char))
    }

    fn weight(self, char: char) -> u16 {
        match self {
            ColumnCollation::GeneralCi => weight(char),
            ColumnCollation::Bin | ColumnCollation::Binary => {
                u16::try_from(u32::from(char)).unwrap_or(u16::from(b'?'))
            }
        }
    }

    /// Returns whether a text is LIKE a pattern. Backtracks only to the last `%`, so its time is bounded by
    /// the product of the lengths.
    pub(crate) fn like(self, text: &[u8], pattern: &Pattern) -> bool {
        let text: Vec<char> = String::from_utf8_lossy(text).chars().collect();
        let pattern = &pattern.pieces[..];
        let (mut at, mut next) = (0, 0);
        let mut retry: Option<(usize, usize)> = None;
        while at < text.len() {
            match pattern.get(next) {
                Some(PatternPiece::Any) => {
                    retry = Some((at, next + 1));
                    next += 1;
                }
                Some(piece) if piece.is(text[at], self) => {
                    at += 1;
                    next += 1;
                }
                _ => {
                    let Some((start, after)) = retry else { return false };
                    retry = Some((start + 1, after));
                    (at, next) = (start + 1, after);
                }
            }
        }
        pattern[next..].iter().all(|piece| *piece == PatternPiece::Any)
    }
}

/// The parsed right side of LIKE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    text: Vec<u8>,
    pieces: Vec<PatternPiece>,
}

impl Pattern {
    /// The longest pattern of LIKE that is accepted, in bytes.
    pub(crate) const MAX: usize = 1024;

    pub(crate) fn new(text: &[u8], escape: char) -> Self {
        let mut pieces = Vec::with_capacity(text.len());
        let pattern = String::from_utf8_lossy(text);
        let mut chars = pattern.chars();
        while let Some(char) = chars.next() {
            pieces.push(match char {
                char if char == escape => PatternPiece::Char(chars.next().unwrap_or(char)),
                '%' => PatternPiece::Any,
                '_' => PatternPiece::One,
                char => PatternPiece::Char(char),
            });
        }
        Pattern { text: text.to_vec(), pieces }
    }

    /// Returns the pattern as it was written.
    pub(crate) fn text(&self) -> &[u8] {
        &self.text
    }
}

/// A part of a LIKE pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PatternPiece {
    Any,
    One,
    Char(char),
}

impl PatternPiece {
    fn is(self, char: char, collation: ColumnCollation) -> bool {
        match self {
            PatternPiece::Char(wanted) => collation.weight(wanted) == collation.weight(char),
            PatternPiece::One => true,
            PatternPiece::Any => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(collation: ColumnCollation, left: &str, right: &str) -> Ordering {
        let order = collation.compare(left.as_bytes(), right.as_bytes());
        assert_eq!(collation.compare(right.as_bytes(), left.as_bytes()), order.reverse());
        order
    }

    #[test]
    fn general_ci_ignores_case_accents_and_trailing_blanks() {
        for (left, right) in
            [("wait/Io", "WAIT/iO  "), ("Hélène", "HELENE"), ("straße", "STRASE"), ("", "  ")]
        {
            assert_eq!(order(ColumnCollation::GeneralCi, left, right), Ordering::Equal, "{left} {right}");
        }
        assert_eq!(order(ColumnCollation::GeneralCi, "a_b", "ab"), Ordering::Greater);
        assert_eq!(order(ColumnCollation::GeneralCi, " a", "a"), Ordering::Less);
    }

    #[test]
    fn bounds_of_a_prefix_enclose_what_begins_with_it() {
        let low = format!("wait{}", "\0".repeat(124));
        let high = format!("wait{}   ", "\u{ffff}".repeat(41));
        for collation in [ColumnCollation::GeneralCi, ColumnCollation::Bin] {
            for inside in ["wait", "wait/io/file", "wait\u{fffd}"] {
                assert_eq!(order(collation, inside, &low), Ordering::Greater, "{inside}");
                assert_eq!(order(collation, inside, &high), Ordering::Less, "{inside}");
            }
            assert_eq!(order(collation, "wais", &low), Ordering::Less);
            assert_eq!(order(collation, "waj", &high), Ordering::Greater);
        }
    }

    #[test]
    fn bin_tells_case_apart_and_bytes_everything() {
        assert_eq!(order(ColumnCollation::Bin, "Bob", "bob"), Ordering::Less);
        assert_eq!(order(ColumnCollation::Bin, "bob ", "bob"), Ordering::Equal);
        assert_eq!(order(ColumnCollation::Binary, "bob ", "bob"), Ordering::Greater);
    }

    #[test]
    fn like_knows_its_wildcards() {
        let like = |text: &str, pattern: &str| {
            ColumnCollation::GeneralCi.like(text.as_bytes(), &Pattern::new(pattern.as_bytes(), '\\'))
        };
        for (text, pattern) in [
            ("wait/io/file/sql/FRM", "WAIT/%/frm"),
            ("abc", "a_c"),
            ("abc", "%%c%"),
            ("", "%"),
            ("100%", "100\\%"),
            ("aaab", "%a%ab"),
            ("é", "_"),
        ] {
            assert!(like(text, pattern), "{text} like {pattern}");
        }
        for (text, pattern) in [("abc", "ab"), ("abc", "a_"), ("100x", "100\\%"), ("", "_"), ("abc ", "abc")]
        {
            assert!(!like(text, pattern), "{text} not like {pattern}");
        }
    }
}
