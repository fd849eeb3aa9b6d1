//! A study: servers that differ in one setting, side by side, load on one at a time.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::Result;
use crate::datadir::{self, Account, Scratch};
use crate::installation::Installation;
use crate::interrupt::Interrupt;
use crate::load::{Load, SCHEMA};
use crate::pairing::{Pairing, order};
use crate::process;
use crate::sample::Sample;
use crate::server::{Launch, Server, stop_all};
use crate::setting::Setting;

/// Options of every measured server: data in memory, no waiting for the disk, so that CPU time is what is compared.
const SERVER_OPTIONS: [&str; 2] = ["--innodb-buffer-pool-size=256M", "--innodb-flush-log-at-trx-commit=0"];

/// How long a server is left alone before its memory at rest is read.
const SETTLE: Duration = Duration::from_millis(1500);

/// The machine a study runs on: programs, account, a folder, and the wish to end.
#[derive(Debug)]
pub struct Bench {
    /// The server's programs.
    pub installation: Installation,
    /// Whom servers run as.
    pub account: Account,
    /// Ends everything early.
    pub interrupt: Interrupt,
    // Last: removed after the servers in it are gone.
    scratch: Scratch,
}

impl Bench {
    /// A bench with a scratch folder of its own.
    pub fn new(installation: Installation, interrupt: Interrupt) -> Result<Bench> {
        let account = Account::of_servers()?;
        let scratch = Scratch::new(&account)?;
        Ok(Bench { installation, account, interrupt, scratch })
    }

    /// The scratch folder.
    pub fn folder(&self) -> &Path {
        self.scratch.path()
    }

    /// Makes a data directory with the load's tables in it, for servers to get copies of.
    pub fn prepare(&self, load: &Load) -> Result<Template> {
        let template = Template { datadir: self.folder().join("template") };
        datadir::create(&self.installation, &self.account, &self.scratch, &template.datadir)?;
        self.interrupt.check()?;
        let launch = Launch::new(&template.datadir, &self.scratch).options(SERVER_OPTIONS);
        let mut server = self.start(&launch.setting(&Setting::off("template")))?;
        server.execute(&format!("CREATE DATABASE {SCHEMA}"))?;
        load.prepare(server.socket(), &self.interrupt)?;
        // A clean shutdown, so that every copy starts without recovery.
        server.execute("SET GLOBAL innodb_fast_shutdown = 0")?;
        server.stop()?;
        Ok(template)
    }

    /// Starts a server on a copy of the template, in the given setting.
    pub fn start_copy(&self, template: &Template, setting: &Setting) -> Result<Server> {
        let datadir = self.vacant(&setting.name);
        datadir::copy(&template.datadir, &datadir)?;
        self.start(&Launch::new(&datadir, &self.scratch).options(SERVER_OPTIONS).setting(setting))
    }

    /// A path in the scratch folder nothing is at: a setting may be started more than once.
    fn vacant(&self, name: &str) -> PathBuf {
        let name = name.replace(' ', "-");
        let mut numbered = (1..).map(|n| self.folder().join(format!("{name}-{n}")));
        numbered.find(|p| !p.exists()).unwrap_or_default()
    }

    fn start(&self, launch: &Launch) -> Result<Server> {
        launch.start(&self.installation, &self.account, &self.interrupt)
    }
}

/// A data directory with the load's tables, of a server that is not running.
#[derive(Debug)]
pub struct Template {
    datadir: PathBuf,
}

/// Servers of a study, all up.
#[derive(Debug)]
pub struct Study<'a> {
    bench: &'a Bench,
    load: Load,
    settings: Vec<Setting>,
    servers: Vec<Server>,
    idle: Vec<u64>,
    random: fastrand::Rng,
}

impl<'a> Study<'a> {
    /// Starts one server per setting; the first is what the others are compared with.
    pub fn start(
        bench: &'a Bench,
        template: &Template,
        load: Load,
        settings: &[Setting],
    ) -> Result<Study<'a>> {
        let mut servers = vec![];
        for setting in settings {
            servers.push(bench.start_copy(template, setting)?);
        }
        let _ = bench.interrupt.wait_for(SETTLE, || Ok(None::<()>))?;
        let idle = servers.iter().map(|s| process::resident(s.pid())).collect::<Result<_>>()?;
        let settings = settings.to_vec();
        Ok(Study { bench, load, settings, servers, idle, random: fastrand::Rng::new() })
    }

    /// The servers, in the settings' order.
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// Starts every server anew, on its data. Where its memory comes to lie makes a process a little faster or slower
    /// than its twin for as long as it lives: only the mean of several can be compared.
    pub fn restart(&mut self) -> Result<()> {
        stop_all(&mut self.servers)?;
        for (server, setting) in self.servers.iter_mut().zip(&self.settings) {
            let launch = Launch::new(server.datadir(), &self.bench.scratch).options(SERVER_OPTIONS);
            *server = self.bench.start(&launch.setting(setting))?;
        }
        Ok(())
    }

    /// Runs `rounds` rounds of blocks of `seconds`, and an unmeasured one before; `done` hears of every block.
    pub fn measure(
        &mut self,
        workload: &str,
        rounds: usize,
        seconds: u64,
        done: &mut dyn FnMut(),
    ) -> Result<Pairing> {
        let mut pairing = Pairing::default();
        for round in 0..=rounds {
            let mut samples: Vec<(usize, Sample)> = vec![];
            for setting in order(self.servers.len(), &mut self.random) {
                samples.push((setting, self.block(setting, workload, seconds)?));
                done();
            }
            samples.sort_by_key(|&(setting, _)| setting);
            // The first round fills caches and the provider's pools.
            if round > 0 {
                pairing.push(samples.into_iter().map(|(_, sample)| sample).collect());
            }
        }
        Ok(pairing)
    }

    /// Resident memory of a setting's server in bytes: at rest before any load, and now.
    pub fn resident(&self, setting: usize) -> Result<(u64, u64)> {
        Ok((self.idle[setting], process::resident(self.servers[setting].pid())?))
    }

    /// Shuts all servers down, at once.
    pub fn stop(mut self) -> Result<()> {
        stop_all(&mut self.servers)
    }

    fn block(&self, setting: usize, workload: &str, seconds: u64) -> Result<Sample> {
        let server = &self.servers[setting];
        let before = process::cpu_time(server.pid())?;
        let report = self.load.run(workload, server.socket(), seconds, &self.bench.interrupt, &mut |_| {})?;
        let cpu = process::cpu_time(server.pid())?.saturating_sub(before);
        Ok(Sample { cpu, transactions: report.transactions, per_second: report.per_second })
    }
}

impl Drop for Study<'_> {
    fn drop(&mut self) {
        // All at once; each waits for its own when it is dropped.
        self.servers.iter_mut().for_each(Server::ask_to_stop);
    }
}
