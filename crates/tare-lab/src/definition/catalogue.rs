//! The studies that ship, and studies given by path.

use std::fs;
use std::path::Path;

use crate::error::{Tried, meant};
use crate::{Error, Result};

/// Name and text of every study that ships.
pub const STUDIES: &[(&str, &str)] = &[
    ("pfs-default", include_str!("../../../../studies/pfs-default.toml")),
    ("pfs-groups", include_str!("../../../../studies/pfs-groups.toml")),
    ("pfs-switched", include_str!("../../../../studies/pfs-switched.toml")),
    ("pfs-filters", include_str!("../../../../studies/pfs-filters.toml")),
    ("pfs-modes", include_str!("../../../../studies/pfs-modes.toml")),
    ("versions", include_str!("../../../../studies/versions.toml")),
    ("servers", include_str!("../../../../studies/servers.toml")),
    ("exporters", include_str!("../../../../studies/exporters.toml")),
    ("pmm", include_str!("../../../../studies/pmm.toml")),
    ("slow-log", include_str!("../../../../studies/slow-log.toml")),
    ("procedure-loop", include_str!("../../../../studies/procedure-loop.toml")),
    ("tare", include_str!("../../../../studies/tare.toml")),
    ("budget", include_str!("../../../../studies/budget.toml")),
    ("tare-levels", include_str!("../../../../studies/tare-levels.toml")),
    ("tare-ash", include_str!("../../../../studies/tare-ash.toml")),
    ("tare-shape", include_str!("../../../../studies/tare-shape.toml")),
    ("tare-slowlog", include_str!("../../../../studies/tare-slowlog.toml")),
    ("tare-export", include_str!("../../../../studies/tare-export.toml")),
];

/// The text of a study, not parsed yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StudySource {
    /// Name of the study.
    pub name: String,
    /// Name of its file, for errors.
    pub file: String,
    /// Text of its file.
    pub text: String,
}

/// Returns the shipped study of that name, or the study in that file.
///
/// # Examples
///
/// ```
/// use tare_lab::catalogue;
///
/// assert_eq!(catalogue::find("exporters")?.file, "studies/exporters.toml");
/// let error = catalogue::find("exportres").expect_err("no such study").to_string();
/// assert!(error.contains("did you mean `exporters`?"), "{error}");
/// # Ok::<(), tare_lab::Error>(())
/// ```
pub fn find(study: &str) -> Result<StudySource> {
    if let Some((name, text)) = STUDIES.iter().find(|(name, _)| *name == study) {
        return Ok(StudySource {
            name: (*name).into(),
            file: format!("studies/{name}.toml"),
            text: (*text).into(),
        });
    }
    let path = Path::new(study);
    if !path.is_file() && path.extension().is_none() {
        let known: Vec<&str> = STUDIES.iter().map(|(name, _)| *name).collect();
        let meant = meant(study, known.iter().copied());
        return Err(Error::NoStudy { study: study.into(), meant, known: known.join(", ") });
    }
    let text = fs::read_to_string(path).tried(|| format!("reading the study {study}"))?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Ok(StudySource { name, file: study.into(), text })
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
                assert!(study.settings.iter().any(|s| s.control), "{name} has no A/A control");
                assert!(!quick || study.minutes < 10.0, "{name} takes too long for --quick");
            }
            assert_eq!(find(name).expect("it ships").text, *text);
        }
    }

    /// Conditions of the published studies, and where `--quick` runs them: a study, one of its settings, one
    /// of its cells.
    const ORIGINALS: &[(&str, &str, &str, &str)] = &[
        ("000: defaults", "pfs-default", "default", "OLTP_RO, 16 connections"),
        ("000: without instruments", "pfs-default", "none", "dbSTRESS RO, 16 connections"),
        ("000: spin delay 96", "pfs-default", "default, spin 96", "RO simple ranges, 16 connections"),
        ("000: groups", "pfs-groups", "synch", "OLTP_RO, 16 connections"),
        ("000: 32 users", "pfs-switched", "default", "OLTP_RO, 32 connections"),
        ("000: 128 users", "pfs-switched", "default", "OLTP_RO, 128 connections"),
        ("000: groups at run time, delay 96", "pfs-switched", "waits but synch", "OLTP_RO, 32 connections"),
        (
            "000: on at start, off at run time",
            "pfs-switched",
            "everything, then off",
            "OLTP_RO, 32 connections",
        ),
        ("001: steps", "pfs-modes", "+ memory", "70% reads, 30% updates, 256 connections"),
        ("001: the timer", "pfs-filters", "without timers", "OLTP_RO, 2 connections"),
        ("001: filters by actor", "pfs-filters", "no actor", "OLTP_RO, 2 connections"),
        ("001: filters by object", "pfs-filters", "no object", "OLTP_RO, 2 connections"),
        ("001: filters by thread", "pfs-filters", "no thread", "OLTP_RO, 2 connections"),
        ("001: auditing DDL", "pfs-filters", "DDL audit", "OLTP_RO, 2 connections"),
        ("002: newer against older", "versions", "newer, on", "OLTP_RO, 64 connections"),
        ("002: newer on against newer off", "versions", "newer alone, on", "OLTP_RO, 64 connections"),
        ("003: HTTP, slow log on, 32 threads", "pmm", "HTTP", "OLTP, 200,000 rows, 32 connections"),
        ("003: HTTPS", "pmm", "HTTPS", "OLTP, 200,000 rows, 32 connections"),
        ("003: a digest agent", "pmm", "HTTP and digests", "OLTP, 200,000 rows, 32 connections"),
        ("004: in memory", "slow-log", "every query", "TPC-C in memory, 20 connections"),
        (
            "004: to /dev/null",
            "slow-log",
            "every query (/dev/null)",
            "TPC-C logged to /dev/null, 20 connections",
        ),
        ("004: O_DIRECT", "slow-log", "every query (disk)", "TPC-C from disk, 20 connections"),
        ("004: keying and think times", "slow-log", "every query", "TPC-C at terminals, 20 connections"),
    ];

    #[test]
    fn what_the_published_studies_had_runs_with_quick() {
        for (what, name, setting, cell) in ORIGINALS {
            let study = Definition::read(&find(name).expect("it ships").text, name, true).expect("a study");
            let stands_for = study.stands_for.as_deref().unwrap_or_default();
            assert!(
                stands_for.starts_with(&what[..3]),
                "{name} stands for {stands_for:?}, and not for {what}"
            );
            let setting = study.settings.iter().find(|s| s.name == *setting);
            let setting = setting.unwrap_or_else(|| panic!("{what}: no such setting in {name}"));
            let cell = study.cells().into_iter().find(|c| c.to_string() == *cell);
            let cell = cell.unwrap_or_else(|| panic!("{what}: no such cell in {name}"));
            let workload = study.workloads.iter().find(|w| w.name == cell.workload).expect("its workload");
            assert!(study.runs(workload, setting), "{what}: {name} does not run it");
        }
        let shown: std::collections::BTreeSet<&str> = ORIGINALS.iter().map(|(_, name, ..)| *name).collect();
        for (name, text) in STUDIES {
            let stands_for = Definition::read(text, name, true).expect("a study").stands_for;
            assert!(
                stands_for.is_none() || *name == "exporters" || shown.contains(name),
                "{name} is not shown"
            );
        }
    }

    #[test]
    fn a_study_that_is_nowhere_is_named_with_those_there_are() {
        let error = find("pfs-defualt").expect_err("nowhere").to_string();
        assert!(error.contains("pfs-default, "), "{error}");
        assert!(error.contains("`pfs-defualt` (did you mean `pfs-default`?)"), "{error}");
        let far = find("elephant").expect_err("nowhere").to_string();
        assert!(!far.contains("did you mean"), "{far}");
        assert!(find("/nowhere/x.toml").is_err());
    }
}
