//! Logs as servers write them, and as they may be mistaken.

use super::*;
use crate::recording::{Recording, Statement};

fn recording(log: &str) -> Recording {
    read(log.as_bytes(), Dialect::default(), Programs::default())
        .expect("it is read")
        .expect("a general log")
        .finish("a test".into(), true)
}

fn text(statement: &Statement) -> &str {
    std::str::from_utf8(&statement.text).expect("UTF-8")
}

fn texts(recording: &Recording) -> Vec<(u32, Option<&str>, &str)> {
    recording.statements.iter().map(|s| (s.session, s.schema.as_deref(), text(s))).collect()
}

#[test]
fn mariadbs_log_is_read() {
    let log = "mariadbd, Version: 10.11.19-MariaDB-log (Debian 12). started with:
Tcp port: 0  Unix socket: /tmp/s
Time\t\t    Id Command\tArgument
261123  9:54:29\t     3 Connect\troot@localhost on  using Socket
\t\t     3 Query\tcreate database shop
\t\t     3 Init DB\tshop
\t\t     4 Connect\troot@localhost on other using TCP/IP
\t\t     3 Query\tselect 'x
\ty'
\t\t     3 Query\tprepare s from 'select ?'
\t\t     3 Prepare\tselect ?
\t\t     3 Query\texecute s using @a
\t\t     3 Execute\tselect 1
\t\t     3 Prepare\tselect ? + 1
261123  9:54:30\t     3 Execute\tselect 7 + 1
\t\t     4 Query\tuse shop
\t\t     4 Query\tselect 2
\t\t     3 Close stmt\t
\t\t     3 Quit\t
\t\t     3 Connect\troot@localhost on  using Socket
\t\t     3 Query\tselect 3
";
    let recording = recording(log);
    assert_eq!(
        texts(&recording),
        [
            (1, None, "create database shop"),
            (1, Some("shop"), "select 'x\n\ty'"),
            (1, Some("shop"), "prepare s from 'select ?'"),
            (1, Some("shop"), "execute s using @a"),
            (1, Some("shop"), "select 7 + 1"),
            (2, Some("other"), "use shop"),
            (2, Some("shop"), "select 2"),
            (3, None, "select 3"),
        ]
    );
    let at: Vec<f64> = recording.statements.iter().map(|s| s.at).collect();
    assert_eq!(at, [0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75], "{at:?}");
}

#[test]
fn mysqls_log_is_read() {
    let log = "/usr/sbin/mysqld, Version: 8.0.36 (MySQL Community Server - GPL). started with:
Tcp port: 3306  Unix socket: /tmp/s
Time                 Id Command    Argument
2026-11-23T09:54:29.250000Z\t    8 Connect\tapp@web1 on shop using SSL/TLS
2026-11-23T09:54:29.300000Z\t    8 Query\tselect 1
2026-11-23T09:54:29.400000Z\t    8 Query\tcommit
";
    let recording = recording(log);
    assert_eq!(texts(&recording), [(1, Some("shop"), "select 1"), (1, Some("shop"), "commit")]);
    assert_eq!((recording.begun, recording.statements[1].at), (Some(1_795_427_669.3), 0.1));
}

#[test]
fn the_last_statement_of_a_log_that_is_cut_off_is_left_out() {
    let log = "261123  9:54:29\t     3 Query\tselect 1
\t\t     3 Query\tselect 'x
y'
\t\t     3 Query\tdelete from orders where id = 7
";
    let whole = ["select 1", "select 'x\ny'", "delete from orders where id = 7"];
    for end in 0..=log.len() {
        let Some(take) =
            read(&log.as_bytes()[..end], Dialect::default(), Programs::default()).expect("it is read")
        else {
            continue;
        };
        let recording = take.finish("a test".into(), true);
        let texts: Vec<&str> = texts(&recording).into_iter().map(|(.., text)| text).collect();
        assert!(whole.starts_with(&texts), "{:?}: {texts:?}", &log[..end]);
    }
    let cut = recording(log.split_once(" where").expect("a condition").0);
    assert_eq!(texts(&cut), [(1, None, "select 1"), (1, None, "select 'x\ny'")]);
    assert_eq!(cut.left_out, BTreeMap::from([("their text was cut short".to_owned(), 1)]));
    assert_eq!(texts(&recording(log)).len(), 3);
}

#[test]
fn another_file_is_no_general_log() {
    for other in ["", "select 1;\n", "# Time: 261123  9:54:29\n# User@Host: x\n", "a\t1 Query\tx\n"] {
        assert!(
            read(other.as_bytes(), Dialect::default(), Programs::default()).expect("it is read").is_none(),
            "{other:?}"
        );
    }
}
