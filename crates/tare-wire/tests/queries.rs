//! What clients ask, and what they get.

mod fixture;

use fixture::*;
use mysql::consts::{ColumnFlags, ColumnType};
use mysql::prelude::Queryable;
use tare_engine::{Engine, MAX_RULES};

fn some(values: &[&str]) -> Vec<Option<String>> {
    values.iter().map(|value| Some((*value).to_owned())).collect()
}

#[test]
fn values_arrive_as_they_are() {
    let served = served();
    let mut client = served.client();
    let all: Vec<mysql::Row> = client.query("SELECT * FROM things").unwrap();
    let first: Vec<mysql::Value> = all[0].clone().unwrap();
    let bytes = |bytes: &[u8]| mysql::Value::Bytes(bytes.to_vec());
    assert_eq!(first[0], bytes(b"wait/io/file/sql/FRM"));
    assert_eq!(first[3], bytes(b"18446744073709551615"));
    assert_eq!(first[4], bytes(b"-9223372036854775808"));
    assert_eq!(first[6], bytes(b"1.00"));
    assert_eq!(first[7], bytes(b"2026-01-02 03:04:05"));
    assert_eq!(first[8], bytes(b"it's \\ \"q\"\n\0"));
    assert_eq!(first[9], bytes(&(0..=255).collect::<Vec<u8>>()));
    assert_eq!(
        rows(&mut client, "SELECT SEEN, DELTA, INFO FROM things WHERE AMOUNT = 2"),
        [vec![Some("0000-00-00 00:00:00".to_owned()), None, None]]
    );
}

#[test]
fn columns_are_described_as_the_server_does() {
    let served = served();
    let mut client = served.client();
    let result =
        client.query_iter("SELECT *, ENABLED AS e FROM performance_schema.things t LIMIT 0").unwrap();
    let columns = result.columns().as_ref().to_vec();
    let types: Vec<_> = columns.iter().map(|column| column.column_type()).collect();
    use ColumnType::*;
    assert_eq!(
        types,
        [
            MYSQL_TYPE_VAR_STRING,
            MYSQL_TYPE_STRING,
            MYSQL_TYPE_STRING,
            MYSQL_TYPE_LONGLONG,
            MYSQL_TYPE_LONGLONG,
            MYSQL_TYPE_LONG,
            MYSQL_TYPE_DOUBLE,
            MYSQL_TYPE_TIMESTAMP,
            MYSQL_TYPE_BLOB,
            MYSQL_TYPE_BLOB,
            MYSQL_TYPE_STRING,
        ]
    );
    let charsets: Vec<_> = columns.iter().map(|column| column.character_set()).collect();
    assert_eq!(charsets, [33, 33, 33, 63, 63, 63, 63, 63, 33, 63, 33]);
    let flags = |at: usize| columns[at].flags();
    assert!(flags(0).contains(ColumnFlags::NOT_NULL_FLAG | ColumnFlags::MULTIPLE_KEY_FLAG));
    assert!(flags(1).contains(ColumnFlags::ENUM_FLAG));
    assert!(flags(3).contains(ColumnFlags::UNSIGNED_FLAG));
    assert!(!flags(4).intersects(ColumnFlags::UNSIGNED_FLAG | ColumnFlags::NOT_NULL_FLAG));
    assert!(flags(9).contains(ColumnFlags::BLOB_FLAG | ColumnFlags::BINARY_FLAG));
    assert_eq!((columns[10].name_str().as_ref(), columns[10].org_name_str().as_ref()), ("e", "ENABLED"));
    assert_eq!(columns[0].column_length(), 128 * 3);
    assert_eq!(columns[6].decimals(), 2);
}

#[test]
fn text_beyond_utf8mb3_is_question_marks_for_those_who_read_utf8mb3() {
    let served = served();
    let mut client = served.client();
    let wide = rows(&mut client, "SELECT INFO FROM things WHERE NAME = 'idle'");
    assert_eq!(wide, [some(&["é 😀"])]);
    // The handshake of this one says utf8mb3, as FEDERATED's does.
    let mut stream = served.raw();
    packet(&mut stream).unwrap();
    send(&mut stream, &login());
    packet(&mut stream).unwrap();
    send(&mut stream, &framed(0, b"\x03SELECT INFO FROM things WHERE NAME = 'idle'"));
    let row = (0..4).map(|_| packet(&mut stream).unwrap().1).last().unwrap();
    // One for each byte, as in the built-in.
    assert_eq!(row, [&[7], "é ????".as_bytes()].concat());
}

/// What FEDERATED's captured statements must find.
#[test]
fn federated_reads_find_exactly_their_rows() {
    let served = served();
    let mut client = served.federated();
    let list = "SELECT `NAME`, `ENABLED`, `AMOUNT` FROM `things`";
    let low = "\\0".repeat(124);
    let high = "\u{ffff}".repeat(41);
    for (clause, expected) in [
        ("", &["wait/io/file/sql/FRM", "wait/synch/mutex/sql/LOCK_open", "idle", "Straße"][..]),
        (" WHERE  (`AMOUNT` = 2)", &["wait/synch/mutex/sql/LOCK_open"]),
        (
            " WHERE  (`AMOUNT` = 2)  AND  (`NAME` = 'WAIT/synch/mutex/sql/lock_OPEN ')",
            &["wait/synch/mutex/sql/LOCK_open"],
        ),
        (" WHERE  ( (`AMOUNT` = 3) ) AND ( (1=1) )", &["idle"]),
        (" WHERE  ( (`AMOUNT` = 3)  AND  (`NAME` = 'idle') ) AND ( (1=1)  AND  (1=1) )", &["idle"]),
        (" WHERE  ( (`AMOUNT` >= 3) ) AND ( (`AMOUNT` < 4) )", &["idle"]),
        (" WHERE  (`AMOUNT` > 3)", &["wait/io/file/sql/FRM", "Straße"]),
        (" WHERE  (`NAME` = 'strase')", &["Straße"]),
        (" WHERE  (`HOST` = 'alpha')", &["wait/synch/mutex/sql/LOCK_open"]),
        (" WHERE  (`ENABLED` = 'yes')", &["wait/io/file/sql/FRM", "idle"]),
        (" WHERE `DELTA` IS NULL  ", &["wait/synch/mutex/sql/LOCK_open"]),
        (" WHERE `DELTA` IS NOT NULL  ", &["wait/io/file/sql/FRM", "idle", "Straße"]),
        // A fault of FEDERATED's, of which the first half is meant.
        (" WHERE  (`DELTA` IS NULL ) AND (`DELTA` IS NOT NULL )", &["wait/synch/mutex/sql/LOCK_open"]),
        // Others: a bound that is NULL, within the range or not. The host looks again at the rows of a range.
        (
            " WHERE  (`DELTA` IS NOT NULL ) AND ( (`DELTA` < 3) )",
            &["wait/io/file/sql/FRM", "wait/synch/mutex/sql/LOCK_open", "idle"],
        ),
        (
            " WHERE  (`DELTA` IS NOT NULL  AND  (`NAME` > 'idle') ) AND (`DELTA` IS NOT NULL )",
            &["wait/synch/mutex/sql/LOCK_open"],
        ),
        (" WHERE  (`DELTA` IS NOT NULL ) AND (`DELTA` IS NOT NULL  AND  (`NAME` < 'wait') )", &[]),
        (
            " WHERE  (`ENABLED` = 'NO'  AND `DELTA` IS NOT NULL ) AND ( (`ENABLED` = 'NO') )",
            &["wait/synch/mutex/sql/LOCK_open", "Straße"],
        ),
        (" WHERE  (`DELTA` IS NULL  AND  (`NAME` = 'idle') ) AND (`DELTA` IS NOT NULL  AND  (1=1) )", &[]),
        (" WHERE  (`SEEN` > '2026-01-01 00:00:00')", &["wait/io/file/sql/FRM"]),
        (" WHERE  (`SEEN` = '0000-00-00 00:00:00')", &["wait/synch/mutex/sql/LOCK_open"]),
        (" WHERE  (`NAME` LIKE 'wait/io%')", &["wait/io/file/sql/FRM"]),
        (" WHERE 1=0", &[]),
    ] {
        assert_eq!(names(&mut client, &format!("{list}{clause}")), expected, "{clause}");
    }
    let prefix = format!(
        "{list} WHERE  ( (`AMOUNT` >= 0)  AND  (`NAME` >= 'wait{low}') ) AND ( (`AMOUNT` <= 9)  AND  (`NAME` <= 'wait{high}  ') )"
    );
    assert_eq!(names(&mut client, &prefix), ["wait/synch/mutex/sql/LOCK_open"]);
    let status = rows(&mut client, "SHOW TABLE STATUS LIKE 'things'");
    assert!(status[0].len() >= 14 && status[0][4].as_ref().unwrap().parse::<u64>().unwrap() >= 2);
    assert_eq!(status[0][12..14], [None, None]);
}

#[test]
fn what_surrounds_federated_statements_is_accepted() {
    let served = served();
    let mut client = served.federated();
    for sql in [
        "set time_zone='+00:00'",
        "SAVEPOINT save1",
        "ROLLBACK TO SAVEPOINT save2",
        "RELEASE SAVEPOINT save2",
        "COMMIT",
        "ROLLBACK",
        "SET AUTOCOMMIT=1",
        "START TRANSACTION",
        "SET NAMES utf8mb4",
        "OPTIMIZE TABLE `things`",
        "REPAIR TABLE `things` QUICK EXTENDED",
        "use performance_schema",
        ";",
        "",
        "/* nothing */ ; ",
    ] {
        client.query_drop(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    assert_eq!(error(&mut client, "SET time_zone='Europe/Berlin'").0, 1298);
}

#[test]
fn direct_clients_select_sort_limit_and_count() {
    let served = served();
    let mut client = served.client();
    for (sql, expected) in [
        (
            "select name from THINGS order by name",
            &["idle", "Straße", "wait/io/file/sql/FRM", "wait/synch/mutex/sql/LOCK_open"][..],
        ),
        (
            "select t.name n from performance_schema.things as t where t.amount<=4 order by amount desc limit 2",
            &["Straße", "idle"],
        ),
        ("select name from things order by 1 limit 1 offset 1", &["Straße"]),
        (
            "select name from things order by enabled, amount limit 1, 2",
            &["wait/io/file/sql/FRM", "wait/synch/mutex/sql/LOCK_open"],
        ),
        (
            "select name from things where name in ('idle', 'nothing') or amount between 4 and 5",
            &["idle", "Straße"],
        ),
        ("select name from things where not (name like 'wait/%') and host is not null", &["Straße"]),
        ("select name from things where name not like '%\\_open' and delta <=> null", &[]),
        ("select name from things where delta <=> null", &["wait/synch/mutex/sql/LOCK_open"]),
        ("select name from things where raw = x'' and info = ''", &["Straße"]),
        (
            "select name from things where amount = 18446744073709551615 or amount = '3'",
            &["wait/io/file/sql/FRM", "idle"],
        ),
        ("select name from things where ratio = 1.00 and amount < 3", &["wait/synch/mutex/sql/LOCK_open"]),
        ("select name from things limit 0", &[]),
        ("select name from things where delta is null and delta is not null", &[]),
        ("select label from broken where 1=0", &[]),
        ("select label from broken where id = 1 and (1=1 and null = 1)", &[]),
        ("select count(*) from things where amount < 5", &["3"]),
        ("select count(delta) from things", &["3"]),
        ("select sum(amount) from things", &["18446744073709551624"]),
        ("select min(name) from things", &["idle"]),
        ("select max(seen) from things", &["2026-01-02 03:04:05"]),
        ("select max(delta) from things where name = 'nothing'", &["NULL"]),
        ("select count(*) from big where id >= 999999", &["1"]),
        ("select id from big order by id desc limit 1", &["999999"]),
    ] {
        assert_eq!(names(&mut client, sql), expected, "{sql}");
    }
}

#[test]
fn mistakes_are_named() {
    let served = served();
    let mut client = served.client();
    for (sql, code) in [
        ("SELECT * FROM nothing", 1146),
        ("SELECT * FROM mysql.things", 1146),
        ("SELECT nothing FROM things", 1054),
        ("SELECT x.NAME FROM things t", 1054),
        ("SELECT NAME FROM things ORDER BY 5", 1054),
        ("SELECT NAME FROM things WHERE", 1064),
        ("SELECT NAME FROM things WHERE NAME = ", 1064),
        ("SELECT 'abc", 1064),
        ("SELECT NAME, COUNT(*) FROM things", 1235),
        ("SELECT NAME FROM things GROUP BY NAME", 1235),
        ("SELECT DISTINCT NAME FROM things", 1235),
        ("SELECT * FROM things JOIN big", 1235),
        ("SELECT SLEEP(1)", 1235),
        ("CREATE TABLE x (a int)", 1235),
        ("SELECT @@nothing", 1193),
        ("USE mysql", 1049),
        ("SELECT 1; SELECT 2", 1064),
        ("SELECT LABEL FROM big ORDER BY LABEL", 1038),
        ("UPDATE big SET ID = 1", 1142),
        ("DELETE FROM big", 1142),
        ("INSERT INTO big VALUES (1, 'x')", 1142),
        ("TRUNCATE big", 1683),
        ("UPDATE things SET NAME = 'x'", 1683),
        ("UPDATE things SET ENABLED = 'MAYBE'", 1265),
        ("UPDATE things SET ENABLED = NULL", 1048),
        ("UPDATE things SET AMOUNT = -1", 1264),
        ("INSERT INTO things (NAME) VALUES ('x')", 1364),
        ("INSERT INTO things () VALUES ()", 1364),
        ("REPLACE INTO things (NAME, ENABLED, AMOUNT, SEEN) VALUES ('idle', 'NO', 1, '2026-01-02')", 1062),
        ("INSERT INTO things (NAME, ENABLED) VALUES ('x')", 1136),
    ] {
        assert_eq!(error(&mut client, sql).0, code, "{sql}");
    }
    let (_, text) = error(&mut client, "SELECT DISTINCT NAME FROM things");
    assert!(text.contains("DISTINCT is not supported here") && text.contains("through the server"), "{text}");
    let depth = "(".repeat(100_000);
    assert_eq!(error(&mut client, &format!("SELECT 1 FROM things WHERE {depth}1")).0, 1064);
    let depth = "NOT (".repeat(2000);
    assert_eq!(error(&mut client, &format!("SELECT 1 FROM things WHERE {depth}1")).0, 1064);
    let many = "1,".repeat(40_000);
    assert_eq!(error(&mut client, &format!("SELECT 1 FROM things WHERE AMOUNT IN ({many}1)")).0, 1064);
    assert_eq!(rows(&mut client, "SELECT 1"), [some(&["1"])]);
}

#[test]
fn nesting_up_to_the_bound_fits_the_stack() {
    let served = served();
    let mut client = served.client();
    let nested = format!("{}1{}", "NOT (AMOUNT = 2 OR (".repeat(11), "))".repeat(11));
    assert_eq!(rows(&mut client, &format!("SELECT COUNT(*) FROM things WHERE {nested}")).len(), 1);
}

#[test]
fn rows_are_written_and_counted() {
    let served = served();
    let mut client = served.client();
    let mut affected = |sql: &str| {
        client.query_drop(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        client.affected_rows()
    };
    // This client asks for the rows found, not for those changed.
    assert_eq!(affected("UPDATE things SET ENABLED = 'no' WHERE NAME LIKE 'wait/%'"), 2);
    assert_eq!(
        affected("UPDATE things SET ENABLED = 'YES', DELTA = NULL WHERE AMOUNT = 2 AND ENABLED = 'NO'"),
        1
    );
    assert_eq!(affected("UPDATE things SET ENABLED = 'YES' WHERE NAME = 'nothing'"), 0);
    assert_eq!(affected("UPDATE things SET SMALL = 9 LIMIT 1"), 1);
    assert_eq!(affected("DELETE FROM things WHERE HOST = 'Alpha'"), 1);
    let columns = "(`NAME`, `ENABLED`, `AMOUNT`, `SEEN`, `INFO`, `RAW`)";
    let insert = format!(
        "INSERT INTO `things` {columns}  VALUES  ('a', 'YES', 1, '2026-01-02 03:04:05', 'x\\'y', x'00ff') , ('b', 2, 2, '2026-01-02',  NULL ,  NULL )"
    );
    assert_eq!(affected(&insert), 2);
    assert_eq!(affected(&insert.replace("INSERT", "INSERT IGNORE").replace("'a'", "'c'")), 1);
    assert_eq!(error(&mut client, &insert).0, 1062);
    assert_eq!(
        rows(&mut client, "SELECT NAME, ENABLED, SEEN, INFO FROM things WHERE NAME IN ('a', 'b')"),
        [
            some(&["a", "YES", "2026-01-02 03:04:05", "x'y"]),
            vec![Some("b".into()), Some("NO".into()), Some("2026-01-02 00:00:00".into()), None],
        ]
    );
    let mut other = served.federated();
    other.query_drop("UPDATE things SET ENABLED = 'YES' WHERE NAME IN ('a', 'b')").unwrap();
    assert_eq!(other.affected_rows(), 1);
    client.query_drop("TRUNCATE `things`").unwrap();
    assert!(rows(&mut client, "SELECT * FROM things").is_empty());
}

/// Checks an INSERT in the form in which FEDERATED sends the rows of a restored dump.
#[test]
fn one_insert_brings_as_many_rules_as_there_may_be() {
    static ENGINE: Engine = Engine::new();
    let served = served_with(|config| {
        config.engine = &ENGINE;
        config.tables = tare_tables::Shape::Extended.served();
    });
    let mut client = served.federated();
    let insert = |rules: std::ops::Range<usize>| {
        let rules: Vec<String> =
            rules.map(|rule| format!("('10.0.0.{rule}', 'shop', '%', 'YES', 'NO')")).collect();
        let columns = "(`HOST`, `USER`, `ROLE`, `ENABLED`, `HISTORY`)";
        format!("INSERT INTO `setup_actors` {columns}  VALUES  {}", rules.join(" , "))
    };
    client.query_drop(insert(0..MAX_RULES)).unwrap();
    assert_eq!(client.affected_rows(), MAX_RULES as u64);
    assert_eq!(names(&mut client, "SELECT COUNT(*) FROM setup_actors"), [MAX_RULES.to_string()]);
    // Of more the table says what is wrong with them.
    assert_eq!(error(&mut client, &insert(MAX_RULES..3 * MAX_RULES)).0, 1114);
}

/// FEDERATED names a row by its key and by what it held when it was read, which may be over by now.
#[test]
fn federated_writes_find_their_row_by_its_key() {
    let served = served();
    let mut client = served.federated();
    client
        .query_drop("UPDATE `things` SET `ENABLED` = 'NO' WHERE `NAME` = 'idle' AND `AMOUNT` = 99")
        .unwrap();
    assert_eq!(names(&mut client, "SELECT `ENABLED` FROM `things` WHERE  (`NAME` = 'idle')"), ["NO"]);
    client
        .query_drop("UPDATE `things` SET `SMALL` = 1 WHERE  (`DELTA` IS NULL ) AND (`DELTA` IS NOT NULL )")
        .unwrap();
    assert_eq!(names(&mut client, "SELECT `AMOUNT` FROM `things` WHERE `SMALL` = 1"), ["2"]);
    client.query_drop("DELETE FROM `things` WHERE `NAME` = 'idle' AND `ENABLED` = 'YES' LIMIT 1").unwrap();
    assert_eq!(names(&mut client, "SELECT `NAME` FROM `things` WHERE  (`NAME` = 'idle')"), [""; 0]);
    // Names that differ in letter case only are names of different rows, whichever comes first.
    for name in ["twin", "Twin", "TWIN"] {
        let values = format!("('{name}', 'YES', 5, '2026-01-02')");
        client
            .query_drop(format!(
                "INSERT INTO `things` (`NAME`, `ENABLED`, `AMOUNT`, `SEEN`)  VALUES  {values}"
            ))
            .unwrap();
    }
    client
        .query_drop("UPDATE `things` SET `AMOUNT` = 6 WHERE `NAME` = 'TWIN' AND `AMOUNT` = 5 LIMIT 1")
        .unwrap();
    client.query_drop("DELETE FROM `things` WHERE `NAME` = 'Twin' AND `AMOUNT` = 5 LIMIT 1").unwrap();
    assert_eq!(
        rows(&mut client, "SELECT `NAME`, `AMOUNT` FROM `things` WHERE  (`NAME` = 'twin')"),
        [some(&["twin", "5"]), some(&["TWIN", "6"])]
    );
    // Others mean what they say.
    let mut direct = served.client();
    direct.query_drop("UPDATE things SET ENABLED = 'YES' WHERE NAME = 'Straße' AND AMOUNT = 99").unwrap();
    assert_eq!(names(&mut direct, "SELECT ENABLED FROM things WHERE NAME = 'Straße'"), ["NO"]);
}

#[test]
fn clients_learn_what_there_is() {
    let served = served();
    let mut client = served.client();
    assert_eq!(names(&mut client, "SHOW TABLES"), ["things", "big", "wide", "broken"]);
    assert_eq!(
        rows(&mut client, "SHOW FULL TABLES FROM performance_schema LIKE 'th%'"),
        [some(&["things", "BASE TABLE"])]
    );
    assert_eq!(names(&mut client, "SHOW DATABASES"), ["performance_schema"]);
    assert_eq!(
        rows(&mut client, "DESCRIBE big")[0],
        [
            Some("ID".into()),
            Some("bigint(20) unsigned".into()),
            Some("NO".into()),
            Some("MUL".into()),
            None,
            Some(String::new()),
        ]
    );
    assert_eq!(
        rows(&mut client, "SHOW FULL COLUMNS FROM things LIKE 'host'")[0][2].as_deref(),
        Some("utf8mb3_bin")
    );
    assert_eq!(rows(&mut client, "SHOW INDEX FROM things").len(), 3);
    let ddl = rows(&mut client, "SHOW CREATE TABLE `performance_schema`.`things`");
    assert!(ddl[0][1].as_ref().unwrap().contains("`ENABLED` enum('YES','NO')"));
    assert_eq!(rows(&mut client, "select @@version_comment limit 1"), [some(&["tare"])]);
    assert_eq!(
        rows(&mut client, "SELECT VERSION(), DATABASE(), USER(), 'x' AS `a b`, -1, NULL"),
        [vec![
            Some("10.11.19-MariaDB-tare".into()),
            Some("performance_schema".into()),
            Some("root@localhost".into()),
            Some("x".into()),
            Some("-1".into()),
            None
        ]]
    );
    assert_eq!(
        rows(&mut client, "SHOW VARIABLES LIKE 'version'"),
        [some(&["version", "10.11.19-MariaDB-tare"])]
    );
    assert!(rows(&mut client, "SHOW WARNINGS").is_empty());
    client.ping().unwrap();
    client.select_db("performance_schema").unwrap();
    client.reset().unwrap();
    assert!(client.prep("SELECT 1").is_err());
    assert_eq!(rows(&mut client, "SELECT 1"), [some(&["1"])]);
}

#[test]
fn a_value_longer_than_a_packet_arrives_whole() {
    let served = served();
    let options = mysql::OptsBuilder::new().socket(served.path.to_str()).prefer_socket(false);
    let mut client = mysql::Conn::new(options.max_allowed_packet(Some(64 << 20))).unwrap();
    let row: Option<(u64, String)> = client.query_first("SELECT * FROM wide").unwrap();
    let (_, label) = row.unwrap();
    assert_eq!(label.len(), WIDE);
    assert!(label.bytes().all(|byte| byte == b'x'));
    client.ping().unwrap();
}

#[test]
fn another_schema_is_refused_at_the_door() {
    let served = served();
    let options =
        mysql::OptsBuilder::new().socket(served.path.to_str()).prefer_socket(false).db_name(Some("mysql"));
    match mysql::Conn::new(options) {
        Err(mysql::Error::MySqlError(error)) => assert_eq!(error.code, 1049),
        other => panic!("{:?}", other.map(|_| ())),
    }
}

/// The real tables, from an engine that has seen nothing.
#[test]
fn every_table_is_served() {
    let served = served_with(|config| config.tables = tare_tables::Shape::Extended.served());
    let mut client = served.client();
    assert_eq!(names(&mut client, "SHOW TABLES").len(), tare_tables::Shape::Extended.served().len());
    for table in tare_tables::Shape::Extended.served() {
        let name = table.name();
        let columns: Vec<_> = table.columns().iter().map(|column| column.name.to_owned()).collect();
        assert_eq!(names(&mut client, &format!("DESCRIBE {name}")), columns);
        let list = format!("`{}`", columns.join("`, `"));
        let all = rows(&mut client, &format!("SELECT {list} FROM `{name}`"));
        assert!(all.iter().all(|row| row.len() == columns.len()), "{name}");
        let count = rows(&mut client, &format!("SELECT COUNT(*) FROM {name}"));
        assert_eq!(count, [vec![Some(all.len().to_string())]], "{name}");
    }
    assert_eq!(
        names(&mut client, "SELECT NAME FROM setup_consumers WHERE NAME = 'STATEMENTS_DIGEST'"),
        ["statements_digest"]
    );
}
