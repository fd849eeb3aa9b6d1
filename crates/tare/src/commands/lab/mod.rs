//! `tare lab`: studies of the cost of observability.

mod bench;
mod history;
mod price;
mod record;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use console::style;
use serde::Serialize;
use tare_lab::Error;
use tare_lab::analysis::Analysis;
use tare_lab::budget::{self, Budget, BudgetOutcome};
use tare_lab::catalogue::{self, STUDIES};
use tare_lab::definition::Definition;
use tare_lab::guest;
use tare_lab::history::PastRun;
use tare_lab::interrupt::Interrupt;
use tare_lab::journal::{self, Journal};
use tare_lab::outpost::DriverDef;
use tare_lab::report::judged;
use tare_lab::runner::StudyOrder;
use tare_lab::target::AccountPasswords;

use crate::exit::{ABOVE, NOT_KNOWN, wrong};
use crate::names::NameParser;
use crate::outlet::LabAccount;
use crate::output::{self, CommandOutput, OutputFormat};
use crate::page::{self, Column, Grid};
use crate::study::{preloads, table, watch};

/// Measure the cost of an observability setting, on any MariaDB or MySQL server
///
/// A study is a file: servers, settings, workloads, precision and duration. `tare lab run` starts a server
/// per setting (or switches a running one), gives load to one at a time in short slices, and compares slices
/// of the same block, so that drift affects all alike. An A/A control, identical to the base, shows the
/// noise. Each setting gets a verdict: it costs this much, no more than this much, or it is inconclusive and
/// how long a result would take. docs/explanation/measuring.md explains how.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    tare lab list\n  \
    tare lab run pfs-default --quick        # a first answer in ten minutes\n  \
    tare lab run my-study.toml -o results/monday")]
pub(crate) struct Lab {
    #[command(subcommand)]
    pub(crate) command: LabCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    /// Show the studies that ship
    List(LabList),
    /// Run a study, or resume one that was interrupted
    Run(LabRun),
    /// Write the report of a folder of results again, and show its figures
    Report(LabReport),
    /// Show several runs side by side, over time, versions or machines, and where a cost changes
    Compare(LabCompare),
    /// Undo what a killed study left on running servers
    PutBack(LabPutBack),
    Record(record::LabRecord),
    Replay(record::LabReplay),
    Bench(bench::Bench),
    Price(price::LabPrice),
}

/// Show the studies that ship
#[derive(Args, Debug)]
pub(crate) struct LabList {
    #[command(flatten)]
    pub(crate) answer: CommandOutput,
}

/// Undo what a killed study left on running servers
///
/// Before a study changes anything on a running server (a dsn), it saves the original state in its folder of
/// results. This command drops the schemas that the study made, and restores global variables and the
/// Performance Schema's settings. The same study does so by itself when it is continued.
#[derive(Args, Debug)]
pub(crate) struct LabPutBack {
    /// Folder of results
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    #[command(flatten)]
    pub(crate) account: LabAccount,
}

/// Run a study, or resume one that was interrupted
///
/// Every slice is written to results.jsonl in the results' folder as soon as it is measured. After Ctrl-C, a
/// crash or kill -9 the same command with the same --output continues. Servers are started in a temporary
/// folder (TMPDIR), unless the study names a running one; its password comes from -p, the environment
/// variable TARE_LAB_PASSWORD, or option files.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    tare lab run tare --quick\n  \
    tare lab run versions --server newer=/opt/mariadb-11.8/bin/mariadbd -o results/versions\n  \
    tare lab run my-study.toml\n  \
    tare lab run pfs-default --quick --driver 'ssh load1'       # load from another machine\n  \
    tare lab run pfs-default --quick --fail-above 3% --junit budget.xml\n\n\
docs/how-to/gate-in-ci.md explains how a budget is judged.")]
pub(crate) struct LabRun {
    /// Name of a study that ships, or a file
    #[arg(value_name = "STUDY", value_parser = NameParser::STUDIES, hide_possible_values = true)]
    pub(crate) study: String,
    /// A first answer in at most ten minutes: apply the study's section `[quick]`
    #[arg(long)]
    pub(crate) quick: bool,
    /// Folder for results [default: lab/STUDY-DATE-TIME]
    #[arg(short = 'o', long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// Program to use for one of the study's servers; may be repeated
    #[arg(long = "server", value_name = "NAME=PATH", value_parser = name_and_path)]
    pub(crate) servers: Vec<(String, PathBuf)>,
    /// The provider that settings preload as `tare` [default: libtare_mariadb.so beside this program or in
    /// ../lib/tare]
    #[arg(long, value_name = "PATH", env = "TARE_PROVIDER")]
    pub(crate) provider: Option<PathBuf>,
    /// Start the load driver with these words before it, on another machine or in another network: 'ssh
    /// load1' [default: the study's]. It needs sysbench
    #[arg(long, value_name = "PREFIX")]
    pub(crate) driver: Option<String>,
    /// This machine's address as seen from there [default: the address that ssh came to]
    #[arg(long, value_name = "ADDRESS", requires = "driver")]
    pub(crate) driver_address: Option<String>,
    /// Also take a CPU profile of every setting's server after measuring (with perf)
    #[arg(long)]
    pub(crate) profile: bool,
    /// Seed of the order of slices [default: random, and recorded in the results]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    #[command(flatten)]
    pub(crate) account: LabAccount,
    #[command(flatten)]
    pub(crate) budget: LabBudget,
}

/// The budget for results, and where its outcome is written.
#[derive(Args, Debug)]
pub(crate) struct LabBudget {
    /// Judge the cost of settings: 3%. The exit status says whether all intervals are below, one is above, or
    /// neither is known. A running study continues until it is known, or its blocks or minutes are used up
    #[arg(long, value_name = "PERCENT")]
    pub(crate) fail_above: Option<Budget>,
    /// File to write the outcome to, as JUnit's XML
    #[arg(long, value_name = "FILE", requires = "fail_above")]
    pub(crate) junit: Option<PathBuf>,
    /// File to write a summary to, in Markdown
    #[arg(long, value_name = "FILE")]
    pub(crate) markdown: Option<PathBuf>,
}

/// Write the report of a folder of results again, and show its figures
///
/// The report is made from results.jsonl alone, also for a study that is running or was killed: report.html
/// (one self-contained page with the raw data), report.csv, slices.csv, report.json, all in the folder of
/// results.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    tare lab report results/monday\n  \
    tare lab report results/monday --publish docs/reports/pfs-default     # without the raw data\n  \
    tare lab report results/monday --fail-above 3% --markdown summary.md")]
pub(crate) struct LabReport {
    /// Folder of results
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// Also write the report for publication into another folder: report.html without the raw data,
    /// report.csv, report.json, picture.svg
    #[arg(long, value_name = "TO")]
    pub(crate) publish: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) budget: LabBudget,
    #[command(flatten)]
    pub(crate) answer: CommandOutput,
}

/// Show several runs side by side, over time, versions or machines, and where a cost changes
///
/// Runs are ordered by their start. The last one defines the comparison: an earlier one counts if setting,
/// base, load and measure are the same; otherwise the reason is given. Changes from one run to the next,
/// trends, and other differences between runs (machine, server's version, method) are described.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    tare lab compare results/monday results/tuesday results/wednesday\n  \
    tare lab compare lab/pfs-default-*")]
pub(crate) struct LabCompare {
    /// Folders of results, two or more
    #[arg(value_name = "DIR", num_args = 2.., required = true)]
    pub(crate) folders: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) answer: CommandOutput,
}

fn name_and_path(text: &str) -> Result<(String, PathBuf), String> {
    let (name, path) = text.split_once('=').ok_or("NAME=PATH is allowed, such as newer=/opt/bin/mariadbd")?;
    Ok((name.into(), path.into()))
}

/// Runs the command.
pub(crate) fn lab(arguments: &Lab, interrupt: &Interrupt) -> Result<ExitCode> {
    let done = |()| ExitCode::SUCCESS;
    match &arguments.command {
        LabCommand::List(a) => a.answer.written(|| list(a.answer.format).map(done)),
        LabCommand::Run(a) => run(a, interrupt),
        LabCommand::Report(a) => a.answer.written(|| report(a)),
        LabCommand::Compare(a) => a.answer.written(|| compare(a).map(done)),
        LabCommand::PutBack(a) => put_back(&a.folder, &a.account.credentials()?).map(done),
        LabCommand::Record(a) => record::record(a).map(done),
        LabCommand::Replay(a) => a.answer.written(|| record::replay(a, interrupt).map(done)),
        LabCommand::Bench(a) => bench::bench(a, interrupt),
        LabCommand::Price(a) => price::price(a, interrupt),
    }
}

fn list(format: OutputFormat) -> Result<()> {
    let study = |(name, text): &(&str, &str)| {
        let (whole, quick) = (Definition::read(text, name, false)?, Definition::read(text, name, true)?);
        Ok(ListedStudy {
            name: (*name).to_owned(),
            cells: whole.cells().len(),
            settings: whole.settings.len(),
            question: whole.question,
            minutes: whole.minutes,
            quick_minutes: quick.minutes,
        })
    };
    let studies = STUDIES.iter().map(study).collect::<Result<Vec<ListedStudy>>>()?;
    if format.is_json() {
        println!("{}", serde_json::to_string_pretty(&serde_json::json!({ "studies": studies }))?);
        return Ok(());
    }
    let mut grid = Grid::new(&[
        ("STUDY", Column::Left),
        ("ASKS", Column::CutEnd),
        ("SETTINGS", Column::Right),
        ("CELLS", Column::Right),
        ("AT MOST", Column::Right),
        ("--quick", Column::Right),
    ]);
    for study in studies {
        grid.row([
            study.name,
            study.question,
            study.settings.to_string(),
            study.cells.to_string(),
            format!("{:.0} min", study.minutes),
            format!("{:.0} min", study.quick_minutes),
        ]);
    }
    grid.print();
    page::note(
        "\nA cell is a workload at a number of connections. `tare lab run STUDY --quick` gives a first answer.",
    );
    Ok(())
}

/// A study that ships.
#[derive(Debug, Serialize)]
struct ListedStudy {
    name: String,
    question: String,
    settings: usize,
    /// Workloads at a number of connections.
    cells: usize,
    /// Longest time.
    minutes: f64,
    quick_minutes: f64,
}

fn run(arguments: &LabRun, interrupt: &Interrupt) -> Result<ExitCode> {
    let source = catalogue::find(&arguments.study).map_err(wrong)?;
    let mut definition = Definition::read(&source.text, &source.file, arguments.quick).map_err(wrong)?;
    if let Some(prefix) = &arguments.driver {
        let (prefix, address) = (prefix.clone(), arguments.driver_address.clone());
        definition.driver = Some(DriverDef { prefix, address });
    }
    let folder = arguments.output.clone().unwrap_or_else(|| default_folder(&source.name));
    let order = StudyOrder {
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
            eprintln!(
                "what was measured is in {}; the same command with the same --output continues",
                order.folder.display()
            );
        }
        if matches!(error, Error::NoServer { .. }) { wrong(error) } else { error.into() }
    })?;
    show(&analysis, &order.folder, None, &arguments.budget)
}

fn default_folder(study: &str) -> PathBuf {
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let now = now.trim_end_matches('Z').replace([':', '-'], "").replace('T', "-");
    Path::new("lab").join(format!("{study}-{now}"))
}

fn introduce(order: &StudyOrder) {
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

/// Prints what the names of a study's settings mean.
fn explain(analysis: &Analysis) {
    let mut grid = Grid::new(&[("SETTING", Column::Left), ("MEANING", Column::CutEnd)]);
    for setting in &analysis.header.settings {
        grid.row([setting.name.clone(), setting.meaning.clone()]);
    }
    grid.print();
}

fn read(folder: &Path) -> Result<Analysis> {
    let records = journal::read(folder)?;
    Ok(Analysis::of(&records).ok_or_else(|| Error::NoResults(folder.into()))?)
}

fn show(analysis: &Analysis, folder: &Path, publish: Option<&Path>, asked: &LabBudget) -> Result<ExitCode> {
    // First, because the reader of the output may stop reading.
    let report = tare_lab::report::write(folder)?.html;
    let given_away = publish.map(|to| published(folder, to)).transpose()?;
    table::print(analysis);
    println!();
    explain(analysis);
    println!();
    page::note(&format!("Results: {}", folder.display()));
    page::note(&format!("Report:  {}", report.display()));
    if let Some(path) = given_away {
        page::note(&format!("Without the raw data: {}", path.display()));
    }
    table::in_short(analysis);
    judge(analysis, asked, OutputFormat::Table)
}

/// Makes the report of a folder again; prints its figures, or the whole report for programs.
fn report(arguments: &LabReport) -> Result<ExitCode> {
    let (folder, publish) = (&arguments.folder, arguments.publish.as_deref());
    let analysis = read(folder)?;
    if !arguments.answer.format.is_json() {
        return show(&analysis, folder, publish, &arguments.budget);
    }
    let json = tare_lab::report::write(folder)?.json;
    publish.map(|to| published(folder, to)).transpose()?;
    output::print(&std::fs::read_to_string(&json).with_context(|| format!("reading {}", json.display()))?)?;
    judge(&analysis, &arguments.budget, OutputFormat::Json)
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

/// Judges the results by the given budget, writes the outcome to files, and prints it for people.
fn judge(analysis: &Analysis, asked: &LabBudget, format: OutputFormat) -> Result<ExitCode> {
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
    if !format.is_json() {
        table::budget(budget, &judgements);
    }
    Ok(match budget::outcome(&judgements) {
        BudgetOutcome::Passed => ExitCode::SUCCESS,
        BudgetOutcome::Failed => ExitCode::from(ABOVE),
        BudgetOutcome::Unknown => ExitCode::from(NOT_KNOWN),
    })
}

/// Undoes what a killed study left behind.
fn put_back(folder: &Path, credentials: &AccountPasswords) -> Result<()> {
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
    let runs = folders.map(|folder| Ok(PastRun::new(folder.display().to_string(), read(folder)?)));
    history::print(runs.collect::<Result<Vec<PastRun>>>()?, arguments.answer.format)
}
