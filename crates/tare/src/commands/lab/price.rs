//! `tare lab price`: costs per event, measured on this machine or compared with other loads.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use tare_budget::board::percent;
use tare_budget::price::ConnectionCost;
use tare_budget::{Cost, PricedProvider, Prices};
use tare_lab::analysis::Analysis;
use tare_lab::interrupt::Interrupt;
use tare_lab::journal;
use tare_lab::prices::check::Agreement;
use tare_lab::prices::speed::Speed;
use tare_lab::prices::{self, Fit, LoadMeasurements, experiment, file};
use tare_lab::record::Record;
use tare_lab::runner::StudyOrder;
use tare_server::installation::Installation;
use tempfile::NamedTempFile;

use crate::durations::{self, shown};
use crate::page::{self, Column, Grid, paragraph};
use crate::prices::{between, quality, read};
use crate::study;

/// Time of a measurement, and of a check, by default.
const MEASURED: Duration = Duration::from_secs(600);
const CHECKED: Duration = Duration::from_secs(1800);
/// Share of a measurement's time for the cost of disabled events.
const OFF: f64 = 0.25;
/// Share of a measurement's time for the cost of a connection besides its events.
const CONNECTING: f64 = 0.15;

/// Measure the cost per event on this machine, or check the costs that are known
///
/// Starts servers in a temporary folder, drives loads that are rich in one kind of event each, with settings
/// that differ in one group of instruments or one level, and fits nanoseconds per event, which it writes to a
/// price file. `tare govern`, `tare price` and a server's budget read such a file. With --check it compares
/// the cost that prices predict for six other loads with the measured one. Both need a quiet machine.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    tare lab price tare -o prices.toml\n  \
    tare lab price mysql --server /usr/sbin/mysqld --for 20m -o mysql.toml\n  \
    tare lab price mysql --check --server /usr/sbin/mysqld --prices mysql.toml")]
pub(crate) struct LabPrice {
    /// The provider whose events are measured
    #[arg(value_name = "WHOSE")]
    whose: Whose,
    /// Measure six loads, and compare with the estimate
    #[arg(long, conflicts_with = "output")]
    check: bool,
    /// With --check: the price file [default: the prices that ship]
    #[arg(long, value_name = "FILE", requires = "check")]
    prices: Option<PathBuf>,
    /// Time to measure [default: 10m; 30m with --check]
    #[arg(long = "for", value_name = "TIME", value_parser = durations::between("1s", "1d"))]
    time: Option<Duration>,
    /// The server's program to measure [default: mariadbd, for mysql mysqld]
    #[arg(long, value_name = "PROGRAM")]
    server: Option<PathBuf>,
    /// tare's shared object [default: beside this program]
    #[arg(long, value_name = "PATH")]
    provider: Option<PathBuf>,
    /// The price file to write [default: prices.toml]
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Keep the measurements in a folder; the same folder continues an interrupted measurement
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
}

/// The provider whose events are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Whose {
    /// Tare
    Tare,
    /// MariaDB's own Performance Schema
    Mariadb,
    /// MySQL's Performance Schema
    Mysql,
}

impl Whose {
    fn provider(self) -> PricedProvider {
        match self {
            Whose::Tare => PricedProvider::Tare,
            Whose::Mariadb => PricedProvider::MariaDb,
            Whose::Mysql => PricedProvider::MySql,
        }
    }

    /// Returns its name in price files.
    fn name(self) -> &'static str {
        match self {
            Whose::Tare => "tare",
            Whose::Mariadb => "mariadb",
            Whose::Mysql => "mysql",
        }
    }

    /// Returns the program of its server.
    fn program(self) -> &'static str {
        if self == Whose::Mysql { "mysqld" } else { "mariadbd" }
    }

    /// Returns the server's name in price files.
    fn server(self, version: &str) -> String {
        match self {
            Whose::Tare => format!("MariaDB {version} with tare {}", env!("CARGO_PKG_VERSION")),
            Whose::Mariadb => format!("MariaDB {version}"),
            Whose::Mysql => format!("MySQL {version}"),
        }
    }
}

/// Runs the command.
pub(super) fn price(arguments: &LabPrice, interrupt: &Interrupt) -> Result<ExitCode> {
    if arguments.check {
        let prices = match &arguments.prices {
            Some(path) => read(path)?,
            None => Prices::shipped(arguments.whose.provider())?,
        };
        check(arguments, &prices, interrupt)
    } else {
        measure(arguments, interrupt)
    }
    .map(|()| ExitCode::SUCCESS)
}

/// The results of a study: its folder's records, and their analysis.
struct Results {
    records: Vec<Record>,
    analysis: Analysis,
    /// Duration of the reference work meanwhile, in nanoseconds.
    work_ns: Option<f64>,
}

impl Results {
    /// Converts a cost to the machine's speed during another study.
    fn as_during(&self, other: &Results, cost: Cost) -> Cost {
        let (then, there) = (self.work_ns.unwrap_or(1.0), other.work_ns.unwrap_or(1.0));
        cost.times(there / then)
    }
}

/// Finds the server's program, and checks that it has the provider to measure.
fn program(arguments: &LabPrice) -> Result<PathBuf> {
    let whose = arguments.whose;
    let named = arguments.server.clone().unwrap_or_else(|| whose.program().into());
    let installation = match Installation::find(Some(&named)) {
        Err(tare_server::Error::Missing { .. }) => {
            bail!("{}: there is no such program; --server names the server's", named.display())
        }
        found => found?,
    };
    let is_mysql = installation.is_mysql();
    if is_mysql != (whose == Whose::Mysql) {
        let which = if is_mysql { "MySQL's" } else { "MariaDB's" };
        bail!("{}: a server of {which} has no events of `{}`", named.display(), whose.name());
    }
    if whose == Whose::Tare && !installation.has_federated() {
        bail!("{}: levels are switched by SQL, for which it needs the plugin ha_federatedx", named.display());
    }
    Ok(installation.mariadbd)
}

/// Runs a generated study in a subfolder of `folder`.
fn run(
    arguments: &LabPrice,
    name: &str,
    text: String,
    folder: &Path,
    interrupt: &Interrupt,
) -> Result<Results> {
    let (source, definition) = study::study(name, text)?;
    let order = StudyOrder {
        credentials: tare_lab::target::AccountPasswords::default(),
        preloads: study::preloads(&definition, arguments.provider.as_deref())?,
        programs: [(experiment::SERVER.to_owned(), program(arguments)?)].into(),
        name: source.name,
        text: source.text,
        definition,
        quick: false,
        folder: folder.join(name),
        seed: None,
        budget: None,
        profile: false,
    };
    let speed = Speed::begin();
    let analysis = study::watch(&order, interrupt);
    let kept = folder.join(format!("{name}.work"));
    // Also kept for an interrupted study, whose error is the one to return.
    let work_ns = speed.end(&kept);
    let analysis = analysis?;
    let work_ns = work_ns.with_context(|| kept.display().to_string())?;
    Ok(Results { records: journal::read(&order.folder)?, analysis, work_ns })
}

/// Returns the folder for results: the given one, or a temporary one.
fn folder(arguments: &LabPrice) -> Result<(PathBuf, Option<tempfile::TempDir>)> {
    if let Some(folder) = &arguments.results {
        return Ok((folder.clone(), None));
    }
    let folder = tempfile::tempdir().context("making a temporary folder")?;
    Ok((folder.path().to_owned(), Some(folder)))
}

fn measure(arguments: &LabPrice, interrupt: &Interrupt) -> Result<()> {
    let whose = arguments.whose;
    let out = arguments.output.clone().unwrap_or_else(|| "prices.toml".into());
    // A file that cannot be written is reported before anything is measured.
    let mut file = beside(&out).with_context(|| format!("--output {}", out.display()))?;
    let (folder, _kept) = folder(arguments)?;
    let (provider, time) = (whose.provider(), arguments.time.unwrap_or(MEASURED));
    let minutes = in_minutes(time);
    let levels = experiment::of_levels(provider, minutes * (1.0 - OFF - CONNECTING), &experiment::LOADS);
    let levels = run(arguments, "levels", levels, &folder, interrupt)?;
    let settings = experiment::settings(provider);
    let believed = Prices::shipped(provider)?.on_machine(levels.work_ns);
    let loads = prices::loads(&levels.records, &settings, &believed)?;
    let of: Vec<_> = settings.iter().map(|it| it.levels.clone()).collect();
    let fit = prices::fit(&of, &loads, &believed)?;
    let off = experiment::of_off(provider, minutes * OFF);
    let off_results = run(arguments, "off", off, &folder, interrupt)?;
    let off = prices::off(&off_results.records, &loads, &believed, fit.factor)?;
    let off = off_results.as_during(&levels, off);
    let connections = experiment::of_connections(provider, minutes * CONNECTING);
    let connections = run(arguments, "connections", connections, &folder, interrupt)?;
    let header = &levels.analysis.header;
    let version = header.servers.first().map(|it| it.version.clone()).unwrap_or_default();
    let how = how(whose, time, &levels, &off_results, &loads, &fit);
    let head = file::PriceFileHead {
        provider: whose.name(),
        server: &whose.server(&version),
        machine: &machine(&header.machine),
        how: &how,
        work_ns: levels.work_ns,
    };
    let mut text = file::write(&head, &fit, off, &believed);
    let everything = experiment::everything(provider);
    let of_events = Prices::read(&text).context("the prices that were measured")?;
    let then = of_events.on_machine(connections.work_ns);
    let ConnectionCost { off, on } = prices::connecting(&connections.records, &everything, &then)?;
    let [off, on] = [off, on].map(|it| connections.as_during(&levels, it));
    text += &file::connection(&ConnectionCost { off, on });
    let prices = Prices::read(&text).context("the prices that were measured")?;
    file.write_all(text.as_bytes()).context("writing prices")?;
    file.persist(&out).with_context(|| format!("writing {}", out.display()))?;
    print_prices(&prices, &fit, &everything);
    page::note(&format!("Prices: {}", out.display()));
    Ok(())
}

fn in_minutes(time: Duration) -> f64 {
    time.as_secs_f64() / 60.0
}

/// Creates a temporary, world-readable file next to the one that it will replace.
fn beside(path: &Path) -> std::io::Result<NamedTempFile> {
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
    tempfile::Builder::new().permissions(fs::Permissions::from_mode(0o644)).tempfile_in(folder)
}

fn machine(machine: &tare_lab::record::Machine) -> String {
    let model = &machine.cpu_model;
    let host = if machine.hypervisor.is_some() { "virtual machine, " } else { "" };
    format!("{host}{} processors, {model}", machine.cpus)
}

/// Describes how prices were measured, for their file.
fn how(
    whose: Whose,
    time: Duration,
    levels: &Results,
    off: &Results,
    loads: &[LoadMeasurements],
    fit: &Fit,
) -> String {
    let starts = |results: &Results, setting: &str| {
        let cells = results.analysis.cells.iter().filter_map(|cell| cell.setting(setting));
        cells.map(|it| it.blocks).min().unwrap_or(0)
    };
    let names: Vec<&str> = loads.iter().map(|it| it.name.as_str()).collect();
    format!(
        "`tare lab price {} --for {}`, {}: {} settings switched on one server, started {} times,\n\
         under {};\n\
         what costs that is off from {} starts of servers with and without. What was believed before are the prices that\n\
         shipped, times {:.2}, each step give or take one and a half of it. Loads contradict prices {:.1} times as much as that and\n\
         noise explain; intervals allow for it. 95% intervals.\n",
        whose.name(),
        shown(time),
        levels.analysis.header.started,
        levels.analysis.header.settings.len(),
        starts(levels, "everything"),
        names.join(", "),
        starts(off, "nothing"),
        fit.factor,
        fit.contradiction,
    )
}

/// Prints the prices by kind.
fn print_prices(prices: &Prices, fit: &Fit, everything: &experiment::PriceSetting) {
    paragraph(&quality(&prices.origin, None));
    let mut grid = Grid::new(&[
        ("KIND", Column::Left),
        ("LEVEL", Column::Left),
        ("NS EACH", Column::Right),
        ("FROM", Column::Right),
        ("TO", Column::Right),
        ("", Column::CutEnd),
    ]);
    for (kind, level) in &everything.levels {
        let cost = prices.cost(*kind, *level);
        let note =
            if fit.prices.contains_key(kind) { "" } else { "too few events: as all the others together" };
        grid.row([
            kind.to_string(),
            level.to_string(),
            format!("{:.1}", cost.ns),
            format!("{:.1}", cost.low),
            format!("{:.1}", cost.high),
            note.to_owned(),
        ]);
    }
    for (level, cost) in [("off", prices.connection.off), ("on", prices.connection.on)] {
        let [ns, low, high] = [cost.ns, cost.low, cost.high].map(|it| format!("{it:.1}"));
        grid.row(["connection".to_owned(), level.to_owned(), ns, low, high, "besides its events".to_owned()]);
    }
    grid.print();
}

fn check(arguments: &LabPrice, prices: &Prices, interrupt: &Interrupt) -> Result<()> {
    let (folder, _kept) = folder(arguments)?;
    let provider = arguments.whose.provider();
    let text = experiment::of_check(provider, in_minutes(arguments.time.unwrap_or(CHECKED)));
    let results = run(arguments, "check", text, &folder, interrupt)?;
    let here = prices.on_machine(results.work_ns);
    let checked = prices::check(&results.records, &experiment::everything(provider), &here)?;
    paragraph(&quality(&here.origin, here.machine));
    let mut grid = Grid::new(&[
        ("LOAD", Column::Left),
        ("PREDICTED", Column::Right),
        ("MEASURED", Column::Right),
        ("VERDICT", Column::Left),
    ]);
    for it in &checked {
        let measured = match it.measured.interval {
            Some((low, high)) => between(Cost { ns: it.measured.share, low, high }),
            None => format!("{} (too few starts for an interval)", percent(it.measured.share)),
        };
        let verdict = match it.verdict() {
            Agreement::Quarter => "within a quarter",
            Agreement::Intervals => "within both intervals",
            Agreement::Misses => "misses",
            Agreement::Open => "open",
        };
        grid.row([it.load.clone(), between(it.predicted), measured, verdict.to_owned()]);
    }
    grid.print();
    Ok(())
}
