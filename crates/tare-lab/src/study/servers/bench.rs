//! The environment that servers run in: an account, a temporary folder, data made once and copied.

use std::path::{Path, PathBuf};

use tare_server::datadir::{self, Account, Scratch};
use tare_server::installation::Installation;

use crate::load::outpost::Outpost;
use crate::load::{Driver, Load};
use crate::process::interrupt::Interrupt;
use crate::server::setting::Setting;
use crate::server::{Launch, LaunchedServer};
use crate::{Error, Result};

/// Free bytes below which a failure is reported as a full disk.
const NO_ROOM: u64 = 24 << 20;

/// What a study needs of its machine: programs, an account, a folder, an interrupt.
#[derive(Debug)]
pub struct Bench {
    /// The account that servers run as.
    pub account: Account,
    /// Ends everything early when set.
    pub interrupt: Interrupt,
    /// The load driver.
    pub driver: Driver,
    // The last field, so that it is removed after the servers in it are gone.
    scratch: Scratch,
}

impl Bench {
    /// Creates a bench with a scratch folder of its own.
    pub fn new(interrupt: Interrupt) -> Result<Bench> {
        Bench::driven_from(None, interrupt)
    }

    /// Creates a bench whose load comes from another machine, if `outpost` is one.
    pub fn driven_from(outpost: Option<Outpost>, interrupt: Interrupt) -> Result<Bench> {
        let account = Account::of_servers()?;
        let scratch = Scratch::watched(&account)?;
        let driver = Driver::new(scratch.path(), outpost)?;
        Ok(Bench { account, interrupt, driver, scratch })
    }

    /// Returns the scratch folder.
    pub fn folder(&self) -> &Path {
        self.scratch.path()
    }

    /// Makes a data directory with the loads' data, to be copied for servers; passes progress to `line`.
    pub fn prepare(
        &self,
        installation: &Installation,
        options: &[String],
        loads: &[Load],
        line: &mut dyn FnMut(&str),
    ) -> Result<Template> {
        let template = Template {
            installation: installation.clone(),
            options: options.to_vec(),
            datadir: self.vacant("template"),
        };
        line("making a data directory");
        let made = datadir::create(installation, &self.account, self.scratch.path(), &template.datadir, &[]);
        made.map_err(|e| self.explain(e.into()))?;
        self.interrupt.check()?;
        let setting = Setting::plain("template", vec![]);
        let mut server = self.start(&template, &template.datadir, &setting)?;
        for statement in self.driver.outpost().iter().flat_map(|outpost| outpost.admission()) {
            server.execute(&statement)?;
        }
        for load in loads {
            line(&format!("loading data {}", load.schema));
            server.execute(&format!("CREATE DATABASE {}", load.schema))?;
            self.driver.command(load, &server.target(), "prepare", &self.interrupt, line)?;
        }
        // A clean shutdown lets every copy start without recovery.
        line("shutting the loader's server down");
        server.execute("SET GLOBAL innodb_fast_shutdown = 0")?;
        server.stop()?;
        Ok(template)
    }

    /// Starts a server on a copy of the template, in the given setting.
    pub fn start_copy(&self, template: &Template, setting: &Setting) -> Result<LaunchedServer> {
        let datadir = self.copy(template, &setting.name)?;
        self.start(template, &datadir, setting)
    }

    /// Copies the template to a new folder.
    pub(crate) fn copy(&self, template: &Template, name: &str) -> Result<PathBuf> {
        let datadir = self.vacant(name);
        datadir::copy(&self.scratch, &template.datadir, &datadir).map_err(|e| self.explain(e.into()))?;
        Ok(datadir)
    }

    /// Starts a server on an existing copy.
    pub(crate) fn start(
        &self,
        template: &Template,
        datadir: &Path,
        setting: &Setting,
    ) -> Result<LaunchedServer> {
        let door = self.driver.outpost().map(Outpost::door).transpose()?;
        let launch = Launch::new(datadir, &self.scratch).at(door).options(&template.options).setting(setting);
        let started = launch.start(&template.installation, &self.account, &self.interrupt);
        started.map_err(|error| match error {
            error @ Error::NotStarted { .. } => not_started(template, setting, error),
            error => error,
        })
    }

    /// Replaces an error by its cause, if that is known: Ctrl-C, which also ends programs in the terminal's
    /// process group, or a full disk.
    pub(crate) fn explain(&self, error: Error) -> Error {
        if self.interrupt.is_set() {
            return Error::Interrupted;
        }
        let free =
            nix::sys::statvfs::statvfs(self.folder()).map(|s| s.blocks_available() * s.fragment_size());
        match free {
            Ok(bytes) if bytes < NO_ROOM => Error::DiskFull { folder: self.folder().into() },
            _ => error,
        }
    }

    /// Returns an unused path in the scratch folder. It is short, because the path of a socket is limited.
    fn vacant(&self, name: &str) -> PathBuf {
        let name: String = name.chars().filter(char::is_ascii_alphanumeric).take(12).collect();
        let mut numbered = (1..).map(|n| self.folder().join(format!("{name}-{n}")));
        numbered.find(|p| !p.exists()).unwrap_or_default()
    }
}

/// Names the setting whose server does not start, and the option that its log complains about.
fn not_started(template: &Template, setting: &Setting, source: Error) -> Error {
    let options: Vec<&String> = template.options.iter().chain(&setting.options).collect();
    let said = source.to_string();
    let blamed = options.iter().find(|option| is_blamed(option, &said));
    let with = match blamed {
        Some(option) => format!("because of its option {option}"),
        None if options.is_empty() => "without any option".into(),
        None => {
            let all: Vec<&str> = options.iter().map(|o| o.as_str()).collect();
            format!("with the options {}", all.join(" "))
        }
    };
    Error::Start {
        whose: format!("the server of setting `{}`", setting.name),
        with,
        source: Box::new(source),
    }
}

/// Returns whether an error in a server's log names an option, maybe with underscores and without its value.
fn is_blamed(option: &str, log: &str) -> bool {
    let plain = |text: &str| text.replace('_', "-").to_lowercase();
    let option = plain(option.trim_start_matches('-'));
    let name = option.split('=').next().unwrap_or_default();
    let whole_name = |line: &str| {
        let words = line.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
        words.map(|word| word.trim_start_matches('-')).any(|word| word == name)
    };
    log.lines().filter(|line| line.contains("ERROR")).map(plain).any(|line| whole_name(&line))
}

/// A data directory with the loads' data whose server has been shut down.
#[derive(Debug)]
pub struct Template {
    /// The server's programs.
    pub installation: Installation,
    options: Vec<String>,
    datadir: PathBuf,
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    /// Stands for a Ctrl-C that ends the programs that make data.
    #[test]
    fn what_fails_when_interrupted_was_interrupted() {
        let bench = Bench::new(Interrupt::default()).expect("a bench");
        let installation = Installation {
            mariadbd: "/nowhere/mariadbd".into(),
            install_db: Some("false".into()),
            basedir: None,
            version: String::new(),
            plugin_dir: PathBuf::new(),
        };
        let template = Template {
            installation: installation.clone(),
            options: vec![],
            datadir: bench.folder().join("nowhere"),
        };
        let made = || bench.prepare(&installation, &[], &[], &mut |_| {}).map(drop);
        let copied = || bench.copy(&template, "copy").map(drop);
        for done in [made(), copied()] {
            assert!(matches!(done, Err(Error::Server(tare_server::Error::Program { .. }))), "{done:?}");
        }
        bench.interrupt.flag().store(true, Ordering::Relaxed);
        for done in [made(), copied()] {
            assert!(matches!(done, Err(Error::Interrupted)), "{done:?}");
        }
    }

    #[test]
    fn an_option_that_the_log_complains_of_is_found() {
        let log = "2026-01-01 0:00:00 0 [Note] starting with sort-buffer-size\n\
                   2026-01-01 0:00:00 0 [ERROR] /usr/sbin/mariadbd: unknown variable 'performance_schema_x=1'\n";
        assert!(is_blamed("--performance-schema-x=1", log));
        for other in ["--performance-schema=ON", "--sort-buffer-size=1", "--x"] {
            assert!(!is_blamed(other, log), "{other}");
        }
    }
}
