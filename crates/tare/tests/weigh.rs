//! `tare weigh` as it is run: on servers under load, whose settings are as they were afterwards.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use mysql::prelude::Queryable;
use nix::sys::signal::Signal;
use tare_testkit::ending::EndingFlag;
use tare_testkit::eventually;
use tare_testkit::process::TestProcess;
use tare_testkit::server::{LIMIT, Server, StartSettings};
use tare_testkit::subject::TestProvider;
use tare_testkit::turn;

fn weigh(server: &Server, home: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tare"));
    command.args(["weigh", "--window", "2ms", "--state"]).arg(home).args(more);
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
        let _ending = EndingFlag(&ended);
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
    let output = weigh(server, home, &[&["--for", &format!("{seconds}s")], more].concat()).output();
    let output = output.expect("it runs");
    if said(&output).contains("too little load") && seconds < LIMIT_SECONDS {
        return weighed_within(server, home, 4 * seconds, more);
    }
    output
}

/// What the next run says. The server may not have noticed yet that the connection of the one before is gone.
fn once_free(run: impl Fn() -> Output) -> Output {
    eventually("the server is free", LIMIT, || {
        Some(run()).filter(|output| !said(output).contains("being weighed already"))
    })
}

/// A weighing that has begun to switch, and goes on until it is ended.
fn begun(mut command: Command, is_switched: impl Fn() -> bool) -> TestProcess {
    let command = command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut process = TestProcess::spawn(command).expect("it starts");
    eventually("it switches", LIMIT, || {
        // The same case as in `once_free`.
        if process.ended().expect("a child").is_some() {
            process = TestProcess::spawn(command).expect("it starts");
        }
        is_switched()
    });
    process
}

fn names(weighed: &serde_json::Value) -> Vec<&str> {
    let settings = weighed["settings"].as_array().expect("a list");
    settings.iter().map(|setting| setting["name"].as_str().expect("a name")).collect()
}

const BUILT_IN: &str = "SELECT NAME, ENABLED, TIMED FROM performance_schema.setup_instruments ORDER BY 1";

/// The built-in, with half of a kind's instruments off, which has to stay so.
fn built_in() -> Server {
    let server = Server::start(
        StartSettings::new(TestProvider::BuiltIn).option("--performance-schema-instrument=%=ON"),
    );
    let server = server.expect("a server");
    let off = "UPDATE performance_schema.setup_instruments SET ENABLED = 'NO' WHERE NAME LIKE 'stage/sql/S%'";
    server.client().expect("a connection").query_drop(off).expect("switched");
    server
}

const LEVELS: &str = "SELECT NAME, LEVEL, HELD FROM performance_schema.tare_levels ORDER BY 1";
/// The rows of `tare_status` that can be updated.
const ROWS: &str = "SELECT NAME, VALUE, '' FROM performance_schema.tare_status \
                    WHERE NAME IN ('budget', 'budget_p95', 'level') ORDER BY 1";

/// What can be switched in a server with tare, apart from what a built-in has: levels, and rows of
/// `tare_status`.
fn of_tare(server: &Server) -> [Vec<(String, String, String)>; 2] {
    [LEVELS, ROWS].map(|query| settings(server, query))
}

/// A server with tare.
fn with_tare(level: &str) -> Option<Server> {
    let settings = StartSettings::new(TestProvider::tare()).tare_option("level", level);
    Server::start(settings).expect("a server").on_its_port()
}

/// A setting that is a row of `tare_status`.
fn status(name: &str, row: &str, value: &str) -> String {
    format!("{name}=UPDATE performance_schema.tare_status SET VALUE = '{value}' WHERE NAME = '{row}'")
}

/// Runs a statement as `root`.
fn run(server: &Server, statement: &str) {
    server.client().expect("a connection").query_drop(statement).expect(statement);
}

/// The address of an account that has these rights on tables of the schema and may read all of them.
fn account(server: &Server, updated: &[&str]) -> String {
    run(server, "CREATE OR REPLACE USER weigher@localhost");
    run(server, "GRANT SELECT ON performance_schema.* TO weigher@localhost");
    for table in updated {
        run(server, &format!("GRANT UPDATE ON performance_schema.{table} TO weigher@localhost"));
    }
    format!("mysql://weigher@localhost?socket={}", server.socket().display())
}

#[test]
fn the_built_in_is_weighed_and_is_as_it_was() {
    let _turn = turn();
    let (server, folder) = (built_in(), tempfile::tempdir().expect("a folder"));
    let (home, original) = (folder.path(), settings(&server, BUILT_IN));
    under_load(&server, || {
        let more = ["--format=json", "--without", "stage/%", "--without", "statement/%"];
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
    let without = ["--without", "statement/%", "--for"];
    let is_switched = || settings(&server, BUILT_IN) != original;
    under_load(&server, || {
        let long = || weigh(&server, home, &[&without[..], &["600s"]].concat());
        let mut first = begun(long(), is_switched);
        let second = weigh(&server, home, &[&without[..], &["1s"]].concat()).output().expect("it runs");
        assert!(
            !second.status.success() && said(&second).contains("being weighed already"),
            "{}",
            said(&second)
        );
        first.signal(Signal::SIGINT).expect("it runs");
        first.wait(LIMIT).expect("it ends");
        assert!(!is_switched() && !owes(home), "Ctrl-C puts back");

        let mut killed = begun(long(), is_switched);
        killed.signal(Signal::SIGKILL).expect("it runs");
        killed.wait(LIMIT).expect("it ends");
        assert!(owes(home), "what is to be put back has been written down");
        // What is on is looked at when it has been put back: else there would be nothing to weigh.
        let next =
            once_free(|| weighed_within(&server, home, 6, &["--format=json", "--without", "statement/%"]));
        assert_eq!(names(&weighed(&next)), ["as it is", "without statement/%", "again"]);
        assert!(!is_switched() && !owes(home), "the next run puts back what the killed one left");
    });
}

#[test]
fn tare_is_weighed_by_its_levels_which_are_as_they_were() {
    let _turn = turn();
    let Some(server) = with_tare("wait/io/file/%=counts") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let original = of_tare(&server);
    under_load(&server, || {
        let more = ["--format=json", "--without", "stage/%", "--without", "wait/io/file/%"];
        let found = weighed(&weighed_within(&server, folder.path(), 12, &more));
        assert_eq!(names(&found), ["as it is", "without stage/%", "without wait/io/file/%", "again"]);
    });
    assert_eq!(of_tare(&server), original);
    assert!(!owes(folder.path()), "nothing is owed any more");
}

#[test]
fn a_budget_that_a_setting_names_is_put_back() {
    let _turn = turn();
    let Some(server) = with_tare("lean") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let original = of_tare(&server);
    let [wide, wider] = ["90%", "95%"].map(|share| status(share, "budget", share));
    let more = ["--setting", wide.as_str(), "--setting", wider.as_str(), "--for", "600s"];
    let is_switched = || settings(&server, ROWS) != original[1];
    let mut process = begun(weigh(&server, folder.path(), &more), is_switched);
    process.signal(Signal::SIGINT).expect("it runs");
    process.wait(LIMIT).expect("it ends");
    assert_eq!(of_tare(&server), original);
    assert!(!owes(folder.path()), "nothing is owed any more");
}

#[test]
fn who_cannot_put_back_switches_nothing_and_all_else_is_put_back() {
    let _turn = turn();
    let Some(server) = with_tare("lean") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let (home, original) = (folder.path(), of_tare(&server));
    let dsn = account(&server, &["tare_status"]);
    let [on, off] = ["exact", "off"].map(|level| status(level, "level", &format!("stage/%={level}")));
    let weigh_for = |seconds: &str| {
        let more = ["--dsn", dsn.as_str(), "--setting", on.as_str(), "--setting", off.as_str()];
        weigh(&server, home, &[&more[..], &["--for", seconds]].concat())
    };
    let weighed_briefly = || once_free(|| weigh_for("1s").output().expect("it runs"));
    let output = weighed_briefly();
    let missing = "GRANT UPDATE ON performance_schema.tare_levels";
    assert!(!output.status.success() && said(&output).contains(missing), "{}", said(&output));
    assert_eq!(of_tare(&server), original);
    assert!(!owes(home), "nothing is owed for what was not switched");

    account(&server, &["tare_status", "tare_levels"]);
    let mut process = begun(weigh_for("600s"), || of_tare(&server) != original);
    run(&server, "REVOKE UPDATE ON performance_schema.tare_status FROM weigher@localhost");
    process.wait(LIMIT).expect("it ends");
    let [levels, rows] = of_tare(&server);
    assert_eq!(levels, original[0], "what may be put back is");
    assert!(rows != original[1] && owes(home), "what may not be is owed");

    account(&server, &["tare_status", "tare_levels"]);
    let output = weighed_briefly();
    assert!(said(&output).contains("too little load"), "these rights are enough: {}", said(&output));
    assert_eq!(of_tare(&server), original);
    assert!(!owes(home), "nothing is owed any more");
}

#[test]
fn a_server_with_a_governor_is_not_weighed() {
    let _turn = turn();
    let folder = tempfile::tempdir().expect("a folder");
    let says = |server: &Server, expected: &str| {
        let more = ["--for", "1s", "--without", "stage/%"];
        let output = once_free(|| weigh(server, folder.path(), &more).output().expect("it runs"));
        assert!(!output.status.success() && said(&output).contains(expected), "{}", said(&output));
    };
    let server = built_in();
    let mut governor = server.client().expect("a connection");
    governor.query_drop("DO GET_LOCK('tare_govern', 0)").expect("the lock");
    says(&server, "`tare govern` is at work");
    governor.query_drop("DO RELEASE_LOCK('tare_govern')").expect("the lock");
    says(&server, "too little load");

    let Some(server) = with_tare("lean") else { return };
    let original = settings(&server, LEVELS);
    for row in ["budget", "budget_p95"] {
        let set = |value: &str| {
            let to = format!("SET VALUE = '{value}' WHERE NAME = '{row}'");
            run(&server, &format!("UPDATE performance_schema.tare_status {to}"));
        };
        set("90%");
        says(&server, &format!("keeps a budget ({row} is 90%)"));
        assert_eq!(settings(&server, LEVELS), original);
        set("OFF");
    }
    says(&server, "too little load");
}

#[test]
fn a_variable_that_sessions_copy_is_warned_of() {
    let _turn = turn();
    let (server, folder) = (built_in(), tempfile::tempdir().expect("a folder"));
    let more = [
        "--setting",
        "some=SET GLOBAL long_query_time = 7; SET GLOBAL log_output = 'FILE'",
        "--setting",
        "none=SET GLOBAL long_query_time = 8; SET GLOBAL log_output = 'NONE'",
        "--for",
        "1s",
    ];
    let text = said(&weigh(&server, folder.path(), &more).output().expect("it runs"));
    assert!(text.contains("`long_query_time` is copied by each session"), "{text}");
    assert!(!text.contains("`log_output`"), "of the whole server: {text}");
}

#[test]
fn what_cannot_be_weighed_is_said() {
    let _turn = turn();
    let (server, folder) = (built_in(), tempfile::tempdir().expect("a folder"));
    let original = settings(&server, BUILT_IN);
    let cases: [(&[&str], &str); 8] = [
        (&["--without", "nothing/%"], "no instrument that `nothing/%` matches is on"),
        (&["--setting", "a=DO 1"], "nothing to be compared with"),
        (&["--setting", "a"], "NAME=SQL"),
        (&["--for", "1s", "--setting", "a=DO 1", "--setting", "b=NO SQL"], "syntax"),
        (&["--for", "1s", "--without", "stage/%"], "too little load"),
        (&["--dsn", "mysql://nobody:secret@localhost?socket=/nowhere/s"], "/nowhere/s"),
        (&["--dsn", "mysqlx://nobody:secret@db1"], "mysqlx://nobody@db1: the scheme"),
        (&["--dsn", "mysql://nobody:#secret@db1"], "percent-encode the password"),
    ];
    for (more, expected) in cases {
        let output = weigh(&server, folder.path(), more).output().expect("it runs");
        assert!(!output.status.success() && said(&output).contains(expected), "{more:?}: {}", said(&output));
        assert!(!said(&output).contains("secret"), "{more:?}: {}", said(&output));
        assert_eq!(settings(&server, BUILT_IN), original, "{more:?}");
        assert!(!owes(folder.path()), "{more:?}");
    }
    let mut nobody = weigh(&server, folder.path(), &[]);
    let output = nobody.env_remove("TARE_DSN").output().expect("it runs");
    assert!(
        said(&output).contains("mysqld.sock") || said(&output).contains("mysql.sock"),
        "the usual one: {}",
        said(&output)
    );
}
