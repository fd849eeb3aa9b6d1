//! `tare govern` as it is run: killed at any moment, and what the next start makes of that.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mysql::prelude::Queryable;
use tare_budget::Kind;
use tare_testkit::ending::EndingFlag;
use tare_testkit::process::TestProcess;
use tare_testkit::server::{LIMIT, Server, StartSettings};
use tare_testkit::subject::TestProvider;
use tare_testkit::{eventually, poll};

/// Every row that a governor may touch, in their order.
fn settings(server: &Server) -> Vec<(String, String, Option<String>)> {
    server
        .client()
        .expect("a connection")
        .query(
            "SELECT NAME, ENABLED, TIMED FROM performance_schema.setup_instruments \
             UNION ALL SELECT NAME, ENABLED, NULL FROM performance_schema.setup_consumers ORDER BY 1",
        )
        .expect("settings")
}

/// Prices beside which what a server uses is little: whatever has events is over a budget that pays for looks
/// at once.
fn dear() -> String {
    let cost = |level: &str, ns: f64| format!("{level} = {{ ns = {ns:?}, low = {ns:?}, high = {ns:?} }}\n");
    let levels = [cost("off", 0.0), cost("counts", 5e7), cost("exact", 1e8)].concat();
    let kinds = Kind::ALL.map(|kind| format!("[price.{kind}]\n{levels}")).concat();
    format!("[origin]\nprovider = 'mariadb'\nserver = ''\nmachine = ''\nmeasured = false\nhow = ''\n{kinds}")
}

fn govern(server: &Server, home: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tare"));
    command.args(["govern", "--budget", "50%", "--interval", "1s", "--state"]).arg(home.join("state"));
    command.arg("--prices").arg(home.join("prices.toml")).args(more);
    command.env("TARE_DSN", format!("mysql://root@localhost?socket={}", server.socket().display()));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.as_slice(), output.stderr.as_slice()].concat()).into_owned()
}

/// Whether a file says that something is owed.
fn owes(state: &Path) -> bool {
    std::fs::read_dir(state).is_ok_and(|mut files| files.next().is_some())
}

/// The overhead that `tare price` shows, as an object in a file.
#[test]
fn the_overhead_is_written_for_programs() {
    let server = Server::start(
        StartSettings::new(TestProvider::BuiltIn).option("--performance-schema-instrument=%=ON"),
    )
    .expect("a server");
    let home = tempfile::tempdir().expect("a folder");
    let [prices, written] = ["prices.toml", "price.json"].map(|name| home.path().join(name));
    std::fs::write(&prices, dear()).expect("written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_tare"));
    command
        .args(["price", "--for", "1s", "--format", "json", "--prices"])
        .arg(&prices)
        .arg("-o")
        .arg(&written);
    command.env("TARE_DSN", format!("mysql://root@localhost?socket={}", server.socket().display()));
    let output = command.stdin(Stdio::null()).output().expect("tare runs");
    assert!(output.status.success() && output.stdout.is_empty(), "{}", said(&output));
    let text = std::fs::read_to_string(&written).expect("a file");
    let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let number =
        |of: &serde_json::Value, key: &str| of[key].as_f64().unwrap_or_else(|| panic!("{key}: {text}"));
    let overhead = &json["overhead"];
    assert!(
        number(overhead, "low") <= number(overhead, "share") && number(overhead, "share") > 0.0,
        "{text}"
    );
    assert!((0.0..=1.0).contains(&number(&json, "reading")), "{text}");
    assert_eq!(json["prices"]["measured"], false);
    let instruments = json["instruments"].as_array().expect("a list");
    let dearest = &instruments[0];
    assert!(dearest["name"].as_str().is_some_and(|name| name.contains('/')), "{dearest}");
    assert!(number(dearest, "events") > 0.0 && number(dearest, "ns_each") > 0.0, "{dearest}");
    let shares: Vec<f64> = instruments.iter().map(|it| number(it, "share")).collect();
    assert!(shares.is_sorted_by(|one, next| one >= next), "the dearest first: {shares:?}");
}

/// Moments are drawn, and the next one starts at once: the server may not have noticed yet that the killed
/// one's connection is gone, which is said.
#[test]
fn killed_at_any_moment_it_leaves_nothing_that_the_next_start_does_not_put_back() {
    let server = Server::start(
        StartSettings::new(TestProvider::BuiltIn).option("--performance-schema-instrument=%=ON"),
    )
    .expect("a server");
    let folder = tempfile::tempdir().expect("a folder");
    let (home, state) = (folder.path(), folder.path().join("state"));
    std::fs::write(home.join("prices.toml"), dear()).expect("written");
    let original = settings(&server);
    let ended = AtomicBool::new(false);
    let (mut moved, mut owed) = (0, 0);
    std::thread::scope(|scope| {
        let load = || {
            let mut connection = server.client().expect("a connection");
            while !ended.load(Ordering::Relaxed) {
                connection.query_drop("SELECT COUNT(*) FROM information_schema.COLUMNS").expect("an answer");
            }
        };
        scope.spawn(load);
        let _ending = EndingFlag(&ended);
        let mut random = fastrand::Rng::with_seed(16);
        for nth in 0..6 {
            let mut command = govern(&server, home, &[]);
            let mut governor =
                TestProcess::spawn(command.stdout(Stdio::null()).stderr(Stdio::null())).expect("it starts");
            // Some are killed as they come, the last ones when they have moved something.
            let moment = Duration::from_millis(random.u64(0..2500));
            std::thread::sleep(moment);
            if nth >= 4 {
                poll(LIMIT, || settings(&server) != original);
            }
            governor.signal(nix::sys::signal::Signal::SIGKILL).expect("it runs");
            governor.wait(LIMIT).expect("it ends");
            let was_moved = settings(&server) != original;
            moved += usize::from(was_moved);
            let was_owed = owes(&state);
            owed += usize::from(was_owed);
            assert!(was_owed || !was_moved, "what was changed without being written down first is lost");
            // The next start says so.
            let output = eventually("no other governor is at work", LIMIT, || {
                let output = govern(&server, home, &["--put-back"]).output().expect("it runs");
                Some(output).filter(|output| !said(output).contains("another governor is at work"))
            });
            let text = said(&output);
            assert!(output.status.success(), "{text}");
            assert!(!was_moved || text.contains("a governor that was killed left"), "{text}");
            assert!(text.contains("rows put back as they were"), "{text}");
            assert_eq!(settings(&server), original, "killed after {moment:?}: {text}");
            assert!(!owes(&state), "nothing is owed any more");
        }
    });
    assert!(
        moved >= 2 && owed >= 2,
        "{moved} moved, {owed} owed: some were killed with something to put back"
    );
}
