//! All servers of a study: which settings share one; starts, restarts, switches, and their end.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mysql::prelude::Queryable;
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use tare_server::program::last_lines;

use crate::definition::processes::processes;
use crate::definition::{Definition, SettingDef};
use crate::error::Tried;
use crate::process::{self, Usage};
use crate::results::record::CpuSource;
use crate::server::guest::Guest;
use crate::server::setting::Setting;
use crate::server::statement_clock::StatementClock;
use crate::server::target::ServerTarget;
use crate::server::{LaunchedServer, stop_all};
use crate::study::servers::bench::{Bench, Template};
use crate::{Error, Result};

/// Number of switches that are timed to learn how long one takes.
const SWITCHED: u32 = 3;

/// The servers of a study.
#[derive(Debug)]
pub struct Fleet<'a> {
    bench: &'a Bench,
    definition: &'a Definition,
    berths: Vec<Berth<'a>>,
    /// Number of the next process.
    next: u32,
}

/// The place of one server; its data stays when it is restarted.
#[derive(Debug)]
struct Berth<'a> {
    at: At<'a>,
    setting: Setting,
    /// Indexes of the settings that share it.
    settings: Vec<usize>,
    /// Index of the setting it is switched to.
    switched: Option<usize>,
}

#[derive(Debug)]
enum At<'a> {
    /// A server that the study starts.
    Ours { template: &'a Template, datadir: Option<PathBuf>, server: Option<(LaunchedServer, u32)> },
    /// A server that runs independently of the study.
    Theirs { target: ServerTarget, pid: Option<u32>, clock: Option<StatementClock> },
}

/// The origin of a study's server.
#[derive(Debug)]
pub enum ServerOrigin {
    /// Started by the study, on copies of this template.
    Template(Box<Template>),
    /// Already running.
    Running(Box<Guest>),
}

/// What is needed to measure a slice on a server.
#[derive(Clone, Debug)]
pub struct Ready {
    /// Its address.
    pub target: ServerTarget,
    /// Its process, if it is on this machine.
    pub pid: Option<u32>,
    /// Source of the CPU time of its statements, where its process cannot be seen.
    pub clock: Option<StatementClock>,
    /// Number of the process in the study, if the study started it.
    pub process: Option<u32>,
    /// Its data directory, if the study started it.
    pub datadir: Option<PathBuf>,
}

impl<'a> Fleet<'a> {
    /// Creates the places of a study's servers without starting them. `origins` are those of the definition's
    /// servers, by name, `preloads` the shared objects given by name, `next` the number of the first process.
    pub fn new(
        bench: &'a Bench,
        definition: &'a Definition,
        origins: &'a BTreeMap<String, ServerOrigin>,
        preloads: &BTreeMap<String, PathBuf>,
        next: u32,
    ) -> Result<Fleet<'a>> {
        Ok(Fleet { bench, definition, berths: berths(definition, origins, preloads)?, next })
    }

    /// Starts the missing servers of the settings in `wanted`, in this order, and verifies every setting.
    pub fn start(&mut self, wanted: &[usize]) -> Result<()> {
        for place in wanted {
            if let Some(i) = self.berths.iter().position(|berth| berth.settings.contains(place)) {
                self.start_one(i)?;
            }
        }
        // Each setting is verified once; those that share a server are switched through.
        wanted.iter().try_for_each(|&place| self.require(place))
    }

    fn start_one(&mut self, i: usize) -> Result<()> {
        let berth = &mut self.berths[i];
        let At::Ours { template, datadir, server } = &mut berth.at else { return Ok(()) };
        if server.is_some() {
            return Ok(());
        }
        let copy = match datadir {
            Some(datadir) => datadir.clone(),
            None => self.bench.copy(template, &berth.setting.name)?,
        };
        *datadir = Some(copy.clone());
        *server = Some((self.bench.start(template, &copy, &berth.setting)?, self.next));
        self.next += 1;
        berth.switched = None;
        Ok(())
    }

    /// Shuts all servers of the study down, in parallel. Their code leaves the page cache, so that its
    /// physical addresses differ the next time: otherwise a provider would have the same place in the
    /// processor's caches in every process, for better or worse.
    pub fn stop(&mut self) -> Result<()> {
        let servers = self.berths.iter_mut().filter_map(|b| match &mut b.at {
            At::Ours { server, .. } => server.take().map(|(server, _)| server),
            At::Theirs { .. } => None,
        });
        let mut servers: Vec<LaunchedServer> = servers.collect();
        stop_all(&mut servers)?;
        for berth in &self.berths {
            if let At::Ours { template, .. } = &berth.at {
                let code = [Some(&template.installation.mariadbd), berth.setting.preload.as_ref()];
                code.into_iter().flatten().for_each(|file| leave_page_cache(file));
            }
        }
        Ok(())
    }

    /// Switches a setting's server to it, and returns how to reach it.
    pub fn ready(&mut self, place: usize) -> Result<Ready> {
        let setting = &self.definition.settings[place];
        let Some(berth) = self.berths.iter_mut().find(|b| b.settings.contains(&place)) else {
            return Err(Error::NotRunning(setting.name.clone()));
        };
        let ready = berth.at.ready(&setting.name)?;
        if berth.switched != Some(place) {
            switch(&ready, setting)?;
            berth.switched = Some(place);
        }
        Ok(ready)
    }

    /// Switches a server that only this setting uses to it again, after the load has connected, so that the
    /// switch also applies to connections that exist already.
    pub fn switch_connected(&mut self, place: usize) -> Result<()> {
        if self.is_shared(place) { Ok(()) } else { self.switch_anew(place) }
    }

    /// Switches a setting's server to it, even if it is switched to it already.
    fn switch_anew(&mut self, place: usize) -> Result<()> {
        self.berths.iter_mut().filter(|b| b.settings.contains(&place)).for_each(|b| b.switched = None);
        self.ready(place).map(drop)
    }

    /// Returns the shortest of several switches of a setting's server to it, so that disturbances are left
    /// out. Zero if the setting has the server to itself.
    pub fn time_to_switch(&mut self, place: usize) -> Result<Duration> {
        if !self.is_shared(place) {
            return Ok(Duration::ZERO);
        }
        let mut least = Duration::MAX;
        for _ in 0..SWITCHED {
            let begun = Instant::now();
            self.switch_anew(place)?;
            least = least.min(begun.elapsed());
        }
        Ok(least)
    }

    /// Returns whether several settings share its server.
    pub fn is_shared(&self, place: usize) -> bool {
        self.berths.iter().any(|b| b.settings.contains(&place) && b.settings.len() > 1)
    }

    /// Returns whether some server is queried for its CPU time; such a query would take too much of a turn.
    pub fn asks_for_cpu(&self) -> bool {
        self.berths.iter().any(|b| matches!(b.at, At::Theirs { clock: Some(_), .. }))
    }

    /// Returns whether a setting's server is running.
    pub fn is_running(&self, place: usize) -> bool {
        let berth = self.berths.iter().find(|b| b.settings.contains(&place));
        berth.is_some_and(|b| !matches!(b.at, At::Ours { server: None, .. }))
    }

    fn require(&mut self, place: usize) -> Result<()> {
        let setting = &self.definition.settings[place];
        let Some(query) = &setting.require else { return Ok(()) };
        let target = self.ready(place)?.target;
        let value = match target.connect()?.query_first::<mysql::Row, _>(query) {
            Ok(row) => row.as_ref().and_then(|row| row.as_ref(0)).map_or_else(|| "nothing".into(), text_of),
            Err(mysql::Error::MySqlError(error)) => error.message,
            Err(error) => return Err(target.refused(error)),
        };
        let is_number = value.parse::<f64>().is_ok_and(|n| n != 0.0);
        if is_number || value == "ON" || value == "YES" {
            return Ok(());
        }
        Err(Error::NotAsSaid { setting: setting.name.clone(), query: query.clone(), answer: value })
    }

    /// Replaces the error of a failed load by its cause, if that is known: the server ended, or the disk is
    /// full.
    pub fn explain(&mut self, place: usize, error: Error) -> Error {
        if matches!(error, Error::Interrupted) {
            return error;
        }
        let berth = self.berths.iter_mut().find(|b| b.settings.contains(&place));
        if let Some(At::Ours { server: Some((server, _)), .. }) = berth.map(|b| &mut b.at)
            && let Some(status) = server.death()
        {
            return Error::Died {
                setting: self.definition.settings[place].name.clone(),
                status,
                tail: last_lines(&server.said(), 10),
            };
        }
        match self.bench.explain(error) {
            error @ (Error::LoadEnded { .. } | Error::LoadReport { .. } | Error::NoTurns { .. }) => {
                let setting = self.definition.settings[place].name.clone();
                Error::Load { setting, source: Box::new(error) }
            }
            error => error,
        }
    }

    /// Returns the number of the next process.
    pub fn next_process(&self) -> u32 {
        self.next
    }

    /// Switches running servers back to the base.
    fn restore(&mut self) {
        for i in 0..self.berths.len() {
            let theirs = matches!(self.berths[i].at, At::Theirs { .. });
            if let (true, Some(&first)) = (theirs, self.berths[i].settings.first()) {
                // A failure cannot be reported any more.
                let _ = self.ready(first);
            }
        }
    }
}

impl Drop for Fleet<'_> {
    fn drop(&mut self) {
        self.restore();
        let _ = self.stop();
    }
}

impl<'a> At<'a> {
    fn of(origin: &'a ServerOrigin) -> At<'a> {
        match origin {
            ServerOrigin::Template(template) => At::Ours { template, datadir: None, server: None },
            ServerOrigin::Running(guest) => {
                At::Theirs { target: guest.target.clone(), pid: guest.pid, clock: guest.clock.clone() }
            }
        }
    }

    fn ready(&self, setting: &str) -> Result<Ready> {
        match self {
            At::Ours { server: Some((server, process)), .. } => Ok(Ready {
                target: server.target(),
                pid: Some(server.pid()),
                clock: None,
                process: Some(*process),
                datadir: Some(server.datadir().into()),
            }),
            At::Ours { server: None, .. } => Err(Error::NotRunning(setting.into())),
            At::Theirs { target, pid, clock } => Ok(Ready {
                target: target.clone(),
                pid: *pid,
                clock: clock.clone(),
                process: None,
                datadir: None,
            }),
        }
    }
}

impl Ready {
    /// Returns the usage of its process so far: only CPU time where the server reports no more, zero where
    /// nothing can be seen.
    pub fn usage(&self) -> Result<Usage> {
        match self.pid {
            Some(pid) => Ok(Usage::now(pid)?),
            None => Ok(Usage { cpu: self.cpu()?, ..Usage::default() }),
        }
    }

    /// Returns its CPU time so far; zero where it cannot be seen.
    pub fn cpu(&self) -> Result<Duration> {
        match (self.pid, &self.clock) {
            (Some(pid), _) => Ok(process::cpu_time(pid)?),
            (None, Some(clock)) => clock.now(),
            (None, None) => Ok(Duration::ZERO),
        }
    }

    /// Returns where its CPU time comes from.
    pub fn cpu_source(&self) -> CpuSource {
        match (self.pid, &self.clock) {
            (Some(_), _) => CpuSource::Process,
            (None, Some(_)) => CpuSource::Statements,
            (None, None) => CpuSource::Nowhere,
        }
    }

    /// Returns its resident memory in bytes; 0 where it cannot be seen.
    pub fn resident(&self) -> Result<u64> {
        Ok(self.pid.map_or(Ok(0), process::resident)?)
    }

    /// Empties a setting's logs; returns their total length in bytes.
    pub fn empty_logs(&self, logs: &[String]) -> Result<u64> {
        let mut bytes = 0;
        for log in logs {
            let Some(path) = self.datadir.as_ref().map(|d| d.join(log)) else { continue };
            bytes += fs::metadata(&path).map_or(0, |m| m.len());
            if path.is_file() {
                let what = || format!("emptying {}", path.display());
                fs::OpenOptions::new().write(true).truncate(true).open(&path).tried(what)?;
            }
        }
        Ok(bytes)
    }
}

/// Makes a place for each server.
fn berths<'a>(
    definition: &Definition,
    origins: &'a BTreeMap<String, ServerOrigin>,
    preloads: &BTreeMap<String, PathBuf>,
) -> Result<Vec<Berth<'a>>> {
    let of_process = |settings: Vec<usize>| {
        let first = &definition.settings[settings[0]];
        let origin = origins.get(&definition.server_of(first).name)?;
        let berth = |setting| Berth { at: At::of(origin), setting, settings, switched: None };
        Some(launch(first, preloads).map(berth))
    };
    processes(definition).into_iter().filter_map(of_process).collect()
}

fn switch(ready: &Ready, setting: &SettingDef) -> Result<()> {
    if setting.switch.is_empty() {
        return Ok(());
    }
    let mut connection = ready.target.connect()?;
    let datadir = ready.datadir.as_deref().unwrap_or(Path::new(""));
    for statement in &setting.switch {
        let statement = statement.replace("{datadir}", &datadir.display().to_string());
        connection.query_drop(&statement).map_err(|e| Error::Switch {
            setting: setting.name.clone(),
            statement,
            source: Box::new(ready.target.refused(e)),
        })?;
    }
    Ok(())
}

/// Returns the shared object that a setting preloads.
pub(crate) fn preload(setting: &SettingDef, preloads: &BTreeMap<String, PathBuf>) -> Result<Option<PathBuf>> {
    let preload = setting.preload.as_ref().map(|name| match preloads.get(name) {
        Some(path) => Ok(path.clone()),
        None => Path::new(name).canonicalize().map_err(|_| tare_server::Error::Missing {
            program: name.clone(),
            hint: format!("setting `{}` preloads it: name a shared object that is there", setting.name),
        }),
    });
    Ok(preload.transpose()?)
}

fn launch(setting: &SettingDef, preloads: &BTreeMap<String, PathBuf>) -> Result<Setting> {
    Ok(Setting {
        name: setting.name.clone(),
        options: setting.options.clone(),
        preload: preload(setting, preloads)?,
        environment: setting.environment.clone().into_iter().collect(),
    })
}

/// Asks the kernel to drop a file from the page cache. Without effect while another process has it mapped.
pub(crate) fn leave_page_cache(file: &Path) {
    if let Ok(file) = File::open(file) {
        let _ = posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED);
    }
}

fn text_of(value: &mysql::Value) -> String {
    match value {
        mysql::Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        mysql::Value::Int(number) => number.to_string(),
        mysql::Value::UInt(number) => number.to_string(),
        mysql::Value::NULL => "NULL".into(),
        other => format!("{other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STUDY: &str = r#"
question = "What does a longer sort buffer cost?"
slice_seconds = 1
blocks = 6
minutes = 1
precision = 0.01
margin = 0.01

[[server]]
name = "one"
dsn = "mysql://root@localhost?socket=/one"

[[server]]
name = "other"
dsn = "mysql://root@localhost?socket=/other"

[[setting]]
name = "short"
switch = ["SET GLOBAL sort_buffer_size = 262144"]

[[setting]]
name = "long"
switch = ["SET GLOBAL sort_buffer_size = 2097152"]

[[setting]]
name = "elsewhere"
server = "other"
base = "elsewhere"

[[workload]]
name = "points"
run = "oltp_point_select"
users = [2]
"#;

    /// Two places with one server would each assume that it is still in the setting they switched it to last.
    #[test]
    fn all_settings_of_a_running_server_are_switched_in_one_place() {
        let definition = Definition::read(STUDY, "s.toml", false).expect("a study");
        let names: Vec<&str> = definition.settings.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names, ["short", "short again", "long", "elsewhere", "elsewhere again"]);
        let running = |name: &str| {
            let guest = Guest::idle(ServerTarget::of_socket(&Path::new("/").join(name)));
            (name.to_owned(), ServerOrigin::Running(Box::new(guest)))
        };
        let origins = BTreeMap::from(["one", "other"].map(running));
        let berths = berths(&definition, &origins, &BTreeMap::new()).expect("places");
        let settings: Vec<&[usize]> = berths.iter().map(|berth| berth.settings.as_slice()).collect();
        assert_eq!(settings, [&[0, 1, 2][..], &[3, 4]]);
    }
}
