//! What the start-up's tests share: the built libraries, and commands with them preloaded.
#![allow(dead_code, unreachable_pub)] // each test program uses its part

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::Duration;

use mysql::prelude::Queryable;
use mysql::{Conn, OptsBuilder};
use tare_testkit::host::HostProgram;
use tare_testkit::poll;
use tempfile::TempDir;

/// The provider's library, as Cargo has just built it for this test; the copy one folder higher is as old as
/// the last `cargo build`.
pub fn provider() -> PathBuf {
    let test = std::env::current_exe().expect("the test's own program");
    built(test.parent().expect("a folder").join("libtare_mariadb.so"))
}

/// The library of one of this package's examples; `cargo test` builds it, `cargo test --test …` does not.
pub fn example(name: &str) -> PathBuf {
    let dependencies = provider();
    let folder = dependencies.parent().and_then(Path::parent).expect("a folder");
    built(folder.join(format!("examples/lib{name}.so")))
}

fn built(path: PathBuf) -> PathBuf {
    assert!(path.is_file(), "{} is missing: build the whole package", path.display());
    path
}

/// A command with these libraries preloaded and nothing else of tare's in its environment.
pub fn preloaded(program: impl AsRef<Path>, libraries: &[&Path]) -> Command {
    let mut command = Command::new(program.as_ref());
    let paths: Vec<&str> = libraries.iter().map(|path| path.to_str().expect("a plain path")).collect();
    command.env("LD_PRELOAD", paths.join(":")).env_remove("TARE_OPTIONS").stdin(Stdio::null());
    command
}

/// Runs it to its end.
pub fn output(command: &mut Command) -> Output {
    command.output().expect("the program runs")
}

/// Text of one of its streams.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The lines tare wrote into a log.
pub fn lines(log: &str) -> Vec<&str> {
    log.lines().filter(|line| line.contains(" tare: ")).collect()
}

/// No server may take longer to start or to end.
const LIMIT: Duration = Duration::from_secs(60);

/// A stock server on fresh data, in a folder of its own; it ends with the test.
pub struct Server {
    child: Child,
    home: TempDir,
    start: Start,
    host: HostProgram,
}

/// How a server is started.
pub struct Start {
    /// Libraries to preload.
    pub libraries: Vec<PathBuf>,
    /// The first argument, which chooses the option files.
    pub defaults: OsString,
    /// Further arguments.
    pub arguments: Vec<String>,
    /// Further environment.
    pub environment: Vec<(String, String)>,
}

impl Start {
    /// With tare, without option files.
    pub fn with_tare() -> Start {
        Start {
            libraries: vec![provider()],
            defaults: "--no-defaults".into(),
            arguments: Vec::new(),
            environment: Vec::new(),
        }
    }

    /// Adds an argument.
    #[must_use]
    pub fn argument(mut self, argument: impl Into<String>) -> Start {
        self.arguments.push(argument.into());
        self
    }

    /// Adds to the environment.
    #[must_use]
    pub fn environment(mut self, name: &str, value: impl Into<String>) -> Start {
        self.environment.push((name.to_owned(), value.into()));
        self
    }

    /// Starts it on fresh data and waits until it answers; its standard error goes to the file `stderr` of
    /// its folder.
    pub fn run(self) -> Server {
        let host = HostProgram::find().expect("a server");
        let home = host.new_home().expect("a data directory");
        let child = self.spawn(&host, home.path());
        let mut server = Server { child, home, start: self, host };
        server.wait_until_it_answers();
        server
    }

    fn spawn(&self, host: &HostProgram, home: &Path) -> Child {
        let libraries: Vec<&Path> = self.libraries.iter().map(PathBuf::as_path).collect();
        let mut command = preloaded(&host.mariadbd, &libraries);
        command.arg(&self.defaults).args(["--skip-networking", "--innodb-buffer-pool-size=16M"]);
        command.args(["--innodb-log-file-size=8M", "--user=mysql"]);
        command.arg(format!("--datadir={}", home.join("data").display()));
        command.arg(format!("--socket={}", home.join("socket").display()));
        if let Some(base) = &host.basedir {
            command.arg(format!("--basedir={}", base.display()));
        }
        command.args(&self.arguments).envs(self.environment.iter().map(|(name, value)| (name, value)));
        let stderr = std::fs::File::create(home.join("stderr")).expect("a file for standard error");
        command.stdout(Stdio::null()).stderr(stderr).spawn().expect("the server starts")
    }
}

impl Server {
    fn wait_until_it_answers(&mut self) {
        let mut ended = None;
        let answers = poll(LIMIT, || {
            let answers = self.try_client().is_some();
            ended = self.child.try_wait().expect("the server's state");
            (answers || ended.is_some()).then_some(answers)
        });
        assert!(answers == Some(true), "no answer ({ended:?}):\n{}", self.stderr());
    }

    fn try_client(&self) -> Option<Conn> {
        let options = OptsBuilder::new()
            .socket(Some(self.socket().to_string_lossy()))
            .prefer_socket(false)
            .max_allowed_packet(Some(64 << 20))
            .user(Some("root"));
        Conn::new(options).ok()
    }

    /// A new connection.
    pub fn client(&self) -> Conn {
        self.try_client().expect("the server answers")
    }

    /// The one value a query gives.
    pub fn value(&self, query: &str) -> String {
        let value: Option<String> = self.client().query_first(query).expect(query);
        value.unwrap_or_else(|| panic!("{query}: no row"))
    }

    /// Its folder; the server may write into `data`.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// Its socket.
    pub fn socket(&self) -> PathBuf {
        self.home.path().join("socket")
    }

    /// What it wrote to standard error.
    pub fn stderr(&self) -> String {
        std::fs::read_to_string(self.home.path().join("stderr")).unwrap_or_default()
    }

    /// Starts it again on its data after [`Server::stop`].
    pub fn resume(&mut self) {
        self.child = self.start.spawn(&self.host, self.home.path());
        self.wait_until_it_answers();
    }

    /// Shuts it down by SQL.
    pub fn stop(&mut self) -> ExitStatus {
        let _ = self.client().query_drop("SHUTDOWN");
        let ended = poll(LIMIT, || self.child.try_wait().expect("the server's state"));
        ended.unwrap_or_else(|| panic!("the server does not end:\n{}", self.stderr()))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Either fails only when the server has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
