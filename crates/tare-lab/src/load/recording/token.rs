//! A lexer of SQL that tells words from quotes and comments. Texts are bytes, as a client may send any.

/// A token of a statement. Comments and white space are none; the content of an executable comment (`/*! …
/// */`) is read like the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token<'t> {
    /// A keyword, a plain name, a number, a variable: `select`, `shop.orders`, `12`,
    /// `@@global.sort_buffer_size`.
    Word(&'t [u8]),
    /// A quoted text of any kind, with its quotes.
    Quoted(&'t [u8]),
    /// `?`
    Placeholder,
    /// `;`
    End,
    /// An operator, a bracket, a comma.
    Other(u8),
}

impl Token<'_> {
    /// Returns whether it is this word, in any case.
    pub fn is(self, word: &str) -> bool {
        matches!(self, Token::Word(it) if it.eq_ignore_ascii_case(word.as_bytes()))
    }

    /// Returns a word, or the content of quotes.
    fn plain(self) -> Option<String> {
        let (Token::Word(text) | Token::Quoted(text)) = self else { return None };
        Some(String::from_utf8_lossy(text).trim_matches(['\'', '"', '`']).to_owned())
    }

    /// Returns whether it is one of these words.
    pub fn is_any(self, words: &[&str]) -> bool {
        words.iter().any(|word| self.is(word))
    }
}

/// How a session's statements are parsed, as far as its `sql_mode` and character set change that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dialect {
    /// `NO_BACKSLASH_ESCAPES`: a backslash in quotes is an ordinary character.
    pub no_backslash_escapes: bool,
    /// `ANSI_QUOTES`: `"` quotes a name, in which a backslash is an ordinary character.
    pub ansi_quotes: bool,
    /// Whether the character set (gbk, sjis …) may have a backslash as the second byte of a character.
    pub wide: bool,
}

impl Dialect {
    /// Returns the dialect of a value of `sql_mode`, such as `ANSI,STRICT_ALL_TABLES`.
    #[must_use]
    pub fn of_mode(mode: &str) -> Dialect {
        let has = |names: &[&str]| {
            mode.split(',').any(|part| names.iter().any(|name| part.trim().eq_ignore_ascii_case(name)))
        };
        Dialect {
            no_backslash_escapes: has(&["NO_BACKSLASH_ESCAPES"]),
            ansi_quotes: has(&["ANSI_QUOTES", "ANSI", "DB2", "MAXDB", "MSSQL", "ORACLE", "POSTGRESQL"]),
            wide: false,
        }
    }

    /// Returns the dialect with this character set.
    #[must_use]
    pub fn with_charset(self, name: Option<&str>) -> Dialect {
        let wide = name.is_some_and(|name| ["big5", "cp932", "gbk", "sjis", "gb18030"].contains(&name));
        Dialect { wide, ..self }
    }

    /// Returns the dialect after this statement of a session: `SET sql_mode`, `SET NAMES`.
    #[must_use]
    pub fn after(self, text: &[u8]) -> Dialect {
        let mut all = tokens(text, self);
        if !all.next().is_some_and(|first| first.is("SET")) {
            return self;
        }
        let all: Vec<Token<'_>> = all.collect();
        let is_mode = |token: &Token<'_>| matches!(token, Token::Word(word) if word.to_ascii_lowercase().ends_with(b"sql_mode"));
        if let Some(at) = all.iter().position(is_mode) {
            let mode: Vec<String> = all[at + 1..].iter().filter_map(|token| token.plain()).collect();
            return Dialect { wide: self.wide, ..Dialect::of_mode(&mode.join(",")) };
        }
        let is_names = |token: &Token<'_>| token.is_any(&["NAMES", "SET", "CHARSET", "character_set_client"]);
        let Some(at) = all.iter().position(is_names) else { return self };
        let name = all[at + 1..].iter().find_map(|token| token.plain());
        self.with_charset(name.map(|name| name.to_ascii_lowercase()).as_deref())
    }

    fn escapes(self, quote: u8) -> bool {
        !self.no_backslash_escapes && quote != b'`' && !(self.ansi_quotes && quote == b'"')
    }
}

/// What is open at the end of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum OpenToken {
    #[default]
    Nothing,
    /// A quote, and where it started.
    Quote(u8, usize),
    Line,
    Comment,
}

/// A lexer of a text that may still grow by whole lines; nothing is read twice.
#[derive(Clone, Debug, Default)]
pub struct Lexer {
    dialect: Dialect,
    at: usize,
    open: OpenToken,
    in_executable: bool,
}

/// A token and its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece<'t> {
    /// The token.
    pub token: Token<'t>,
    /// Its end.
    pub end: usize,
    /// Whether it is inside an executable comment.
    pub in_executable: bool,
}

impl Lexer {
    /// Creates a lexer at the start of a text.
    #[must_use]
    pub fn new(dialect: Dialect) -> Lexer {
        Lexer { dialect, ..Lexer::default() }
    }

    /// Returns whether the text read so far ends inside quotes, or inside a comment that continues on the
    /// next line.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self.open, OpenToken::Quote(..) | OpenToken::Comment)
    }

    /// Returns the next token of a text that starts with what was read before; `None` if there is none yet.
    pub fn next<'t>(&mut self, text: &'t [u8]) -> Option<Piece<'t>> {
        loop {
            let rest = text.get(self.at..).filter(|rest| !rest.is_empty())?;
            match self.open {
                OpenToken::Quote(quote, from) => {
                    let (length, is_closed) = quoted(rest, quote, self.dialect);
                    self.at += length;
                    if is_closed {
                        self.open = OpenToken::Nothing;
                        return Some(self.piece(Token::Quoted(&text[from..self.at])));
                    }
                }
                OpenToken::Line => self.close(rest, b"\n"),
                OpenToken::Comment => self.close(rest, b"*/"),
                OpenToken::Nothing => {
                    if let Some(token) = self.begin(rest) {
                        return Some(self.piece(token));
                    }
                }
            }
        }
    }

    fn piece<'t>(&self, token: Token<'t>) -> Piece<'t> {
        Piece { token, end: self.at, in_executable: self.in_executable }
    }

    /// Skips a comment, as far as it is there.
    fn close(&mut self, rest: &[u8], end: &[u8]) {
        let found = rest.windows(end.len()).position(|part| part == end);
        self.at += found.map_or(rest.len(), |found| found + end.len());
        if found.is_some() {
            self.open = OpenToken::Nothing;
        }
    }

    /// Reads outside of quotes and comments.
    fn begin<'t>(&mut self, rest: &'t [u8]) -> Option<Token<'t>> {
        let first = rest[0];
        let (length, token) = match first {
            b'\'' | b'"' | b'`' => {
                self.open = OpenToken::Quote(first, self.at);
                (1, None)
            }
            b'#' => {
                self.open = OpenToken::Line;
                (1, None)
            }
            b'-' if rest.starts_with(b"--") && rest.get(2).is_none_or(|b| *b <= b' ') => {
                self.open = OpenToken::Line;
                (2, None)
            }
            b'/' if rest.starts_with(b"/*") => (self.comment(rest), None),
            b'*' if self.in_executable && rest.starts_with(b"*/") => {
                self.in_executable = false;
                (2, None)
            }
            b'?' => (1, Some(Token::Placeholder)),
            b';' => (1, Some(Token::End)),
            _ if is_of_word(first) => {
                let length = self.word(rest);
                (length, Some(Token::Word(&rest[..length])))
            }
            _ => (1, (first > b' ').then_some(Token::Other(first))),
        };
        self.at += length;
        token
    }

    /// Returns the length of a comment's opening; an executable comment (`/*!50100 `, `/*M!100100 `) has
    /// nothing more to skip.
    fn comment(&mut self, rest: &[u8]) -> usize {
        let opening = [&b"/*!"[..], b"/*M!"].into_iter().find(|opening| rest.starts_with(opening));
        let Some(opening) = opening else {
            self.open = OpenToken::Comment;
            return 2;
        };
        self.in_executable = true;
        let digits = rest[opening.len()..].iter().take_while(|b| b.is_ascii_digit()).count();
        opening.len() + digits
    }

    fn word(&self, rest: &[u8]) -> usize {
        let mut length = 0;
        while let Some(&byte) = rest.get(length).filter(|byte| is_of_word(**byte)) {
            let is_wide = self.dialect.wide && is_wide(byte, rest.get(length + 1));
            length += if is_wide { 2 } else { 1 };
        }
        length
    }
}

/// Returns the tokens of a text.
pub fn tokens(text: &[u8], dialect: Dialect) -> impl Iterator<Item = Token<'_>> {
    let mut lexer = Lexer::new(dialect);
    std::iter::from_fn(move || lexer.next(text).map(|piece| piece.token)).chain(rest_of_open(text, dialect))
}

/// Returns the unterminated quotation at the end of a text, if there is one.
fn rest_of_open(text: &[u8], dialect: Dialect) -> Option<Token<'_>> {
    let mut lexer = Lexer::new(dialect);
    while lexer.next(text).is_some() {}
    if let OpenToken::Quote(_, from) = lexer.open { Some(Token::Quoted(&text[from..])) } else { None }
}

/// Returns whether a text ends inside quotes or a comment.
pub fn is_open(text: &[u8], dialect: Dialect) -> bool {
    let mut lexer = Lexer::new(dialect);
    while lexer.next(text).is_some() {}
    lexer.is_open()
}

/// Returns the schema that a `USE` statement switches to.
pub fn used_schema(text: &[u8]) -> Option<String> {
    let text = text.trim_ascii().trim_suffix_all(b';');
    let end = text.iter().position(|b| b.is_ascii_whitespace() || *b == b'`')?;
    let (verb, name) = text.split_at(end);
    let name = String::from_utf8_lossy(name).trim().trim_matches('`').replace("``", "`");
    (verb.eq_ignore_ascii_case(b"use") && !name.is_empty()).then_some(name)
}

/// Trimming of bytes.
pub(super) trait TrimSuffix {
    /// Returns the bytes without this byte and blanks at the end.
    fn trim_suffix_all(&self, byte: u8) -> &[u8];
}

impl TrimSuffix for [u8] {
    fn trim_suffix_all(&self, byte: u8) -> &[u8] {
        let end = self.iter().rposition(|b| *b != byte && !b.is_ascii_whitespace());
        &self[..end.map_or(0, |end| end + 1)]
    }
}

/// Returns whether a byte belongs to a word. All bytes beyond ASCII do, so that a word never ends inside a
/// character.
fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_$@.".contains(&byte) || !byte.is_ascii()
}

/// Returns whether two bytes may be one character of a wide character set.
fn is_wide(first: u8, second: Option<&u8>) -> bool {
    (0x81..=0xfe).contains(&first) && second.is_some_and(|second| *second >= 0x40)
}

/// Returns the length up to and including the closing quote, and whether that was found. A quote inside is
/// doubled, or escaped by a backslash.
fn quoted(rest: &[u8], quote: u8, dialect: Dialect) -> (usize, bool) {
    let mut at = 0;
    while let Some(&byte) = rest.get(at) {
        at += match byte {
            b'\\' if dialect.escapes(quote) => 2,
            _ if dialect.wide && is_wide(byte, rest.get(at + 1)) => 2,
            _ if byte == quote && rest.get(at + 1) == Some(&quote) => 2,
            _ if byte == quote => return (at + 1, true),
            _ => 1,
        };
    }
    (rest.len(), false)
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: Dialect = Dialect { no_backslash_escapes: false, ansi_quotes: false, wide: false };

    fn words_in(text: &[u8], dialect: Dialect) -> Vec<String> {
        let word = |token: Token<'_>| match token {
            Token::Word(word) => Some(String::from_utf8_lossy(word).into_owned()),
            _ => None,
        };
        tokens(text, dialect).filter_map(word).collect()
    }

    fn words(text: &str) -> Vec<String> {
        words_in(text.as_bytes(), USUAL)
    }

    #[test]
    fn what_stands_in_quotes_and_comments_is_no_word() {
        let text = "select 'it''s; \\' drop', `dr``op`, \"x\" /* drop */ from t -- drop\nwhere a=1 # drop";
        assert_eq!(words(text), ["select", "from", "t", "where", "a", "1"]);
        assert_eq!(words("/*!40000 DROP */ /*M!100100 TABLE */ t"), ["DROP", "TABLE", "t"]);
        assert_eq!(words("a--1"), ["a", "1"], "a minus twice is no comment");
        assert_eq!(words("größe + 1"), ["größe", "1"]);
        assert_eq!(words("/* a -- ' */ b /*! c /* d */ e */ f"), ["b", "c", "e", "f"]);
    }

    #[test]
    fn quotes_end_where_the_dialect_ends_them() {
        let plain = Dialect { no_backslash_escapes: true, ..USUAL };
        let ansi = Dialect { ansi_quotes: true, ..USUAL };
        let wide = Dialect { wide: true, ..USUAL };
        assert_eq!(words_in(br"a 'c:\' b", plain), ["a", "b"]);
        assert_eq!(words_in(br"a 'c:\' b' d", USUAL), ["a", "d"]);
        assert_eq!(words_in(br#"a "c:\" b"#, ansi), ["a", "b"]);
        assert!(is_open(br#"a "c:\" b"#, USUAL));
        assert_eq!(words_in(b"a '\x95\\' b", wide), ["a", "b"], "the second byte of a character");
        assert!(is_open(b"a '\x95\\' b", USUAL));
        assert_eq!(
            Dialect::of_mode("STRICT_ALL_TABLES, ansi ,NO_BACKSLASH_ESCAPES"),
            Dialect { no_backslash_escapes: true, ..ansi }
        );
    }

    #[test]
    fn a_session_is_read_as_it_said() {
        let plain = Dialect { no_backslash_escapes: true, ..USUAL };
        let after = |text: &str| plain.after(text.as_bytes());
        assert_eq!(after("select 'set sql_mode'"), plain);
        assert_eq!(after("set @@session.sql_mode = ''"), USUAL);
        assert!(after("SET SESSION sql_mode = concat(@@sql_mode, ',ANSI_QUOTES')").ansi_quotes);
        assert_eq!(after("set names 'gbk'"), Dialect { wide: true, ..plain });
        assert_eq!(after("set character set sjis"), Dialect { wide: true, ..plain });
        assert_eq!(after("set names utf8mb4"), plain);
    }

    #[test]
    fn placeholders_and_ends_are_told() {
        let of = |text: &str| {
            tokens(text.as_bytes(), USUAL).filter(|t| matches!(t, Token::Placeholder | Token::End)).count()
        };
        assert_eq!((of("select ? ; select '?;'"), of("select 'open ?;"), of("/* ? ; */")), (2, 0, 0));
    }

    #[test]
    fn a_schema_is_named_with_quotes_or_without() {
        let of = |text: &str| used_schema(text.as_bytes()).unwrap_or_default();
        assert_eq!(
            (of("use shop;"), of("USE `a b`"), of("use`x``y`")),
            ("shop".into(), "a b".into(), "x`y".into())
        );
        assert_eq!((of("used shop"), of("use"), of("select 1")), Default::default());
    }

    #[test]
    fn anything_is_read_to_its_end_at_once_or_line_by_line() {
        let pieces: [&[u8]; 15] = [
            b"'", b"\\", b"/*", b"*/", b"/*!", b"--", b"\xe9", b"`", b";", b" ", b"?", b"\n", b"x", b"\"",
            b"#",
        ];
        let mut random = fastrand::Rng::with_seed(19);
        for _ in 0..20_000 {
            let text: Vec<u8> = (0..random.usize(0..12))
                .flat_map(|_| pieces[random.usize(0..pieces.len())])
                .copied()
                .collect();
            for dialect in [USUAL, Dialect { no_backslash_escapes: true, ansi_quotes: true, wide: true }] {
                let mut whole = Lexer::new(dialect);
                let at_once: Vec<_> =
                    std::iter::from_fn(|| whole.next(&text).map(|p| (p.end, p.in_executable))).collect();
                let (mut lexer, mut by_line) = (Lexer::new(dialect), vec![]);
                for end in (1..=text.len()).filter(|end| *end == text.len() || text[end - 1] == b'\n') {
                    while let Some(piece) = lexer.next(&text[..end]) {
                        by_line.push((piece.end, piece.in_executable));
                    }
                }
                assert_eq!((by_line, lexer.is_open()), (at_once, whole.is_open()), "{}", text.escape_ascii());
                assert!(tokens(&text, dialect).count() <= text.len());
            }
        }
    }
}
