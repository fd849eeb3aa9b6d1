//! A server of this machine: a unit, a process, or both; and what tare would do in it.

pub(crate) mod option_file;
pub(crate) mod process;
pub(crate) mod unit;

use std::ffi::{OsStr, OsString};
use std::fs::Metadata;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::unistd::{Uid, User};
use tare_host::options::{OptionError, OptionFiles, OptionOrigin, Options, Root};
use tare_mariadb::settings::ServerSettings;
use tare_mariadb::startup::{self, DisableReason, StartPlan};

use crate::exit;
use crate::program::{self, Product, ServerProgram};
use crate::provider;
use process::ServerProcess;
use unit::SystemdUnit;

/// The variable that makes the loader preload objects into a program.
pub(crate) const PRELOAD: &str = "LD_PRELOAD";
/// The variable with what tare's drop-in makes the server preload; a successful trial copies it to
/// [`PRELOAD`].
pub(crate) const TRIED: &str = "TARE_PRELOAD";
/// Start of a trial's file that makes the server start without tare; a comment for systemd.
pub(crate) const WITHOUT: &str = "# without tare: ";
/// The data directory of servers by default.
const DATA: &str = "/var/lib/mysql";
/// Groups of option files that a server reads, if its own list is unknown, without those for one series.
const GROUPS: [&str; 5] = ["mysqld", "server", "mariadb", "mariadbd", "galera"];
/// File name of the plugin.
pub(crate) const PLUGIN: &str = "ha_federatedx.so";

/// The server.
#[derive(Clone, Debug)]
pub(crate) struct FoundServer {
    pub(crate) unit: Option<SystemdUnit>,
    pub(crate) process: Option<ServerProcess>,
    pub(crate) root: Root,
}

/// The combined effect of a server's program and options.
pub(crate) struct Prospect {
    pub(crate) program: Result<ServerProgram, crate::program::elf::Error>,
    pub(crate) files: OptionFiles,
    pub(crate) settings: ServerSettings,
    /// Whether and how tare serves it, if it is a server of MariaDB's.
    pub(crate) plan: Result<StartPlan, DisableReason>,
    /// tare's options, if it is a server of MySQL's.
    mysql_options: Option<Result<Options, OptionError>>,
    groups: Vec<String>,
}

impl FoundServer {
    /// Returns its name for people.
    pub(crate) fn name(&self) -> String {
        match (&self.unit, &self.process) {
            (Some(unit), _) => unit.name.clone(),
            (None, Some(process)) => format!("process {}", process.pid),
            (None, None) => "server".to_owned(),
        }
    }

    /// Returns the servers under a root: its units, and on this machine also other processes.
    pub(crate) fn all(root: &Root) -> Vec<FoundServer> {
        let pids = if root.is_own() { ServerProcess::all() } else { vec![] };
        let mut processes: Vec<ServerProcess> =
            pids.into_iter().filter_map(|pid| ServerProcess::look(pid).ok()).collect();
        let server = |unit: SystemdUnit| {
            let at = processes.iter().position(|process| runs(&unit, process));
            let process = at.map(|at| processes.remove(at));
            FoundServer { unit: Some(unit), process, root: root.clone() }
        };
        let mut servers: Vec<FoundServer> = SystemdUnit::all(root).into_iter().map(server).collect();
        let alone =
            |process: ServerProcess| FoundServer { unit: None, root: process.root(), process: Some(process) };
        servers.extend(processes.into_iter().map(alone));
        servers
    }

    /// Returns the server of a unit. The error says that there is no such unit, and what is done without
    /// `--unit`.
    pub(crate) fn of_unit(root: &Root, name: &str, without: &str) -> anyhow::Result<FoundServer> {
        let unit = SystemdUnit::read(root, name).ok_or_else(|| {
            let no_unit = format!("--unit {name}: there is no unit {name}, or it is masked");
            exit::wrong(anyhow::anyhow!("{no_unit}; without --unit {without}"))
        })?;
        let pids = if root.is_own() { ServerProcess::all() } else { vec![] };
        let mut processes = pids.into_iter().filter_map(|pid| ServerProcess::look(pid).ok());
        let process = processes.find(|process| runs(&unit, process));
        Ok(FoundServer { unit: Some(unit), process, root: root.clone() })
    }

    /// Returns the server that runs as a process.
    pub(crate) fn of_process(process: ServerProcess) -> FoundServer {
        let root = process.root();
        let unit = process.unit.as_deref().and_then(|name| SystemdUnit::read(&root, name));
        // A shell or a test that a unit has started may have started the server.
        let unit = unit.filter(|unit| unit.command().is_some() && runs(unit, &process));
        FoundServer { unit, root, process: Some(process) }
    }

    /// Returns the server as its unit will start it, whatever runs now.
    pub(crate) fn next(&self) -> FoundServer {
        FoundServer { process: None, ..self.clone() }
    }

    /// Returns the program and its arguments: of the process, or of the unit.
    pub(crate) fn arguments(&self) -> Vec<OsString> {
        match &self.process {
            Some(process) => process.arguments.clone(),
            None => self.unit.as_ref().and_then(SystemdUnit::command).unwrap_or_default(),
        }
    }

    /// Returns a variable of its environment: of the process, or of the unit.
    pub(crate) fn variable(&self, name: &str) -> Option<OsString> {
        match &self.process {
            Some(process) => process.variable(name),
            None => Some(self.unit.as_ref()?.environment().remove(name)?.value.into()),
        }
    }

    /// Returns the provider that it has loaded, or that its unit makes it load.
    pub(crate) fn provider(&self) -> Option<PathBuf> {
        let of_process = || self.process.as_ref()?.preload();
        let of_unit = || self.unit.as_ref()?.preload().map(OsString::from);
        preloads(&of_process().or_else(of_unit)?).into_iter().find(|path| is_provider(path))
    }

    /// Returns whether its unit tries the preloaded objects before each start.
    pub(crate) fn is_tried(&self) -> bool {
        self.variable(TRIED).is_some()
    }

    /// Returns the path at which its program can be read.
    pub(crate) fn program(&self) -> PathBuf {
        match &self.process {
            Some(process) => process.program(),
            None => {
                let named = self.arguments().into_iter().next().unwrap_or_default();
                // A script starts the program beside it.
                let named = Path::new(&named);
                if !named.to_string_lossy().ends_with("safe") {
                    return self.root.at(named);
                }
                let programs =
                    ["/usr/sbin/mariadbd", "/usr/sbin/mysqld"].map(|path| self.root.at(Path::new(path)));
                let there = programs.iter().find(|path| path.is_file());
                there.unwrap_or(&programs[0]).clone()
            }
        }
    }

    /// Returns the account it runs as; `None` if it is unknown here.
    pub(crate) fn user(&self) -> Option<User> {
        match &self.process {
            Some(process) => User::from_uid(Uid::from_raw(process.user)).ok()?,
            None => self.unit.as_ref()?.user(),
        }
    }

    /// Returns what tare would do in it, or does.
    pub(crate) fn prospect(&self) -> Prospect {
        let arguments = self.arguments();
        let program = program::look(&self.program());
        let groups = match &program {
            Ok(program) if !program.groups.is_empty() => program.groups.clone(),
            _ => GROUPS.map(str::to_owned).to_vec(),
        };
        let files = OptionFiles::under(&self.root, &arguments, &|name| self.variable(name));
        let settings = ServerSettings::resolve(&arguments, &files, &groups);
        let version = program.as_ref().ok().and_then(|program| program.version.clone());
        let environment = self.variable(Options::ENVIRONMENT);
        let plan = startup::decide(version, &settings, &files, environment.as_deref());
        let is_mysql = program.as_ref().is_ok_and(|program| program.product == Some(Product::MySQL));
        let mysql_options =
            is_mysql.then(|| Options::read(&Default::default(), &files, environment.as_deref()));
        Prospect { program, files, settings, plan, mysql_options, groups }
    }

    /// Returns its data directory in its own view.
    pub(crate) fn data(&self, prospect: &Prospect) -> PathBuf {
        let works_in = || self.process.as_ref()?.folder.clone();
        works_in().or_else(|| prospect.settings.datadir.clone()).unwrap_or_else(|| DATA.into())
    }

    /// Returns the path of tare's socket in this process's view.
    pub(crate) fn endpoint(&self, prospect: &Prospect) -> PathBuf {
        let named = prospect.options().and_then(|options| options.socket.clone());
        self.root.at(&named.unwrap_or_else(|| self.data(prospect).join(crate::endpoint::SOCKET)))
    }

    /// Returns the folder with the plugin, if it is installed.
    pub(crate) fn plugin(&self, prospect: &Prospect) -> Option<PathBuf> {
        let program = self.arguments().into_iter().next().unwrap_or_default();
        let home = Path::new(&program).ancestors().nth(2).unwrap_or(Path::new("/usr")).to_owned();
        let folders =
            ["lib/mysql/plugin", "lib64/mysql/plugin", "lib/plugin"].map(|folder| home.join(folder));
        let folders =
            prospect.option("plugin-dir", &self.arguments()).map(PathBuf::from).into_iter().chain(folders);
        folders.map(|folder| folder.join(PLUGIN)).find(|path| self.root.at(path).is_file())
    }
}

impl Prospect {
    /// Returns whether it is a server of MySQL's.
    pub(crate) fn is_mysql(&self) -> bool {
        self.mysql_options.is_some()
    }

    /// Returns tare's options, if it serves.
    pub(crate) fn options(&self) -> Option<&Options> {
        match &self.mysql_options {
            Some(options) => options.as_ref().ok(),
            None => self.plan.as_ref().ok().map(|plan| &plan.options),
        }
    }

    /// Returns why tare's options keep it from working in a server of MySQL's.
    pub(crate) fn obstacle_in_options(&self) -> Option<String> {
        match self.mysql_options.as_ref()? {
            Err(error) => Some(error.to_string()),
            Ok(options) => (!options.enabled).then(|| "it is switched off (enabled = OFF)".to_owned()),
        }
    }

    /// Returns whether MySQL's own Performance Schema, which is on unless an option says otherwise, is
    /// switched off.
    pub(crate) fn has_switched_off_schema(&self, arguments: &[OsString]) -> bool {
        let given = self.option("performance-schema", arguments);
        given.is_some_and(|value| ["off", "0", "false"].contains(&&*value.to_lowercase()))
    }

    /// Returns the last value of one of the server's options that tare itself does not use; `name` with
    /// hyphens.
    fn option(&self, name: &str, arguments: &[OsString]) -> Option<String> {
        self.values(name, arguments).pop().map(|(value, _)| value)
    }

    /// Returns every value of an option, in order, with its origin.
    fn values(&self, name: &str, arguments: &[OsString]) -> Vec<(String, OptionOrigin)> {
        let groups: Vec<&str> = self.groups.iter().map(String::as_str).collect();
        let entries = self.files.in_groups(&groups).filter(|entry| entry.key.replace('_', "-") == name);
        let of_files = entries.filter_map(|entry| Some((entry.value.clone()?, entry.origin.clone())));
        let given = arguments.iter().filter_map(|argument| {
            let (key, value) = argument.to_str()?.strip_prefix("--")?.split_once('=')?;
            (key.replace('_', "-") == name).then(|| (value.to_owned(), OptionOrigin::CommandLine))
        });
        of_files.chain(given).collect()
    }

    /// Returns whether the server is made to load the plugin by an origin that counts.
    pub(crate) fn asks_for_plugin(
        &self,
        arguments: &[OsString],
        counts: impl Fn(&OptionOrigin) -> bool,
    ) -> bool {
        let values = ["plugin-load", "plugin-load-add"].map(|name| self.values(name, arguments));
        values.iter().flatten().any(|(value, origin)| value.contains("federatedx") && counts(origin))
    }
}

/// Returns whether a process is a unit's server: it belongs to the unit, and has the account that the unit
/// names, if any.
fn runs(unit: &SystemdUnit, process: &ServerProcess) -> bool {
    process.unit.as_deref() == Some(&unit.name)
        && unit.user().is_none_or(|user| user.uid.as_raw() == process.user)
}

/// Splits the value of `LD_PRELOAD`.
pub(crate) fn preloads(value: &OsStr) -> Vec<PathBuf> {
    let entries =
        value.as_bytes().split(|byte| matches!(byte, b' ' | b':')).filter(|entry| !entry.is_empty());
    entries.map(|entry| PathBuf::from(OsString::from_vec(entry.to_vec()))).collect()
}

/// Returns whether that value contains tare.
pub(crate) fn has_provider(value: &OsStr) -> bool {
    preloads(value).iter().any(|path| is_provider(path))
}

/// Returns whether this is tare's own object, by its name.
pub(crate) fn is_provider(path: &Path) -> bool {
    provider::FILES.iter().any(|file| path.file_name() == Some(OsStr::new(file)))
}

/// Returns the account's rights on a file or folder, as the last three bits of a mode. Supplementary groups
/// are not considered.
pub(crate) fn rights(metadata: &Metadata, user: &User) -> u32 {
    let shift = if metadata.uid() == user.uid.as_raw() {
        6
    } else if metadata.gid() == user.gid.as_raw() {
        3
    } else {
        0
    };
    if user.uid.is_root() { 0o7 } else { metadata.mode() >> shift & 0o7 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_s_server_has_the_unit_s_account() {
        let folder = tempfile::tempdir().expect("folder");
        let units = folder.path().join("etc/systemd/system");
        std::fs::create_dir_all(&units).expect("folder");
        let mut process = ServerProcess::look(std::process::id()).expect("it runs");
        process.unit = Some("m.service".to_owned());
        let own = process.user;
        for (user, is) in [
            (String::new(), true),
            (format!("User={own}\n"), true),
            (format!("User={}\n", own + 1), false),
            ("User=no-such-account\n".to_owned(), true),
        ] {
            std::fs::write(units.join("m.service"), format!("[Service]\n{user}")).expect("file");
            let unit = SystemdUnit::read(&Root::new(folder.path()), "m").expect("a unit");
            assert_eq!(runs(&unit, &process), is, "{user}");
        }
        process.unit = Some("other.service".to_owned());
        std::fs::write(units.join("m.service"), "").expect("file");
        let unit = SystemdUnit::read(&Root::new(folder.path()), "m").expect("a unit");
        assert!(!runs(&unit, &process));
    }
}
