//! The lexer: bytes to tokens, one at a time.

use crate::failure::ErrorPacket;

/// A token of SQL.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum SqlToken {
    /// A bare word: a keyword or a name.
    Word(String),
    /// A back-quoted name.
    Name(String),
    /// A string as bytes, with its escapes resolved.
    Text(Vec<u8>),
    /// A number without a point or an exponent.
    Integer(i128),
    /// Any other number.
    Double(f64),
    /// `@@name`, without its scope.
    System(String),
    /// `@name`
    User(String),
    /// One of `( ) , . ; * = < > <= >= <> <=> ! && || - + / %`
    Symbol(&'static str),
    /// The end of the text.
    End,
}

/// The symbols, longest first.
const SYMBOLS: [&str; 22] = [
    "<=>", "<=", ">=", "<>", "!=", "&&", "||", ":=", "(", ")", ",", ".", ";", "*", "=", "<", ">", "!", "-",
    "+", "/", "%",
];

pub(super) struct SqlLexer<'a> {
    rest: &'a [u8],
    /// Whether the last token was a point: a name follows then, whatever it begins with.
    after_point: bool,
}

impl<'a> SqlLexer<'a> {
    pub(super) fn new(sql: &'a [u8]) -> Self {
        SqlLexer { rest: sql, after_point: false }
    }

    /// Returns the unread text, for error messages.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(super) fn next(&mut self) -> Result<SqlToken, ErrorPacket> {
        self.skip_blanks()?;
        let after_point = std::mem::take(&mut self.after_point);
        let Some(&first) = self.rest.first() else { return Ok(SqlToken::End) };
        let second = self.rest.get(1).copied().unwrap_or(0);
        match first {
            b'`' => Ok(SqlToken::Name(lossy(self.quoted(b'`', false)?))),
            b'\'' | b'"' => self.text(first),
            b'x' | b'X' if second == b'\'' => self.hexadecimal(2, true),
            b'0' if second == b'x' && !after_point => self.hexadecimal(2, false),
            b'0'..=b'9' if !after_point => self.number(),
            b'.' if second.is_ascii_digit() && !after_point => self.number(),
            b'@' => self.variable(),
            _ if is_word(first) => Ok(SqlToken::Word(lossy(self.word()))),
            _ => self.symbol(),
        }
    }

    fn skip_blanks(&mut self) -> Result<(), ErrorPacket> {
        loop {
            self.rest = self.rest.trim_ascii_start();
            if self.rest.starts_with(b"/*") {
                let end = self.rest.windows(2).skip(2).position(|pair| pair == b"*/");
                let end = end.ok_or_else(|| ErrorPacket::syntax("a comment does not end"))?;
                self.rest = &self.rest[end + 4..];
            } else if self.rest.starts_with(b"#") || is_dash_comment(self.rest) {
                let end = self.rest.iter().position(|byte| *byte == b'\n');
                self.rest = end.map_or(&[], |end| &self.rest[end..]);
            } else {
                return Ok(());
            }
        }
    }

    fn advance(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(count.min(self.rest.len()));
        self.rest = rest;
        taken
    }

    fn word(&mut self) -> &'a [u8] {
        let end = self.rest.iter().position(|byte| !is_word(*byte) && !byte.is_ascii_digit());
        self.advance(end.unwrap_or(self.rest.len()))
    }

    /// Reads a string; adjacent strings are one.
    fn text(&mut self, quote: u8) -> Result<SqlToken, ErrorPacket> {
        let mut text = self.quoted(quote, true)?;
        loop {
            self.skip_blanks()?;
            match self.rest.first() {
                Some(&quote @ (b'\'' | b'"')) => text.extend(self.quoted(quote, true)?),
                _ => return Ok(SqlToken::Text(text)),
            }
        }
    }

    fn quoted(&mut self, quote: u8, escapes: bool) -> Result<Vec<u8>, ErrorPacket> {
        let is_special = |byte: &u8| *byte == quote || escapes && *byte == b'\\';
        let mut text = Vec::new();
        let mut at = 1;
        loop {
            // Plain bytes are copied together; most names have no others.
            let behind = self.rest.get(at..).unwrap_or_default();
            let plain = behind.iter().position(is_special).unwrap_or(behind.len());
            text.extend_from_slice(&behind[..plain]);
            at += plain;
            match (self.rest.get(at), self.rest.get(at + 1)) {
                (None, _) => return Err(ErrorPacket::syntax("a quoted text does not end")),
                (Some(&byte), Some(&next)) if byte == quote && next == quote => {
                    text.push(quote);
                    at += 2;
                }
                (Some(&byte), _) if byte == quote => {
                    self.advance(at + 1);
                    return Ok(text);
                }
                (Some(b'\\'), Some(&next)) => {
                    put_escaped(&mut text, next);
                    at += 2;
                }
                (Some(&byte), _) => {
                    text.push(byte);
                    at += 1;
                }
            }
        }
    }

    fn hexadecimal(&mut self, prefix: usize, quoted: bool) -> Result<SqlToken, ErrorPacket> {
        self.advance(prefix);
        let end = self.rest.iter().position(|byte| !byte.is_ascii_hexdigit()).unwrap_or(self.rest.len());
        let digits = self.advance(end);
        let ends = if quoted { self.advance(1) == b"'" } else { !digits.is_empty() };
        if !ends {
            return Err(ErrorPacket::syntax("a hexadecimal literal does not end"));
        }
        let value = |digit: u8| char::from(digit).to_digit(16).unwrap_or(0) as u8;
        let odd = digits.len() % 2;
        let first = digits[..odd].iter().map(|digit| value(*digit));
        let rest = digits[odd..].chunks_exact(2).map(|pair| value(pair[0]) << 4 | value(pair[1]));
        Ok(SqlToken::Text(first.chain(rest).collect()))
    }

    fn number(&mut self) -> Result<SqlToken, ErrorPacket> {
        let is_part = |at: usize, byte: u8| match byte {
            b'0'..=b'9' | b'.' | b'e' | b'E' => true,
            b'+' | b'-' => at > 0 && self.rest[at - 1].eq_ignore_ascii_case(&b'e'),
            _ => false,
        };
        let end = (0..self.rest.len()).find(|at| !is_part(*at, self.rest[*at])).unwrap_or(self.rest.len());
        let text = lossy(self.advance(end));
        if let Ok(integer) = text.parse() {
            return Ok(SqlToken::Integer(integer));
        }
        text.parse()
            .map(SqlToken::Double)
            .map_err(|_| ErrorPacket::syntax(format_args!("{text:.40} is no number")))
    }

    fn variable(&mut self) -> Result<SqlToken, ErrorPacket> {
        if !self.rest.starts_with(b"@@") {
            self.advance(1);
            return Ok(SqlToken::User(lossy(self.word())));
        }
        self.advance(2);
        let mut name = lossy(self.word());
        while self.rest.first() == Some(&b'.') {
            self.advance(1);
            name = lossy(self.word());
        }
        Ok(SqlToken::System(name))
    }

    fn symbol(&mut self) -> Result<SqlToken, ErrorPacket> {
        let symbol = SYMBOLS.iter().find(|symbol| self.rest.starts_with(symbol.as_bytes()));
        let Some(symbol) = symbol else {
            return Err(ErrorPacket::syntax(format_args!("unexpected byte {:#04x}", self.rest[0])));
        };
        self.advance(symbol.len());
        self.after_point = *symbol == ".";
        Ok(SqlToken::Symbol(symbol))
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | 0x80..)
}

/// Returns whether `text` begins a comment: `--` does so only before a blank or at the end.
fn is_dash_comment(rest: &[u8]) -> bool {
    rest.starts_with(b"--") && rest.get(2).is_none_or(u8::is_ascii_whitespace)
}

fn lossy(bytes: impl AsRef<[u8]>) -> String {
    String::from_utf8_lossy(bytes.as_ref()).into_owned()
}

fn put_escaped(text: &mut Vec<u8>, byte: u8) {
    let meant = match byte {
        b'0' => 0,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'Z' => 26,
        // LIKE resolves these escapes itself.
        b'%' | b'_' => {
            text.push(b'\\');
            byte
        }
        other => other,
    };
    text.push(meant);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(sql: &[u8]) -> Vec<SqlToken> {
        let mut lexer = SqlLexer::new(sql);
        let mut tokens = Vec::new();
        loop {
            match lexer.next().unwrap() {
                SqlToken::End => return tokens,
                token => tokens.push(token),
            }
        }
    }

    #[test]
    fn strings_keep_every_byte() {
        assert_eq!(tokens(br"'it\'s\n\0\Z\\x'"), [SqlToken::Text(b"it's\n\0\x1a\\x".to_vec())]);
        assert_eq!(tokens(br"'a''b' 'c'"), [SqlToken::Text(b"a'bc".to_vec())]);
        assert_eq!(tokens(br"'50\%'"), [SqlToken::Text(br"50\%".to_vec())]);
        assert_eq!(tokens(b"'\xff\xfe'"), [SqlToken::Text(vec![0xff, 0xfe])]);
        assert_eq!(tokens(b"x'00fF' 0xabc"), [SqlToken::Text(vec![0, 255]), SqlToken::Text(vec![0xa, 0xbc])]);
    }

    #[test]
    fn numbers_and_names_are_told_apart() {
        assert_eq!(tokens(b"18446744073709551615"), [SqlToken::Integer(18_446_744_073_709_551_615)]);
        assert_eq!(tokens(b"1e300 .5"), [SqlToken::Double(1e300), SqlToken::Double(0.5)]);
        let name = |name: &str| SqlToken::Name(name.into());
        assert_eq!(tokens(b"`a``b`.`c`"), [name("a`b"), SqlToken::Symbol("."), name("c")]);
        assert_eq!(tokens(b"@@global.version"), [SqlToken::System("version".into())]);
    }

    #[test]
    fn comments_are_blanks() {
        assert_eq!(tokens(b"/* x */ 1 -- two\n # three"), [SqlToken::Integer(1)]);
        assert_eq!(tokens(b"1--1").len(), 4);
    }

    #[test]
    fn what_does_not_end_is_an_error() {
        for sql in ["'abc", "`abc", "/* abc", "x'12", "'abc\\", "/*", "/*/", "0x", "1e", "1.2.3", "\u{1}"] {
            let mut lexer = SqlLexer::new(sql.as_bytes());
            assert!(lexer.next().is_err(), "{sql}");
        }
    }
}
