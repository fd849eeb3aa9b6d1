//! Scripts for sysbench that are part of this program, beside those that come with sysbench.
//!
//! `docs/workloads.md` says what each of them does, which options it has, and where it departs from its source.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::Result;
use crate::error::Tried;

/// A script of ours.
#[derive(Debug)]
pub struct Script {
    /// What studies call it.
    pub name: &'static str,
    /// What it does, in a sentence.
    pub meaning: &'static str,
    /// The script.
    pub text: &'static str,
    /// Figures it prints after a run, each on a line of its own: `notpm: 1234.5`.
    pub figures: &'static [&'static str],
    /// Whether its command `check` says if the data is still sound (by its exit status).
    pub checkable: bool,
}

/// Every script of ours. Their command `prepare` fills the tables, with as many threads as it is given.
pub static SCRIPTS: &[Script] = &[
    Script {
        name: "tpcc",
        meaning: "TPC-C: its five transactions in the standard mix, without think times",
        text: include_str!("../../../workloads/tpcc.lua"),
        figures: &["notpm", "retries_per_transaction"],
        checkable: true,
    },
    Script {
        name: "dbstress",
        meaning: "dbSTRESS: an object with its section and zone, its history of 20 records, and changes of the history",
        text: include_str!("../../../workloads/dbstress.lua"),
        figures: &[],
        checkable: false,
    },
    Script {
        name: "procedure_loop",
        meaning: "a tight loop in a stored procedure",
        text: include_str!("../../../workloads/procedure_loop.lua"),
        figures: &[],
        checkable: false,
    },
];

/// The script of ours by that name; without one the name is sysbench's own, or a path.
pub fn find(name: &str) -> Option<&'static Script> {
    SCRIPTS.iter().find(|s| s.name == name)
}

/// Writes our scripts into a folder, for sysbench to read.
pub fn install(folder: &Path) -> Result<()> {
    SCRIPTS.iter().try_for_each(|script| {
        let path = script.path(folder);
        fs::write(&path, script.text).tried(|| format!("writing {}", path.display()))
    })
}

/// What sysbench is to be given for a script's name, when ours are installed in `folder`.
pub fn argument(name: &str, folder: &Path) -> PathBuf {
    find(name).map_or_else(|| name.into(), |script| script.path(folder))
}

impl Script {
    fn path(&self, folder: &Path) -> PathBuf {
        folder.join(self.name).with_extension("lua")
    }

    /// Its own figures in what sysbench printed after a run.
    pub fn figures(&self, output: &str) -> BTreeMap<String, f64> {
        let pairs = output.lines().filter_map(|line| line.split_once(':'));
        let known = pairs.filter_map(|(name, value)| {
            let name = self.figures.iter().find(|&&known| known == name)?;
            Some(((*name).to_owned(), value.trim().parse().ok()?))
        });
        known.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_are_found_by_name_and_others_are_left_as_they_are() {
        let folder = tempfile::tempdir().expect("folder");
        install(folder.path()).expect("installed");
        assert!(argument("tpcc", folder.path()).is_file());
        assert_eq!(argument("oltp_read_only", folder.path()), Path::new("oltp_read_only"));
        assert_eq!(argument("./my.lua", folder.path()), Path::new("./my.lua"));
    }

    #[test]
    fn figures_are_read_from_lines_of_their_own() {
        let output = "transactions: 12 (3 per sec.)\nnotpm: 1234.5\nother: 1\n";
        let tpcc = find("tpcc").expect("tpcc");
        assert_eq!(tpcc.figures(output), BTreeMap::from([("notpm".to_owned(), 1234.5)]));
    }
}
