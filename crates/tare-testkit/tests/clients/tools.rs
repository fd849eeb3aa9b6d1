//! The server's own tools: a dump, a check and an upgrade go over all databases and leave them unharmed.

use std::process::{Command, Stdio};

use mysql::prelude::Queryable;
use tare_testkit::server::{Server, StartSettings};
use tare_testkit::subject::TestProvider;
use tare_testkit::turn;

use crate::{run_scripts, start, subject};

/// What a tool of the server's wrote to standard output.
fn run(server: &Server, tool: &str, arguments: &[&str]) -> String {
    let mut command = Command::new(server.host().client_program(tool).unwrap());
    command.args(["--no-defaults", "--user=root"]).arg(format!("--socket={}", server.socket().display()));
    let output = command.args(arguments).stdin(Stdio::null()).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{tool} {arguments:?}: {}\n{out}\n{err}", output.status);
    assert!(!err.to_lowercase().contains("error"), "{tool} {arguments:?}: {err}");
    out.into_owned()
}

/// Lines of a dump that are the same each time.
fn repeatable(dump: &str) -> Vec<&str> {
    let changes = |line: &&str| !line.starts_with("-- Dump completed") && !line.starts_with("-- Host:");
    dump.lines().filter(changes).collect()
}

/// A checksum of every table of the user's that outlives the server.
fn checksums(server: &Server) -> Vec<(String, Option<u64>)> {
    let mut conn = server.client().unwrap();
    let tables: Vec<String> = conn
        .query(
            "SELECT CONCAT(table_schema, '.', table_name) FROM information_schema.tables \
             WHERE table_schema IN ('dml', 'engines', 'partitions', 'triggers') AND table_type = 'BASE TABLE' AND engine <> 'MEMORY'",
        )
        .unwrap();
    assert!(tables.len() > 3, "{tables:?}");
    conn.query(format!("CHECKSUM TABLE {}", tables.join(", "))).unwrap()
}

#[test]
fn a_dump_is_that_of_a_server_without_a_performance_schema() {
    let _turn = turn();
    let Some(mut server) = subject() else { return };
    run_scripts(&server, &["dml", "programs", "triggers"]);
    let databases = ["--all-databases", "--routines", "--events", "--skip-dump-date"];
    let with = run(&server, "mariadb-dump", &databases);
    assert!(
        with.contains("CREATE DATABASE /*!32312 IF NOT EXISTS*/ `dml`"),
        "the dump is not one of everything"
    );
    assert!(!with.contains("tare"), "the dump holds something of tare's");
    server.stop().unwrap();
    server.settings = StartSettings::new(TestProvider::Off);
    server.resume().unwrap();
    let without = run(&server, "mariadb-dump", &databases);
    assert_eq!(repeatable(&with), repeatable(&without));
}

#[test]
fn check_and_upgrade_find_nothing_to_complain_about() {
    let _turn = turn();
    let Some(mut server) = subject() else { return };
    run_scripts(&server, &["dml", "engines", "partitions", "triggers"]);
    let before = checksums(&server);
    let checked = run(&server, "mariadb-check", &["--all-databases", "--extended"]);
    let bad: Vec<&str> = checked.lines().filter(|line| !line.ends_with("OK")).collect();
    let reference = start(TestProvider::BuiltIn);
    run_scripts(&reference, &["dml", "engines", "partitions", "triggers"]);
    let expected = run(&reference, "mariadb-check", &["--all-databases", "--extended"]);
    drop(reference);
    let expected: Vec<&str> = expected.lines().filter(|line| !line.ends_with("OK")).collect();
    assert_eq!(bad, expected);
    assert!(checked.lines().count() > 30, "{checked}");

    // The tool upgrades servers of its own version only.
    let upgrade = server.host().client_program("mariadb-upgrade").unwrap();
    if server.host().basedir.as_ref().is_none_or(|base| upgrade.starts_with(base)) {
        let upgraded = run(&server, "mariadb-upgrade", &["--force"]);
        assert!(upgraded.trim_end().ends_with("OK"), "{upgraded}");
    } else {
        println!("skipped: this server comes without mariadb-upgrade");
    }
    let mut schema = server.schema().unwrap();
    assert!(!schema.rows("events_statements_summary_by_digest").unwrap().is_empty());
    if server.settings.provider.is_tare() {
        assert_eq!(schema.tare_status().unwrap().get("state").map(String::as_str), Some("active"));
    }
    drop(schema);
    assert_eq!(checksums(&server), before);
    server.stop().unwrap();
    server.resume().unwrap();
    assert_eq!(checksums(&server), before, "after a restart");
    assert!(!server.log().contains("[ERROR]"), "{}", server.log());
}
