//! A server that the lab starts: it is waited for, and stopped in any case.

use std::ffi::OsString;
use std::fs;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use tare_server::datadir::{Account, Scratch};
use tare_server::installation::Installation;
use tare_server::program::{last_lines, option};

use crate::error::Tried;
use crate::process::as_pid;
use crate::process::interrupt::Interrupt;
use crate::server::setting::Setting;
use crate::server::target::ServerTarget;
use crate::{Error, Result};

/// Time limit for a start. Recovery after a crash is slow.
const START_LIMIT: Duration = Duration::from_secs(120);
/// Time limit for a shutdown, after which the server is killed.
const STOP_LIMIT: Duration = Duration::from_secs(60);
/// Time in which a server may end after its connections broke.
const DYING: Duration = Duration::from_millis(500);
/// Longest path of a socket: `sockaddr_un` has 108 bytes, including the final NUL.
const SOCKET_PATH_LIMIT: usize = 107;

/// The way to start a server.
#[derive(Clone, Debug)]
pub struct Launch {
    datadir: PathBuf,
    temporary: PathBuf,
    socket: PathBuf,
    log: PathBuf,
    keeps_log: bool,
    networking: bool,
    door: Option<(String, u16)>,
    options: Vec<OsString>,
    preload: Option<PathBuf>,
    environment: Vec<(String, String)>,
}

impl Launch {
    /// Creates a launch on `datadir` with socket and error log inside it, reachable through the socket only.
    /// Its temporary files are in `scratch`.
    pub fn new(datadir: &Path, scratch: &Scratch) -> Launch {
        Launch {
            datadir: datadir.into(),
            temporary: scratch.path().into(),
            socket: datadir.join("mariadb.sock"),
            log: datadir.join("error.log"),
            keeps_log: false,
            networking: false,
            door: None,
            options: vec![],
            preload: None,
            environment: vec![],
        }
    }

    /// Adds server options; they come last, so they override others.
    pub fn options(mut self, options: impl IntoIterator<Item = impl Into<OsString>>) -> Launch {
        self.options.extend(options.into_iter().map(Into::into));
        self
    }

    /// Preloads a shared object into the server.
    pub fn preload(mut self, object: Option<PathBuf>) -> Launch {
        self.preload = object;
        self
    }

    /// Applies a setting.
    pub fn setting(mut self, setting: &Setting) -> Launch {
        self.environment.clone_from(&setting.environment);
        self.preload(setting.preload.clone()).options(&setting.options)
    }

    /// Uses a socket outside the data directory.
    pub fn listening(mut self, socket: &Path) -> Launch {
        self.socket = socket.into();
        self
    }

    /// Uses an error log outside the data directory.
    pub fn logging(mut self, log: &Path) -> Launch {
        self.log = log.into();
        self
    }

    /// Appends to an existing error log, and keeps its owner and mode, as it may belong to somebody else.
    pub fn keeping_log(mut self) -> Launch {
        self.keeps_log = true;
        self
    }

    /// Leaves networking to the server's options; it is off otherwise.
    pub fn networking(mut self) -> Launch {
        self.networking = true;
        self
    }

    /// Makes the server listen at an address and port, too.
    pub(crate) fn at(mut self, door: Option<(String, u16)>) -> Launch {
        self.door = door;
        self
    }

    /// Returns the path of the server's socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Starts the server and waits until it answers.
    pub fn start(
        &self,
        installation: &Installation,
        account: &Account,
        interrupt: &Interrupt,
    ) -> Result<LaunchedServer> {
        if self.socket.as_os_str().len() > SOCKET_PATH_LIMIT {
            return Err(Error::SocketPathTooLong(self.socket.clone()));
        }
        self.vacate()?;
        let log = self.open_log(account)?;
        let log_begin = log.metadata().tried(|| format!("reading {}", self.log.display()))?.len();
        let mut command = self.command(installation, account, log)?;
        let child = command.spawn().tried(|| format!("starting {}", installation.mariadbd.display()))?;
        let mut server = LaunchedServer {
            child,
            socket: self.socket.clone(),
            datadir: self.datadir.clone(),
            log: self.log.clone(),
            log_begin,
            door: self.door.clone(),
            ended: None,
        };
        server.wait_until_it_answers(interrupt)?;
        Ok(server)
    }

    /// Removes the socket of a killed server, which would look like a listening one. Fails if a server
    /// listens.
    fn vacate(&self) -> Result<()> {
        match UnixStream::connect(&self.socket).map_err(|error| error.kind()) {
            Ok(_) => Err(Error::SocketInUse(self.socket.clone())),
            Err(ErrorKind::NotFound) => Ok(()),
            Err(ErrorKind::ConnectionRefused) => {
                fs::remove_file(&self.socket).tried(|| format!("removing {}", self.socket.display()))
            }
            Err(kind) => Err(kind).tried(|| format!("looking who listens at {}", self.socket.display())),
        }
    }

    /// Opens the error log, so that output before the server's own log is open is neither lost nor disturbs a
    /// progress bar.
    fn open_log(&self, account: &Account) -> Result<File> {
        let tried = || format!("opening {}", self.log.display());
        if self.keeps_log && self.log.exists() {
            return OpenOptions::new().append(true).open(&self.log).tried(tried);
        }
        let log = File::create(&self.log).tried(tried)?;
        account.own(&self.log)?;
        Ok(log)
    }

    fn command(&self, installation: &Installation, account: &Account, log: File) -> Result<Command> {
        let (files, rest): (Vec<_>, Vec<_>) = self.options.iter().partition(|o| names_option_files(o));
        let mut command = Command::new(&installation.mariadbd);
        // Option files must come first; without any, the system's must not be read.
        if files.is_empty() {
            command.arg("--no-defaults");
        }
        command.args(files);
        command.args(installation.basedir.as_deref().map(|b| option("--basedir=", b)));
        command.args(account.user_option()).args(installation.own_options());
        command.arg(option("--datadir=", &self.datadir)).arg(option("--socket=", &self.socket));
        command.arg(option("--log-error=", &self.log));
        command.arg(option("--pid-file=", &self.datadir.join("mariadbd.pid")));
        match &self.door {
            Some((address, port)) => {
                command.arg(format!("--bind-address={address}")).arg(format!("--port={port}"));
                command.arg("--skip-name-resolve");
            }
            None if self.networking => {}
            None => drop(command.arg("--skip-networking")),
        }
        command.args(rest);
        if let Some(object) = &self.preload {
            command.env("LD_PRELOAD", preload_list(object, std::env::var_os("LD_PRELOAD")));
        }
        command.env("TMPDIR", &self.temporary).envs(self.environment.iter().map(|(n, v)| (n, v)));
        let again = log.try_clone().tried(|| format!("opening {}", self.log.display()))?;
        command.stdin(Stdio::null()).stdout(log).stderr(again);
        // Ctrl-C in a terminal goes to the whole process group, but this process stops the server in order.
        command.process_group(0);
        Ok(command)
    }
}

fn names_option_files(option: &OsString) -> bool {
    let option = option.to_string_lossy();
    ["--defaults-file=", "--defaults-extra-file=", "--defaults-group-suffix=", "--no-defaults"]
        .iter()
        .any(|name| option.starts_with(name))
}

/// Returns the value of `LD_PRELOAD`: `object` first, then what the user preloads (an allocator, say).
fn preload_list(object: &Path, already: Option<OsString>) -> OsString {
    let mut list = object.as_os_str().to_owned();
    if let Some(already) = already.filter(|a| !a.is_empty()) {
        list.push(":");
        list.push(already);
    }
    list
}

/// A running server. Dropping it shuts it down.
#[derive(Debug)]
pub struct LaunchedServer {
    child: Child,
    socket: PathBuf,
    datadir: PathBuf,
    log: PathBuf,
    log_begin: u64,
    door: Option<(String, u16)>,
    ended: Option<ExitStatus>,
}

impl LaunchedServer {
    /// Returns its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the path of its socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Returns its data directory.
    pub fn datadir(&self) -> &Path {
        &self.datadir
    }

    /// Returns the path of its error log.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Connects as `root`.
    pub fn connect(&self) -> Result<mysql::Conn> {
        self.target().connect()
    }

    /// Returns its address, with the account `root`.
    pub fn target(&self) -> ServerTarget {
        ServerTarget::of_socket(&self.socket).listening(self.door.as_ref())
    }

    /// Runs one statement as `root`.
    pub fn execute(&self, sql: &str) -> Result<()> {
        use mysql::prelude::Queryable;
        self.connect()?.query_drop(sql).map_err(|source| self.target().refused(source))
    }

    /// Returns what it has logged since its start.
    pub fn said(&self) -> String {
        let mut said = vec![];
        let read = File::open(&self.log).and_then(|mut log| {
            log.seek(SeekFrom::Start(self.log_begin))?;
            log.read_to_end(&mut said)
        });
        // What cannot be read counts as not logged.
        read.map_or(String::new(), |_| String::from_utf8_lossy(&said).into_owned())
    }

    /// Returns whether it has logged the text.
    pub fn logged(&self, text: &str) -> bool {
        self.said().contains(text)
    }

    /// Returns its exit status, if it has ended.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().tried(|| "waiting for the server".into())?;
        }
        Ok(self.ended)
    }

    /// Returns the status of an unexpected end; waits a moment for a server that is about to end.
    pub fn death(&mut self) -> Option<String> {
        let ended = Interrupt::default().wait_for(DYING, || self.ended());
        ended.ok().flatten().map(|status| status.to_string())
    }

    /// Asks it to shut down, without waiting.
    pub fn ask_to_stop(&mut self) {
        if matches!(self.ended(), Ok(None)) {
            // If it ends between the two lines, there is nothing to stop.
            let _ = kill(as_pid(self.pid()), Signal::SIGTERM);
        }
    }

    /// Shuts it down and waits until it has ended. A server that hangs is killed.
    pub fn stop(&mut self) -> Result<ExitStatus> {
        self.ask_to_stop();
        // Not interruptible: a data directory in use cannot be removed or copied.
        let ended = Interrupt::default().wait_for(STOP_LIMIT, || self.ended())?;
        if let Some(status) = ended {
            return Ok(status);
        }
        self.child.kill().tried(|| "killing the server".into())?;
        let status = self.child.wait().tried(|| "waiting for the server".into())?;
        self.ended = Some(status);
        Ok(status)
    }

    fn wait_until_it_answers(&mut self, interrupt: &Interrupt) -> Result<()> {
        let answered = interrupt.wait_for(START_LIMIT, || {
            if let Some(status) = self.ended()? {
                return Err(self.not_started(format!("it ended ({status})")));
            }
            // A refusal is an answer: the data directory may have a password.
            Ok(match self.connect() {
                Ok(_)
                | Err(
                    Error::Denied { .. }
                    | Error::Connect(tare_connect::Error::Plugin { .. } | tare_connect::Error::Server { .. }),
                ) => Some(()),
                Err(_) => None,
            })
        })?;
        answered
            .map(drop)
            .ok_or_else(|| self.not_started(format!("it did not answer within {} s", START_LIMIT.as_secs())))
    }

    fn not_started(&self, why: String) -> Error {
        let tail = last_lines(&self.said(), 12);
        Error::NotStarted { why, log: self.log.clone(), tail }
    }
}

impl Drop for LaunchedServer {
    fn drop(&mut self) {
        // A failure cannot be reported any more.
        let _ = self.stop();
    }
}

/// Stops several servers in parallel.
pub fn stop_all<'a>(servers: impl IntoIterator<Item = &'a mut LaunchedServer>) -> Result<()> {
    let mut servers: Vec<_> = servers.into_iter().collect();
    servers.iter_mut().for_each(|s| s.ask_to_stop());
    servers.iter_mut().try_for_each(|s| s.stop().map(drop))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_user_preloads_stays() {
        let object = Path::new("/lib/x.so");
        assert_eq!(preload_list(object, None), "/lib/x.so");
        assert_eq!(preload_list(object, Some("".into())), "/lib/x.so");
        assert_eq!(preload_list(object, Some("/lib/malloc.so".into())), "/lib/x.so:/lib/malloc.so");
    }

    #[test]
    fn option_files_are_told_from_other_options() {
        assert!(names_option_files(&"--defaults-file=/etc/my.cnf".into()));
        assert!(!names_option_files(&"--default-storage-engine=aria".into()));
    }
}
