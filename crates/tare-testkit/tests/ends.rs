//! How a server with the provider ends, and what is left: after SIGTERM, after kill -9, out of memory, under
//! attack.

#![allow(clippy::unwrap_used)] // in a test a failure is a panic

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use mysql::prelude::Queryable;
use tare_testkit::host::HostProgram;
use tare_testkit::load::SysbenchLoad;
use tare_testkit::schema::TABLES;
use tare_testkit::server::{LIMIT, Server, StartSettings};
use tare_testkit::subject::TestProvider;
use tare_testkit::turn;
use tare_testkit::{eventually, poll};

const LOAD: SysbenchLoad =
    SysbenchLoad { workload: "oltp_read_write", threads: 8, tables: 2, rows: 2000, prepared: true };

fn server() -> Server {
    Server::start(StartSettings::new(TestProvider::under_test())).unwrap()
}

/// Every table of the list can be read; how many rows there are.
fn read_all(server: &Server) -> usize {
    let mut schema = server.schema().unwrap();
    let rows = |table: &&str| schema.rows(table).unwrap_or_else(|e| panic!("{table}: {e}")).len();
    TABLES.iter().map(rows).sum()
}

fn checksum(server: &Server) -> Vec<(String, Option<u64>)> {
    server.client().unwrap().query("CHECKSUM TABLE kept.i, kept.r").unwrap()
}

fn keep_something(server: &Server) {
    let mut conn = server.client().unwrap();
    for sql in [
        "CREATE DATABASE kept",
        "USE kept",
        "CREATE TABLE kept.i (a INT PRIMARY KEY, b TEXT) ENGINE=InnoDB",
        "CREATE TABLE kept.r (a INT PRIMARY KEY, b TEXT) ENGINE=Aria",
        "INSERT INTO kept.i SELECT seq, MD5(seq) FROM seq_1_to_1000",
        "INSERT INTO kept.r SELECT seq, MD5(seq) FROM seq_1_to_1000",
        "FLUSH TABLES",
    ] {
        conn.query_drop(sql).unwrap();
    }
}

/// Names of all files below a folder, relative to it.
fn files(folder: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            found.insert(path.strip_prefix(folder).unwrap().display().to_string());
            if path.is_dir() {
                open.push(path);
            }
        }
    }
    found
}

/// The moment at which the tables are served is a thread's beginning, and there are no classes of threads
/// here.
#[test]
fn without_classes_of_threads_the_tables_are_served() {
    let _turn = turn();
    let settings = StartSettings::new(TestProvider::under_test()).provider_option("max-thread-classes", 0);
    let server = Server::start(settings).unwrap();
    assert!(read_all(&server) > 500);
    let threads = server.schema().unwrap().rows("threads").unwrap();
    assert_eq!(threads.len(), 0, "none has a name to be found by");
}

#[test]
fn sigterm_ends_cleanly_idle_and_loaded() {
    let _turn = turn();
    for provider in [TestProvider::Off, TestProvider::under_test()] {
        let mut idle: Vec<Duration> = (0..3)
            .map(|_| {
                let mut server = Server::start(StartSettings::new(provider.clone())).unwrap();
                let (time, status) = server.stop().unwrap();
                assert!(status.success(), "{status}\n{}", server.log());
                time
            })
            .collect();
        idle.sort();
        let mut server = Server::start(StartSettings::new(provider.clone())).unwrap();
        LOAD.prepare(&server).unwrap();
        let load = LOAD.start(&server, 60).unwrap();
        let mut conn = server.client().unwrap();
        let all = "SELECT COUNT(*) FROM information_schema.processlist";
        eventually("the load is connected", LIMIT, || conn.query_first::<u64, _>(all).unwrap() >= Some(9));
        let (loaded, status) = server.stop().unwrap();
        drop(load);
        println!("{provider:?}: idle {:?}, under load {loaded:?}", idle[1]);
        assert!(status.success(), "{status}\n{}", server.log());
        assert!(!server.log().contains("[ERROR]"), "{}", server.log());
    }
}

#[test]
fn tables_survive_a_restart_and_say_who_serves_them() {
    let _turn = turn();
    let mut server = server();
    for _ in 0..3 {
        assert!(read_all(&server) > 1000);
        if server.serves_tables() && TestProvider::under_test().is_tare() {
            // Whoever may drop tables finds none to drop. 11.8 does not say so, as with its built-in.
            let mut conn = server.client().unwrap();
            let dropped = conn.query_drop("DROP TABLE performance_schema.threads");
            assert_eq!(dropped.is_ok(), server.host().version.starts_with("11.8"), "{dropped:?}");
            let threads: Option<u64> =
                conn.query_first("SELECT COUNT(*) FROM performance_schema.threads").unwrap();
            assert!(threads > Some(5), "{threads:?}");
        }
        if TestProvider::under_test().is_tare() {
            let status = server.schema().unwrap().tare_status().unwrap();
            assert_eq!(status.get("version").map(String::as_str), Some(env!("CARGO_PKG_VERSION")));
        }
        let (_, status) = server.stop().unwrap();
        assert!(status.success(), "{status}\n{}", server.log());
        server.resume().unwrap();
    }
}

#[test]
fn nothing_is_left_when_the_provider_is_taken_away() {
    let _turn = turn();
    let mut with = server();
    read_all(&with);
    with.stop().unwrap();
    let mut without = Server::start(StartSettings::new(TestProvider::Off)).unwrap();
    without.stop().unwrap();
    let (left, expected) = (files(&with.data()), files(&without.data()));
    assert_eq!(left.difference(&expected).collect::<Vec<_>>(), Vec::<&String>::new());
    with.settings = StartSettings::new(TestProvider::Off);
    with.resume().unwrap();
    let tables = |server: &Server| -> Vec<String> {
        server.client().unwrap().query("SHOW TABLES FROM performance_schema").unwrap()
    };
    without.resume().unwrap();
    assert_eq!(tables(&with), tables(&without));
    assert!(with.process().unwrap().maps("libtare").unwrap().is_empty());
}

#[test]
fn after_a_kill_the_tables_are_back_and_data_is_untouched() {
    let _turn = turn();
    let mut server = server();
    keep_something(&server);
    let kept = checksum(&server);
    LOAD.prepare(&server).unwrap();
    let load = LOAD.start(&server, 60).unwrap();
    for round in 0..2 {
        assert!(read_all(&server) > 1000, "round {round}");
        server.kill();
        server.resume().unwrap();
        assert_eq!(checksum(&server), kept, "round {round}");
    }
    drop(load);
    assert!(read_all(&server) > 1000);
    // Killed once more and never given the provider again, it starts and runs all the same.
    server.kill();
    server.settings = StartSettings::new(TestProvider::Off);
    server.resume().unwrap();
    assert_eq!(checksum(&server), kept);
    let (_, status) = server.stop().unwrap();
    assert!(status.success(), "{status}\n{}", server.log());
}

/// The folder as a server made it: on the disk, and in every table the server finds there.
fn assert_as_made(server: &Server, when: &str) {
    assert_eq!(folder(server), ["db.opt"], "{when}");
    let mut conn = server.client().unwrap();
    let tables: Vec<(String, String)> = conn
        .query("SELECT table_name, engine FROM information_schema.tables WHERE table_schema = 'performance_schema'")
        .unwrap();
    assert!(tables.len() > 80, "{when}: {tables:?}");
    for (table, engine) in tables {
        assert_eq!(engine, "PERFORMANCE_SCHEMA", "{when}: {table}");
        let read = conn.query_drop(format!("SELECT * FROM performance_schema.`{table}`"));
        assert!(read.is_ok(), "{when}: {table}: {read:?}");
    }
}

/// What is on the disk of the folder.
fn folder(server: &Server) -> Vec<String> {
    files(&server.data().join("performance_schema")).into_iter().collect()
}

/// Ways to start a server so that tare does not serve.
fn without_tare() -> [(&'static str, StartSettings); 4] {
    let tare = StartSettings::new(TestProvider::tare());
    [
        ("without tare", StartSettings::new(TestProvider::Off)),
        ("the built-in, without tare", StartSettings::new(TestProvider::BuiltIn)),
        ("the built-in, tare loaded", tare.clone().option("--performance-schema=ON")),
        ("enabled=OFF", tare.tare_option("enabled", "OFF")),
    ]
}

#[test]
fn after_a_kill_whoever_starts_next_finds_the_folder_as_it_was_made() {
    let _turn = turn();
    if !tare_only() {
        return;
    }
    let mut server = server();
    for (next, settings) in without_tare() {
        assert!(read_all(&server) > 1000, "before {next}");
        assert_eq!(folder(&server), ["db.opt"], "nothing of the tables is on the disk while they are served");
        server.kill();
        server.settings = settings;
        server.resume().unwrap();
        assert_as_made(&server, next);
        server.stop().unwrap();
        server.settings = StartSettings::new(TestProvider::tare());
        server.resume().unwrap();
    }
}

#[test]
fn a_start_with_few_descriptors_leaves_nothing_half_done() {
    let _turn = turn();
    if !tare_only() {
        return;
    }
    let mut settings = StartSettings::new(TestProvider::tare()).option("--table-open-cache=64");
    settings.under = ["prlimit", "--nofile=64"].map(str::to_owned).to_vec();
    let mut server = Server::start(settings).unwrap();
    assert_eq!(folder(&server), ["db.opt"]);
    if server.serves_tables() {
        assert!(server.schema().unwrap().rows("threads").unwrap().len() > 5);
    }
    server.kill();
    server.settings = StartSettings::new(TestProvider::BuiltIn);
    server.resume().unwrap();
    assert_as_made(&server, "afterwards");
}

/// A program of the server's installation as it is found, or a line that says which part of the test is left
/// out.
fn program(server: &Server, name: &str) -> Option<std::process::Command> {
    if server.host().basedir.is_some() {
        println!("skipped: {name}, for the installed one is another server's");
        return None;
    }
    let there =
        std::process::Command::new(name).arg("--version").output().is_ok_and(|it| it.status.success());
    if !there {
        println!("skipped: {name} is not installed");
    }
    there.then(|| std::process::Command::new(name))
}

fn run(command: &mut std::process::Command) {
    let ended = command.output().unwrap();
    assert!(ended.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&ended.stderr));
}

/// Data a backup was restored to, with nobody serving it yet.
fn restored(backup: &Path) -> Server {
    let mut server = Server::start(StartSettings::new(TestProvider::Off)).unwrap();
    server.stop().unwrap();
    let owner = std::fs::metadata(server.data()).unwrap();
    std::fs::remove_dir_all(server.data()).unwrap();
    let mut copy = std::process::Command::new("cp");
    run(copy.arg("-a").arg(backup).arg(server.data()));
    let mut own = std::process::Command::new("chown");
    run(own.arg("-R").arg(format!("{}:{}", owner.uid(), owner.gid())).arg(server.data()));
    server
}

#[test]
fn a_backup_holds_nothing_of_the_tables() {
    let _turn = turn();
    if !tare_only() {
        return;
    }
    let source = server();
    keep_something(&source);
    let kept = checksum(&source);
    assert!(read_all(&source) > 1000);
    let place = tempfile::tempdir().unwrap();
    let mut backups = vec![place.path().join("copy")];
    run(std::process::Command::new("cp").arg("-a").arg(source.data()).arg(&backups[0]));
    if let Some(mut backup) = program(&source, "mariadb-backup") {
        let target = place.path().join("backup");
        let target_dir = format!("--target-dir={}", target.display());
        let socket = format!("--socket={}", source.socket().display());
        run(backup.args(["--no-defaults", "--backup", "--user=root", &socket, &target_dir]));
        run(std::process::Command::new("mariadb-backup").args(["--no-defaults", "--prepare", &target_dir]));
        backups.push(target);
    }
    for backup in backups {
        assert_eq!(files(&backup.join("performance_schema")).into_iter().collect::<Vec<_>>(), ["db.opt"]);
        let mut server = restored(&backup);
        for (next, settings) in without_tare().into_iter().take(2) {
            server.settings = settings;
            server.resume().unwrap();
            assert_as_made(&server, &format!("{}, {next}", backup.display()));
            assert_eq!(checksum(&server), kept, "{}, {next}", backup.display());
            server.stop().unwrap();
        }
    }
}

/// A folder of plugins in which the helper program of the PAM plugin is one that tells what it was started
/// with.
fn telling_plugins(plugins: &Path, told: &Path) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in ["ha_federatedx.so", "auth_pam.so"] {
        std::os::unix::fs::symlink(plugins.join(name), folder.path().join(name)).unwrap();
    }
    let tool = folder.path().join("auth_pam_tool_dir");
    std::fs::create_dir(&tool).unwrap();
    let told = told.display();
    let script =
        format!("#!/bin/sh\n{{ env; cat /proc/$$/maps; echo told; }} > {told}.part\nmv {told}.part {told}\n");
    std::fs::write(tool.join("auth_pam_tool"), script).unwrap();
    let all = std::fs::Permissions::from_mode(0o755);
    for path in [folder.path(), &tool, &tool.join("auth_pam_tool")] {
        std::fs::set_permissions(path, all.clone()).unwrap();
    }
    folder
}

#[test]
fn a_program_the_server_starts_is_not_affected() {
    let _turn = turn();
    let host = HostProgram::find().unwrap();
    let Some(plugins) = host.plugins().filter(|dir| dir.join("auth_pam.so").exists()) else {
        println!("skipped: the server has no PAM plugin, the one that starts a program");
        return;
    };
    let place = tempfile::tempdir().unwrap();
    std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let told = place.path().join("told");
    let folder = telling_plugins(&plugins, &told);
    let settings = StartSettings::new(TestProvider::under_test());
    let settings = settings.option(format!("--plugin-dir={}", folder.path().display()));
    let server = Server::start(settings.option("--plugin-load-add=auth_pam")).unwrap();
    server.client().unwrap().query_drop("CREATE USER pam@localhost IDENTIFIED VIA pam").unwrap();
    // The helper refuses everybody; that it was asked is what counts.
    assert!(mysql::Conn::new(server.client_options().user(Some("pam"))).is_err());
    let is_told = poll(LIMIT, || told.exists()).is_some();
    assert!(is_told, "the server starts no helper\n{}", server.log());
    let told = std::fs::read_to_string(&told).unwrap();
    assert!(told.contains("told"));
    assert!(!told.contains("LD_PRELOAD") && !told.contains("libtare"), "{told}");
    assert!(read_all(&server) > 1000, "while the server itself has it");
}

/// The following are about tare alone; held against the built-in there is nothing to test.
fn tare_only() -> bool {
    let tare = TestProvider::under_test().is_tare();
    if !tare {
        println!("skipped: the built-in has no such thing");
    }
    tare
}

#[test]
fn out_of_memory_counts_as_lost_and_the_server_goes_on() {
    let _turn = turn();
    if !tare_only() {
        return;
    }
    let provider =
        TestProvider::Tare(vec![("memory-max".into(), "8M".into()), ("digests-size".into(), "50".into())]);
    let server = Server::start(StartSettings::new(provider).option("--max-connections=400")).unwrap();
    let load = SysbenchLoad { threads: 128, ..LOAD };
    load.prepare(&server).unwrap();
    let mut conn = server.client().unwrap();
    for n in 0..100 {
        conn.query_drop(format!("SELECT 1 AS c{n}")).unwrap();
    }
    let outcome = load.start(&server, 4).unwrap().finish().unwrap();
    assert!(outcome.transactions > 0, "{}", outcome.text);
    let mut schema = server.schema().unwrap();
    let status = schema.tare_status().unwrap();
    let number =
        |name: &str| status.get(name).and_then(|value| value.parse::<u64>().ok()).unwrap_or_default();
    assert!(number("digests_evicted") >= 50, "{status:?}");
    assert!(number("lost") > number("digest_lost"), "something of the threads' is lost: {status:?}");
    assert!(number("memory_used") <= 8 << 20, "the cap is a promise: {status:?}");
    read_all(&server);
}

/// Connections open at once, and statements of each: more than the smallest pool has room for.
const CROWD: usize = 400;
const EACH: u64 = 5;

/// A pool too small for the crowd, in which nothing but its statements is recorded: what is lost then is of
/// theirs.
fn crowded() -> Server {
    let sizes = ["waits", "stages", "statements", "transactions"];
    let mut options: Vec<(String, String)> =
        sizes.iter().map(|kind| (format!("events-{kind}-history-long-size"), "0".into())).collect();
    let fixed = [
        ("memory-max", "8M"),
        ("instrument", "%=OFF"),
        ("instrument", "statement/abstract/%=ON"),
        ("instrument", "statement/sql/do=ON"),
        ("consumer", "statements_digest=OFF"),
    ];
    options.extend(fixed.map(|(name, value)| (name.to_owned(), value.to_owned())));
    Server::start(StartSettings::new(TestProvider::Tare(options)).option("--max-connections=500")).unwrap()
}

#[test]
fn without_memory_what_is_counted_and_what_is_lost_are_all_there_was() {
    let _turn = turn();
    if !tare_only() {
        return;
    }
    let server = crowded();
    // The endpoint's readers are no threads of the server's: they take no part in what they look at.
    let mut schema = server.endpoint_schema().unwrap();
    let before = statements_done(&server);
    let mut crowd: Vec<mysql::Conn> = (0..CROWD).map(|_| server.client().unwrap()).collect();
    std::thread::scope(|scope| {
        for part in crowd.chunks_mut(CROWD / 8) {
            scope.spawn(|| {
                for _ in 0..EACH {
                    part.iter_mut().for_each(|conn| conn.query_drop("DO 1").unwrap());
                }
            });
        }
    });
    let status = schema.tare_status().unwrap();
    let lost = |name: &str| -> u64 { status[name].parse().unwrap() };
    let done = statements_done(&server) - before;
    assert_eq!(done, CROWD as u64 * EACH, "by the server's own counter");
    let ids: BTreeSet<String> = crowd.iter().map(|conn| conn.connection_id().to_string()).collect();
    let threads = schema.rows("threads").unwrap();
    let seen = threads.iter().filter(|row| ids.contains(row.text("PROCESSLIST_ID"))).count();
    // Of a connection without any memory nothing but its number is known; of the others every statement is.
    let unseen = (CROWD - seen) as u64 * EACH + lost("nested_statement_lost");
    let name = [("EVENT_NAME", "statement/sql/do")];
    let counted = schema.sum("events_statements_summary_global_by_event_name", &name, "COUNT_STAR").unwrap();
    let kept = schema.rows_where("events_statements_history", &name).unwrap().len() as u64;
    println!("{done} done: {seen} connections seen, {unseen} unseen, {counted} counted, {kept} kept");
    assert!(unseen > 0 && counted > 0, "the pool has room for some and not for all");
    assert!(lost("thread_instances_lost") >= (CROWD - seen) as u64);
    assert_eq!(counted + lost("summary_cells_lost") + unseen, done, "counted and lost are all there were");
    assert_eq!(kept + lost("events_statements_lost") + unseen, done, "kept and lost are all there were");
}

/// `DO` statements so far, by the server's own counter.
fn statements_done(server: &Server) -> u64 {
    let row = server.client().unwrap().query_first("SHOW GLOBAL STATUS LIKE 'Com_do'").unwrap();
    let (_, count): (String, u64) = row.unwrap();
    count
}

#[test]
fn an_idle_server_takes_little_more_than_without() {
    let _turn = turn();
    let idle = |provider: TestProvider| {
        let server = Server::start(StartSettings::new(provider)).unwrap();
        server.client().unwrap().query_drop("DO 1").unwrap();
        // Let start-up work in the background come to its end.
        std::thread::sleep(Duration::from_secs(1));
        server.process().unwrap().resident().unwrap()
    };
    let (off, on) = (idle(TestProvider::Off), idle(TestProvider::under_test()));
    println!("{off} bytes without, {on} with: {} more", on.saturating_sub(off));
    let bound = if TestProvider::under_test().is_tare() { 32 << 20 } else { 256 << 20 };
    assert!(on.saturating_sub(off) <= bound);
}

#[test]
fn the_endpoint_is_the_server_s_own_and_shrugs_off_nonsense() {
    let _turn = turn();
    if !tare_only() {
        return;
    }
    let mut server = server();
    let data = std::fs::metadata(server.data()).unwrap();
    let socket = std::fs::symlink_metadata(server.endpoint()).unwrap();
    assert!(socket.file_type().is_socket());
    assert_eq!((socket.mode() & 0o077, socket.uid()), (0, data.uid()), "nobody else may connect");
    let open = || UnixStream::connect(server.endpoint()).unwrap();
    let mut held = Vec::new();
    for seed in 0..100_u32 {
        let mut stream = open();
        stream.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
        // A small generator: what is sent does not matter as long as it is the same each time.
        let bytes: Vec<u8> =
            (0..500_u32).map(|i| (seed.wrapping_mul(2_654_435_761) ^ i.wrapping_mul(40_503)) as u8).collect();
        let _ = match seed % 4 {
            0 => stream.write_all(&bytes),
            1 => stream.write_all(&bytes[..3]),
            2 => stream.write_all(&[0xff, 0xff, 0xff, 0]),
            _ => Ok(()),
        };
        if seed % 3 == 0 {
            held.push(stream);
        }
    }
    // One that logs in, asks for much and reads nothing.
    let slow = server.endpoint_schema().unwrap();
    assert!(read_all(&server) > 1000, "others are served all the while");
    let mut reader = open();
    reader.set_read_timeout(Some(LIMIT)).unwrap();
    let mut greeting = [0; 5];
    reader.read_exact(&mut greeting).unwrap();
    assert_eq!(greeting[4], 10, "a new client is still greeted, with protocol 10");
    server.client().unwrap().query_drop("DO 1").unwrap();
    let (time, status) = server.stop().unwrap();
    drop((held, slow, reader));
    assert!(status.success(), "{status} after {time:?}\n{}", server.log());
}
