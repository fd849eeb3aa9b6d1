//! What to run, and what is told meanwhile.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::analysis::Analysis;
use crate::budget::Budget;
use crate::definition::Definition;
use crate::load::Progress;
use crate::record::Cell;
use crate::target::Credentials;

/// What to run, and where results go.
#[derive(Clone, Debug)]
pub struct Order {
    /// The password of accounts on servers that are not ours.
    pub credentials: Credentials,
    /// The study's name.
    pub name: String,
    /// Its file, whole.
    pub text: String,
    /// What the file says, `--quick` applied.
    pub definition: Definition,
    /// Whether it was.
    pub quick: bool,
    /// Where results go; a study that was cut off there goes on.
    pub folder: PathBuf,
    /// Programs to use instead of those of the study, by the server's name.
    pub programs: BTreeMap<String, PathBuf>,
    /// Shared objects that settings preload by name.
    pub preloads: BTreeMap<String, PathBuf>,
    /// Seed of the order of slices; drawn if none is given.
    pub seed: Option<u64>,
    /// What settings may cost at most, where that is to be judged: the study then goes on until it is known.
    pub budget: Option<Budget>,
    /// Whether to sample where every setting's server spends its time, after measuring.
    pub profile: bool,
}

/// What a study tells while it runs.
#[derive(Debug)]
pub enum Event<'a> {
    /// Something that takes a moment.
    Doing(&'a str),
    /// A slice begins; `measured` is false while it only warms up.
    Slice {
        /// What is driven.
        cell: &'a Cell,
        /// Whom.
        setting: &'a str,
        /// Whether it counts.
        measured: bool,
    },
    /// A second of it has passed.
    Second(Progress),
    /// Something that the reader of the results will be told, too.
    Note(&'a str),
    /// A block is whole: the figures so far, and how far it is.
    Block {
        /// The figures.
        analysis: &'a Analysis,
        /// Share of the time or of the blocks that has been used, whichever is more.
        done: f64,
        /// How long it goes on at most; it may know enough before.
        left: Duration,
    },
}
