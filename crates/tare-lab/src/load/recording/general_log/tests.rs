//! Tests with logs as servers write them, and with misleading ones.

use super::*;
use crate::load::recording::quoting;
use crate::load::recording::{SessionStatement, StatementRecording};

fn recording(log: &str) -> StatementRecording {
    read(log.as_bytes(), Dialect::default(), Programs::default())
        .expect("it is read")
        .expect("a general log")
        .finish("a test".into(), true)
}

fn text(statement: &SessionStatement) -> &str {
    std::str::from_utf8(&statement.text).expect("UTF-8")
}

fn texts(recording: &StatementRecording) -> Vec<(u32, Option<&str>, &str)> {
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

fn found(recording: &StatementRecording) -> Vec<&str> {
    recording.statements.iter().map(text).collect()
}

#[test]
fn statements_that_quote_logs_are_read_as_they_were_sent() {
    let others = [
        "Init DB\tshop",
        "Field List\tt *",
        "Statistics\t",
        "Close stmt\t",
        "Reset stmt\t",
        "Fetch\t",
        "Ping",
        "Prepare\tselect ?",
        "Long Data\t",
        "Set option\t",
        "Some command\tx",
    ];
    let mut random = fastrand::Rng::with_seed(54);
    for round in 0..400 {
        let sent: Vec<String> = (0..random.usize(1..5)).map(|_| quoting::statement(&mut random)).collect();
        let head = ["261123  9:54:29\t     8 ", "\t\t     8 ", "2026-11-23T09:54:29.250000Z\t    8 "];
        let mut log =
            format!("{}Connect\tapp@web1 on shop using TCP/IP\n", head[if round % 2 == 0 { 0 } else { 2 }]);
        let head = head[if round % 2 == 0 { random.usize(0..2) } else { 2 }];
        let mut last = 0;
        for statement in &sent {
            last = log.len();
            log.push_str(&format!("{head}Query\t{statement}\n"));
            if random.bool() {
                log.push_str(&format!("{head}{}\n", others[random.usize(0..others.len())]));
            }
        }
        let expected: Vec<&str> = sent.iter().map(|it| it.trim_end()).collect();
        assert_eq!(found(&recording(&log)), expected, "{log}");
        let ends: Vec<usize> = (last..log.len()).filter(|end| log.is_char_boundary(*end)).collect();
        for end in (0..40).map(|_| ends[random.usize(0..ends.len())]) {
            let cut = recording(&log[..end]);
            assert!(
                found(&cut).iter().zip(&expected).all(|(found, sent)| found == sent),
                "{:?}: {cut:?}",
                &log[..end]
            );
        }
    }
}

#[test]
fn what_follows_a_broken_statement_is_left_out_unless_it_is_too_much_to_be_quoted() {
    let log = |count: usize| {
        let after = "\t\t     3 Query\tdelete from t\n".repeat(count);
        format!("261123  9:54:29\t     3 Query\tselect 1\n\t\t     3 Query\tselect 'it's'\n{after}")
    };
    let few = recording(&log(3));
    assert_eq!((found(&few), few.left_out.get(QUOTED)), (vec!["select 1"], Some(&3)));
    let many = recording(&log(150));
    assert_eq!((many.statements.len(), many.left_out.len()), (152, 0));
}

#[test]
fn a_packet_is_as_many_statements_as_it_has() {
    let log = "261123  9:54:29\t     3 Query\tinsert into t values (1); use other; insert into t values (';') ; select 4
\t\t     3 Query\tselect 5
";
    let told = recording(log);
    let all: Vec<_> = told.statements.iter().map(|s| (text(s), s.schema.as_deref(), s.is_joined)).collect();
    assert_eq!(
        all,
        [
            ("insert into t values (1)", None, false),
            ("use other", None, true),
            ("insert into t values (';')", Some("other"), true),
            ("select 4", Some("other"), true),
            ("select 5", Some("other"), false),
        ]
    );
}

/// A log of MariaDB with `log_disabled_statements = ''`.
const PROGRAMS: &str = "261129 19:17:30\t     8 Connect\troot@localhost on  using Socket
\t\t     8 Query\tcreate procedure `shop`.p(x int) begin insert into t(n) values (x); insert into t(n) values(42); set @z=9; execute s using @z; end
\t\t     8 Query\tcreate function f(x int) returns int begin insert into l values (x); insert into l values (5); return x+1; end
\t\t     8 Query\tcreate trigger tr after insert on shop.t for each row begin insert into l values (new.n); insert into l values (1000); end
\t\t     8 Query\tcreate event e on schedule at now() do begin insert into l values (99); end
\t\t     9 Query\tinsert into l values (99)
\t\t     8 Query\tcall shop.p(1)
\t\t     8 Query\tinsert into t(n) values ( NAME_CONST('x',1))
\t\t     8 Query\tinsert into l values (new.n)
\t\t     8 Query\tinsert into l values (1000)
\t\t     8 Query\tinsert into t(n) values(42)
\t\t     8 Query\tinsert into l values (new.n)
\t\t     8 Query\tinsert into l values (1000)
\t\t     8 Query\tSET @z=9
\t\t     8 Query\texecute s using @z
\t\t     8 Query\tselect f(2)
\t\t     8 Query\tinsert into l values ( NAME_CONST('x',2))
\t\t     8 Query\tinsert into l values (5)
\t\t     8 Query\tinsert into t(n) values (8)
\t\t     8 Query\tinsert into l values (new.n)
\t\t     8 Query\tinsert into l values (1000)
\t\t     8 Query\tdo 1; begin not atomic insert into l values (1); insert into l values (2); end
\t\t     8 Query\tinsert into l values (1)
\t\t     8 Query\tinsert into l values (2)
\t\t     8 Execute\tinsert into t(n) values (7)
\t\t     8 Query\tinsert into l values (new.n)
\t\t     8 Query\tinsert into l values (1000)
\t\t     8 Query\tselect 1 as new, new.n from t new
\t\t     8 Query\tinsert into l values (1000)
";

#[test]
fn parts_of_programs_are_left_to_what_runs_them() {
    let told = recording(PROGRAMS);
    let sent = [
        "call shop.p(1)",
        "select f(2)",
        "insert into t(n) values (8)",
        "do 1",
        "begin not atomic insert into l values (1); insert into l values (2); end",
        "insert into t(n) values (7)",
        "select 1 as new, new.n from t new",
        "insert into l values (1000)",
    ];
    assert_eq!(found(&told)[4..], sent);
    assert_eq!(told.left_out, BTreeMap::from([(PROGRAM.to_owned(), 10), (EVENTS.to_owned(), 1)]));
}

#[test]
fn programs_are_known_from_a_dump() {
    let dump = "-- a dump
/*!50003 SET sql_mode = '' */ ;
DELIMITER ;;
/*!50003 CREATE*/ /*!50017 DEFINER=`root`@`localhost`*/ /*!50003 trigger tr after insert on t for each row begin insert into l values (new.n); insert into l values (1000); end */;;
DELIMITER ;
DELIMITER ;;
CREATE DEFINER=`root`@`localhost` FUNCTION `f`(x int) RETURNS int(11)
begin insert into l values (5); return x+1; end ;;
DELIMITER ;
";
    let programs = Programs::read(dump.as_bytes(), Dialect::default()).expect("it is read");
    let log = "261129 19:17:30\t     8 Query\tinsert into t(n) values (f(8))
\t\t     8 Query\tinsert into l values (5)
\t\t     8 Query\tinsert into l values (1000)
\t\t     8 Query\tselect 1
";
    let told = read(log.as_bytes(), Dialect::default(), programs)
        .expect("it is read")
        .expect("a log")
        .finish(String::new(), true);
    assert_eq!(found(&told), ["insert into t(n) values (f(8))", "select 1"]);
}
