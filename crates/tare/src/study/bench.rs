//! The study of `tare lab bench`, and of the comparison in `tare demo`.

use std::path::Path;

use anyhow::{Context, Result};
use tare_lab::runner::StudyOrder;
use tare_lab::workload;
use tare_server::installation::Installation;

use super::run::{preloads, study};

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

/// Makes the study of a plan.
pub(crate) fn order(
    plan: &Plan<'_>,
    installation: Installation,
    provider: Option<&Path>,
    tare: bool,
    folder: &Path,
) -> Result<StudyOrder> {
    let (source, definition) = study("bench", text(plan, tare, installation.has_federated())?)?;
    Ok(StudyOrder {
        credentials: tare_lab::target::AccountPasswords::default(),
        preloads: preloads(&definition, provider)?,
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
        workload::named(name)?;
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
