//! The studies that ship, and studies by path.

use std::fs;
use std::path::Path;

use crate::error::Tried;
use crate::{Error, Result};

/// Name and text of every study that ships.
pub const STUDIES: &[(&str, &str)] = &[
    ("pfs-default", include_str!("../../../studies/pfs-default.toml")),
    ("pfs-groups", include_str!("../../../studies/pfs-groups.toml")),
    ("pfs-modes", include_str!("../../../studies/pfs-modes.toml")),
    ("versions", include_str!("../../../studies/versions.toml")),
    ("exporters", include_str!("../../../studies/exporters.toml")),
    ("slow-log", include_str!("../../../studies/slow-log.toml")),
    ("procedure-loop", include_str!("../../../studies/procedure-loop.toml")),
    ("tare", include_str!("../../../studies/tare.toml")),
    ("budget", include_str!("../../../studies/budget.toml")),
    ("tare-levels", include_str!("../../../studies/tare-levels.toml")),
    ("tare-slowlog", include_str!("../../../studies/tare-slowlog.toml")),
];

/// A study before it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The study's name.
    pub name: String,
    /// Its file, for errors.
    pub file: String,
    /// Its text.
    pub text: String,
}

/// The study of that name, or in that file.
pub fn find(study: &str) -> Result<Source> {
    if let Some((name, text)) = STUDIES.iter().find(|(name, _)| *name == study) {
        return Ok(Source {
            name: (*name).into(),
            file: format!("studies/{name}.toml"),
            text: (*text).into(),
        });
    }
    let path = Path::new(study);
    if !path.is_file() && path.extension().is_none() {
        let known: Vec<&str> = STUDIES.iter().map(|(name, _)| *name).collect();
        return Err(Error::NoStudy { study: study.into(), known: known.join(", ") });
    }
    let text = fs::read_to_string(path).tried(|| format!("reading the study {study}"))?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Source { name, file: study.into(), text })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::Definition;

    #[test]
    fn every_study_that_ships_can_be_read() {
        for (name, text) in STUDIES {
            for quick in [false, true] {
                let study = Definition::read(text, name, quick).unwrap_or_else(|e| panic!("{e}"));
                assert!(study.settings.iter().any(|s| s.twin), "{name} has no twin");
                assert!(!quick || study.minutes < 10.0, "{name} takes too long for --quick");
            }
            assert_eq!(find(name).expect("it ships").text, *text);
        }
    }

    #[test]
    fn a_study_that_is_nowhere_is_named_with_those_there_are() {
        let error = find("pfs-defualt").expect_err("nowhere").to_string();
        assert!(error.contains("pfs-default, "), "{error}");
        assert!(find("/nowhere/x.toml").is_err());
    }
}
