//! Clients of the endpoint's own process: they must know by which names tables go there.

#![allow(clippy::unwrap_used)] // in a test a failure is a panic

mod fixture;

use fixture::{error, names, rows, served_with};
use mysql::prelude::Queryable;

#[test]
fn a_table_goes_by_its_inside_name_only() {
    let served = served_with(|config| {
        config.name_inside = Some(|name| (name == "things-7f").then(|| "things".to_owned()));
    });
    let mut client = served.federated();
    assert_eq!(names(&mut client, "SELECT `NAME` FROM `things-7f` WHERE `AMOUNT` = 3"), ["idle"]);
    assert_eq!(rows(&mut client, "SHOW TABLE STATUS LIKE 'things-7f'").len(), 1);
    client.query_drop("UPDATE `things-7f` SET `ENABLED` = 'NO' WHERE `NAME` = 'idle'").unwrap();
    for stranger in ["things", "THINGS", "big", "things-70", "things-7", "things-7f-", "thing%", "%", ""] {
        for statement in [
            "SELECT * FROM `?`",
            "SELECT COUNT(*) FROM `?`",
            "SELECT * FROM `?` WHERE 1=0",
            "SELECT * FROM mysql.`?`",
            "UPDATE `?` SET `ENABLED` = 'YES'",
            "INSERT INTO `?` VALUES ('a', 'NO', NULL, 1, NULL, NULL, NULL, '2026-01-01', NULL, NULL)",
            "DELETE FROM `?`",
            "TRUNCATE `?`",
            "SHOW TABLE STATUS LIKE '?'",
            "SHOW COLUMNS FROM `?`",
            "SHOW INDEX FROM `?`",
            "SHOW CREATE TABLE `?`",
            "DESCRIBE `?`",
        ] {
            if stranger.is_empty() && statement.contains('`') {
                continue;
            }
            let (code, text) = error(&mut client, &statement.replace('?', stranger));
            assert_eq!(code, 1045, "{statement} {stranger}: {text}");
            assert!(
                text.starts_with("Access denied: only the tables installed in performance_schema"),
                "{text}"
            );
            assert!(!text.contains("things"), "{text}");
        }
    }
    // What FEDERATED asks before it makes a table that leads here.
    for statement in ["SELECT * FROM `things-7f` WHERE 1=0", "SHOW CREATE TABLE `things-7f`"] {
        assert_eq!(error(&mut client, statement).0, 1005, "{statement}");
    }
    // Nothing came of it.
    assert_eq!(names(&mut client, "SELECT COUNT(*) FROM `things-7f`"), ["4"]);
    assert_eq!(names(&mut client, "SELECT COUNT(*) FROM `things-7f` WHERE `ENABLED` = 'YES'"), ["1"]);
}

#[test]
fn a_session_of_the_hosts_stays_in_autocommit_mode() {
    let served = served_with(|_| ());
    let mut client = served.federated();
    for sql in ["SET AUTOCOMMIT=0", "set @@autocommit = 0", "SET NAMES utf8mb3, autocommit=0"] {
        let (code, text) = error(&mut client, sql);
        assert_eq!(code, 1235, "{sql}: {text}");
    }
    for sql in ["SET AUTOCOMMIT=1", "SET sql_notes=0", "SET autocommit=1, sql_notes=0"] {
        client.query_drop(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
}
