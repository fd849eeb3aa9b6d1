//! The report of a study: a self-contained page of HTML, and its figures as CSV and JSON beside it.
//!
//! Everything is computed from the records ([`crate::journal`], [`crate::analysis`]), so a report can be made
//! of a study that is running, was killed, or ended long ago. The page uses no network and, except for
//! downloads and the flame graphs' zoom, no script.

mod background;
mod chart;
mod curves;
mod effort;
mod export;
mod figures;
mod flame;
pub mod judged;
mod latency;
mod page;
mod parts;
mod picture;
mod results;
pub mod schema;
mod throughput;
pub(crate) mod unit;
pub mod wording;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::Tried;
use crate::results::journal;
use crate::results::record::{Calls, Cell, Profile, Record, Slice};
use crate::verdict::analysis::{Analysis, CellAnalysis, SettingAnalysis};
use crate::{Error, Result};

/// Names of a report's files.
const PAGE: &str = "report.html";
const FIGURES: &str = "report.csv";
const SLICES: &str = "slices.csv";
const ANALYSIS: &str = "report.json";
const PICTURE: &str = "picture.svg";

/// Paths of a report's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    /// The page: `report.html`.
    pub html: PathBuf,
    /// A line for each setting under each workload: `report.csv`.
    pub csv: PathBuf,
    /// A line for each slice: `slices.csv`.
    pub slices: PathBuf,
    /// The whole analysis: `report.json`. Missing figures are null.
    pub json: PathBuf,
}

/// Writes the report of the results in `dir` there.
///
/// # Errors
/// When there are no results, they cannot be read, or the files cannot be written.
pub fn write(dir: &Path) -> Result<Paths> {
    let records = journal::read(dir)?;
    let study = Study::of(&records, dir)?;
    let raw = fs::read_to_string(dir.join(journal::FILE)).tried(|| format!("reading {}", dir.display()))?;
    let exports = export::Exports::of(&study);
    let page = page::page(&study, &DataPlace::Within { exports: &exports, raw: &raw }).into_string();
    Ok(Paths {
        html: put(dir, PAGE, &page)?,
        csv: put(dir, FIGURES, &exports.figures)?,
        slices: put(dir, SLICES, &exports.slices)?,
        json: put(dir, ANALYSIS, &exports.analysis)?,
    })
}

/// Writes the report of the results in `dir` into the folder `to` for publication: the page without raw data,
/// its figures as CSV and JSON, and a picture of all differences for other pages. Returns the page's path.
///
/// # Errors
/// When there are no results, they cannot be read, the folder cannot be created, or the files cannot be
/// written.
pub fn publish(dir: &Path, to: &Path) -> Result<PathBuf> {
    let records = journal::read(dir)?;
    let study = Study::of(&records, dir)?;
    let exports = export::Exports::of(&study);
    fs::create_dir_all(to).tried(|| format!("making {}", to.display()))?;
    put(to, FIGURES, &exports.figures)?;
    put(to, ANALYSIS, &exports.analysis)?;
    put(to, PICTURE, &picture::picture(&study).into_string())?;
    put(to, PAGE, &page::page(&study, &DataPlace::Beside).into_string())
}

fn put(dir: &Path, name: &str, text: &str) -> Result<PathBuf> {
    let path = dir.join(name);
    fs::write(&path, text).tried(|| format!("writing {}", path.display()))?;
    Ok(path)
}

/// The place of a page's data.
enum DataPlace<'a> {
    /// Inside the page: the exports, and the file of records.
    Within { exports: &'a export::Exports, raw: &'a str },
    /// In files beside it, without the records.
    Beside,
}

/// The input of the page.
struct Study<'a> {
    analysis: Analysis,
    /// Slices by cell and setting.
    slices: BTreeMap<&'a Cell, BTreeMap<&'a str, Vec<&'a Slice>>>,
    calls: Vec<&'a Calls>,
    profiles: Vec<(&'a Profile, flame::Stacks)>,
}

impl<'a> Study<'a> {
    fn of(records: &'a [Record], dir: &Path) -> Result<Study<'a>> {
        let analysis = Analysis::of(records).ok_or_else(|| Error::NoResults(dir.into()))?;
        let mut study = Study { analysis, slices: BTreeMap::new(), calls: vec![], profiles: vec![] };
        for record in records {
            match record {
                Record::Slice(slice) => {
                    let of_cell = study.slices.entry(&slice.cell).or_default();
                    of_cell.entry(&slice.setting).or_default().push(slice);
                }
                Record::Calls(calls) => study.calls.push(calls),
                Record::Profile(profile) => {
                    // A missing one is not shown; if a profile failed, a note of the study says so.
                    let text = fs::read_to_string(dir.join(&profile.stacks)).unwrap_or_default();
                    study.profiles.push((profile, flame::Stacks::of(&text)));
                }
                Record::Header(_)
                | Record::Maximum(_)
                | Record::Effort(_)
                | Record::Note(_)
                | Record::End(_) => {}
            }
        }
        study.profiles.retain(|(_, stacks)| stacks.samples() > 0);
        Ok(study)
    }

    /// Returns the slices of a setting under a workload, in the order of measurement.
    fn slices(&self, cell: &Cell, setting: &str) -> &[&'a Slice] {
        self.slices.get(cell).and_then(|of_cell| of_cell.get(setting)).map_or(&[], Vec::as_slice)
    }

    fn all_slices(&self) -> impl Iterator<Item = &'a Slice> {
        self.slices.values().flat_map(BTreeMap::values).flatten().copied()
    }

    /// Returns the workloads in the study's order, each with its cells.
    fn workloads(&self) -> Vec<(&str, Vec<&CellAnalysis>)> {
        let mut workloads: Vec<(&str, Vec<&CellAnalysis>)> = vec![];
        for cell in self.analysis.cells.iter().filter(|c| c.settings.iter().any(|s| s.blocks > 0)) {
            let name = cell.cell.workload.as_str();
            match workloads.iter_mut().find(|(known, _)| *known == name) {
                Some((_, cells)) => cells.push(cell),
                None => workloads.push((name, vec![cell])),
            }
        }
        workloads
    }
}

/// Returns the settings that were measured in a cell.
fn measured(cell: &CellAnalysis) -> impl Iterator<Item = &SettingAnalysis> + Clone {
    cell.settings.iter().filter(|s| s.blocks > 0)
}

/// Returns whether a setting is a base.
fn is_base(setting: &SettingAnalysis) -> bool {
    setting.name == setting.base
}
