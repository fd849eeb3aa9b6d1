//! Tests with logs as servers write them, and with misleading ones.

use std::collections::BTreeMap;

use super::*;
use crate::load::recording::quoting;
use crate::load::recording::take::QUOTED;
use crate::load::recording::token::Dialect;
use crate::load::recording::{SessionStatement, StatementRecording};

fn recording(log: &str) -> StatementRecording {
    read(log.as_bytes(), Dialect::default())
        .expect("it is read")
        .expect("a slow log")
        .finish("a test".into(), true)
}

fn text(statement: &SessionStatement) -> &str {
    std::str::from_utf8(&statement.text).expect("UTF-8")
}

fn texts(recording: &StatementRecording) -> Vec<(u32, Option<&str>, &str)> {
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
    // Two ended in one second: after a quarter of it and after three quarters.
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

#[test]
fn statements_that_quote_logs_are_read_as_they_were_sent() {
    let mut random = fastrand::Rng::with_seed(53);
    for round in 0..400 {
        let sent: Vec<String> = (0..random.usize(1..5)).map(|_| quoting::statement(&mut random)).collect();
        let (mut log, mut last) = (String::new(), 0);
        for (n, statement) in sent.iter().enumerate() {
            last = log.len();
            log.push_str(&record(round % FORMATS, n, statement));
        }
        let read_back = |log: &str| read(log.as_bytes(), Dialect::default()).expect("it is read");
        let recording = read_back(&log).expect("a slow log").finish("a test".into(), true);
        let found: Vec<&str> = texts(&recording).into_iter().map(|(.., text)| text).collect();
        assert_eq!(found, sent.iter().map(String::as_str).collect::<Vec<_>>(), "{log}");
        // Wherever the log is cut off, no wrong statement is read.
        let ends: Vec<usize> = (last..log.len()).filter(|end| log.is_char_boundary(*end)).collect();
        for end in (0..40).map(|_| ends[random.usize(0..ends.len())]) {
            let Some(take) = read_back(&log[..end]) else { continue };
            let recording = take.finish("a test".into(), true);
            let found: Vec<&str> = texts(&recording).into_iter().map(|(.., text)| text).collect();
            assert!(
                found.iter().zip(&sent).all(|(found, sent)| found == sent),
                "{:?}: {found:?}",
                &log[..end]
            );
        }
        // Lines as Windows writes them.
        if !log.contains('\r') {
            let recording =
                read_back(&log.replace('\n', "\r\n")).expect("a slow log").finish(String::new(), true);
            let found: Vec<&str> = texts(&recording).into_iter().map(|(.., text)| text).collect();
            assert_eq!(found, sent.iter().map(String::as_str).collect::<Vec<_>>(), "{log}");
        }
    }
}

const FORMATS: usize = 4;

/// Returns a record as MariaDB, MySQL, Percona Server or `tare slowlog` writes it.
fn record(format: usize, n: usize, text: &str) -> String {
    let length = text.len();
    match format {
        0 => format!(
            "# Time: 261123  9:54:{:02}\n# User@Host: root[root] @ localhost []\n# Thread_id: 8  Schema: shop  QC_hit: No\n\
             # Query_time: 0.000290  Lock_time: 0.000000  Rows_sent: 1  Rows_examined: 0\n# Rows_affected: 0  Bytes_sent: 65\n\
             SET timestamp=1795427669;\n{text};\n",
            n + 10
        ),
        1 => format!(
            "# Time: 2026-11-23T09:54:29.{n}50000Z\n# User@Host: app[app] @ web1 [10.0.0.7]  Id:    12\n\
             # Query_time: 0.0125  Lock_time: 0.000002 Rows_sent: 1  Rows_examined: 1\nuse shop;\nSET timestamp=1795427669;\n{text};\n"
        ),
        2 => format!(
            "# Time: 2026-11-23T09:54:29.{n}50000Z\n# User@Host: app[app] @ web1 [10.0.0.7]  Id:    12\n\
             Schema: shop  Last_errno: 0  Killed: 0\n\
             # Query_time: 0.0125  Lock_time: 0.000002  Rows_sent: 0  Rows_examined: 0  Rows_affected: 0  Bytes_sent: 11\n\
             SET timestamp=1795427669;\n{text};\n"
        ),
        _ => format!(
            "# User@Host: root[root] @ localhost []\n# Thread_id: 8  Schema: shop  QC_hit: No\n\
             # Query_time: 0.000290  Lock_time: 0.000000  Rows_sent: 0  Rows_examined: 0\n# Rows_affected: 0\n\
             # Text_bytes: {length}\nSET timestamp=1795427669;\n{text};\n"
        ),
    }
}

#[test]
fn a_literal_that_quotes_a_record_is_one_statement() {
    let quoting = "select 'x
# Time: 261123  9:54:29
# User@Host: root[root] @ localhost []
# Thread_id: 3  Schema: a shop  QC_hit: No
# Query_time: 0.000290  Lock_time: 0.000000  Rows_sent: 0  Rows_examined: 0
SET timestamp=1795427669;
delete from t;
'";
    let log = [record(0, 0, quoting), record(0, 1, "select 2")].concat();
    let recording = recording(&log);
    assert_eq!(texts(&recording), [(1, Some("shop"), quoting), (1, Some("shop"), "select 2")]);
    assert_eq!(recording.left_out, BTreeMap::from([(QUOTED.to_owned(), 1)]));
}

/// Returns the record of a syntax error, whose answer is long and has no rows.
fn broken(text: &str) -> String {
    record(0, 0, text).replace("Rows_sent: 1", "Rows_sent: 0").replace("Bytes_sent: 65", "Bytes_sent: 162")
}

#[test]
fn what_follows_a_broken_statement_is_read_if_it_was_broken_for_sure() {
    let after = [record(0, 1, "select 1"), record(0, 2, "delete from t")].concat();
    // Nothing closes the quote, so what follows is no part of it.
    let told = recording(&format!("{}{after}", broken("select 'it's'")));
    let expected = ["select 'it's'", "select 1", "delete from t"].map(|text| (1, Some("shop"), text));
    assert_eq!((texts(&told), told.left_out.len()), (expected.to_vec(), 0));
    // The same holds for a block that a client took apart.
    let taken_apart = "create event e on schedule at now() do begin insert into l values (99)";
    let told = recording(&format!("{}{after}{}", broken(taken_apart), broken("end")));
    assert_eq!(texts(&told).len(), 4, "{told:?}");
    // Another record may close it, and then nothing shows which of them are quoted.
    let told = recording(&format!("{}{after}{}{after}", broken("select 'it's'"), broken("select 'that's'")));
    let texts_there: Vec<&str> = texts(&told).into_iter().map(|(.., text)| text).collect();
    assert!(!texts_there.is_empty() && texts_there.len() < 6, "{texts_there:?}");
    // MySQL does not log the length of its answer: what may be quoted is left out, unless it is too long.
    let silent = |n: usize, text: &str| {
        record(1, n, text).replace("Rows_sent: 1  Rows_examined: 1", "Rows_sent: 0  Rows_examined: 0")
    };
    let few = recording(
        &[silent(0, "select 0"), silent(1, "select 'it's'"), record(1, 2, "delete from t")].concat(),
    );
    assert_eq!(texts(&few), [(1, Some("shop"), "select 0")]);
    assert_eq!(few.left_out.get(QUOTED), Some(&1));
    let many: String = (0..150).map(|n| record(1, n % 10, "delete from t")).collect();
    let many = recording(&[silent(0, "select 0"), silent(1, "select 'it's'"), many].concat());
    assert_eq!(texts(&many).len(), 152);
}

#[test]
fn lines_of_a_head_are_told_whatever_they_begin_with() {
    let percona = "# Time: 2026-11-23T09:54:29.250000Z
# User@Host: app[app] @ web1 [10.0.0.7]  Id:    12
Schema: a shop  Last_errno: 0  Killed: 0
# Query_time: 0.125000  Lock_time: 0.000002  Rows_sent: 1  Rows_examined: 1  Rows_affected: 0
# Bytes_sent: 56  Tmp_tables: 0  Tmp_disk_tables: 0  Tmp_table_sizes: 0
# InnoDB_trx_id: 0
#   InnoDB_IO_r_ops: 0  InnoDB_IO_r_bytes: 0  InnoDB_IO_r_wait: 0.000000
Log_slow_rate_type: query  Log_slow_rate_limit: 1
SET timestamp=1795427669;
# a comment
select 1;
# Time: 2026-11-23T09:54:30.250000Z
# User@Host: app[app] @ web1 [10.0.0.7]
# Query_time: 0.5  Lock_time: 0.0 Rows_sent: 1  Rows_examined: 1 Thread_id: 12 Errno: 0 Killed: 0 Bytes_received: 27 Bytes_sent: 56 Start: 2026-11-23T09:54:30Z End: 2026-11-23T09:54:30Z
SET timestamp=1795427670;
select 2;
";
    assert_eq!(
        texts(&recording(percona)),
        [(1, Some("a shop"), "# a comment\nselect 1"), (1, None, "select 2")]
    );
}

#[test]
fn warnings_may_have_any_line() {
    let head = "# User@Host: root[root] @ localhost []
# Thread_id: 19  Schema: shop  QC_hit: No
# Query_time: 0.000068  Lock_time: 0.000000  Rows_sent: 1  Rows_examined: 0
# Rows_affected: 0  Bytes_sent: 96
#
# explain: id\tselect_type\tExtra
# explain: 1\tSIMPLE\tThread_id: 7 Schema: x
#
# Warnings
# Warning 1292 Truncated incorrect DOUBLE value: 'a
# User@Host: root[root] @ localhost []
SET timestamp=1;
delete from t;
b'
SET timestamp=1795980357;
";
    let text = "select 'a\nSET timestamp=1;\ndelete from t;\nb'+1";
    let log = format!("# Time: 261129 19:25:57\n{head}{text};\n{}", record(0, 1, "select 2"));
    assert_eq!(texts(&recording(&log)), [(1, Some("shop"), text), (2, Some("shop"), "select 2")]);
    // A record has one statement, so it is the one that no other follows.
    let log = format!(
        "# Time: 261129 19:25:57\n{}select 3;\n{}",
        head.replace("b'\n", ""),
        record(0, 1, "select 2")
    );
    assert_eq!(texts(&recording(&log)), [(1, Some("shop"), "select 3"), (2, Some("shop"), "select 2")]);
}

#[test]
fn what_an_execute_ran_is_recorded_once() {
    let inner = record(0, 0, "insert into l values (4)").replace("Bytes_sent: 65", "Bytes_sent: 0");
    let log = [
        inner,
        record(0, 1, "execute immediate 'insert into l values (4)'"),
        record(0, 2, "execute immediate 'selec'"),
    ];
    let told = recording(&log.concat());
    let found: Vec<&str> = texts(&told).into_iter().map(|(.., text)| text).collect();
    assert_eq!(found, ["insert into l values (4)", "execute immediate 'selec'"]);
}

#[test]
fn parts_of_programs_and_of_blocks_are_left_to_what_runs_them() {
    let inner = |routine: &str| {
        record(0, 0, "insert into l values (4)")
            .replace("SET timestamp", &format!("# Stored_routine: {routine}\nSET timestamp"))
    };
    let log = [
        inner("shop.p"),
        record(0, 1, "call p()"),
        inner("."),
        record(0, 2, "begin not atomic insert into l values (4); end"),
    ];
    assert_eq!(texts(&recording(&log.concat())).len(), 2);
}

#[test]
fn bytes_come_as_they_were_sent() {
    let log = record(0, 0, "select '?'").into_bytes();
    let log: Vec<u8> = log.into_iter().map(|byte| if byte == b'?' { 0xff } else { byte }).collect();
    let told =
        read(&log[..], Dialect::default()).expect("it is read").expect("a log").finish(String::new(), true);
    assert_eq!(told.statements[0].text, b"select '\xff'");
    let json = "{\"time\":\"2026-11-23T09:54:29.250000Z\",\"thread_id\":8,\"event_name\":\"statement/sql/select\",\"level\":0,\
        \"charset\":\"latin1\",\"text\":\"select '\u{fffd}'\",\"text_hex\":\"73656c6563742027ff27\"}\n";
    let told = recording(json);
    assert_eq!(
        (&told.statements[0].text[..], told.statements[0].charset.as_deref()),
        (&b"select '\xff'"[..], Some("latin1"))
    );
}
