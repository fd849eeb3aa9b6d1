//! The command of docs/how-to/nightly-report.md that names the statements that got slower, run as it stands
//! there.

use std::fs;
use std::path::Path;
use std::process::Command;

use mysql::Conn;
use mysql::prelude::Queryable;

use super::{Snapshots, between, server};

/// Returns the page's command for jq.
fn command() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/how-to/nightly-report.md");
    let page = fs::read_to_string(path).expect("the page");
    let block = page.split("```sh\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a block");
    block[block.find("jq ").expect("jq")..].to_owned()
}

/// Executes the same statement in both schemas, and more others than a page has rows, each slower than it.
fn load(conn: &mut Conn, seconds_in_b: &str) {
    for (schema, seconds) in [("a", "0"), ("b", seconds_in_b)] {
        conn.query_drop(format!("USE {schema}")).expect("a schema");
        conn.query_drop(format!("SELECT SLEEP({seconds})")).expect("a statement");
    }
    for other in 0..25 {
        conn.query_drop(format!("SELECT SLEEP(0.01) AS other_{other}")).expect("a statement");
    }
}

#[test]
fn the_statement_that_got_slower_is_named_with_its_schema() {
    if Command::new("jq").arg("--version").output().is_err() {
        return println!("skipped: jq is not installed");
    }
    let server = server();
    let mut conn = server.client().expect("a client");
    for schema in ["a", "b"] {
        conn.query_drop(format!("CREATE DATABASE {schema}")).expect("a schema");
    }
    let mut snapshots = Snapshots::new();
    let folder = tempfile::tempdir().expect("a folder");
    for (day, seconds) in [("yesterday", "0"), ("today", "0.3")] {
        let first = snapshots.take(&server);
        load(&mut conn, seconds);
        let (_, json) = between(&first, &snapshots.take(&server));
        // It is among all rows, and was not among the first ones that the page shows.
        for schema in ["a", "b"] {
            let is_it = |row: &&serde_json::Value| {
                row["schema"] == schema
                    && row["digest_text"].as_str().map(str::trim_end) == Some("SELECT `SLEEP` (?)")
            };
            let rows =
                json["sections"].as_array().expect("sections").iter().flat_map(|it| it["tables"].as_array());
            let rows =
                rows.flatten().filter(|it| it["key"] == "by_time").flat_map(|it| it["rows"].as_array());
            let rows: Vec<&serde_json::Value> = rows.flatten().collect();
            let place = rows.iter().position(is_it).expect("a row");
            assert!(place >= 20 || day == "today", "{schema}: {place}");
        }
        fs::write(folder.path().join(format!("{day}.json")), json.to_string()).expect("written");
    }
    let output = Command::new("sh").args(["-c", &command()]).current_dir(folder.path()).output().expect("sh");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout).expect("UTF-8");
    let slowest = said.lines().next().expect("a line");
    assert!(slowest.contains(" times  b  SELECT `SLEEP` (?)"), "{said}");
}
