//! Lines of logs. The last one of a log that is cut off has no end.

use std::io::{BufRead, Result};

/// A line of a log.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// Without its end.
    pub(super) text: Vec<u8>,
    /// Whether its end is there.
    pub(super) is_whole: bool,
}

/// The lines of a log.
pub(super) fn lines(mut log: impl BufRead) -> impl Iterator<Item = Result<Line>> {
    std::iter::from_fn(move || {
        let mut text = vec![];
        match log.read_until(b'\n', &mut text) {
            Ok(0) => None,
            Ok(_) => {
                let is_whole = text.ends_with(b"\n");
                text.truncate(text.len() - usize::from(is_whole));
                Some(Ok(Line { text, is_whole }))
            }
            Err(error) => Some(Err(error)),
        }
    })
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
}
