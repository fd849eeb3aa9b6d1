//! Keys of several columns, as FEDERATED sends them: each part but the last as `LIKE 'value%'`, the value as
//! it is.

#![allow(clippy::unwrap_used)] // in a test a failure is a panic

mod fixture;

use fixture::{names, served};
use mysql::prelude::Queryable;

/// Names that mean more than themselves in a pattern or in a literal, and names that such patterns would
/// find.
const NAMES: [&str; 24] = [
    "a_1",
    "a-1",
    "a01",
    "a_1x",
    "a%1",
    "a%",
    "%",
    "_",
    "\\",
    "\\%",
    "a\\_1",
    "CORP\\ann",
    "CORPann",
    "it's",
    "it\"s",
    "two words",
    " begins",
    "d.o.t",
    "",
    "é",
    "😀",
    "?",
    "ß",
    "app",
];

/// A text between quotes, with the escapes FEDERATED makes: others than `tare_server::sql` does.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\'', "\\'")
}

#[test]
fn a_part_of_a_key_means_its_value() {
    let served = served();
    let mut client = served.federated();
    client.query_drop("TRUNCATE `things`").unwrap();
    for (number, name) in NAMES.iter().enumerate() {
        let name = escaped(name);
        let values = format!("('{name}', 'YES', '{name}', {number}, 'app2', '2026-01-02')");
        client
            .query_drop(format!(
                "INSERT INTO `things` (`NAME`, `ENABLED`, `HOST`, `AMOUNT`, `INFO`, `SEEN`)  VALUES  {values}"
            ))
            .unwrap();
    }
    for name in NAMES {
        // The server knows a name by what it was sent, in utf8mb3.
        let sent = name.replace('😀', "????");
        for padded in [sent.clone(), format!("{sent}   ")] {
            for column in ["NAME", "HOST"] {
                let value = escaped(&padded);
                let sql = format!(
                    "SELECT `NAME` FROM `things` WHERE  (`{column}` LIKE '{value}%')  AND  (`INFO` = 'app2')"
                );
                assert_eq!(names(&mut client, &sql), [name], "{sql}");
                // The same in a list of keys.
                let sql = format!(
                    "SELECT `NAME` FROM `things` WHERE  ( (`ENABLED` LIKE 'YES%')  AND  (`{column}` LIKE '{value}%')  AND  \
                     (`INFO` = 'app2') ) AND ( (1=1)  AND  (1=1)  AND  (1=1) )"
                );
                assert_eq!(names(&mut client, &sql), [name], "{sql}");
            }
        }
    }
    // Names compare as their column's collation does.
    for (column, value, found) in [
        ("NAME", "CORP\\\\ANN", &["CORP\\ann"][..]),
        ("HOST", "CORP\\\\ANN", &[]),
        ("NAME", "E", &["é"]),
        ("HOST", "E", &[]),
        ("NAME", "a", &[]),
        ("NAME", "ap", &[]),
    ] {
        let sql = format!(
            "SELECT `NAME` FROM `things` WHERE  (`{column}` LIKE '{value}%')  AND  (`ENABLED` = 'YES')"
        );
        assert_eq!(names(&mut client, &sql), found, "{sql}");
    }
    let null = "SELECT `NAME` FROM `things` WHERE  (`NAME` LIKE 'app%')  AND `DELTA` IS NULL  AND  (`ENABLED` = 'YES')";
    assert_eq!(names(&mut client, null), ["app"]);
}

#[test]
fn a_client_of_the_socket_means_a_pattern() {
    let served = served();
    let mut client = served.client();
    let asked = |pattern: &str| format!("SELECT NAME FROM things WHERE NAME LIKE '{pattern}' AND AMOUNT > 0");
    let waits = ["wait/io/file/sql/FRM", "wait/synch/mutex/sql/LOCK_open"];
    assert_eq!(names(&mut client, &asked("wait%")), waits);
    assert_eq!(names(&mut client, &asked("_ait/io%")), waits[..1]);
    assert_eq!(names(&mut client, &asked("wait")), [""; 0]);
}

/// Under sql_mode PAD_CHAR_TO_FULL_LENGTH a server sends a CHAR with all its blanks, also to be stored.
#[test]
fn blanks_at_the_end_of_a_char_are_not_stored() {
    let served = served();
    let mut client = served.federated();
    let blanks = " ".repeat(50);
    let insert = "INSERT INTO `things` (`NAME`, `ENABLED`, `HOST`, `AMOUNT`, `SEEN`)  VALUES";
    client
        .query_drop(format!("{insert}  ('n{blanks}', 'YES', 'h{blanks}         ', 9, '2026-01-02')"))
        .unwrap();
    let stored = fixture::rows(&mut client, "SELECT `NAME`, `HOST` FROM `things` WHERE  (`AMOUNT` = 9)");
    assert_eq!(stored, [[Some(format!("n{blanks}")), Some("h".to_owned())]]);
    let key = format!("`NAME` = 'n{blanks}' AND `HOST` = 'h{blanks}         '");
    client.query_drop(format!("UPDATE `things` SET `AMOUNT` = 10 WHERE {key}")).unwrap();
    assert_eq!(client.affected_rows(), 1);
    client.query_drop(format!("DELETE FROM `things` WHERE {key} LIMIT 1")).unwrap();
    assert_eq!(client.affected_rows(), 1);
}
