//! `tare lab`: studies of the cost of observability.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

use anyhow::{Context, Result};
use console::style;
use tare_lab::Error;
use tare_lab::analysis::Analysis;
use tare_lab::budget::{self, Outcome};
use tare_lab::catalogue::{self, STUDIES, Source};
use tare_lab::definition::Definition;
use tare_lab::guest;
use tare_lab::history::Run;
use tare_lab::interrupt::Interrupt;
use tare_lab::journal::{self, Journal};
use tare_lab::outpost::DriverDef;
use tare_lab::record::Others;
use tare_lab::report::judged;
use tare_lab::runner::{self, Order};
use tare_lab::target::Credentials;

use crate::arguments::{Lab, LabBudget, LabCommand, LabCompare, LabRun};
use crate::lab_live::Live;
use crate::page::{self, Column, Grid};
use crate::{lab_history, lab_record, lab_table, provider};

/// Exit statuses of a budget: a cost is above it, or that is unknown.
const ABOVE: u8 = 3;
const NOT_KNOWN: u8 = 4;

/// The name by which settings preload tare.
const TARE: &str = "tare";

/// Runs the command.
pub(crate) fn lab(arguments: &Lab, interrupt: &Interrupt) -> Result<ExitCode> {
    let done = |()| ExitCode::SUCCESS;
    match &arguments.command {
        LabCommand::List => list().map(done),
        LabCommand::Run(a) => run(a, interrupt),
        LabCommand::Report(a) => show(&read(&a.folder)?, &a.folder, a.publish.as_deref(), &a.budget),
        LabCommand::Compare(a) => compare(a).map(done),
        LabCommand::PutBack(a) => put_back(&a.folder, &a.account.credentials()?).map(done),
        LabCommand::Record(a) => lab_record::record(a).map(done),
        LabCommand::Replay(a) => lab_record::replay(a, interrupt).map(done),
    }
}

fn list() -> Result<()> {
    let mut grid = Grid::new(&[
        ("STUDY", Column::Left),
        ("ASKS", Column::CutEnd),
        ("SETTINGS", Column::Right),
        ("CELLS", Column::Right),
        ("AT MOST", Column::Right),
        ("--quick", Column::Right),
    ]);
    for (name, text) in STUDIES {
        let (whole, quick) = (Definition::read(text, name, false)?, Definition::read(text, name, true)?);
        let cells = whole.cells().len();
        grid.row([
            (*name).to_owned(),
            whole.question.clone(),
            whole.settings.len().to_string(),
            cells.to_string(),
            format!("{:.0} min", whole.minutes),
            format!("{:.0} min", quick.minutes),
        ]);
    }
    grid.print();
    page::note(
        "\nA cell is a workload at a number of connections. `tare lab run STUDY --quick` gives a first answer.",
    );
    Ok(())
}

fn run(arguments: &LabRun, interrupt: &Interrupt) -> Result<ExitCode> {
    let source = catalogue::find(&arguments.study)?;
    let mut definition = Definition::read(&source.text, &source.file, arguments.quick)?;
    if let Some(prefix) = &arguments.driver {
        let (prefix, address) = (prefix.clone(), arguments.driver_address.clone());
        definition.driver = Some(DriverDef { prefix, address });
    }
    let folder = arguments.out.clone().unwrap_or_else(|| default_folder(&source.name));
    let order = Order {
        credentials: arguments.account.credentials()?,
        preloads: preloads(&definition, arguments.provider.as_deref())?,
        programs: arguments.servers.iter().cloned().collect(),
        name: source.name,
        text: source.text,
        definition,
        quick: arguments.quick,
        folder,
        seed: arguments.seed,
        budget: arguments.budget.fail_above,
        profile: arguments.profile,
    };
    introduce(&order);
    let analysis = watch(&order, interrupt).map_err(|error| {
        if matches!(error, Error::Interrupted) && order.folder.join(journal::FILE).exists() {
            eprintln!("what was measured is in {}; the same --out goes on with it", order.folder.display());
        }
        error
    })?;
    show(&analysis, &order.folder, None, &arguments.budget)
}

/// Runs a study with its progress in the terminal.
pub(crate) fn watch(order: &Order, interrupt: &Interrupt) -> tare_lab::Result<Analysis> {
    watch_knowing(order, None, interrupt)
}

/// Runs a study with its progress, given the activity of other processes, observed before this program ran
/// something itself.
pub(crate) fn watch_knowing(
    order: &Order,
    others: Option<Others>,
    interrupt: &Interrupt,
) -> tare_lab::Result<Analysis> {
    let mut live = Live::new()
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

fn default_folder(study: &str) -> PathBuf {
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let now = now.trim_end_matches('Z').replace([':', '-'], "").replace('T', "-");
    Path::new("lab").join(format!("{study}-{now}"))
}

fn introduce(order: &Order) {
    let study = &order.definition;
    println!("{}  {}", style(&order.name).bold(), study.question);
    let widest = page::longest(study.settings.iter().map(|setting| &setting.name));
    for setting in &study.settings {
        page::note(&format!("  {:<widest$}  {}", setting.name, setting.meaning));
    }
    page::note(&format!(
        "  {} s slices, at most {} blocks and {:.0} minutes; results in {}",
        study.slice_seconds,
        study.blocks,
        study.minutes,
        order.folder.display()
    ));
}

fn read(folder: &Path) -> Result<Analysis> {
    let records = journal::read(folder)?;
    Ok(Analysis::of(&records).ok_or_else(|| Error::NoResults(folder.into()))?)
}

fn show(analysis: &Analysis, folder: &Path, publish: Option<&Path>, asked: &LabBudget) -> Result<ExitCode> {
    // First, because the reader of the output may stop reading.
    let report = tare_lab::report::write(folder)?.html;
    let given_away = publish.map(|to| published(folder, to)).transpose()?;
    lab_table::print(analysis);
    println!();
    page::note(&format!("Results: {}", folder.display()));
    page::note(&format!("Report:  {}", report.display()));
    if let Some(path) = given_away {
        page::note(&format!("To be given away: {}", path.display()));
    }
    lab_table::in_short(analysis);
    judge(analysis, asked)
}

/// Writes the report without the raw data into another folder.
fn published(folder: &Path, to: &Path) -> Result<PathBuf> {
    let whole = |path: &Path| path.canonicalize().ok();
    anyhow::ensure!(
        whole(to).is_none_or(|to| Some(to) != whole(folder)),
        "--publish {}: these are the results themselves, whose report has the raw data in it; name another folder",
        to.display()
    );
    Ok(tare_lab::report::publish(folder, to)?)
}

/// Judges the results by the given budget, and writes the outcome to files.
fn judge(analysis: &Analysis, asked: &LabBudget) -> Result<ExitCode> {
    let judged = asked.fail_above.map(|budget| (budget, budget.judge(analysis)));
    let write = |path: &Path, text: String| {
        std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))
    };
    if let Some(path) = &asked.markdown {
        write(
            path,
            judged::markdown(analysis, judged.as_ref().map(|(budget, all)| (*budget, all.as_slice()))),
        )?;
    }
    let Some((budget, judgements)) = judged else { return Ok(ExitCode::SUCCESS) };
    if let Some(path) = &asked.junit {
        write(path, judged::junit(analysis, budget, &judgements))?;
    }
    lab_table::budget(budget, &judgements);
    Ok(match budget::outcome(&judgements) {
        Outcome::Passed => ExitCode::SUCCESS,
        Outcome::Failed => ExitCode::from(ABOVE),
        Outcome::Unknown => ExitCode::from(NOT_KNOWN),
    })
}

/// Undoes what a killed study left behind.
fn put_back(folder: &Path, credentials: &Credentials) -> Result<()> {
    // Nobody else may do the same meanwhile, nor continue the study.
    let _journal = Journal::of_study(folder)?;
    let servers = guest::settle(folder, credentials)?;
    servers.iter().for_each(|server| println!("{server}: put back as it was"));
    if servers.is_empty() {
        println!("{}: nothing is owed to any server", folder.display());
    }
    Ok(())
}

/// Prints several runs side by side.
fn compare(arguments: &LabCompare) -> Result<()> {
    let folders = arguments.folders.iter();
    let runs = folders.map(|folder| Ok(Run::new(folder.display().to_string(), read(folder)?)));
    lab_history::print(runs.collect::<Result<Vec<Run>>>()?)
}

/// Makes a study from a text that is not in a file.
pub(crate) fn study(name: &str, text: String) -> Result<(Source, Definition)> {
    let source = Source { name: name.into(), file: format!("{name}.toml"), text };
    let definition = Definition::read(&source.text, &source.file, false)?;
    Ok((source, definition))
}
