//! Preparation of a study: programs, data on each server, access to running servers.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use tare_server::installation::Installation;

use super::identity::StudyIdentity;
use super::order::{StudyEvent, StudyOrder};
use crate::definition::processes::used_servers;
use crate::definition::recordings::check_recordings;
use crate::definition::{Definition, ServerDef, WorkloadDef};
use crate::load::Load;
use crate::load::outpost::Outpost;
use crate::load::workload::{DriverOptions, SysbenchScript};
use crate::machine;
use crate::process::interrupt::Interrupt;
use crate::results::record::{Header, Measure, Others};
use crate::server::guest::Guest;
use crate::study::servers::bench::Bench;
use crate::study::servers::fleet::ServerOrigin;
use crate::study::servers::sidecar;
use crate::{Error, Result};

/// Number of threads that load data.
const LOADERS: u32 = 4;

/// A study that can be measured: its files are known, and its servers have their data.
#[derive(Debug)]
pub(crate) struct PreparedStudy {
    /// The content of every file that is measured, by which a study that goes on is recognised.
    pub(crate) identity: StudyIdentity,
    /// Activity of other processes before anything was started.
    pub(crate) others: Others,
    /// The data of its workloads.
    pub(crate) loads: Loads,
    /// Where each server comes from. Declared before the bench: running servers are put back before its
    /// folder is removed.
    pub(crate) origins: BTreeMap<String, ServerOrigin>,
    /// The place that servers and drivers are started in.
    pub(crate) bench: Bench,
}

impl PreparedStudy {
    /// Prepares a study, or the rest of the one with the header `begun`: finds programs, reads what is
    /// measured, and loads data. `others` is the activity of other processes, if the caller observed it;
    /// otherwise it is observed now.
    pub(crate) fn new(
        order: &StudyOrder,
        begun: Option<&Header>,
        others: Option<Others>,
        interrupt: &Interrupt,
        tell: &mut dyn FnMut(StudyEvent<'_>),
    ) -> Result<PreparedStudy> {
        let programs = find_programs(order)?;
        let identity = StudyIdentity::of(order, &programs)?;
        begun.map_or(Ok(()), |begun| identity.check_continued(order, begun))?;
        let others = others.map_or_else(|| machine::others(order.definition.minutes, interrupt), Ok)?;
        others.warning().inspect(|warning| tell(StudyEvent::Note(warning)));
        let outpost = order.definition.driver.as_ref().map(|driver| Outpost::reach(driver, interrupt));
        let bench = Bench::driven_from(outpost.transpose()?, interrupt.clone())?;
        let loads = Loads::of(&order.definition);
        let origins = prepare(order, &bench, programs, &loads, tell).map_err(|e| bench.explain(e))?;
        Ok(PreparedStudy { identity, others, loads, origins, bench })
    }

    /// Takes what was made on running servers off again.
    pub(crate) fn leave(&mut self) -> Result<()> {
        for origin in self.origins.values_mut() {
            if let ServerOrigin::Running(guest) = origin {
                guest.leave()?;
            }
        }
        Ok(())
    }
}

/// Checks what an order asks for, before anything is opened or created.
pub(crate) fn check(order: &StudyOrder) -> Result<()> {
    check_programs(order)?;
    check_driver(order)
}

/// Checks that programs are given only for servers that the study starts.
fn check_programs(order: &StudyOrder) -> Result<()> {
    let started = || order.definition.servers.iter().filter(|s| s.dsn.is_none());
    let Some(server) = order.programs.keys().find(|name| started().all(|s| s.name != **name)) else {
        return Ok(());
    };
    let names: Vec<String> = started().map(|s| format!("`{}`", s.name)).collect();
    let known = if names.is_empty() {
        "all of its servers already run".into()
    } else {
        format!("it starts {}", names.join(", "))
    };
    Err(Error::NoServer { study: order.name.clone(), server: server.clone(), known })
}

/// Checks what a remote driver cannot do: it has another clock, and comes through the network.
fn check_driver(order: &StudyOrder) -> Result<()> {
    let definition = &order.definition;
    if definition.driver.is_none() {
        return Ok(());
    }
    let needs = |what: String| Err(Error::Needs { study: order.name.clone(), what });
    if let Some(workload) = definition.workloads.iter().find(|w| !w.rates.is_empty()) {
        return needs(format!(
            "a driver on this machine: transactions of `{}` come at a rate, by this machine's clock",
            workload.name
        ));
    }
    if let Some(workload) = definition.workloads.iter().find(|w| w.run.script == SysbenchScript::Recorded) {
        return needs(format!(
            "a driver on this machine: the recording of `{}` is sent by the program that runs the study",
            workload.name
        ));
    }
    let local = |s: &&ServerDef| s.dsn.as_ref().is_some_and(|dsn| dsn.contains("socket="));
    if let Some(server) = used_servers(definition).into_iter().find(local) {
        return needs(format!(
            "server `{}` at an address, as its driver is elsewhere: dsn = \"mysql://user@host:port\"",
            server.name
        ));
    }
    Ok(())
}

/// Finds the programs of the servers to start, before anything is created, so that a missing one is reported
/// at once.
fn find_programs(order: &StudyOrder) -> Result<BTreeMap<String, Installation>> {
    let definition = &order.definition;
    check_recordings(definition, &order.name)?;
    for setting in &definition.settings {
        setting.sidecars.iter().try_for_each(|s| sidecar::find(s).map(drop))?;
    }
    let mut found = BTreeMap::new();
    for server in used_servers(definition).into_iter().filter(|s| s.dsn.is_none()) {
        let program = order.programs.get(&server.name).cloned();
        let program = program.or_else(|| server.program.as_ref().map(PathBuf::from));
        let installation = Installation::find(program.as_deref()).map_err(|e| named(order, server, e))?;
        found.insert(server.name.clone(), installation);
    }
    Ok(found)
}

/// Rewords the error of a missing server for the study that needs it.
fn named(order: &StudyOrder, server: &ServerDef, error: tare_server::Error) -> Error {
    let tare_server::Error::Missing { program, hint } = error else { return error.into() };
    let hint = server.install.clone().unwrap_or(hint);
    let what = format!(
        "a server `{}` (`{program}`), which was not found: {hint}; or name one with --server {}=PATH",
        server.name, server.name
    );
    Error::Needs { study: order.name.clone(), what }
}

/// The data of a study.
#[derive(Debug)]
pub(crate) struct Loads {
    pub(crate) schemas: Vec<PreparedSchema>,
}

/// Data that is loaded once for all workloads that can use it.
#[derive(Debug)]
pub(crate) struct PreparedSchema {
    /// The loading script and its options, which determine the data.
    key: (&'static str, DriverOptions),
    /// The load that creates it.
    pub(crate) load: Load,
    /// The servers that need it.
    pub(crate) servers: BTreeSet<String>,
    /// Whether its script can check that it is intact.
    pub(crate) checkable: bool,
}

impl Loads {
    fn of(definition: &Definition) -> Loads {
        let mut schemas: Vec<PreparedSchema> = vec![];
        for workload in &definition.workloads {
            let data = workload.run.data;
            let key = workload.run.data_key(&workload.given());
            let settings = definition.settings.iter().filter(|s| definition.runs(workload, s));
            let servers = settings.map(|s| definition.server_of(s).name.clone());
            if let Some(schema) = schemas.iter_mut().find(|s| s.key == key) {
                schema.servers.extend(servers);
                continue;
            }
            let load = Load {
                script: data.script,
                schema: format!("lab_{}_{}", key.0, schemas.len() + 1),
                users: LOADERS,
                options: key.1.clone(),
                prepared: true,
                arrivals: None,
            };
            schemas.push(PreparedSchema { servers: servers.collect(), key, load, checkable: data.checkable });
        }
        Loads { schemas }
    }

    /// Returns the data of a server.
    fn on(&self, server: &str) -> impl Iterator<Item = &PreparedSchema> {
        self.schemas.iter().filter(move |s| s.servers.contains(server))
    }

    /// Returns the load of a workload at a number of connections.
    pub(crate) fn drive(&self, workload: &WorkloadDef, users: u32) -> Load {
        let (kind, given) = (workload.run, workload.given());
        let key = kind.data_key(&given);
        let schema = self.schemas.iter().find(|s| s.key == key).map(|s| s.load.schema.clone());
        Load {
            script: kind.script,
            schema: schema.unwrap_or_default(),
            users,
            options: kind.options(&given),
            prepared: workload.prepared,
            arrivals: None,
        }
    }
}

fn prepare(
    order: &StudyOrder,
    bench: &Bench,
    programs: BTreeMap<String, Installation>,
    loads: &Loads,
    tell: &mut dyn FnMut(StudyEvent<'_>),
) -> Result<BTreeMap<String, ServerOrigin>> {
    let mut origins = BTreeMap::new();
    for server in used_servers(&order.definition) {
        let mut line = |text: &str| {
            if let Some(text) = text.lines().next_back().filter(|t| !t.trim().is_empty()) {
                tell(StudyEvent::Doing(&format!("{}: {}", server.name, text.trim())));
            }
        };
        let origin = match (&server.dsn, programs.get(&server.name)) {
            (Some(dsn), _) => {
                let schemas: Vec<&PreparedSchema> = loads.on(&server.name).collect();
                let guest = guest_on(order, server, dsn)?;
                ServerOrigin::Running(Box::new(load_running(order, bench, guest, &schemas, &mut line)?))
            }
            (None, Some(installation)) => {
                let loads: Vec<Load> = loads.on(&server.name).map(|s| s.load.clone()).collect();
                let template = bench.prepare(installation, &server.options, &loads, &mut line);
                let template = template.map_err(|error| match error {
                    // No setting is involved yet.
                    Error::Start { with, source, .. } => {
                        Error::Start { whose: format!("the server `{}`", server.name), with, source }
                    }
                    error => error,
                })?;
                ServerOrigin::Template(Box::new(template))
            }
            (None, None) => continue,
        };
        origins.insert(server.name.clone(), origin);
    }
    Ok(origins)
}

/// Connects to a running server, and checks that it can be measured.
fn guest_on(order: &StudyOrder, server: &ServerDef, dsn: &str) -> Result<Guest> {
    let definition = &order.definition;
    let number = definition.servers.iter().position(|s| s.name == server.name).map_or(0, |place| place + 1);
    let settings = definition.settings.iter().filter(|s| definition.server_of(s).name == server.name);
    let mut guest =
        Guest::new(dsn, &order.credentials, &order.folder, number, settings.flat_map(|s| &s.switch))?;
    if guest.pid.is_none() && definition.measure == Measure::Cpu {
        guest.count_cpu()?;
        if guest.clock.is_none() {
            let what = format!(
                "the CPU time of the server at {}: its process is not to be seen on this machine, and it does not count what \
                 statements use, as MariaDB does; set measure = \"time\", or \"p95\" where transactions come at a rate",
                guest.target.name()
            );
            return Err(Error::Needs { study: order.name.clone(), what });
        }
    }
    Ok(guest)
}

/// Creates and fills schemas on a running server. Existing ones stay untouched.
fn load_running(
    order: &StudyOrder,
    bench: &Bench,
    mut guest: Guest,
    schemas: &[&PreparedSchema],
    line: &mut dyn FnMut(&str),
) -> Result<Guest> {
    for schema in schemas.iter().map(|s| &s.load.schema) {
        if guest.has(schema)? {
            let help = match guest.owed_elsewhere(&order.folder) {
                Some(folder) => format!("`tare lab put-back {}` takes it off", folder.display()),
                None => format!(
                    "if a killed study left it, `tare lab put-back` takes it off, with that study's folder of results; or DROP \
                     DATABASE {schema}"
                ),
            };
            let what =
                format!("a schema `{schema}` of its own on {}, where one is: {help}", guest.target.name());
            return Err(Error::Needs { study: order.name.clone(), what });
        }
    }
    for load in schemas.iter().map(|s| &s.load) {
        line(&format!("loading data {}", load.schema));
        guest.create(&load.schema)?;
        bench.driver.command(load, &guest.target, "prepare", &bench.interrupt, line)?;
    }
    Ok(guest)
}
