//! The recipes of `docs/how-to/active-sessions.md`, run as they stand there.

use std::path::Path;

use mysql::Row;
use mysql::prelude::Queryable;
use tare_testkit::turn;

use super::load::ActiveSessions;
use super::{looks, runs, sample_anew, server};

/// The blocks of SQL of the page, each with the heading it stands below.
fn recipes() -> Vec<(String, Vec<String>)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/how-to/active-sessions.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (mut found, mut title) = (Vec::new(), String::new());
    let mut block: Option<String> = None;
    for line in page.lines() {
        match (&mut block, line) {
            (Some(sql), "```") => {
                let statements = sql.split(";\n").map(str::trim).filter(|sql| !sql.is_empty());
                found.push((title.clone(), statements.map(str::to_owned).collect()));
                block = None;
            }
            (Some(sql), line) => *sql += &format!("{line}\n"),
            (None, "```sql") => block = Some(String::new()),
            (None, line) => {
                if let Some(heading) = line.strip_prefix('#') {
                    title = heading.trim_start_matches('#').trim().to_owned();
                }
            }
        }
    }
    found
}

fn text(row: &Row, column: &str) -> Option<String> {
    match row.get(column).unwrap_or_else(|| panic!("no column {column}")) {
        mysql::Value::NULL => None,
        mysql::Value::Bytes(bytes) => Some(String::from_utf8(bytes).unwrap()),
        other => Some(other.as_sql(true)),
    }
}

#[test]
fn every_recipe_runs_and_answers() {
    let _turn = turn();
    let Some(server) = server(&[]) else { return };
    let mut conn = server.client().unwrap();
    let load = ActiveSessions::all(&server);
    let holder =
        load.truth.values().find(|it| it.class == "ROW LOCK").map(|it| it.blockers[0]).expect("some wait");
    assert!(load.truth.values().filter(|it| it.blockers.contains(&holder)).count() >= 4);
    sample_anew(&mut conn, 100);
    let sleeper =
        load.truth.iter().find(|(_, it)| it.class == "SLEEP").map(|(id, _)| *id).expect("one sleeps");
    let recipes = recipes();
    assert_eq!(recipes.len(), 8, "{recipes:?}");
    for (title, statements) in recipes {
        let mut rows: Vec<Row> = Vec::new();
        for sql in statements {
            // As a reader would: the stretch and the session that are asked for.
            let sql = sql
                .replace("TIMESTAMP(CURRENT_DATE, '10:40')", "NOW(6) - INTERVAL 2 MINUTE")
                .replace("TIMESTAMP(CURRENT_DATE, '10:45')", "NOW(6)")
                .replace("@connection = CONNECTION_ID()", &format!("@connection = {sleeper}"));
            rows = conn.query(&sql).unwrap_or_else(|error| panic!("{title}: {sql}: {error}"));
        }
        assert!(!rows.is_empty(), "{title} has no answer");
        let column = |name: &str| -> Vec<String> { rows.iter().filter_map(|row| text(row, name)).collect() };
        match title.as_str() {
            "Top waits" => assert!(column("what").contains(&"wait/lock/row/handler".to_owned()), "{rows:?}"),
            "Top statements" => {
                let texts = column("DIGEST_TEXT");
                assert!(rows.len() >= 4 && texts.iter().all(|text| !text.is_empty()), "{rows:?}");
                // It sleeps for the first time, and has not ended.
                assert!(texts.iter().any(|text| text.contains("SLEEP")), "{rows:?}");
            }
            "Top blockers" => assert!(column("blocker").contains(&holder.to_string()), "{rows:?}"),
            "Average active sessions per minute" => assert!(!column("cpu").is_empty()),
            "Who held the lock that 40 sessions waited for" => {
                assert_eq!((rows.len(), column("user").len()), (1, 1), "it is idle and has a name: {rows:?}");
            }
            "One session, step by step" => {
                let may_be = |class: &String| class == "SLEEP" || runs(class) || looks(class, "SLEEP");
                assert!(column("WAIT_CLASS").iter().all(may_be), "{rows:?}");
            }
            _ => {}
        }
    }
}
