//! `tare lab record` and `tare lab replay` as a user runs them: what a server did for the replayed load is
//! what it did for the recorded one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use mysql::prelude::Queryable;
use serde_json::Value;
use tare_lab::bench::Bench;
use tare_lab::interrupt::Interrupt;
use tare_lab::server::LaunchedServer;
use tare_lab::setting::Setting;
use tare_server::installation::Installation;
use tempfile::TempDir;

/// Sessions of the load, each with rows of its own.
const SESSIONS: u32 = 4;
/// Rows of each.
const ROWS: u32 = 50;

struct Theirs {
    // First: it ends before what it stands on.
    server: LaunchedServer,
    _bench: Bench,
    own: TempDir,
}

fn tare(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tare"));
    command.args(arguments).env_remove("TARE_LAB_PASSWORD").output().expect("tare runs")
}

fn succeeds(arguments: &[&str]) -> String {
    let ended = tare(arguments);
    let said = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert!(ended.status.success(), "{arguments:?}: {said}{}", String::from_utf8_lossy(&ended.stderr));
    said
}

fn refused(arguments: &[&str]) -> String {
    let ended = tare(arguments);
    assert!(!ended.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&ended.stdout));
    String::from_utf8_lossy(&ended.stderr).into_owned()
}

impl Theirs {
    fn start() -> Theirs {
        let bench = Bench::new(Interrupt::default()).expect("a bench");
        let installation = Installation::find(None).expect("a server");
        let template = bench.prepare(&installation, &[], &[], &mut |_| {}).expect("data");
        let options = [
            "--performance-schema=ON",
            "--performance-schema-consumer-events-statements-current=ON",
            "--performance-schema-consumer-events-statements-history-long=ON",
            "--long-query-time=0",
            "--slow-query-log-file=slow.log",
            "--general-log-file=general.log",
            "--log-output=FILE",
        ];
        let setting = Setting::plain("theirs", options.map(str::to_owned).to_vec());
        let server = bench.start_copy(&template, &setting).expect("it starts");
        Theirs { server, _bench: bench, own: tempfile::tempdir().expect("a folder") }
    }

    fn dsn(&self) -> String {
        format!("mysql://root@localhost?socket={}", self.server.socket().display())
    }

    fn log(&self, on: bool) {
        let value = if on { "ON" } else { "OFF" };
        for log in ["slow_query_log", "general_log"] {
            self.server.execute(&format!("SET GLOBAL {log} = {value}")).expect("it is switched");
        }
    }

    /// The data as it was before the load, and nothing counted.
    fn begin_anew(&self) {
        let mut connection = self.server.connect().expect("a connection");
        let mut dump = vec!["DROP DATABASE IF EXISTS shop".to_owned(), "CREATE DATABASE shop".to_owned()];
        dump.extend(
            data()
                .into_iter()
                .map(|statement| statement.replace("TABLE ", "TABLE shop.").replace("INTO ", "INTO shop.")),
        );
        dump.push("TRUNCATE TABLE performance_schema.events_statements_history_long".to_owned());
        dump.iter().for_each(|statement| connection.query_drop(statement).expect("it is done"));
    }

    /// What the server executed, by digest: executions, errors, rows. From the history: where sessions run
    /// side by side, the built-in's summary by digest loses one now and then, as it adds without a lock.
    fn digests(&self) -> Vec<(String, u64, u64, u64, u64, u64)> {
        let query =
            "SELECT DIGEST_TEXT, COUNT(*), CAST(SUM(ERRORS) AS UNSIGNED), CAST(SUM(ROWS_SENT) AS UNSIGNED),
                CAST(SUM(ROWS_EXAMINED) AS UNSIGNED), CAST(SUM(ROWS_AFFECTED) AS UNSIGNED)
            FROM performance_schema.events_statements_history_long WHERE CURRENT_SCHEMA = 'shop' AND DIGEST_TEXT IS NOT NULL
            GROUP BY DIGEST_TEXT ORDER BY DIGEST_TEXT";
        self.server.connect().expect("a connection").query(query).expect("digests")
    }

    /// Sum over all rows, by which equal data are known.
    fn checksum(&self) -> Option<(u64, u64)> {
        let query = "SELECT COUNT(*), CAST(SUM(CRC32(CONCAT(id, ':', v, ':', n))) AS UNSIGNED) FROM shop.t";
        self.server.connect().expect("a connection").query_first(query).expect("a sum")
    }

    /// The load: transactions of several sessions at a time, errors among them.
    fn load(&self) {
        std::thread::scope(|threads| {
            for session in 0..SESSIONS {
                threads.spawn(move || self.session(session * 1000));
            }
        });
    }

    fn session(&self, first: u32) {
        let options = mysql::OptsBuilder::new().socket(self.server.socket().to_str()).user(Some("root"));
        let mut connection = mysql::Conn::new(options.db_name(Some("shop"))).expect("a connection");
        for n in 0..12 {
            let id = first + n;
            let statements = [
                "START TRANSACTION".into(),
                format!("SELECT v FROM t WHERE id BETWEEN {id} AND {} -- a comment; with '", id + 5),
                format!("UPDATE t SET v = 'it''s; n\u{fc}mber\n{n} \\' ?', n = n + 1 WHERE id = {id}"),
                format!("INSERT INTO t VALUES ({}, \"new\", {n})", first + 500 + n),
                format!("DELETE FROM t WHERE id = {}", id + 20),
                if n % 4 == 3 { "ROLLBACK" } else { "COMMIT" }.into(),
                "SET @a = 1".into(),
            ];
            statements.iter().for_each(|statement| connection.query_drop(statement).expect("it is done"));
            // There since the last time, but for a rollback: a duplicate key, and a table that is not there.
            assert!(connection.query_drop(format!("INSERT INTO t VALUES ({first}, 'twice', 0)")).is_err());
            assert!(connection.query_drop("SELECT * FROM nonsuch").is_err());
        }
    }
}

fn data() -> Vec<String> {
    let mut statements =
        vec!["CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(40), n INT) ENGINE=InnoDB".to_owned()];
    for session in 0..SESSIONS {
        let rows: Vec<String> = (0..ROWS).map(|n| format!("({}, 'old', 0)", session * 1000 + n)).collect();
        statements.push(format!("INSERT INTO t VALUES {}", rows.join(",")));
    }
    statements
}

#[test]
fn a_replayed_load_does_what_the_recorded_one_did() {
    let theirs = Theirs::start();
    theirs.begin_anew();
    theirs.log(true);
    theirs.load();
    theirs.log(false);
    let (digests, checksum) = (theirs.digests(), theirs.checksum());
    assert!(digests.len() > 8 && digests.iter().any(|d| d.2 == u64::from(12 * SESSIONS)), "{digests:?}");

    let path = |name: &str| theirs.own.path().join(name).display().to_string();
    let log = |name: &str| theirs.server.datadir().join(name).display().to_string();
    let (slow, general, dsn) = (log("slow.log"), log("general.log"), theirs.dsn());
    let sources = [
        ("slow", ["--slow-log", &slow], "fast"),
        ("general", ["--general-log", &general], "own"),
        ("history", ["--dsn", &dsn], "fast"),
    ];
    for (name, from, _) in &sources {
        let said = succeeds(&["lab", "record", &path(name), from[0], from[1]]);
        assert!(said.contains("writes") && !said.contains("left out"), "{said}");
        let said = refused(&["lab", "replay", &path(name), "--dsn", &dsn]);
        assert!(said.contains(" writes") && said.contains("Name what is to be sent with --send"), "{said}");
    }
    assert_eq!(theirs.checksum(), checksum, "nothing was sent without being asked");
    theirs.begin_anew();
    let (name, ..) = &sources[0];
    let json = path("outcome.json");
    let said = succeeds(&[
        "lab",
        "replay",
        &path(name),
        "--dsn",
        &dsn,
        "--send",
        "reads,writes",
        "--format",
        "json",
        "-o",
        &json,
    ]);
    assert_eq!(said, "", "all is in the file");
    let outcome: Value = serde_json::from_str(&fs::read_to_string(&json).expect("a file")).expect("JSON");
    assert!(
        outcome["statements"].as_u64() > Some(100) && outcome["latency"]["p99"].as_f64() > Some(0.0),
        "{outcome}"
    );
    assert!(
        outcome["errors"].as_array().is_some_and(|all| all.iter().any(|it| it["number"] == 1062)),
        "{outcome}"
    );
    for (name, _, pace) in &sources {
        theirs.begin_anew();
        let (file, sessions) = (path(name), SESSIONS.to_string());
        let said = succeeds(&[
            "lab",
            "replay",
            &file,
            "--dsn",
            &dsn,
            "--send",
            "reads,writes",
            "--pace",
            pace,
            "--connections",
            &sessions,
        ]);
        assert!(
            said.contains("96 errors:") && said.contains("of number 1062") && said.contains("of number 1146"),
            "from {name}: {said}"
        );
        assert_eq!(theirs.digests(), digests, "from {name}");
        assert_eq!(theirs.checksum(), checksum, "from {name}");
    }
    a_study_drives_it(&path("slow"), theirs.own.path());
}

/// On servers of its own, with data from a dump.
fn a_study_drives_it(recording: &str, folder: &Path) {
    let (dump, study, out) = (folder.join("shop.sql"), folder.join("mine.toml"), folder.join("out"));
    fs::write(&dump, data().join(";\n") + ";\n").expect("a dump");
    let text = format!(
        r#"
question = "What does a slow log cost my queries?"
slice_seconds = 1
blocks = 6
minutes = 0.01
least_blocks = 1
precision = 0.01
margin = 0.01

[[server]]
name = "mariadb"
program = "mariadbd"
options = ["--innodb-buffer-pool-size=64M", "--performance-schema=ON"]

[[setting]]
name = "off"

[[setting]]
name = "on"
switch = ["SET GLOBAL slow_query_log = ON"]

[[workload]]
name = "mine"
run = "replay"
options = {{ recording = "{recording}", data = "{}", send = "reads,writes" }}
users = [2]
"#,
        dump.display()
    );
    fs::write(&study, &text).expect("a study");
    let arguments = ["lab", "run", &study.display().to_string(), "--output", &out.display().to_string()];
    let said = succeeds(&arguments);
    let records = records(&out);
    what_it_made_the_servers_do_is_told(&said, &records);
    let slices: Vec<&Value> = records.iter().filter(|r| r["kind"] == "slice").collect();
    assert!(slices.len() >= 2, "{slices:?}");
    for slice in slices {
        assert!(slice["transactions"].as_u64() > Some(100), "{slice}");
        assert!(slice["figures"]["times_replayed"].as_f64() > Some(0.1), "{slice}");
        // A duplicate and a table that is not there are in the recording; with each repetition come others.
        assert!(slice["errors"].as_u64() > Some(0), "{slice}");
    }

    fs::write(&study, text.replace(r#", send = "reads,writes""#, "")).expect("a study");
    let said = refused(&[
        "lab",
        "run",
        &study.display().to_string(),
        "--output",
        &folder.join("no").display().to_string(),
    ]);
    assert!(said.contains("Name what is to be sent with the workload's option `send`"), "{said}");
}

/// On any machine: where the processor has no counters it is said once, and the rest is there.
fn what_it_made_the_servers_do_is_told(said: &str, records: &[Value]) {
    let efforts: Vec<&Value> =
        records.iter().filter(|r| r["kind"] == "effort").map(|r| &r["per_transaction"]).collect();
    assert_eq!(efforts.len(), 3, "the two settings and the A/A control: {efforts:?}");
    for effort in &efforts {
        let of = |name: &str| effort[name].as_f64().unwrap_or(-1.0);
        // A statement of the recording has some eighty bytes, and is one statement.
        assert!((20.0..500.0).contains(&of("bytes_received")) && of("bytes_sent") > 5.0, "{effort}");
        assert!((0.9..1.3).contains(&of("statements")) && of("handler_calls") > 0.1, "{effort}");
        assert!(of("events") > 1.0 && of("page_faults") >= 0.0, "{effort}");
    }
    assert!(said.contains("Why, per transaction"), "{said}");
    let noted = records
        .iter()
        .filter(|r| r["text"].as_str().is_some_and(|text| text.starts_with("no hardware counters")));
    let counted = efforts.iter().all(|effort| effort["instructions"].as_f64() > Some(100.0));
    assert_eq!(noted.count(), usize::from(!counted), "{efforts:?}");
}

fn records(out: &Path) -> Vec<Value> {
    let text = fs::read_to_string(out.join("results.jsonl")).expect("results");
    text.lines().map(|line| serde_json::from_str(line).expect("a record")).collect()
}

#[test]
fn what_is_no_log_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let file: PathBuf = folder.path().join("x.log");
    fs::write(&file, "nothing\n").expect("a file");
    let (file, out) = (file.display().to_string(), folder.path().join("out").display().to_string());
    assert!(refused(&["lab", "record", &out, "--slow-log", &file]).contains("is no slow log"));
    assert!(refused(&["lab", "record", &out, "--general-log", &file]).contains("is no general log"));
    assert!(refused(&["lab", "record", &out]).contains("--slow-log"));
    assert!(
        refused(&["lab", "replay", &file, "--dsn", "mysql://x@localhost"]).contains("this is no recording")
    );
}
