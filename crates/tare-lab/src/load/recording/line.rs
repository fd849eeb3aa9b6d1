//! Lines of logs. The last line of a truncated log has no end.

use std::collections::VecDeque;
use std::io::{BufRead, Result};

/// A line of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LogLine {
    /// The text without the line's end.
    pub(super) text: Vec<u8>,
    /// Whether the line's end was read.
    pub(super) is_whole: bool,
}

/// Iterates over the lines of a log.
pub(super) fn lines(mut log: impl BufRead) -> impl Iterator<Item = Result<LogLine>> {
    std::iter::from_fn(move || {
        let mut text = vec![];
        match log.read_until(b'\n', &mut text) {
            Ok(0) => None,
            Ok(_) => {
                let is_whole = text.ends_with(b"\n");
                text.truncate(text.len() - usize::from(is_whole));
                Some(Ok(LogLine { text, is_whole }))
            }
            Err(error) => Some(Err(error)),
        }
    })
}

/// Lines that can be pushed back, of a log whose lines may end with CR LF.
#[derive(Debug)]
pub(super) struct Lines<R> {
    log: R,
    back: VecDeque<LogLine>,
    /// Whether they do, once one of the log's own lines has shown it.
    has_cr: Option<bool>,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(log: R) -> Lines<R> {
        Lines { log, back: VecDeque::new(), has_cr: None }
    }

    /// Returns the next line without its end; `None` at the end. `is_own` tells whether a line is the log's
    /// own rather than part of a text.
    pub(super) fn next(&mut self, is_own: impl Fn(&[u8]) -> bool) -> Result<Option<LogLine>> {
        if let Some(line) = self.back.pop_front() {
            return Ok(Some(line));
        }
        let mut text = vec![];
        if self.log.read_until(b'\n', &mut text)? == 0 {
            return Ok(None);
        }
        let is_whole = text.ends_with(b"\n");
        text.truncate(text.len() - usize::from(is_whole));
        let stripped = text.strip_suffix(b"\r");
        if self.has_cr.is_none() && is_own(stripped.unwrap_or(&text)) {
            self.has_cr = Some(stripped.is_some());
        }
        if self.has_cr == Some(true) && is_whole && stripped.is_some() {
            text.truncate(text.len() - 1);
        }
        Ok(Some(LogLine { text, is_whole }))
    }

    /// Pushes a line back, to be read next.
    pub(super) fn give_back(&mut self, line: LogLine) {
        self.back.push_front(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_last_line_without_an_end_is_told() {
        let of = |log: &str| -> Vec<(String, bool)> {
            let all = lines(log.as_bytes()).map(|line| line.expect("it is read"));
            all.map(|line| (String::from_utf8(line.text).expect("UTF-8"), line.is_whole)).collect()
        };
        let line = |text: &str, is_whole| (text.to_owned(), is_whole);
        assert_eq!(of("a\n\nb\n"), [line("a", true), line("", true), line("b", true)]);
        assert_eq!(of("a\nb"), [line("a", true), line("b", false)]);
        assert!(of("").is_empty());
    }

    #[test]
    fn lines_of_a_log_say_whether_they_end_with_cr() {
        let of = |log: &str| -> Vec<String> {
            let mut lines = Lines::new(log.as_bytes());
            let next = || lines.next(|line| line.starts_with(b"#")).expect("it is read");
            std::iter::from_fn(next).map(|line| String::from_utf8(line.text).expect("UTF-8")).collect()
        };
        assert_eq!(of("x\r\n# a\r\nb\r\r\nc\n"), ["x\r", "# a", "b\r", "c"]);
        assert_eq!(of("# a\nb\r\n# c\r\n"), ["# a", "b\r", "# c\r"]);
    }
}
