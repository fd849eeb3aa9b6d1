//! Where tests run `tare lab` as a user does: a study, folders, and a server that is not the lab's.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use mysql::prelude::Queryable;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tare_lab::bench::Bench;
use tare_lab::interrupt::Interrupt;
use tare_lab::server::LaunchedServer;
use tare_lab::setting::Setting;
use tare_server::installation::Installation;
use tare_testkit::server::LIMIT;
use tare_testkit::{eventually, poll};
use tempfile::TempDir;

/// Time limit for a study to write the next slices.
const STUDY_LIMIT: Duration = Duration::from_secs(600);

/// Two settings on one server: no server of its own for either, so starting is quick. Neither works by the
/// clock, and is watched for that.
pub(crate) const STUDY: &str = r#"
question = "What does a longer sort buffer cost?"
slice_seconds = 0.5
blocks = 6
minutes = 5
precision = 0.001
margin = 0.001

[[server]]
name = "mariadb"
program = "mariadbd"
options = ["--innodb-buffer-pool-size=64M", "--performance-schema=OFF"]

[[setting]]
name = "short"
stretch = false
switch = ["SET GLOBAL sort_buffer_size = 262144"]
require = "SELECT @@GLOBAL.sort_buffer_size = 262144"

[[setting]]
name = "long"
stretch = false
switch = ["SET GLOBAL sort_buffer_size = 2097152"]
require = "SELECT @@GLOBAL.sort_buffer_size = 2097152"

[[workload]]
name = "points"
run = "oltp_point_select"
options = { table-size = 1000 }
users = [2]
"#;

/// A study's file, a folder for its results, and one for temporary files that must be empty in the end.
pub(crate) struct Place {
    scratch: TempDir,
    pub(crate) own: TempDir,
}

impl Place {
    pub(crate) fn new(study: &str) -> Place {
        let scratch = tempfile::Builder::new().prefix("t").tempdir().expect("a folder");
        fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o755)).expect("permissions");
        let own = tempfile::tempdir().expect("a folder");
        fs::write(own.path().join("tiny.toml"), study).expect("a file");
        Place { scratch, own }
    }

    pub(crate) fn results(&self) -> PathBuf {
        self.own.path().join("out")
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tare"));
        command.args(["lab", "run"]).arg(self.own.path().join("tiny.toml"));
        command.arg("--output").arg(self.results()).env("TMPDIR", self.scratch.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) fn run(&self) -> Output {
        self.command().output().expect("tare runs")
    }

    pub(crate) fn records(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.results().join("results.jsonl")).unwrap_or_default();
        // The last line may be cut short while it is written.
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    pub(crate) fn slices(&self) -> usize {
        self.records().iter().filter(|r| r["kind"] == "slice").count()
    }

    /// Waits until so many slices are written; gives up when the study has ended.
    pub(crate) fn wait_for_slices(&self, study: &mut Child, slices: usize) {
        eventually("the slices are written", STUDY_LIMIT, || {
            let is_over = study.try_wait().expect("its state").is_some();
            let written = self.slices();
            assert!(!is_over || written >= slices, "it ended with {written} slices");
            written >= slices
        });
    }

    /// Processes that have the scratch folder in their environment or arguments.
    pub(crate) fn processes(&self) -> Vec<u32> {
        let mark = self.scratch.path().display().to_string();
        let has =
            |path: PathBuf| fs::read(path).is_ok_and(|text| String::from_utf8_lossy(&text).contains(&mark));
        let all = fs::read_dir("/proc").expect("/proc").flatten().map(|e| e.path());
        all.filter(|p| has(p.join("environ")) || has(p.join("cmdline")))
            .filter_map(|p| p.file_name()?.to_str()?.parse().ok())
            .collect()
    }

    /// Somebody else cleans up after a kill, and takes a moment.
    pub(crate) fn wait_until_nothing_is_left(&self) {
        let gone = poll(LIMIT, || self.processes().is_empty() && self.files().is_empty());
        assert!(gone.is_some(), "left behind: {:?} and {:?}", self.processes(), self.files());
    }

    pub(crate) fn files(&self) -> Vec<PathBuf> {
        fs::read_dir(self.scratch.path()).expect("a folder").flatten().map(|e| e.path()).collect()
    }

    /// The servers and loads of the study.
    pub(crate) fn server(&self) -> u32 {
        let is_server = |pid: &u32| {
            fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "mariadbd")
        };
        self.processes().into_iter().find(is_server).expect("a server runs")
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub(crate) fn send(pid: u32, signal: Signal) {
    kill(Pid::from_raw(i32::try_from(pid).expect("a pid")), signal).expect("signalled");
}

/// A server that is not the lab's, and what it says.
pub(crate) struct Theirs {
    // First: it ends before what it stands on.
    pub(crate) server: LaunchedServer,
    _bench: Bench,
}

impl Theirs {
    pub(crate) fn start(options: &[String]) -> Theirs {
        let bench = Bench::new(Interrupt::default()).expect("a bench");
        let installation = Installation::find(None).expect("a server");
        let template = bench.prepare(&installation, &[], &[], &mut |_| {}).expect("data");
        let server =
            bench.start_copy(&template, &Setting::plain("theirs", options.to_vec())).expect("it starts");
        Theirs { server, _bench: bench }
    }

    /// The study on it, by its socket.
    pub(crate) fn study(&self) -> String {
        self.study_at(&format!("root@localhost?socket={}", self.server.socket().display()))
    }

    /// The study on it, by this part of a dsn.
    pub(crate) fn study_at(&self, place: &str) -> String {
        let dsn = format!("dsn = \"mysql://{place}\"");
        let options = "program = \"mariadbd\"\noptions = [\"--innodb-buffer-pool-size=64M\", \"--performance-schema=OFF\"]";
        STUDY.replace(options, &dsn)
    }

    /// What may not change: schemas, and the variables that studies here set.
    pub(crate) fn state(&self) -> [Vec<String>; 3] {
        let queries = ["SHOW DATABASES", "SELECT @@GLOBAL.sort_buffer_size", "SELECT @@GLOBAL.userstat"];
        let mut connection = self.server.connect().expect("a connection");
        queries.map(|query| connection.query(query).expect("an answer"))
    }
}
