//! Lines of option files (`my.cnf`), as servers and clients read them.

/// Returns the option of a line, `name` or `name = value`, without its comment, its quotes and its escapes;
/// `None` for an empty line and for a comment. The name is as it was written. `#` begins a comment, after a
/// value only outside quotes; `;` only at the start of a line.
///
/// # Examples
///
/// ```
/// use tare_words::option_line::parse;
///
/// assert_eq!(parse(r#"password = "a#b\s" # mine"#), Some(("password", Some("a#b ".to_owned()))));
/// assert_eq!(parse("skip-name-resolve"), Some(("skip-name-resolve", None)));
/// assert_eq!(parse("; nothing"), None);
/// ```
#[must_use]
pub fn parse(line: &str) -> Option<(&str, Option<String>)> {
    let line = line.trim_matches(is_space);
    if line.is_empty() || line.starts_with(['#', ';']) {
        return None;
    }
    let line = without_comment(line);
    let (name, value) = match line.split_once('=') {
        Some((name, value)) => (name, Some(unescape(unquote(value.trim_matches(is_space))))),
        None => (line, None),
    };
    Some((name.trim_end_matches(is_space), value))
}

/// Returns whether a character is a space to the reader of option files.
#[must_use]
pub fn is_space(c: char) -> bool {
    c.is_ascii_whitespace() || c == '\u{b}'
}

/// Cuts a line at the first `#` outside quotes.
fn without_comment(line: &str) -> &str {
    let mut quote = None;
    let mut escaped = false;
    for (position, c) in line.char_indices() {
        match (c, quote) {
            ('#', None) => return &line[..position],
            ('\'' | '"', None) if !escaped => quote = Some(c),
            (_, Some(open)) if c == open && !escaped => quote = None,
            _ => {}
        }
        escaped = quote.is_some() && c == '\\' && !escaped;
    }
    line
}

/// Removes one pair of equal quotes around the value.
fn unquote(value: &str) -> &str {
    for quote in ['\'', '"'] {
        if let Some(inner) = value.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)) {
            return inner;
        }
    }
    value
}

/// Resolves `\n \t \r \b \s \" \' \\`; any other backslash stands for itself.
fn unescape(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    let mut rest = value.chars();
    while let Some(c) = rest.next() {
        if c != '\\' {
            text.push(c);
            continue;
        }
        match rest.next() {
            Some('n') => text.push('\n'),
            Some('t') => text.push('\t'),
            Some('r') => text.push('\r'),
            Some('b') => text.push('\u{8}'),
            Some('s') => text.push(' '),
            Some(c @ ('"' | '\'' | '\\')) => text.push(c),
            Some(other) => text.extend(['\\', other]),
            None => text.push('\\'),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_servers_and_clients_read_them() {
        for (line, name, value) in [
            ("a=b", "a", Some("b")),
            ("  a  =  b  ", "a", Some("b")),
            ("a", "a", None),
            ("a # b", "a", None),
            ("a=", "a", Some("")),
            ("a=b=c", "a", Some("b=c")),
            ("=b", "", Some("b")),
            ("PORT = 3307", "PORT", Some("3307")),
            ("  ssl_ca = /etc/ca.pem  # the firm's", "ssl_ca", Some("/etc/ca.pem")),
            ("a=b # c", "a", Some("b")),
            ("a=b#c", "a", Some("b")),
            ("a=b;c", "a", Some("b;c")),
            ("a='b # c'", "a", Some("b # c")),
            ("a=\"b ' c\" # d", "a", Some("b ' c")),
            ("a='b\\'#c'", "a", Some("b'#c")),
            ("a='b", "a", Some("'b")),
            ("a='", "a", Some("'")),
            ("a = 'it''s'", "a", Some("it''s")),
            ("a=b\\sc\\\\d\\q\\", "a", Some("b c\\d\\q\\")),
            (r#"a = "a\"b\\c\sd""#, "a", Some(r#"a"b\c d"#)),
            (r"a = a\qb=c", "a", Some(r"a\qb=c")),
            ("\u{b}a=b\u{b}", "a", Some("b")),
        ] {
            assert_eq!(parse(line), Some((name, value.map(str::to_owned))), "{line:?}");
        }
        for line in ["", "  ", "# a=b", "; a=b", "  #c", "\t"] {
            assert_eq!(parse(line), None, "{line:?}");
        }
    }
}
