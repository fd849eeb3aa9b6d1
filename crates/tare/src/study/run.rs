//! Running a study with its progress in the terminal.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Result;
use tare_lab::Error;
use tare_lab::analysis::Analysis;
use tare_lab::catalogue::StudySource;
use tare_lab::definition::Definition;
use tare_lab::interrupt::Interrupt;
use tare_lab::record::Others;
use tare_lab::runner::{self, StudyOrder};

use super::live::StudyProgress;
use crate::provider;

/// The name by which settings preload tare.
const TARE: &str = "tare";

/// Runs a study with its progress in the terminal.
pub(crate) fn watch(order: &StudyOrder, interrupt: &Interrupt) -> tare_lab::Result<Analysis> {
    watch_knowing(order, None, interrupt)
}

/// Runs a study with its progress, given the activity of other processes, observed before this program ran
/// something itself.
pub(crate) fn watch_knowing(
    order: &StudyOrder,
    others: Option<Others>,
    interrupt: &Interrupt,
) -> tare_lab::Result<Analysis> {
    let mut live = StudyProgress::new()
        .map_err(|e| Error::Io { what: "drawing progress".into(), source: std::io::Error::other(e) })?;
    let measured = runner::run_knowing(order, others, interrupt, &mut |event| live.hear(&event));
    live.finish();
    measured
}

/// Returns the shared objects that settings preload by name: tare, if one does.
pub(crate) fn preloads(definition: &Definition, named: Option<&Path>) -> Result<BTreeMap<String, PathBuf>> {
    let asked = definition.settings.iter().any(|s| s.preload.as_deref() == Some(TARE));
    Ok(if asked { BTreeMap::from([(TARE.to_owned(), provider::find(named)?)]) } else { BTreeMap::new() })
}

/// Makes a study from a text that is not in a file.
pub(crate) fn study(name: &str, text: String) -> Result<(StudySource, Definition)> {
    let source = StudySource { name: name.into(), file: format!("{name}.toml"), text };
    let definition = Definition::read(&source.text, &source.file, false)?;
    Ok((source, definition))
}
