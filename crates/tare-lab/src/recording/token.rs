//! SQL as far as one must read it to tell words from what stands in quotes and comments.

/// A piece of a statement. Comments and white space are none; what stands in an executable comment (`/*! … */`) is read like the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token<'t> {
    /// A keyword, a plain name, a number, a variable: `select`, `shop.orders`, `12`, `@@global.sort_buffer_size`.
    Word(&'t str),
    /// Something in quotes of any kind.
    Quoted,
    /// `?`
    Placeholder,
    /// `;`
    End,
    /// An operator, a bracket, a comma.
    Other(u8),
}

impl Token<'_> {
    /// Whether it is this word, in whatever case.
    pub fn is(self, word: &str) -> bool {
        matches!(self, Token::Word(it) if it.eq_ignore_ascii_case(word))
    }
}

/// The tokens of a text.
pub fn tokens(text: &str) -> impl Iterator<Item = Token<'_>> {
    tokens_and_ends(text).map(|(token, _)| token)
}

/// The statements of a text, in which `;` stands between them. What is empty or a comment is none.
pub fn statements(text: &str) -> Vec<&str> {
    let mut statements = vec![];
    let (mut from, mut empty) = (0, true);
    for (token, end) in tokens_and_ends(text).chain([(Token::End, text.len() + 1)]) {
        if token != Token::End {
            empty = false;
            continue;
        }
        if !empty {
            statements.push(text[from..end - 1].trim());
        }
        (from, empty) = (end, true);
    }
    statements
}

/// The tokens of a text, and where each of them ends.
fn tokens_and_ends(text: &str) -> impl Iterator<Item = (Token<'_>, usize)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let rest = text.get(at..)?;
            let bytes = rest.as_bytes();
            let first = *bytes.first()?;
            let (length, token) = match first {
                b'\'' | b'"' | b'`' => (quoted(bytes), Some(Token::Quoted)),
                b'#' => (to_the_end_of_line(bytes), None),
                b'-' if bytes.starts_with(b"--") && bytes.get(2).is_none_or(|b| b.is_ascii_whitespace()) => {
                    (to_the_end_of_line(bytes), None)
                }
                b'/' if bytes.starts_with(b"/*") => (comment(rest), None),
                b'*' if bytes.starts_with(b"*/") => (2, None),
                b'?' => (1, Some(Token::Placeholder)),
                b';' => (1, Some(Token::End)),
                _ if is_of_word(first) => {
                    let length = bytes.iter().take_while(|b| is_of_word(**b)).count();
                    (length, Some(Token::Word(&rest[..length])))
                }
                _ => (1, (!first.is_ascii_whitespace()).then_some(Token::Other(first))),
            };
            at += length;
            if let Some(token) = token {
                return Some((token, at));
            }
        }
    })
}

/// The schema that a statement `USE` switches to.
pub fn used_schema(text: &str) -> Option<String> {
    let text = text.trim().trim_end_matches(';').trim_end();
    let (verb, name) = text.split_once(|c: char| c.is_ascii_whitespace() || c == '`')?;
    let name = name.trim().trim_matches('`').replace("``", "`");
    (verb.eq_ignore_ascii_case("use") && !name.is_empty()).then_some(name)
}

/// Bytes beyond ASCII are all a word's, so that one never ends within a character.
fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_$@.".contains(&byte) || !byte.is_ascii()
}

/// The length of something in quotes; a quote within is doubled, or has a backslash before it.
fn quoted(bytes: &[u8]) -> usize {
    let quote = bytes[0];
    let mut at = 1;
    while let Some(&byte) = bytes.get(at) {
        at += match byte {
            b'\\' if quote != b'`' => 2,
            _ if byte == quote && bytes.get(at + 1) == Some(&quote) => 2,
            _ if byte == quote => return at + 1,
            _ => 1,
        };
    }
    bytes.len()
}

fn to_the_end_of_line(bytes: &[u8]) -> usize {
    bytes.iter().position(|b| *b == b'\n').map_or(bytes.len(), |end| end + 1)
}

/// The length of a comment, or of what opens one whose text is executed: `/*!50100 `, `/*M!100100 `.
fn comment(text: &str) -> usize {
    match text.strip_prefix("/*!").or_else(|| text.strip_prefix("/*M!")) {
        Some(executed) => text.len() - executed.trim_start_matches(|c: char| c.is_ascii_digit()).len(),
        None => text[2..].find("*/").map_or(text.len(), |end| end + 4),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<&str> {
        tokens(text).filter_map(|t| if let Token::Word(word) = t { Some(word) } else { None }).collect()
    }

    #[test]
    fn what_stands_in_quotes_and_comments_is_no_word() {
        let text = "select 'it''s; \\' drop', `dr``op`, \"x\" /* drop */ from t -- drop\nwhere a=1 # drop";
        assert_eq!(words(text), ["select", "from", "t", "where", "a", "1"]);
        assert_eq!(words("/*!40000 DROP */ /*M!100100 TABLE */ t"), ["DROP", "TABLE", "t"]);
        assert_eq!(words("a--1"), ["a", "1"], "a minus twice is no comment");
        assert_eq!(words("größe + 1"), ["größe", "1"]);
    }

    #[test]
    fn placeholders_and_ends_are_told() {
        let of = |text| tokens(text).filter(|t| matches!(t, Token::Placeholder | Token::End)).count();
        assert_eq!((of("select ? ; select '?;'"), of("select 'open ?;"), of("/* ? ; */")), (2, 0, 0));
    }

    #[test]
    fn statements_are_told_from_what_only_looks_like_an_end() {
        let names = "UPDATE t SET a = 'NO' WHERE name = 'one binlog; the next'";
        assert_eq!(statements(&format!("{names};\n DO 1 ;; -- ;\n /* ; */")), [names, "DO 1"]);
        assert_eq!(statements("USE `a;b`; SELECT \"c;d\" -- ;"), ["USE `a;b`", "SELECT \"c;d\" -- ;"]);
        assert_eq!(statements(" ; -- nothing"), [""; 0]);
    }

    #[test]
    fn a_schema_is_named_with_quotes_or_without() {
        let of = |text| used_schema(text).unwrap_or_default();
        assert_eq!(
            (of("use shop;"), of("USE `a b`"), of("use`x``y`")),
            ("shop".into(), "a b".into(), "x`y".into())
        );
        assert_eq!(
            (used_schema("used shop"), used_schema("use"), used_schema("select 1")),
            (None, None, None)
        );
    }

    #[test]
    fn anything_is_read_to_its_end() {
        let pieces = ["'", "\\", "/*", "*/", "/*!", "--", "é", "`", ";", " ", "?", "\n", "x", "\""];
        let mut random = fastrand::Rng::with_seed(19);
        for _ in 0..20_000 {
            let text: String =
                (0..random.usize(0..9)).map(|_| pieces[random.usize(0..pieces.len())]).collect();
            assert!(tokens(&text).count() <= text.len(), "{text:?}");
            assert!(statements(&text).iter().all(|it| !it.is_empty()), "{text:?}");
        }
    }
}
