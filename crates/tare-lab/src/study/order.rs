//! The order to run a study, and the events that it reports.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::definition::Definition;
use crate::load::DriverSecond;
use crate::results::record::Cell;
use crate::server::target::AccountPasswords;
use crate::verdict::analysis::Analysis;
use crate::verdict::budget::Budget;

/// A study to run, and the folder of its results.
#[derive(Clone, Debug)]
pub struct StudyOrder {
    /// Passwords for running servers.
    pub credentials: AccountPasswords,
    /// Name of the study.
    pub name: String,
    /// Text of its file.
    pub text: String,
    /// The parsed file, with `--quick` applied.
    pub definition: Definition,
    /// Whether `--quick` was given.
    pub quick: bool,
    /// Folder of the results; an interrupted study there is continued.
    pub folder: PathBuf,
    /// Programs that replace those of the study, by the server's name.
    pub programs: BTreeMap<String, PathBuf>,
    /// Shared objects that settings preload by name.
    pub preloads: BTreeMap<String, PathBuf>,
    /// Seed of the order of slices; random if `None`.
    pub seed: Option<u64>,
    /// Highest cost that settings may have, if it is to be judged; the study then continues until that is
    /// known.
    pub budget: Option<Budget>,
    /// Whether to take a CPU profile of every setting's server after measuring.
    pub profile: bool,
}

/// An event of a running study.
#[derive(Debug)]
pub enum StudyEvent<'a> {
    /// A step that takes a moment.
    Doing(&'a str),
    /// A slice starts; `measured` is false for a warm-up.
    Slice {
        /// The workload and its connections.
        cell: &'a Cell,
        /// Name of the setting.
        setting: &'a str,
        /// Whether it is measured.
        measured: bool,
    },
    /// A second of it has passed.
    Second(DriverSecond),
    /// A remark, which the report will show, too.
    Note(&'a str),
    /// A block is complete.
    Block {
        /// The analysis so far.
        analysis: &'a Analysis,
        /// Used share of the time or of the blocks, whichever is greater.
        done: f64,
        /// Longest remaining time; the study may know enough before.
        left: Duration,
    },
}
