//! `tare bench`: the overhead of several settings, compared in one run, as a study of the lab.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use tare_lab::installation::Installation;
use tare_lab::interrupt::Interrupt;
use tare_lab::journal;
use tare_lab::runner::Order;
use tare_lab::workload;

use crate::arguments::Bench;
use crate::{lab, lab_table, page, provider};

/// Servers, settings, and everything that is the same in every bench. Without tare its setting is removed.
const STUDY: &str = include_str!("bench.toml");
/// Start and end of the setting with tare in it.
const TARE: (&str, &str) = ("# tare:\n", "# end of tare\n");

/// The parameters of a bench.
pub(crate) struct Plan<'a> {
    pub(crate) rounds: u32,
    pub(crate) seconds: u32,
    pub(crate) users: u32,
    pub(crate) rows: u32,
    pub(crate) workloads: &'a [String],
}

/// Runs the command.
pub(crate) fn bench(arguments: &Bench, interrupt: &Interrupt) -> Result<ExitCode> {
    let named = arguments.programs.provider.as_deref();
    let tare = match provider::find(named) {
        Ok(_) => true,
        Err(error) if named.is_some() => return Err(error),
        Err(error) => {
            eprintln!("tare itself is left out: {error:#}");
            false
        }
    };
    let plan = Plan {
        rounds: arguments.rounds,
        seconds: arguments.secs,
        users: arguments.threads,
        rows: arguments.rows,
        workloads: &arguments.workloads,
    };
    let folder = tempfile::tempdir().context("making a temporary folder")?;
    let order = order(&plan, arguments.programs.installation()?, named, tare, folder.path())?;
    for setting in &order.definition.settings {
        page::note(&format!("  {:<10} {}", setting.name, setting.meaning));
    }
    let analysis = lab::watch(&order, interrupt)?;
    lab_table::print(&analysis);
    lab_table::in_short(&analysis);
    if let Some(file) = &arguments.json {
        let results = folder.path().join(journal::FILE);
        std::fs::copy(results, file).with_context(|| format!("writing {}", file.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Makes the study of a plan.
pub(crate) fn order(
    plan: &Plan<'_>,
    installation: Installation,
    provider: Option<&Path>,
    tare: bool,
    folder: &Path,
) -> Result<Order> {
    let (source, definition) = lab::study("bench", text(plan, tare, installation.has_federated())?)?;
    Ok(Order {
        credentials: tare_lab::target::Credentials::default(),
        preloads: lab::preloads(&definition, provider)?,
        programs: [("mariadb".to_owned(), installation.mariadbd)].into(),
        name: source.name,
        text: source.text,
        definition,
        quick: false,
        folder: folder.into(),
        seed: None,
        budget: None,
        profile: false,
    })
}

fn text(plan: &Plan<'_>, tare: bool, federated: bool) -> Result<String> {
    let (before, rest) = STUDY.split_once(TARE.0).context("bench.toml")?;
    let (own, after) = rest.split_once(TARE.1).context("bench.toml")?;
    let own = match (tare, federated) {
        (false, _) => String::new(),
        (true, true) => own.to_owned(),
        // Its tables cannot be read then, so its presence is not verified; it is loaded all the same.
        (true, false) => {
            let lines = own.lines().filter(|l| !l.starts_with("require"));
            lines.collect::<Vec<_>>().join("\n").replace(", \"--plugin-load-add=ha_federatedx\"", "")
        }
    };
    let workloads = plan.workloads.iter().map(|name| {
        anyhow::ensure!(workload::find(name).is_some(), "there is no workload `{name}`");
        Ok(format!(
            "\n[[workload]]\nname = \"{name}\"\nrun = \"{name}\"\noptions = {{ table-size = {} }}\nusers = [{}]\n",
            plan.rows, plan.users
        ))
    });
    let workloads = workloads.collect::<Result<String>>()?;
    // Differences between starts of the servers exceed those within one.
    let figures =
        format!("slice_seconds = {}\nblocks = {}\nblocks_per_start = 1\n", plan.seconds, plan.rounds);
    Ok(format!("{figures}{before}{own}{after}{workloads}"))
}
