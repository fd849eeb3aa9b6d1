//! MySQL's servers, as `scripts/hosts.sh mysql` installs them; 9 is the reference of the shape `extended`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use mysql::Conn;
use nix::sys::signal::Signal;
use tare_server::datadir::Account;
use tempfile::TempDir;

use crate::host::server_folder;
use crate::process::TestProcess;
use crate::schema::SchemaConnection;
use crate::server::{LIMIT, socket_options};
use crate::{Failure, Result};

/// A running server with every instrument and consumer on, in a folder of its own.
#[derive(Debug)]
pub struct Mysql {
    // Declared before the folder: the process ends before its files are removed.
    process: Option<TestProcess>,
    command: Command,
    home: TempDir,
}

/// Possible series, the newest first.
pub const SERIES: [&str; 3] = ["9", "8", "5.7"];

/// Returns the series for tests that take one of those that tare serves: `TARE_MYSQL`, which is what follows
/// `mysql-` in the name of a host's folder; otherwise the newest.
fn wanted() -> String {
    std::env::var("TARE_MYSQL").unwrap_or_else(|_| SERIES[0].to_owned())
}

/// Returns the program of a series, if it is installed.
fn program(series: &str) -> Option<PathBuf> {
    let hosts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.hosts");
    hosts.join(format!("mysql-{series}/bin/mysqld")).canonicalize().ok()
}

impl Mysql {
    /// Starts a MySQL 9, or the one that `TARE_MYSQL` names; see [`Mysql::of_series`].
    ///
    /// # Errors
    /// When it does not answer; the text contains the server's log.
    pub fn start(options: &[&str]) -> Result<Option<Mysql>> {
        Mysql::of_series(&wanted(), options)
    }

    /// Starts one on fresh data and waits until it answers; `None`, with a message, if there is no such
    /// program.
    ///
    /// # Errors
    /// When it does not answer; the text contains the server's log.
    pub fn of_series(series: &str, options: &[&str]) -> Result<Option<Mysql>> {
        Mysql::with_environment(series, options, &[])
    }

    /// Starts a MySQL 9, or the one that `TARE_MYSQL` names, into which a library is preloaded, with these
    /// settings in `TARE_OPTIONS`; see
    /// [`Mysql::of_series`].
    ///
    /// # Errors
    /// When it does not answer; the text contains the server's log.
    pub fn preloaded(library: &Path, settings: &str, options: &[&str]) -> Result<Option<Mysql>> {
        Mysql::preloaded_with(library, settings, options, &[])
    }

    /// Does the same with further environment variables.
    ///
    /// # Errors
    /// When it does not answer; the text contains the server's log.
    pub fn preloaded_with(
        library: &Path,
        settings: &str,
        options: &[&str],
        environment: &[(&str, &OsStr)],
    ) -> Result<Option<Mysql>> {
        let own = [("LD_PRELOAD", library.as_os_str()), ("TARE_OPTIONS", settings.as_ref())];
        Mysql::with_environment(&wanted(), options, &[&own, environment].concat())
    }

    fn with_environment(
        series: &str,
        options: &[&str],
        environment: &[(&str, &OsStr)],
    ) -> Result<Option<Mysql>> {
        let Some(program) = program(series) else {
            println!("skipped: no MySQL {series} here; scripts/hosts.sh mysql brings one");
            return Ok(None);
        };
        let home = server_folder()?;
        let made = command(&program, &home)?.arg("--initialize-insecure").status();
        if !made.map_err(Failure::io("make MySQL's data"))?.success() {
            return Err(Failure::Setup(format!("MySQL makes no data:\n{}", log(&home))));
        }
        // An option file has to be named first.
        let (files, options): (Vec<&str>, Vec<&str>) =
            options.iter().partition(|option| option.starts_with("--defaults-"));
        let mut command = command_with(&program, &home, if files.is_empty() { NO_FILES } else { &files })?;
        command.args(["--skip-networking", "--loose-skip-mysqlx", "--performance-schema-instrument=%=ON"]);
        command.args(CONSUMERS.map(|name| format!("--loose-performance-schema-consumer-{name}=ON")));
        command.args(options);
        command.envs(environment.iter().copied());
        let mut server = Mysql { process: None, command, home };
        server.resume()?;
        Ok(Some(server))
    }

    /// Starts it again on the same data after [`Mysql::kill`] or [`Mysql::stop`], and waits until it answers.
    ///
    /// # Errors
    /// When it does not answer; the text contains the server's log.
    pub fn resume(&mut self) -> Result<()> {
        assert!(self.process.is_none(), "the server runs already");
        self.process = Some(TestProcess::spawn(&mut self.command)?);
        let answers = tare_server::poll(LIMIT, || {
            let answers = self.client().is_ok();
            (answers || !self.runs()).then_some(answers)
        });
        if answers != Some(true) {
            return Err(Failure::Setup(format!("MySQL does not answer:\n{}", self.log())));
        }
        Ok(())
    }

    /// Sends it SIGKILL while others still use it; [`Mysql::kill`] waits for its end.
    ///
    /// # Errors
    /// When it does not run.
    pub fn send_kill(&self) -> Result<()> {
        let process = self.process.as_ref().ok_or_else(stopped)?;
        process.signal(Signal::SIGKILL)
    }

    /// Kills it without a chance to clean up.
    pub fn kill(&mut self) {
        // Dropping a process kills it and waits for it.
        self.process = None;
    }

    /// Shuts it down and returns its exit status.
    ///
    /// # Errors
    /// When it does not run, or has not ended after [`LIMIT`].
    pub fn stop(&mut self) -> Result<ExitStatus> {
        let mut process = self.process.take().ok_or_else(stopped)?;
        process.signal(Signal::SIGTERM)?;
        process.wait(LIMIT)
    }

    /// Takes the preloaded library away from the next start.
    pub fn take_library_away(&mut self) {
        self.command.env_remove("LD_PRELOAD");
    }

    /// Connects as `root`.
    ///
    /// # Errors
    /// When the server refuses.
    pub fn client(&self) -> Result<Conn> {
        Ok(Conn::new(socket_options(&self.socket()).user(Some("root")))?)
    }

    /// Returns its error log.
    pub fn log(&self) -> String {
        log(&self.home)
    }

    /// Returns whether it still runs.
    pub fn runs(&mut self) -> bool {
        // A state that cannot be asked for is as an end.
        self.process.as_mut().is_some_and(|process| matches!(process.ended(), Ok(None)))
    }

    /// Returns its process id while it runs.
    pub fn id(&self) -> Option<u32> {
        self.process.as_ref().map(TestProcess::id)
    }

    /// Returns the path of its socket.
    pub fn socket(&self) -> PathBuf {
        self.home.path().join("socket")
    }

    /// Connects to its `performance_schema`.
    ///
    /// # Errors
    /// When there is no connection.
    pub fn schema(&self) -> Result<SchemaConnection> {
        Ok(SchemaConnection::of_server(self.client()?))
    }
}

fn stopped() -> Failure {
    Failure::Setup("the server is stopped".to_owned())
}

/// Consumers that are off by default, if the series has them.
const CONSUMERS: [&str; 8] = [
    "events-stages-current",
    "events-stages-history",
    "events-stages-history-long",
    "events-statements-history-long",
    "events-statements-cpu",
    "events-transactions-history-long",
    "events-waits-current",
    "events-waits-history",
];

/// Reads no option files.
const NO_FILES: &[&str] = &["--no-defaults"];

fn command(program: &Path, home: &TempDir) -> Result<Command> {
    command_with(program, home, NO_FILES)
}

fn command_with(program: &Path, home: &TempDir, files: &[&str]) -> Result<Command> {
    let base = program.parent().and_then(Path::parent).unwrap_or(Path::new("/"));
    let mut command = Command::new(program);
    command.args(files).arg(format!("--basedir={}", base.display()));
    for (option, name) in [
        ("datadir", "data"),
        ("socket", "socket"),
        ("pid-file", "pid"),
        ("log-error", "log.err"),
        ("tmpdir", "."),
    ] {
        command.arg(format!("--{option}={}", home.path().join(name).display()));
    }
    command.args([
        "--secure-file-priv=",
        "--innodb-buffer-pool-size=64M",
        "--loose-innodb-redo-log-capacity=8M",
    ]);
    command.args(Account::of_servers()?.user_option());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Ok(command)
}

fn log(home: &TempDir) -> String {
    std::fs::read_to_string(home.path().join("log.err")).unwrap_or_default()
}
