//! Patterns of instrument and consumer names.

/// Returns whether `name` matches `pattern`, in which `%` stands for any text and `?` for any one character,
/// ignoring case. These are the wildcards of the server's `performance-schema-instrument` option; `_` is an
/// ordinary character of the names.
pub fn wildcard_matches(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut p, mut n) = (0, 0);
    // The position of the last % and the bytes it has matched so far: the only point to backtrack to.
    let mut restart: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'%') => {
                restart = Some((p, n));
                p += 1;
            }
            Some(&wanted) if wanted == b'?' || wanted.eq_ignore_ascii_case(&name[n]) => {
                p += 1;
                n += 1;
            }
            _ => {
                let Some((percent, swallowed)) = restart else { return false };
                restart = Some((percent, swallowed + 1));
                p = percent + 1;
                n = swallowed + 1;
            }
        }
    }
    pattern[p..].iter().all(|&b| b == b'%')
}

#[cfg(test)]
mod tests {
    use super::wildcard_matches;

    /// Matches by the definition, which is too slow to use.
    fn by_definition(pattern: &[u8], name: &[u8]) -> bool {
        match (pattern.split_first(), name.split_first()) {
            (None, _) => name.is_empty(),
            (Some((b'%', rest)), _) => (0..=name.len()).any(|skip| by_definition(rest, &name[skip..])),
            (Some((b'?', rest)), Some((_, name))) => by_definition(rest, name),
            (Some((a, rest)), Some((b, name))) => a.eq_ignore_ascii_case(b) && by_definition(rest, name),
            (Some(_), None) => false,
        }
    }

    /// Returns all texts over `alphabet` of at most `length` characters.
    fn texts(alphabet: &str, length: usize) -> Vec<String> {
        let mut all = vec![String::new()];
        let mut last = all.clone();
        for _ in 0..length {
            last = last.iter().flat_map(|text| alphabet.chars().map(move |c| format!("{text}{c}"))).collect();
            all.extend(last.iter().cloned());
        }
        all
    }

    #[test]
    fn every_short_pattern_matches_as_defined() {
        for pattern in texts("aB%?", 5) {
            for name in texts("ab", 5) {
                let expected = by_definition(pattern.as_bytes(), name.as_bytes());
                assert_eq!(wildcard_matches(&pattern, &name), expected, "{pattern:?} on {name:?}");
            }
        }
    }

    #[test]
    fn names_of_instruments_match_as_one_expects() {
        for (pattern, name, expected) in [
            ("%", "wait/synch/mutex/sql/LOCK_open", true),
            ("wait/synch/%", "wait/synch/mutex/sql/LOCK_open", true),
            ("wait/synch/%", "wait/io/file/sql/binlog", false),
            ("wait/synch/mutex/sql/lock_open", "wait/synch/mutex/sql/LOCK_open", true),
            ("statement/sql/%_table", "statement/sql/drop_table", true),
            ("events_waits%", "events_statements_current", false),
            ("a_c", "abc", false),
        ] {
            assert_eq!(wildcard_matches(pattern, name), expected, "{pattern:?} on {name:?}");
        }
    }
}
