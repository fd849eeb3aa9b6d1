//! Known failures and their reasons, in files that should only get shorter.
//!
//! A line has a name, blanks, and the reason; lines that start with `#` are headings. A listed name that does
//! not fail is as wrong as an unlisted one that fails.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::{Failure, Result};

/// The lines of such a file: names and reasons.
#[derive(Debug)]
pub struct KnownFailures(BTreeMap<String, String>);

impl KnownFailures {
    /// Reads a file of the folder `expected`.
    ///
    /// # Errors
    /// When it cannot be read, a line has no reason, or a name is listed twice.
    pub fn read(name: &str) -> Result<KnownFailures> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("expected").join(name);
        let text = std::fs::read_to_string(&path).map_err(Failure::io(path.display().to_string()))?;
        KnownFailures::parse(&text)
            .map_err(|problem| Failure::Setup(format!("{}: {problem}", path.display())))
    }

    fn parse(text: &str) -> std::result::Result<KnownFailures, String> {
        let mut known = BTreeMap::new();
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (name, reason) =
                line.split_once(char::is_whitespace).ok_or_else(|| format!("{line} has no reason"))?;
            if known.insert(name.to_owned(), reason.trim().to_owned()).is_some() {
                return Err(format!("{name} is listed twice"));
            }
        }
        Ok(KnownFailures(known))
    }

    /// Returns the disagreements of the file and the actual failures, a line each; `failing` has names and
    /// what was observed.
    pub fn disagreements(&self, failing: &BTreeMap<String, String>) -> Vec<String> {
        let new = failing.iter().filter(|(name, _)| !self.0.contains_key(*name));
        let new = new.map(|(name, seen)| format!("{name} is not listed and fails: {seen}"));
        let works: BTreeSet<&String> = self.0.keys().filter(|name| !failing.contains_key(*name)).collect();
        let works = works.into_iter().map(|name| format!("{name} is listed and works: take it out"));
        new.chain(works).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_disagreement_are_named() {
        let known = KnownFailures::parse("# heading\na  is so\nb  is so, too\n").unwrap();
        let failing = |names: &[&str]| names.iter().map(|name| (name.to_string(), "seen".into())).collect();
        assert_eq!(known.disagreements(&failing(&["a", "b"])), Vec::<String>::new());
        assert_eq!(
            known.disagreements(&failing(&["a", "c"])),
            ["c is not listed and fails: seen", "b is listed and works: take it out"]
        );
        assert!(KnownFailures::parse("a\n").is_err());
        assert!(KnownFailures::parse("a x\na y\n").is_err());
    }
}
