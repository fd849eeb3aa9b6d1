//! `tare weigh` as it is run: on servers under load, whose settings are as they were afterwards.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mysql::prelude::Queryable;
use nix::sys::signal::Signal;
use tare_testkit::ending::Ending;
use tare_testkit::process::Process;
use tare_testkit::server::{LIMIT, Server, Settings};
use tare_testkit::subject::Provider;
use tare_testkit::turn;

fn weigh(server: &Server, home: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tare"));
    command.args(["weigh", "--window", "2", "--state"]).arg(home).args(more);
    command.env("TARE_DSN", format!("mysql://root@localhost?socket={}", server.socket().display()));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.as_slice(), output.stderr.as_slice()].concat()).into_owned()
}

/// What may be switched, in its order.
fn settings(server: &Server, query: &str) -> Vec<(String, String, String)> {
    server.client().expect("a connection").query(query).expect("settings")
}

/// Whether a file says that something is to be put back.
fn owes(home: &Path) -> bool {
    let of =
        |folder: &Path| std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    of(&home.join("weigh")).any(|server| of(&server).next().is_some())
}

/// Runs `body` while two connections give load.
fn under_load(server: &Server, body: impl FnOnce()) {
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut connection = server.client().expect("a connection");
                while !ended.load(Ordering::Relaxed) {
                    connection.query_drop("SELECT 1").expect("an answer");
                }
            });
        }
        let _ending = Ending(&ended);
        body();
    });
}

fn weighed(output: &Output) -> serde_json::Value {
    assert!(output.status.success(), "{}", said(output));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// The longest that is weighed.
const LIMIT_SECONDS: u32 = 150;

/// What weighing for so many seconds says; for more where a slow machine has too few rounds in them.
fn weighed_within(server: &Server, home: &Path, seconds: u32, more: &[&str]) -> Output {
    let output = weigh(server, home, &[&["--secs", &seconds.to_string()], more].concat()).output();
    let output = output.expect("it runs");
    if said(&output).contains("too little load") && seconds < LIMIT_SECONDS {
        return weighed_within(server, home, 4 * seconds, more);
    }
    output
}

fn names(weighed: &serde_json::Value) -> Vec<&str> {
    let settings = weighed["settings"].as_array().expect("a list");
    settings.iter().map(|setting| setting["name"].as_str().expect("a name")).collect()
}

const BUILT_IN: &str = "SELECT NAME, ENABLED, TIMED FROM performance_schema.setup_instruments ORDER BY 1";

/// The built-in, with half of a kind's instruments off, which has to stay so.
fn built_in() -> Server {
    let server =
        Server::start(Settings::new(Provider::BuiltIn).option("--performance-schema-instrument=%=ON"));
    let server = server.expect("a server");
    let off = "UPDATE performance_schema.setup_instruments SET ENABLED = 'NO' WHERE NAME LIKE 'stage/sql/S%'";
    server.client().expect("a connection").query_drop(off).expect("switched");
    server
}

#[test]
fn the_built_in_is_weighed_and_is_as_it_was() {
    let _turn = turn();
    let (server, folder) = (built_in(), tempfile::tempdir().expect("a folder"));
    let (home, original) = (folder.path(), settings(&server, BUILT_IN));
    under_load(&server, || {
        let more = ["--json", "--without", "stage/%", "--without", "statement/%"];
        let found = weighed(&weighed_within(&server, home, 12, &more));
        assert_eq!(names(&found), ["as it is", "without stage/%", "without statement/%", "again"]);
        for setting in found["settings"].as_array().expect("a list") {
            assert!(setting["statement_us"].as_f64().expect("a number") > 0.0, "{setting}");
            for figure in ["usual", "mean"] {
                assert_eq!(setting[figure].is_null(), setting["name"] == "as it is", "{setting}");
            }
        }
        assert_eq!(settings(&server, BUILT_IN), original);
    });
    assert!(!owes(home), "nothing is owed any more");
}

#[test]
fn what_is_interrupted_or_killed_is_put_back() {
    let _turn = turn();
    let (server, folder) = (built_in(), tempfile::tempdir().expect("a folder"));
    let (home, original) = (folder.path(), settings(&server, BUILT_IN));
    let without = ["--without", "statement/%", "--secs"];
    let is_switched = || settings(&server, BUILT_IN) != original;
    under_load(&server, || {
        let spawn = || {
            let mut command = weigh(&server, home, &[&without[..], &["600"]].concat());
            Process::spawn(command.stdout(Stdio::null()).stderr(Stdio::null())).expect("it starts")
        };
        let until_switched = || {
            let begun = Instant::now();
            while !is_switched() {
                assert!(begun.elapsed() < LIMIT, "it never switches");
            }
        };
        let mut first = spawn();
        until_switched();
        let second = weigh(&server, home, &[&without[..], &["1"]].concat()).output().expect("it runs");
        assert!(
            !second.status.success() && said(&second).contains("being weighed already"),
            "{}",
            said(&second)
        );
        first.signal(Signal::SIGINT).expect("it runs");
        first.wait(LIMIT).expect("it ends");
        assert!(!is_switched() && !owes(home), "Ctrl-C puts back");

        let mut killed = spawn();
        until_switched();
        killed.signal(Signal::SIGKILL).expect("it runs");
        killed.wait(LIMIT).expect("it ends");
        assert!(owes(home), "what is to be put back has been written down");
        let begun = Instant::now();
        let next = loop {
            // What is on is looked at when it has been put back: else there would be nothing to weigh.
            let next = weighed_within(&server, home, 6, &["--json", "--without", "statement/%"]);
            // The server may not have noticed yet that the killed one's connection is gone.
            if !said(&next).contains("being weighed already") {
                break next;
            }
            assert!(begun.elapsed() < LIMIT, "{}", said(&next));
            std::thread::sleep(Duration::from_millis(50));
        };
        assert_eq!(names(&weighed(&next)), ["as it is", "without statement/%", "again"]);
        assert!(!is_switched() && !owes(home), "the next run puts back what the killed one left");
    });
}

#[test]
fn tare_is_weighed_by_its_levels_which_are_as_they_were() {
    let _turn = turn();
    const LEVELS: &str = "SELECT NAME, LEVEL, HELD FROM performance_schema.tare_levels ORDER BY 1";
    let settings_of = Settings::new(Provider::tare()).tare_option("level", "wait/io/file/%=counts");
    let Some(server) = Server::start(settings_of).expect("a server").on_its_port() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let original = settings(&server, LEVELS);
    under_load(&server, || {
        let more = ["--json", "--without", "stage/%", "--without", "wait/io/file/%"];
        let found = weighed(&weighed_within(&server, folder.path(), 12, &more));
        assert_eq!(names(&found), ["as it is", "without stage/%", "without wait/io/file/%", "again"]);
    });
    assert_eq!(settings(&server, LEVELS), original);
    assert!(!owes(folder.path()), "nothing is owed any more");
}

#[test]
fn what_cannot_be_weighed_is_said() {
    let _turn = turn();
    let (server, folder) = (built_in(), tempfile::tempdir().expect("a folder"));
    let original = settings(&server, BUILT_IN);
    let cases: [(&[&str], &str); 6] = [
        (&["--without", "nothing/%"], "no instrument that `nothing/%` matches is on"),
        (&["--setting", "a=DO 1"], "nothing to be compared with"),
        (&["--setting", "a"], "NAME=SQL"),
        (&["--secs", "1", "--setting", "a=DO 1", "--setting", "b=NO SQL"], "syntax"),
        (&["--secs", "1", "--without", "stage/%"], "too little load"),
        (&["--dsn", "mysql://nobody:wrong@localhost?socket=/nowhere/s"], "/nowhere/s"),
    ];
    for (more, expected) in cases {
        let output = weigh(&server, folder.path(), more).output().expect("it runs");
        assert!(!output.status.success() && said(&output).contains(expected), "{more:?}: {}", said(&output));
        assert_eq!(settings(&server, BUILT_IN), original, "{more:?}");
        assert!(!owes(folder.path()), "{more:?}");
    }
    let mut nobody = weigh(&server, folder.path(), &[]);
    let output = nobody.env_remove("TARE_DSN").output().expect("it runs");
    assert!(said(&output).contains("which server? Name it with --dsn"), "{}", said(&output));
}
