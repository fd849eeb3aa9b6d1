//! A server for tests: started, queried, stopped, killed, restarted on the same data.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use mysql::{Conn, OptsBuilder};
use nix::sys::signal::Signal;
use tare_server::datadir::Account;
use tempfile::TempDir;

use crate::host::{HostProgram, SIZES};
use crate::process::TestProcess;
use crate::schema::SchemaConnection;
use crate::subject::{TestProvider, provider_library};
use crate::{Failure, Result};

/// A thread of tare's that runs until the server is up and its error messages are tare's.
const STARTING: &str = "tare-start";

/// Time limit for a server under test to start or to end; under another program it is five times as long.
pub const LIMIT: Duration = Duration::from_secs(60);
/// Factor for a program such as valgrind, under which a server is some forty times slower.
const UNDER: u32 = 5;

/// Returns whether `scripts/valgrind.sh` runs the tests: its server starts under valgrind.
pub fn is_under_valgrind() -> bool {
    std::env::var_os("TARE_VALGRIND_LOGS").is_some()
}

/// Returns the time limit for what a test waits for: [`LIMIT`], or that of a server under valgrind.
pub fn patience() -> Duration {
    LIMIT * if is_under_valgrind() { UNDER } else { 1 }
}

/// The settings of a server's start.
#[derive(Clone, Debug)]
pub struct StartSettings {
    /// The provider that fills `performance_schema`.
    pub provider: TestProvider,
    /// Additional server options.
    pub options: Vec<String>,
    /// Additional environment variables.
    pub environment: Vec<(String, String)>,
    /// The program that runs the server, with its arguments; empty if it runs directly.
    pub under: Vec<String>,
}

impl StartSettings {
    /// Makes settings with this provider only.
    pub fn new(provider: TestProvider) -> StartSettings {
        StartSettings { provider, options: Vec::new(), environment: Vec::new(), under: Vec::new() }
    }

    /// Makes settings for comparing a server with another. Each connection has a new thread, because a cached
    /// one would depend on whether an earlier connection has quite ended. No statistics are recalculated in
    /// the background, where they would sometimes interfere with connections.
    pub fn compared(provider: TestProvider) -> StartSettings {
        StartSettings::new(provider).option("--thread-cache-size=0").option("--innodb-stats-auto-recalc=OFF")
    }

    /// Adds a server option.
    #[must_use]
    pub fn option(mut self, option: impl Into<String>) -> StartSettings {
        self.options.push(option.into());
        self
    }

    /// Adds an environment variable.
    #[must_use]
    pub fn environment(mut self, name: &str, value: &str) -> StartSettings {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Adds a start-up setting of the provider that tare and the built-in know under the same name.
    #[must_use]
    pub fn provider_option(self, name: &str, value: impl ToString) -> StartSettings {
        if self.provider.is_tare() {
            self.tare_option(name, value)
        } else {
            self.option(format!("--performance-schema-{name}={}", value.to_string()))
        }
    }

    /// Adds a start-up setting that only tare knows; ignored for the built-in.
    #[must_use]
    pub fn tare_option(mut self, name: &str, value: impl ToString) -> StartSettings {
        if let TestProvider::Tare(options) = &mut self.provider {
            options.push((name.to_owned(), value.to_string()));
        }
        self
    }
}

/// Returns the level of a server whose test sets none: single events are compared with the built-in's, so
/// every one is recorded, unless `TARE_TEST_LEVEL` says otherwise.
fn default_level(options: &[(String, String)]) -> Option<String> {
    let names_one = options.iter().any(|(name, _)| name == "level");
    let level = || std::env::var("TARE_TEST_LEVEL").unwrap_or_else(|_| "lean".to_owned());
    (!names_one).then(|| format!("level={}", level()))
}

/// A stock server in a folder of its own, reachable by Unix socket only.
#[derive(Debug)]
pub struct Server {
    host: HostProgram,
    /// Settings of the next start.
    pub settings: StartSettings,
    // Declared before the folder: the process ends before its files are removed.
    process: Option<TestProcess>,
    home: TempDir,
}

/// valgrind sums up what it has found when a server ends by itself.
impl Drop for Server {
    fn drop(&mut self) {
        if is_under_valgrind() {
            let _ended = self.stop();
        }
    }
}

impl Server {
    /// Starts a server on fresh data and waits until it answers.
    ///
    /// # Errors
    /// When it does not; the text contains the server's log.
    pub fn start(settings: StartSettings) -> Result<Server> {
        let host = HostProgram::find()?;
        let home = host.new_home()?;
        let mut server = Server { host, settings, process: None, home };
        server.resume()?;
        Ok(server)
    }

    /// Starts it again on its data.
    ///
    /// # Errors
    /// When it does not answer; the text contains the server's log.
    pub fn resume(&mut self) -> Result<()> {
        assert!(self.process.is_none(), "the server runs already");
        let child = self.command()?.spawn().map_err(Failure::io("start the server"))?;
        self.process = Some(TestProcess::new(child));
        let mut ended = None;
        let answers = tare_server::poll(self.limit(), || {
            if self.client().is_ok() {
                return Some(Ok(true));
            }
            ended = match self.process_mut().and_then(TestProcess::ended) {
                Ok(ended) => ended,
                Err(error) => return Some(Err(error)),
            };
            ended.is_some().then_some(Ok(false))
        });
        if !answers.transpose()?.unwrap_or(false) {
            self.process = None;
            return Err(Failure::Setup(format!("the server does not answer ({ended:?}):\n{}", self.log())));
        }
        let process = self.process()?;
        // What has ended meanwhile is the test's to find out.
        tare_server::poll(self.limit(), || process.threads_named(STARTING).is_ok_and(|it| it.is_empty()));
        Ok(())
    }

    fn limit(&self) -> Duration {
        if self.settings.under.is_empty() { patience() } else { LIMIT * UNDER }
    }

    fn command(&self) -> Result<Command> {
        let mut command = match self.settings.under.split_first() {
            None => Command::new(&self.host.mariadbd),
            Some((program, arguments)) => {
                let mut command = Command::new(program);
                command.args(arguments).arg(&self.host.mariadbd);
                command
            }
        };
        command.arg("--no-defaults").args(SIZES);
        command.args(["--skip-networking", "--skip-name-resolve", "--local-infile=1"]);
        // 11.4 makes a key at every start, for TLS that is not used here: this takes seconds in upstream's
        // build.
        command.arg("--skip-ssl");
        command.arg(format!("--datadir={}", self.data().display()));
        command.arg(format!("--socket={}", self.socket().display()));
        // A starting server removes other servers' temporary tables from a shared folder.
        command.arg(format!("--tmpdir={}", self.temporary().display()));
        command.arg(format!("--pid-file={}", self.home.path().join("pid").display()));
        command.arg(format!("--log-error={}", self.log_path().display()));
        if let Some(base) = &self.host.basedir {
            command.arg(format!("--basedir={}", base.display()));
        }
        command.args(Account::of_servers()?.user_option());
        self.provide(&mut command)?;
        command.args(&self.settings.options);
        command.envs(self.settings.environment.iter().map(|(k, v)| (k, v)));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(command)
    }

    fn provide(&self, command: &mut Command) -> Result<()> {
        // On both sides, so that both register the same instruments.
        if self.host.has_federated() {
            command.arg("--plugin-load-add=ha_federatedx");
        }
        match &self.settings.provider {
            TestProvider::Off => {
                command.arg("--performance-schema=OFF");
            }
            TestProvider::BuiltIn => {
                command.arg("--performance-schema=ON");
                command.arg("--performance-schema-instrument=%=ON");
                command.args(CONSUMERS.map(|name| format!("--performance-schema-consumer-{name}=ON")));
            }
            TestProvider::Tare(options) => {
                command.arg("--performance-schema=OFF");
                command.env("LD_PRELOAD", provider_library()?);
                let said = options.iter().map(|(k, v)| format!("{k}={v}"));
                let options: Vec<String> = default_level(options).into_iter().chain(said).collect();
                command.env("TARE_OPTIONS", options.join(";"));
            }
        }
        Ok(())
    }

    /// Shuts it down; returns how long that took and the exit status.
    ///
    /// # Errors
    /// When it does not end in time.
    pub fn stop(&mut self) -> Result<(Duration, ExitStatus)> {
        let mut process = self.process.take().ok_or_else(not_running)?;
        let begin = Instant::now();
        process.signal(Signal::SIGTERM)?;
        let status = process.wait(self.limit())?;
        Ok((begin.elapsed(), status))
    }

    /// Kills it without a chance to clean up.
    pub fn kill(&mut self) {
        // Dropping a process kills it and waits for it.
        self.process = None;
    }

    /// Returns the running process.
    ///
    /// # Errors
    /// When the server is stopped.
    pub fn process(&self) -> Result<&TestProcess> {
        self.process.as_ref().ok_or_else(not_running)
    }

    /// Returns the running process, to wait for it.
    ///
    /// # Errors
    /// When the server is stopped.
    pub fn process_mut(&mut self) -> Result<&mut TestProcess> {
        self.process.as_mut().ok_or_else(not_running)
    }

    /// Connects as `root`.
    ///
    /// # Errors
    /// When the server refuses.
    pub fn client(&self) -> Result<Conn> {
        Ok(Conn::new(self.client_options())?)
    }

    /// Returns the options of [`Server::client`].
    pub fn client_options(&self) -> OptsBuilder {
        socket_options(&self.socket()).user(Some("root"))
    }

    /// Returns whether the tables can be read through the server's own port.
    pub fn serves_tables(&self) -> bool {
        !self.settings.provider.is_tare() || self.host.has_federated()
    }

    /// Returns the server if its tables can be read through its own port; otherwise prints that the test is
    /// skipped.
    pub fn on_its_port(self) -> Option<Server> {
        if self.serves_tables() {
            return Some(self);
        }
        println!("skipped: without FEDERATED the tables are not on the server's port");
        None
    }

    /// Connects to the `performance_schema` tables: through the server if it serves them, else through the
    /// provider's own endpoint.
    ///
    /// # Errors
    /// When there is no connection.
    pub fn schema(&self) -> Result<SchemaConnection> {
        if self.serves_tables() {
            Ok(SchemaConnection::of_server(self.client()?))
        } else {
            self.endpoint_schema()
        }
    }

    /// Connects to the tables on the provider's own endpoint, without the server in between.
    ///
    /// # Errors
    /// When there is no connection.
    pub fn endpoint_schema(&self) -> Result<SchemaConnection> {
        Ok(SchemaConnection::of_endpoint(Conn::new(socket_options(&self.endpoint()).user(Some("root")))?))
    }

    /// Returns the program under test.
    pub fn host(&self) -> &HostProgram {
        &self.host
    }

    /// Returns its data directory.
    pub fn data(&self) -> PathBuf {
        self.home.path().join("data")
    }

    /// Returns the path of its socket.
    pub fn socket(&self) -> PathBuf {
        self.home.path().join("socket")
    }

    /// Returns the socket of tare's own endpoint.
    pub fn endpoint(&self) -> PathBuf {
        self.data().join("tare.sock")
    }

    /// Returns its folder for temporary files.
    pub fn temporary(&self) -> PathBuf {
        self.home.path().join("tmp")
    }

    fn log_path(&self) -> PathBuf {
        // A server replaces the extension of a name without one.
        self.home.path().join("log.err")
    }

    /// Returns the content of the error log.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log_path()).unwrap_or_default()
    }
}

/// The consumers that an "all on" server enables.
const CONSUMERS: [&str; 12] = [
    "events-stages-current",
    "events-stages-history",
    "events-stages-history-long",
    "events-statements-current",
    "events-statements-history",
    "events-statements-history-long",
    "events-transactions-current",
    "events-transactions-history",
    "events-transactions-history-long",
    "events-waits-current",
    "events-waits-history",
    "events-waits-history-long",
];

pub(crate) fn socket_options(socket: &Path) -> OptsBuilder {
    // The limit is given so that the client does not query it.
    OptsBuilder::new()
        .socket(Some(socket.to_string_lossy()))
        .prefer_socket(false)
        .max_allowed_packet(Some(64 << 20))
        .stmt_cache_size(0)
}

fn not_running() -> Failure {
    Failure::Setup("the server is stopped".into())
}
