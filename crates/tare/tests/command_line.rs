//! The program as a user runs it: what it prints, how it ends, and what it leaves behind.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tare_lab::process::Usage;
use tare_mariadb::install;
use tare_testkit::eventually;
use tare_testkit::host::HostProgram;
use tare_testkit::server::LIMIT;
use tempfile::TempDir;

/// Exit status of `tare status` where tare is not active.
const NOT_ACTIVE: i32 = 3;
/// Exit status after Ctrl-C.
const INTERRUPTED: i32 = 130;

/// A folder for temporary files that must be empty in the end; the server's account may pass through it.
fn scratch() -> TempDir {
    let folder = tempfile::Builder::new().prefix("t").tempdir().expect("a folder");
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("permissions");
    folder
}

fn tare(scratch: &TempDir, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tare"));
    command.args(arguments).env("TMPDIR", scratch.path()).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn output(scratch: &TempDir, arguments: &[&str]) -> Output {
    tare(scratch, arguments).output().expect("tare runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn assert_nothing_left(scratch: &TempDir) {
    let left: Vec<_> = fs::read_dir(scratch.path()).expect("folder").flatten().map(|e| e.path()).collect();
    assert!(left.is_empty(), "left behind: {left:?}");
    let at = scratch.path().display().to_string();
    let servers = fs::read_dir("/proc").expect("/proc").flatten().filter(|process| {
        fs::read(process.path().join("cmdline")).is_ok_and(|line| text(&line).contains(&at))
    });
    assert_eq!(servers.count(), 0, "a process of {at} still runs");
}

/// A shared object that is surely there and changes nothing when it is preloaded.
fn harmless_object() -> String {
    let maps = fs::read_to_string("/proc/self/maps").expect("maps");
    let libc = maps.lines().find(|l| l.ends_with("libc.so.6")).expect("libc is loaded");
    libc.split_whitespace().last().expect("a path").to_owned()
}

/// Reads what a running `tare` prints until a line begins with `mark`; gives that line.
fn wait_for_line(child: &mut Child, mark: &str) -> String {
    let lines = BufReader::new(child.stdout.as_mut().expect("piped")).lines();
    let found = lines.map_while(Result::ok).find(|l| l.trim_start().starts_with(mark));
    found.unwrap_or_else(|| panic!("it ended without a line {mark:?}"))
}

fn interrupt(child: &Child) {
    send(child, Signal::SIGINT);
}

fn send(child: &Child, signal: Signal) {
    let pid = i32::try_from(child.id()).expect("a pid");
    kill(Pid::from_raw(pid), signal).expect("it still runs");
}

#[test]
fn every_collector_has_its_switches_and_a_wrong_address_shows_no_password() {
    let scratch = scratch();
    let help = text(&output(&scratch, &["export", "--help"]).stdout);
    for collector in tare_outlets::export::collectors::all() {
        assert!(help.contains(&format!("--collect.{}", collector.name)), "{}", collector.name);
        let limit = format!("--collect.{}.limit", collector.name);
        assert_eq!(help.contains(&limit), collector.limit.is_some(), "{limit}");
    }
    let refused = output(&scratch, &["export", "--dsn", "mysql//root:secret@db1"]);
    let said = text(&refused.stderr);
    assert!(!refused.status.success() && said.contains("mysql://") && !said.contains("secret"), "{said}");
    let refused =
        output(&scratch, &["export", "--web.listen-address", "127.0.0.1:0", "--web.config.file", "/no/such"]);
    assert!(text(&refused.stderr).contains("/no/such"), "{refused:?}");
}

#[test]
fn an_exporter_that_nobody_asks_does_nothing_and_ends_at_a_signal() {
    let scratch = scratch();
    let absent = scratch.path().join("absent.sock").display().to_string();
    let arguments = ["export", "--socket", &absent, "--web.listen-address", "127.0.0.1:0"];
    let mut child = tare(&scratch, &arguments).spawn().expect("tare runs");
    let said = BufReader::new(child.stderr.take().expect("piped")).lines().next();
    let said = said.expect("a line").expect("text");
    assert!(said.contains(" at http://127.0.0.1:"), "{said}");
    let used = || {
        std::thread::sleep(Duration::from_secs(2));
        Usage::now(child.id()).expect("it still runs")
    };
    // Soon it waits for a request, and for nothing else.
    let mut before = used();
    eventually("it wakes at most twice in two seconds", LIMIT, || {
        let now = used();
        let switches = now.since(&before).switches;
        before = now;
        switches <= 2
    });
    send(&child, Signal::SIGTERM);
    assert!(child.wait().expect("it ends").success());
    assert_nothing_left(&scratch);
}

#[test]
fn help_names_every_command_and_the_first_steps() {
    let help = text(&output(&scratch(), &["--help"]).stdout);
    for begin in [
        "Observe:",
        "Operate:",
        "Measure:",
        "Options:",
        "First steps",
        "  demo ",
        "  run ",
        "  status ",
        "  top ",
        "  ash ",
        "  lab ",
        "  completions ",
        "  doctor ",
        "  snapshot ",
        "  report ",
        "  install ",
        "  uninstall ",
        "  probe ",
        "  export ",
        "  govern ",
        "  price ",
        "  weigh ",
        "  slowlog ",
    ] {
        assert!(help.lines().any(|l| l.starts_with(begin)), "no line {begin:?} in:\n{help}");
    }
    for hidden in ["  tables", "  documents", "  preload"] {
        assert!(!help.contains(hidden), "{hidden} is for few:\n{help}");
    }
}

#[test]
fn every_command_has_a_manual_page_and_is_completed() {
    let scratch = scratch();
    let folder = tempfile::tempdir().expect("folder");
    let at = |path: &str| folder.path().join(path);
    let ended = output(&scratch, &["documents", folder.path().to_str().expect("UTF-8")]);
    assert!(ended.status.success(), "{}", text(&ended.stderr));
    for command in [
        "demo",
        "run",
        "status",
        "top",
        "doctor",
        "snapshot",
        "report",
        "install",
        "uninstall",
        "probe",
        "completions",
        "lab",
        "lab-bench",
        "lab-price",
        "govern",
        "price",
        "weigh",
        "export",
        "slowlog",
    ] {
        let page = fs::read_to_string(at(&format!("man/tare-{command}.1"))).expect("a page");
        assert!(page.contains(".SH \"EXIT STATUS\"") && page.contains(".SH OPTIONS"), "{command}: {page}");
        let command = command.rsplit('-').next().expect("a name");
        for file in ["tare.bash", "_tare", "tare.fish"] {
            let completion = fs::read_to_string(at("completions").join(file)).expect("a file");
            assert!(completion.contains(command), "{command} in {file}");
        }
    }
    assert!(fs::read_to_string(at("man/tare.1")).expect("a page").contains("tare\\-doctor(1)"));
    assert!(!at("man/tare-documents.1").exists(), "a command of the project's own");
}

#[test]
fn a_program_is_probed_without_running_it() {
    let scratch = scratch();
    let server = HostProgram::find().expect("a server");
    let path = server.mariadbd.to_str().expect("UTF-8");
    let probed = output(&scratch, &["probe", path, "--format", "json"]);
    let report: serde_json::Value = serde_json::from_slice(&probed.stdout).expect("JSON");
    assert_eq!(probed.status.code(), Some(0), "{report}");
    let version = report["version"].as_str().expect("a version");
    assert!(server.version.starts_with(version), "{version} of {}", server.version);
    assert_eq!(report["hindrances"], serde_json::json!([]));

    assert_eq!((&report["product"], &report["families"]), (&"MariaDB".into(), &serde_json::json!([])));

    let other = output(&scratch, &["probe", &harmless_object()]);
    assert_eq!(other.status.code(), Some(1));
    assert!(text(&other.stdout).contains("does not export PSI_hook"), "{}", text(&other.stdout));
    for path in ["/nowhere", "/etc/passwd"] {
        let none = output(&scratch, &["probe", path]);
        assert_eq!(none.status.code(), Some(2), "{path}");
        assert!(text(&none.stderr).contains(path), "{}", text(&none.stderr));
    }
}

#[test]
fn a_script_is_not_taken_for_a_program() {
    let scratch = scratch();
    let script = scratch.path().join("mysqld");
    fs::write(&script, "#!/bin/sh\nexec true\n").expect("a script");
    let probed = output(&scratch, &["probe", script.to_str().expect("UTF-8")]);
    assert_eq!(probed.status.code(), Some(2));
    assert!(text(&probed.stderr).contains("is a script"), "{}", text(&probed.stderr));
    fs::remove_file(script).expect("it is there");
}

#[test]
fn prices_that_cannot_be_measured_are_refused_before_anything_starts() {
    let scratch = scratch();
    let server = HostProgram::find().expect("a server");
    let server = server.mariadbd.to_str().expect("UTF-8");
    for (arguments, why) in [
        (vec!["lab", "price", "mysql", "--server", server], "a server of MariaDB's has no events of `mysql`"),
        (
            vec!["lab", "price", "mysql", "--server", "/nowhere"],
            "/nowhere: there is no such program; --server",
        ),
        (
            vec!["lab", "price", "mariadb", "--output", "/nowhere/prices.toml"],
            "--output /nowhere/prices.toml",
        ),
        (vec!["lab", "price", "mariadb", "--check", "--prices", "/nowhere"], "reading /nowhere"),
        (vec!["lab", "price", "mariadb", "--check", "-o", "x"], "cannot be used with"),
        (vec!["lab", "price", "mariadb", "--socket", "/nowhere"], "unexpected argument"),
        (vec!["lab", "price"], "required"),
        // As version 0.1 spelt it.
        (vec!["price", "--measure", "mysql", "--server", "/nowhere"], "/nowhere: there is no such program"),
        (vec!["lab", "price", "mariadb", "--for", "0s"], "1s to 1d are allowed"),
    ] {
        let mut command = tare(&scratch, &[]);
        let refused = command.args(&arguments).current_dir(scratch.path()).output().expect("tare runs");
        assert!(!refused.status.success(), "{arguments:?}");
        let said = text(&refused.stderr);
        assert!(said.contains(why), "{arguments:?}: {said}");
        assert_nothing_left(&scratch);
    }
}

#[test]
fn status_where_there_is_no_tare_says_why_and_what_to_do() {
    let scratch = scratch();
    let datadir = tempfile::tempdir().expect("folder");
    let at = datadir.path().to_str().expect("UTF-8");
    let plain = output(&scratch, &["status", "--datadir", at]);
    assert_eq!(plain.status.code(), Some(NOT_ACTIVE));
    let said = text(&plain.stdout);
    assert!(said.contains("tare is not active") && said.contains("LD_PRELOAD"), "{said}");

    fs::write(datadir.path().join("error.log"), "x [Note] tare: built-in performance schema is on\n")
        .expect("log");
    let json = output(&scratch, &["status", "--datadir", at, "--format", "json"]);
    let report: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON");
    assert_eq!(report["active"], false);
    let reason = report["reason"].as_str().expect("a reason");
    assert!(reason.ends_with("built-in performance schema is on"), "{reason}");
}

#[test]
fn run_refuses_a_folder_with_other_things_in_it() {
    let scratch = scratch();
    let folder = tempfile::tempdir().expect("folder");
    let file = folder.path().join("thesis.txt");
    fs::write(&file, "precious").expect("file");
    let datadir = folder.path().to_str().expect("UTF-8");
    let ended = output(&scratch, &["run", "--provider", &harmless_object(), "--datadir", datadir]);
    assert_eq!(ended.status.code(), Some(1));
    assert!(text(&ended.stderr).contains("neither empty nor a data directory"), "{}", text(&ended.stderr));
    assert_eq!(fs::read_to_string(&file).expect("still there"), "precious");
    assert_eq!(fs::read_dir(folder.path()).expect("folder").count(), 1, "nothing was put beside it");
}

#[test]
fn a_provider_that_is_not_there_is_an_error_that_names_it() {
    let ended = output(&scratch(), &["run", "--provider", "/nowhere/x.so"]);
    assert_eq!(ended.status.code(), Some(1));
    assert!(text(&ended.stderr).contains("/nowhere/x.so"), "{}", text(&ended.stderr));
}

#[test]
fn run_starts_a_server_and_ctrl_c_shuts_it_down_and_removes_it() {
    let scratch = scratch();
    let mut child = tare(&scratch, &["run", "--provider", &harmless_object()]).spawn().expect("tare runs");
    let socket = wait_for_line(&mut child, "socket");
    let socket = socket.trim().strip_prefix("socket").expect("the mark").trim().to_owned();
    let options = mysql::OptsBuilder::new().socket(Some(&socket)).user(Some("root")).prefer_socket(false);
    mysql::Conn::new(options).expect("the server answers on the socket it printed");
    interrupt(&child);
    let ended = child.wait_with_output().expect("it ends");
    assert!(ended.status.success(), "{}", text(&ended.stderr));
    assert_nothing_left(&scratch);
}

#[test]
fn run_follows_the_servers_own_options() {
    let scratch = scratch();
    let folder = self::scratch();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).expect("permissions");
    let socket = folder.path().join("s").display().to_string();
    let options = format!("--socket={socket}");
    let arguments = ["run", "--provider", &harmless_object(), "--", &options];
    let mut child = tare(&scratch, &arguments).spawn().expect("tare runs");
    assert!(wait_for_line(&mut child, "socket").ends_with(&socket));
    interrupt(&child);
    assert!(child.wait_with_output().expect("it ends").status.success());
    let refused = output(&scratch, &["run", "--provider", &harmless_object(), "--", "--datadir=/x"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("before the two dashes"));
    assert_nothing_left(&scratch);
}

#[test]
fn run_serves_a_data_directory_whose_root_has_a_password() {
    let scratch = scratch();
    let folder = self::scratch();
    let datadir = folder.path().join("data");
    let init = folder.path().join("init.sql");
    fs::write(&init, "ALTER USER root@localhost IDENTIFIED BY 'secret';\n").expect("file");
    let init = format!("--init-file={}", init.display());
    let at = datadir.to_str().expect("UTF-8");
    for options in [&init, "--skip-log-bin"] {
        let arguments = ["run", "--provider", &harmless_object(), "--datadir", at, "--", options];
        let mut child = tare(&scratch, &arguments).spawn().expect("tare runs");
        wait_for_line(&mut child, "Ctrl-C");
        interrupt(&child);
        assert!(child.wait_with_output().expect("it ends").status.success());
    }
}

#[test]
fn a_server_with_tare_tells_its_status_and_is_clean_afterwards() {
    let scratch = scratch();
    let folder = self::scratch();
    let datadir = folder.path().join("data");
    let at = datadir.to_str().expect("UTF-8");
    let mut child = tare(&scratch, &["run", "--datadir", at]).spawn().expect("tare runs");
    wait_for_line(&mut child, "Ctrl-C");

    let json = output(&scratch, &["status", "--datadir", at, "--format", "json"]);
    let plain = output(&scratch, &["status", "--datadir", at]);
    let while_running = text(&output(&scratch, &["tables", "list", "--datadir", at]).stdout);
    interrupt(&child);
    assert!(child.wait_with_output().expect("it ends").status.success());

    assert!(json.status.success(), "{}{}", text(&json.stdout), text(&json.stderr));
    let report: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON");
    assert_eq!(report["active"], true);
    assert!(report["instruments"]["wait/synch"]["on"].as_u64().is_some_and(|n| n > 100), "{report}");
    assert!(report["status"]["version"].is_string(), "{report}");
    for name in ["memory_used", "lost"] {
        assert!(report["status"][name].is_u64(), "no {name} in {report}");
    }
    assert_eq!(report["consumers"]["thread_instrumentation"], true, "{report}");
    for word in ["tare is active", "Instruments", "Consumers"] {
        assert!(text(&plain.stdout).contains(word), "no {word} in:\n{}", text(&plain.stdout));
    }
    assert!(while_running.contains("no files of tare's"), "{while_running}");
    assert_nothing_left(&scratch);
}

#[test]
fn run_keeps_a_data_directory_that_was_named_and_takes_it_up_again() {
    let scratch = scratch();
    let folder = self::scratch();
    let datadir = folder.path().join("data");
    let log = datadir.join("error.log");
    for create in [true, false] {
        assert_eq!(!datadir.exists(), create);
        let at = datadir.to_str().expect("UTF-8");
        let arguments = ["run", "--provider", &harmless_object(), "--datadir", at];
        let mut child = tare(&scratch, &arguments).spawn().expect("tare runs");
        wait_for_line(&mut child, "Ctrl-C");
        // A second one is not to disturb it.
        let refused = output(&scratch, &arguments);
        let said = text(&refused.stderr);
        assert!(refused.status.code() == Some(1) && said.contains("listens at"), "{said}");
        UnixStream::connect(datadir.join("mariadb.sock")).expect("it listens still");
        interrupt(&child);
        assert!(child.wait_with_output().expect("it ends").status.success());
        assert!(datadir.join("ibdata1").is_file());
        let said = fs::read_to_string(&log).expect("a log");
        assert!(said.contains("Shutdown complete"), "{said}");
        if create {
            fs::write(&log, "somebody's\n").expect("file");
            fs::set_permissions(&log, Permissions::from_mode(0o640)).expect("permissions");
        } else {
            assert!(said.starts_with("somebody's\n"), "{said}");
            assert_eq!(fs::metadata(&log).expect("a log").permissions().mode() & 0o777, 0o640);
        }
    }
}

#[test]
fn run_says_what_the_server_said_when_it_does_not_start() {
    let scratch = scratch();
    let arguments = ["run", "--provider", &harmless_object(), "--", "--no-such-option=1"];
    let ended = output(&scratch, &arguments);
    assert_eq!(ended.status.code(), Some(1));
    assert!(text(&ended.stderr).contains("no-such-option"), "{}", text(&ended.stderr));
    assert_nothing_left(&scratch);
}

/// The shortest comparison there is.
const BENCH: [&str; 10] =
    ["lab", "bench", "--rounds", "6", "--slice", "1s", "--rows", "1000", "--workloads", "oltp_point_select"];

#[test]
fn bench_measures_every_setting_and_leaves_nothing() {
    let scratch = scratch();
    let record = tempfile::NamedTempFile::new().expect("file");
    let file = record.path().to_str().expect("UTF-8");
    let ended = tare(&scratch, &BENCH).args(["--output", file]).output().expect("tare runs");
    let said = text(&ended.stdout);
    assert!(ended.status.success(), "{said}{}", text(&ended.stderr));
    for word in ["off again", "MariaDB's own", "RESIDENT", "all blocks measured"] {
        assert!(said.contains(word), "no {word} in:\n{said}");
    }
    check_record(record.path());
    assert_nothing_left(&scratch);
}

fn check_record(path: &Path) {
    let lines = fs::read_to_string(path).expect("file");
    let records: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let settings = records[0]["settings"].as_array().expect("settings").len();
    let slices: Vec<_> = records.iter().filter(|r| r["kind"] == "slice").collect();
    assert_eq!(slices.len(), 6 * settings);
    for slice in slices {
        assert!(slice["cpu_user"].as_f64().is_some_and(|cpu| cpu > 0.0), "{slice}");
        assert!(slice["transactions"].as_u64().is_some_and(|n| n > 0), "{slice}");
    }
}

#[test]
fn a_server_without_tare_is_not_measured_as_one_with_it() {
    let scratch = scratch();
    let ended = tare(&scratch, &BENCH).args(["--provider", &harmless_object()]).output().expect("tare runs");
    assert_eq!(ended.status.code(), Some(1));
    assert!(text(&ended.stderr).contains("`tare` is not what it says"), "{}", text(&ended.stderr));
    assert_nothing_left(&scratch);
}

#[test]
fn bench_interrupted_stops_its_servers_and_leaves_nothing() {
    let scratch = scratch();
    let mut child = tare(&scratch, &BENCH).args(["--rounds", "240"]).spawn().expect("tare runs");
    wait_for_line(&mut child, "MariaDB's own");
    // The servers start now: an interrupt anywhere from here on must find and stop them.
    while fs::read_dir(scratch.path()).expect("folder").count() == 0 {
        std::thread::yield_now();
    }
    interrupt(&child);
    let ended = child.wait_with_output().expect("it ends");
    assert_eq!(ended.status.code(), Some(INTERRUPTED), "{}", text(&ended.stderr));
    assert_nothing_left(&scratch);
}

#[test]
fn what_an_earlier_version_left_is_listed_and_goes_and_nothing_else_does() {
    let scratch = scratch();
    let datadir = tempfile::tempdir().expect("folder");
    let folder = datadir.path().join("performance_schema");
    for name in ["mysql", "performance_schema"] {
        fs::create_dir(datadir.path().join(name)).expect("folder");
    }
    fs::write(folder.join("db.opt"), "of the server").expect("file");
    let tables = |command| {
        let ended =
            output(&scratch, &["tables", command, "--datadir", datadir.path().to_str().expect("UTF-8")]);
        assert!(ended.status.success(), "{}", text(&ended.stderr));
        text(&ended.stdout)
    };
    let files = || fs::read_dir(&folder).expect("folder").count();
    assert!(tables("list").contains("no files of tare's"));
    let (left, _) = install::files(tare_tables::TABLES, install::federated::ENDPOINT).expect("files");
    for file in &left {
        fs::write(folder.join(file.name()), &file.content).expect("file");
    }
    assert!(tables("list").lines().any(|l| l.starts_with("threads ")));
    assert_eq!(files(), left.len() + 1);
    assert!(tables("remove").starts_with(&format!("{} tables' files removed", left.len())));
    assert_eq!(files(), 1);
    assert!(folder.join("db.opt").is_file());
}

#[test]
fn nothing_is_removed_where_no_server_is() {
    let folder = tempfile::tempdir().expect("folder");
    let at = folder.path().to_str().expect("UTF-8");
    let ended = output(&scratch(), &["tables", "remove", "--datadir", at]);
    assert_eq!(ended.status.code(), Some(1));
    assert!(text(&ended.stderr).contains("not a data directory"), "{}", text(&ended.stderr));
}

#[test]
fn a_snapshot_and_another_make_a_report() {
    let scratch = scratch();
    let folder = tempfile::tempdir().expect("folder");
    let at = |name: &str| folder.path().join(name).display().to_string();
    let _turn = tare_testkit::turn();
    let settings = tare_testkit::server::StartSettings::new(tare_testkit::subject::TestProvider::tare());
    let server = tare_testkit::server::Server::start(settings).expect("a server");
    let data = server.data().display().to_string();
    let done = |arguments: &[&str]| {
        let ended = output(&scratch, arguments);
        assert!(ended.status.success(), "{arguments:?}: {}", text(&ended.stderr));
        text(&ended.stdout)
    };
    let said = done(&["snapshot", &at("a.jsonl.gz"), "--datadir", &data]);
    assert!(said.contains("a.jsonl.gz: ") && said.contains(" rows of "), "{said}");
    server.client().expect("a client");
    let socket = server.endpoint().display().to_string();
    done(&["snapshot", &at("b.parquet"), "--socket", &socket, "--no-text", "--tables", "events_%,threads"]);
    let lines = done(&["snapshot", "-", "--socket", &socket, "--tables", "setup_timers"]);
    let ends: Vec<&str> = lines.lines().filter(|line| line.contains("\"end\"")).collect();
    assert_eq!(ends.len(), 1, "{lines}");
    let again = output(&scratch, &["snapshot", &at("b.parquet"), "--socket", &socket]);
    assert!(!again.status.success() && text(&again.stderr).contains("--force"), "{}", text(&again.stderr));

    let (first, last) = (at("a.jsonl.gz"), at("b.parquet"));
    let printed = done(&["report", &first, &last]);
    for title in ["Load", "Statements by kind", "Waits", "statements a second"] {
        assert!(printed.contains(title), "no {title:?} in {printed}");
    }
    assert!(printed.lines().all(|line| console::measure_text_width(line) <= 100), "{printed}");
    let json: serde_json::Value =
        serde_json::from_str(&done(&["report", &first, &last, "--format", "json"])).expect("JSON");
    assert_eq!(json["restarted"], false);
    done(&["report", &first, &last, "--output", &at("r.html")]);
    let page = fs::read_to_string(at("r.html")).expect("a page");
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("What happened in"), "{page}");
    let again = output(&scratch, &["report", &first, &last, "--output", &at("r.html")]);
    assert!(!again.status.success() && text(&again.stderr).contains("--force"), "{}", text(&again.stderr));
    let top = ["top", "--once", "--format=json", "--interval", "500ms", "--socket", &socket];
    for arguments in [&["report", &first, &last][..], &top] {
        let full = fs::File::options().write(true).open("/dev/full").expect("/dev/full");
        let ended = tare(&scratch, arguments).stdout(full).output().expect("tare runs");
        let said = text(&ended.stderr);
        assert_eq!(ended.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(said.contains("standard output") && !said.contains("panicked"), "{said}");
    }
    for (arguments, why) in [
        (["snapshot", "x.txt", "--socket", &socket], "NAME.jsonl"),
        (["snapshot", "x.jsonl", "--socket", "/nowhere"], "no answer"),
        (["snapshot", "x.jsonl", "--dsn", "mysql://a:hush@127.0.0.1:1"], "no answer"),
        (["report", &first, "/etc/passwd", "--format=table"], "no snapshot"),
    ] {
        let ended = output(&scratch, &arguments);
        let error = text(&ended.stderr);
        assert!(
            !ended.status.success() && error.contains(why) && !error.contains("hush"),
            "{arguments:?}: {error}"
        );
    }
}

#[test]
fn a_reader_that_has_gone_is_the_end_and_no_error() {
    for arguments in [&["lab", "list"][..], &["probe", "/bin/sh"]] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = Command::new(env!("CARGO_BIN_EXE_tare"));
        let ended = command.args(arguments).stdout(writer).output().expect("it starts");
        assert_eq!(String::from_utf8_lossy(&ended.stderr), "", "{arguments:?}");
        assert_eq!(ended.status.code(), Some(141), "{arguments:?}");
    }
}
