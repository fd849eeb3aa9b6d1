//! Logs as servers write them, and as they may be mistaken.

use std::collections::BTreeMap;

use super::*;
use crate::recording::token::Dialect;
use crate::recording::{Recording, Statement};

fn recording(log: &str) -> Recording {
    read(log.as_bytes(), Dialect::default())
        .expect("it is read")
        .expect("a slow log")
        .finish("a test".into(), true)
}

fn text(statement: &Statement) -> &str {
    std::str::from_utf8(&statement.text).expect("UTF-8")
}

fn texts(recording: &Recording) -> Vec<(u32, Option<&str>, &str)> {
    recording.statements.iter().map(|s| (s.session, s.schema.as_deref(), text(s))).collect()
}

const MARIADB: &str = "/usr/sbin/mariadbd, Version: 10.11.19-MariaDB-log (Debian 12). started with:
Tcp port: 0  Unix socket: /tmp/s
Time\t\t    Id Command\tArgument
# Time: 261123  9:54:29
# User@Host: root[root] @ localhost []
# Thread_id: 3  Schema: a shop  QC_hit: No
# Query_time: 0.000290  Lock_time: 0.000000  Rows_sent: 0  Rows_examined: 0
# Rows_affected: 1  Bytes_sent: 11
use `a shop`;
SET last_insert_id=5,insert_id=7,timestamp=1795427669;
insert into t values('x
# y'),
(';');
# User@Host: root[root] @ localhost []
# Thread_id: 4  Schema:   QC_hit: No
# Query_time: 2.000000  Lock_time: 0.000000  Rows_sent: 1  Rows_examined: 2
# Full_scan: Yes  Full_join: No  Tmp_table: No  Tmp_table_on_disk: No
SET timestamp=1795427669;
SET timestamp=1;
# User@Host: root[root] @ localhost []
# Thread_id: 4  Schema:   QC_hit: No
# Query_time: 0.000001  Lock_time: 0.000000  Rows_sent: 1  Rows_examined: 2
# Stored_routine: shop.p
SET timestamp=1795427669;
select inner;
# User@Host: root[root] @ localhost []
# Thread_id: 3  Schema: a shop  QC_hit: No
# Query_time: 0.000000  Lock_time: 0.000000  Rows_sent: 0  Rows_examined: 0
SET timestamp=1795427669;
# administrator command: Quit;
# Time: 261123  9:54:31
# User@Host: root[root] @ localhost []
# Thread_id: 3  Schema: b  QC_hit: No
# Query_time: 0.000100  Lock_time: 0.000000  Rows_sent: 1  Rows_examined: 2
SET timestamp=1795427671;
select 5;
/usr/sbin/mariadbd, Version: 10.11.19-MariaDB-log (Debian 12). started with:
Tcp port: 0  Unix socket: /tmp/s
Time\t\t    Id Command\tArgument
";

#[test]
fn mariadbs_log_is_read() {
    let recording = recording(MARIADB);
    assert_eq!(
        texts(&recording),
        [
            (1, None, "SET timestamp=1"),
            (2, Some("a shop"), "insert into t values('x\n# y'),\n(';')"),
            (3, Some("b"), "select 5"),
        ]
    );
    // Two ended in one second: after a quarter of it and after three.
    let at: Vec<f64> = recording.statements.iter().map(|s| s.at).collect();
    assert_eq!(recording.begun, Some(1_795_427_667.75));
    assert_eq!(at, [0.0, 1.49971, 3.7499], "{at:?}");
}

#[test]
fn mysqls_log_is_read() {
    let log = "/usr/sbin/mysqld, Version: 8.0.36 (MySQL Community Server - GPL). started with:
Tcp port: 3306  Unix socket: /tmp/s
Time                 Id Command    Argument
# Time: 2026-11-23T09:54:29.250000Z
# User@Host: app[app] @ web1 [10.0.0.7]  Id:    12
# Query_time: 0.125000  Lock_time: 0.000002 Rows_sent: 1  Rows_examined: 1
use shop;
SET timestamp=1795427669;
select 'it''s';
# Time: 2026-11-23T09:54:29.500000Z
# User@Host: app[app] @ web1 [10.0.0.7]  Id:    13
# Query_time: 0.100000  Lock_time: 0.000002 Rows_sent: 1  Rows_examined: 1
SET timestamp=1795427669;
commit;
# Time: 2026-11-23T09:54:29.600000Z
# User@Host: app[app] @ web1 [10.0.0.7]  Id:    12
# Query_time: 0.000100  Lock_time: 0.000002 Rows_sent: 1  Rows_examined: 1
SET timestamp=1795427669;
# administrator command: Execute;
";
    let recording = recording(log);
    assert_eq!(texts(&recording), [(1, Some("shop"), "select 'it''s'"), (2, Some("shop"), "commit")]);
    assert_eq!((recording.statements[1].at, recording.statements[1].took), (0.275, Some(0.1)));
    assert_eq!(recording.left_out.values().sum::<u64>(), 1);
}

#[test]
fn tares_log_is_read_in_both_forms() {
    let slow = "# Time: 261123  9:54:29
# User@Host: app[app] @ localhost []
# Thread_id: 8  Schema: shop  QC_hit: No
# Query_time: 0.000290  Lock_time: 0.000000  Rows_sent: 0  Rows_examined: 0
# Rows_affected: 1
# Lost: 3
use shop;
SET timestamp=1795427669;
select 'long...;
# User@Host: app[app] @ localhost []
# Thread_id: 8  Schema: shop  QC_hit: No
# Query_time: 0.000290  Lock_time: 0.000000  Rows_sent: 0  Rows_examined: 0
# Rows_affected: 1
SET timestamp=1795427669;
select 1;
";
    let recorded = recording(slow);
    assert_eq!(texts(&recorded), [(1, Some("shop"), "select 1")]);
    assert_eq!(recorded.left_out.values().copied().collect::<Vec<_>>(), [3, 1], "lost ones and a cut one");
    let line = |text: &str, event: &str, level: u32, lost: u32| {
        format!(
            "{{\"time\":\"2026-11-23T09:54:29.250000Z\",\"thread_id\":40,\"connection_id\":8,\"schema\":\"shop\",\
             \"event_name\":\"{event}\",\"query_time_s\":0.25,\"level\":{level},{text}\"lost_before\":{lost}}}\n"
        )
    };
    let json = [
        line("\"text\":\"call p()\",", "statement/sql/call_procedure", 0, 2),
        line("\"text\":\"select 1\",", "statement/sp/stmt", 1, 0),
        line("", "statement/com/Execute", 0, 0),
        line("", "statement/com/Ping", 0, 0),
    ];
    let recorded = recording(&json.concat());
    assert_eq!(texts(&recorded), [(1, Some("shop"), "call p()")]);
    assert_eq!((recorded.begun, recorded.left_out.values().sum::<u64>()), (Some(1_795_427_669.0), 3));
}

#[test]
fn the_last_statement_of_a_log_that_is_cut_off_is_left_out() {
    let record = "# User@Host: app[app] @ localhost []
# Thread_id: 8  Schema: shop  QC_hit: No
# Query_time: 0.000290  Lock_time: 0.000000  Rows_sent: 0  Rows_examined: 0
SET timestamp=1795427669;
";
    let log = format!(
        "# Time: 261123  9:54:29\n{record}select 1;\n{record}delete from orders\nwhere id = 7;\n{record}select 2;\n"
    );
    let whole = ["select 1", "delete from orders\nwhere id = 7", "select 2"];
    for end in 0..=log.len() {
        let Some(take) = read(&log.as_bytes()[..end], Dialect::default()).expect("it is read") else {
            continue;
        };
        let recording = take.finish("a test".into(), true);
        let texts: Vec<&str> = texts(&recording).into_iter().map(|(.., text)| text).collect();
        assert!(whole.starts_with(&texts), "{:?}: {texts:?}", &log[..end]);
    }
    let cut = recording(log.split_once("where").expect("a condition").0);
    assert_eq!(texts(&cut), [(1, Some("shop"), "select 1")]);
    assert_eq!(cut.left_out, BTreeMap::from([("their text was cut short".to_owned(), 1)]));
    assert_eq!(texts(&recording(&log)).len(), 3);
}

#[test]
fn the_last_half_line_of_json_is_left_out() {
    let line = |text: &str| {
        format!(
            "{{\"time\":\"2026-11-23T09:54:29.250000Z\",\"thread_id\":8,\"event_name\":\"statement/sql/x\",\"level\":0,\
             \"text\":\"{text}\"}}"
        )
    };
    let (first, last) = (line("select 1") + "\n", line("delete from orders where id = 7"));
    for end in 1..last.len() {
        let cut = recording(&format!("{first}{}", &last[..end]));
        assert_eq!(texts(&cut), [(1, None, "select 1")]);
        assert_eq!(cut.left_out, BTreeMap::from([("their text was cut short".to_owned(), 1)]));
    }
    assert_eq!(texts(&recording(&format!("{first}{last}"))).len(), 2, "all of it is there but its end");
    for damaged in [format!("{first}{}\n{last}", &last[..20]), last[..20].to_owned()] {
        assert!(read(damaged.as_bytes(), Dialect::default()).expect("it is read").is_none(), "{damaged}");
    }
}

#[test]
fn another_file_is_no_slow_log() {
    for other in ["", "select 1;\n", "{\"a\":1}\n", "\u{0}\u{1}\n# Timeless\n"] {
        assert!(read(other.as_bytes(), Dialect::default()).expect("it is read").is_none(), "{other:?}");
    }
}
