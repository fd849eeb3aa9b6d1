//! A known list of statements, sent to a server and recorded in each way: the recording has the list, and a
//! replay leaves what the list left.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use mysql::prelude::Queryable;
use serde_json::{Value, json};
use tare_testkit::eventually;
use tare_testkit::server::{LIMIT, Server, StartSettings};
use tare_testkit::subject::TestProvider;
use tare_testkit::turn;

/// What the session of the list is known by.
const MARKER: &[u8] = b"SELECT 'this is the session of the list'";

/// A packet, and the statements it has, where it has several.
struct Packet {
    sent: Vec<u8>,
    has: Vec<Vec<u8>>,
}

fn one(text: impl AsRef<[u8]>) -> Packet {
    Packet { sent: text.as_ref().to_vec(), has: vec![text.as_ref().to_vec()] }
}

fn several(texts: &[&str]) -> Packet {
    Packet { sent: texts.join("; ").into(), has: texts.iter().map(|text| text.as_bytes().to_vec()).collect() }
}

/// Bytes of every kind between quotes.
fn binary() -> Vec<u8> {
    let all: Vec<u8> = (0..=255).filter(|byte| !b"'\\".contains(byte)).collect();
    [b"INSERT INTO t (b) VALUES (_binary '", &all[..], b"')"].concat()
}

fn list() -> Vec<Packet> {
    let quoted_record = "INSERT INTO t (v) VALUES ('x
# Time: 261123  9:54:29
# User@Host: root[root] @ localhost []
# Thread_id: 3  Schema: shop  QC_hit: No
# Query_time: 0.000290  Lock_time: 0.000000  Rows_sent: 0  Rows_examined: 0
SET timestamp=1795427669;
delete from t;
')";
    let quoted_command =
        "INSERT INTO t (v) VALUES (\"x\n261123  9:54:29\t     3 Query\tdelete from t\n\t\t     3 Quit\t\n\")";
    let block = "BEGIN NOT ATOMIC INSERT INTO t (v) VALUES ('b1'); INSERT INTO t (v) VALUES ('b2'); END";
    vec![
        one(MARKER),
        one(
            "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(500), b VARBINARY(500)) CHARACTER SET utf8mb4",
        ),
        one("CREATE TABLE l (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(500)) CHARACTER SET utf8mb4"),
        one("CREATE PROCEDURE p(x INT) BEGIN INSERT INTO t (v) VALUES (x); INSERT INTO t (v) VALUES ('p'); \
             PREPARE s FROM 'INSERT INTO t (v) VALUES (?)'; SET @z = 9; EXECUTE s USING @z; DEALLOCATE PREPARE s; END"),
        one(
            "CREATE FUNCTION f(x INT) RETURNS INT BEGIN INSERT INTO l (v) VALUES (x); INSERT INTO l (v) VALUES ('f'); RETURN x + 1; END",
        ),
        one(
            "CREATE TRIGGER tr AFTER INSERT ON t FOR EACH ROW BEGIN INSERT INTO l (v) VALUES (NEW.v); INSERT INTO l (v) VALUES ('tr'); END",
        ),
        several(&[
            "INSERT INTO t (v) VALUES ('1;')",
            "INSERT INTO t (v) VALUES ('2') /* ; */",
            "INSERT INTO t (v) VALUES ('3')",
        ]),
        several(&["INSERT INTO l (v) VALUES ('a')", block, "SELECT COUNT(*) FROM t"]),
        one(block),
        one("CALL p(7)"),
        one("SELECT f(2)"),
        one("INSERT INTO t (v) VALUES (f(3))"),
        one(quoted_record),
        one(quoted_command),
        one("INSERT INTO t (v) VALUES ('line\r\nline\r\n')"),
        one("SELECT 1 -- a comment's end\n, 2"),
        one("INSERT INTO t (v) VALUES ('Gr\u{fc}\u{df}e, \u{1f600}')"),
        one(binary()),
        one("SET NAMES latin1"),
        one(b"INSERT INTO t (v) VALUES ('\xe9t\xe9')"),
        one("SET NAMES utf8mb4"),
        one("SELECT * FROM nonsuch"),
        one("UPDATE t SET v = CONCAT(v, '!') WHERE id < 3"),
    ]
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn tare(arguments: &[&str]) -> String {
    let ended = Command::new(env!("CARGO_BIN_EXE_tare")).args(arguments).output().expect("tare runs");
    let said = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert!(ended.status.success(), "{arguments:?}: {said}{}", String::from_utf8_lossy(&ended.stderr));
    said
}

/// Writes a recording of one session.
fn write(path: &Path, packets: impl Iterator<Item = Value>) {
    let packets: Vec<Value> = packets.collect();
    let head = json!({"tare_recording": 1, "source": "a test", "seconds": 0.0, "sessions": 1,
        "statements": packets.len(), "kinds": {}});
    let lines: Vec<String> = [head].into_iter().chain(packets).map(|line| line.to_string() + "\n").collect();
    fs::write(path, lines.concat()).expect("a file");
}

fn statement(text: &[u8]) -> Value {
    let text_hex = hex(text);
    json!({"session": 1, "at": 0.0, "schema": "shop", "text": "", "text_hex": text_hex})
}

/// What a line of a recording has.
fn sent(line: &Value) -> String {
    match line["text_hex"].as_str() {
        Some(digits) => digits.to_owned(),
        None => hex(line["text"].as_str().expect("a text").as_bytes()),
    }
}

struct Trip {
    server: Server,
    folder: tempfile::TempDir,
}

impl Trip {
    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn replay(&self, recording: &str) -> String {
        self.server
            .client()
            .expect("a client")
            .query_drop("CREATE OR REPLACE DATABASE shop")
            .expect("a schema");
        let dsn = format!("mysql://root@localhost?socket={}", self.server.socket().display());
        tare(&[
            "lab",
            "replay",
            recording,
            "--dsn",
            &dsn,
            "--send",
            "reads,writes,definitions,administration",
        ])
    }

    /// What the statements have left.
    fn left(&self) -> Vec<(u64, Option<String>, Option<String>)> {
        let query = "SELECT id, HEX(v), HEX(b) FROM shop.t UNION ALL SELECT id + 1000, HEX(v), NULL FROM shop.l ORDER BY 1";
        self.server.client().expect("a client").query(query).expect("rows")
    }

    /// `tare slowlog` while the list is sent.
    fn slowlog(&self, format: &str) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tare"));
        let socket = self.server.endpoint().display().to_string();
        command.args(["slowlog", "--socket", &socket, "--format", format, "--output", &self.path(format)]);
        command.stderr(Stdio::null()).spawn().expect("it begins")
    }

    /// Waits until a log has begun: it has what is sent from then on.
    fn wait_until_logged(&self, format: &str) {
        let mut client = self.server.client().expect("a client");
        eventually("the log has begun", LIMIT, || {
            client.query_drop("DO 'is it logged?'").expect("an answer");
            fs::read_to_string(self.path(format)).is_ok_and(|log| log.contains("is it logged?"))
        });
    }

    /// Waits until the last statement is in a log.
    fn wait_for(&self, path: &str) {
        let last = b"WHERE id < 3";
        eventually("the log has the last statement", LIMIT, || {
            let log = fs::read(path).unwrap_or_default();
            log.windows(last.len()).any(|part| part == last) && log.ends_with(b"\n")
        });
    }

    /// Records from a log; the list must be in it, and a replay leave the same.
    fn check(&self, name: &str, from: &[&str], expected: &[(u64, Option<String>, Option<String>)]) {
        let recording = self.path(&format!("{name}.rec"));
        let said = tare(&[&["lab", "record", &recording], from].concat());
        let text = fs::read_to_string(&recording).expect("a recording");
        let lines: Vec<Value> =
            text.lines().skip(1).map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let marked =
            lines.iter().find(|line| sent(line) == hex(MARKER)).unwrap_or_else(|| panic!("{name}: {text}"));
        let session: Vec<&Value> = lines.iter().filter(|line| line["session"] == marked["session"]).collect();
        let found: Vec<String> = session.iter().map(|line| sent(line)).collect();
        let all: Vec<String> = list().iter().flat_map(|packet| &packet.has).map(|text| hex(text)).collect();
        for (at, (found, all)) in found.iter().zip(&all).enumerate() {
            assert_eq!(readable(found), readable(all), "{name}, statement {at}: {said}");
        }
        assert_eq!(found.len(), all.len(), "{name}: {said}{:?}", found.last().map(|it| readable(it)));
        let own = self.path(&format!("{name}.own"));
        write(Path::new(&own), session.into_iter().cloned());
        let said = self.replay(&own);
        assert!(said.contains("1 of number 1146") && said.contains("1 errors"), "{name}: {said}");
        assert_eq!(self.left(), expected, "{name}");
    }
}

fn readable(digits: &str) -> String {
    let bytes = digits
        .as_bytes()
        .chunks(2)
        .filter_map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
    bytes.collect::<Vec<_>>().escape_ascii().to_string()
}

#[test]
fn what_was_sent_is_recorded_in_every_way_and_leaves_the_same() {
    let _turn = turn();
    let folder = tempfile::tempdir().expect("a folder");
    let settings = [
        "--log-output=FILE",
        "--general-log=ON",
        "--general-log-file=general.log",
        "--slow-query-log=ON",
        "--slow-query-log-file=slow.log",
        "--long-query-time=0",
        "--log-slow-disabled-statements=",
        "--log-disabled-statements=",
    ];
    let settings = settings.into_iter().fold(StartSettings::new(TestProvider::tare()), StartSettings::option);
    let trip = Trip { server: Server::start(settings).expect("a server"), folder };
    let sent = trip.path("list");
    write(Path::new(&sent), list().iter().map(|packet| statement(&packet.sent)));

    let mut logs = ["slow", "json"].map(|format| trip.slowlog(format));
    ["slow", "json"].iter().for_each(|format| trip.wait_until_logged(format));
    trip.replay(&sent);
    let expected = trip.left();
    assert!(expected.len() > 40, "{expected:?}");
    ["slow", "json"].iter().for_each(|format| trip.wait_for(&trip.path(format)));
    for log in &mut logs {
        log.kill().expect("it ends");
        log.wait().expect("it has ended");
    }
    for format in ["slow", "json"] {
        let log = fs::read(trip.path(format)).expect("a log");
        let rest = b"'1;'); INSERT";
        assert!(!log.windows(rest.len()).any(|part| part == rest), "{format}: one record is one statement");
    }
    // Later sessions are not to be taken for the first.
    let data = trip.server.data();
    for log in ["general.log", "slow.log"] {
        fs::copy(data.join(log), trip.path(log)).expect("a copy");
    }
    trip.check("general", &["--general-log", &trip.path("general.log")], &expected);
    trip.check("servers", &["--slow-log", &trip.path("slow.log")], &expected);
    trip.check("slowlog", &["--slow-log", &trip.path("slow")], &expected);
    trip.check("json", &["--slow-log", &trip.path("json")], &expected);
    others_read_it(&trip);
    what_follows_a_failure_in_its_packet_is_not_sent(&trip);
}

fn what_follows_a_failure_in_its_packet_is_not_sent(trip: &Trip) {
    let recording = trip.path("failing");
    let packet = [&b"INSERT INTO t (id) VALUES (1)"[..], b"DELETE FROM t", b"DELETE FROM l", b"SELECT 1"];
    let joined = |(place, text): (usize, &&[u8])| {
        let mut line = statement(text);
        line["joined"] = json!(place == 1 || place == 2);
        line
    };
    write(Path::new(&recording), packet.iter().enumerate().map(joined));
    let dsn = format!("mysql://root@localhost?socket={}", trip.server.socket().display());
    let before = trip.left();
    let said = tare(&["lab", "replay", &recording, "--dsn", &dsn, "--send", "reads,writes"]);
    assert!(said.contains("2 not sent, as one before them") && said.contains("1 of number 1062"), "{said}");
    assert!(said.contains("2 statements in") && trip.left() == before, "{said}");
}

/// A slow log of `tare slowlog` is one for the usual analyser, too.
fn others_read_it(trip: &Trip) {
    let analyser = Command::new("pt-query-digest").args(["--output", "json", &trip.path("slow")]).output();
    let Ok(analysed) = analyser else {
        println!("skipped: pt-query-digest is not installed");
        return;
    };
    assert!(analysed.status.success(), "{}", String::from_utf8_lossy(&analysed.stderr));
    assert!(!String::from_utf8_lossy(&analysed.stdout).contains("DELETE FROM"), "nobody deleted anything");
}

/// Texts of a recording of quick statements that begin so.
fn recorded(path: &str, begin: &str) -> usize {
    let recording = fs::read_to_string(path).expect("a recording");
    let lines = recording.lines().skip(1).map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    lines.filter(|line| sent(line).starts_with(&hex(begin.as_bytes()))).count()
}

#[test]
fn of_a_server_that_samples_every_statement_is_recorded_while_somebody_logs() {
    const TIMES: usize = 50;
    let _turn = turn();
    let settings = [("level", "sampled"), ("sample", "1/1000000"), ("slow-after", "3600s")]
        .into_iter()
        .fold(StartSettings::new(TestProvider::tare()), |settings, (name, value)| {
            settings.tare_option(name, value)
        });
    let Some(server) = Server::start(settings).expect("a server").on_its_port() else { return };
    let trip = Trip { server, folder: tempfile::tempdir().expect("a folder") };
    let dsn = format!("mysql://root@localhost?socket={}", trip.server.socket().display());
    let mut client = trip.server.client().expect("a client");
    let mut run = |what: &str| {
        (0..TIMES).for_each(|n| client.query_drop(format!("SELECT '{what} {n}'")).expect("a row"))
    };
    run("quick");
    // What fails is recorded in any case, so there is something to record.
    trip.server.client().expect("a client").query_drop("SELECT * FROM absent").expect_err("no schema");
    let said = tare(&["lab", "record", &trip.path("part.rec"), "--dsn", &dsn]);
    assert!(said.contains("this server samples its statements"), "{said}");
    assert!(recorded(&trip.path("part.rec"), "SELECT 'quick") < TIMES, "{said}");

    let mut log = trip.slowlog("json");
    trip.wait_until_logged("json");
    run("logged");
    // The end of the list is waited for.
    run("WHERE id < 3");
    trip.wait_for(&trip.path("json"));
    let said = tare(&["lab", "record", &trip.path("remembered.rec"), "--dsn", &dsn]);
    assert_eq!(recorded(&trip.path("remembered.rec"), "SELECT 'logged"), TIMES, "{said}");
    log.kill().expect("it ends");
    log.wait().expect("it has ended");
    let said = tare(&["lab", "record", &trip.path("whole.rec"), "--slow-log", &trip.path("json")]);
    assert_eq!(recorded(&trip.path("whole.rec"), "SELECT 'logged"), TIMES, "{said}");
}
