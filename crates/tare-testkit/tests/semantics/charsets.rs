//! Clients with other character sets: what they said is shown as the built-in shows it, and counted under the
//! same digests.

use mysql::prelude::Queryable;
use mysql::{Conn, Value};
use tare_testkit::server::{Server, StartSettings};
use tare_testkit::shared_turn;
use tare_testkit::subject::TestProvider;

use crate::raw::Raw;
use crate::until;

/// Bytes of SQL_TEXT that are kept.
const KEPT: usize = 100;

/// What the built-in answers, and what the provider under test does; `None` where its tables are not on its
/// port.
fn both<A>(answers: impl Fn(&Server) -> A) -> Option<(A, A)> {
    let start = |provider| {
        Server::start(StartSettings::new(provider).provider_option("max-sql-text-length", KEPT))
            .unwrap()
            .on_its_port()
    };
    let expected = answers(&start(TestProvider::BuiltIn)?);
    Some((expected, answers(&start(TestProvider::under_test())?)))
}

/// A client whose statements are looked at by another.
struct Client {
    raw: Raw,
    reader: Conn,
    thread: u64,
}

/// What the history says of a statement, text in hexadecimal.
type Said = [Option<String>; 5];

impl Client {
    fn connect(server: &Server) -> Client {
        let (raw, mut reader) = (Raw::connect(server, 45, &[]), server.client().unwrap());
        let sql = "SELECT THREAD_ID FROM performance_schema.threads WHERE PROCESSLIST_ID = ?";
        let thread = reader.exec_first(sql, (raw.connection_id,)).unwrap().unwrap();
        Client { raw, reader, thread }
    }

    fn send(&mut self, sql: &[u8]) {
        self.raw.query(sql);
    }

    /// What the history says of the last of these, when the last one has ended.
    fn said(&mut self, count: usize) -> Vec<Said> {
        self.send(b"DO 'the end'");
        let sql = format!(
            "SELECT HEX(SQL_TEXT), DIGEST, DIGEST_TEXT, CONCAT(MYSQL_ERRNO, ''), MESSAGE_TEXT \
             FROM performance_schema.events_statements_history_long WHERE THREAD_ID = {} ORDER BY EVENT_ID",
            self.thread
        );
        let end: String = b"DO 'the end'".iter().map(|byte| format!("{byte:02X}")).collect();
        let is_there = |rows: &Vec<mysql::Row>| {
            rows.last().is_some_and(|row| row.get::<Option<String>, _>(0).flatten().as_ref() == Some(&end))
        };
        let rows: Vec<mysql::Row> = until(|| self.reader.query(&sql).unwrap(), is_there);
        let text = |value: Value| match value {
            Value::NULL => None,
            value => Some(mysql::from_value::<String>(value)),
        };
        let said = |row: mysql::Row| -> Said {
            row.unwrap().into_iter().map(text).collect::<Vec<_>>().try_into().unwrap()
        };
        let from = rows.len().checked_sub(count + 1).expect("all are in the history");
        let mut said: Vec<Said> = rows.into_iter().skip(from).map(said).collect();
        said.pop();
        said
    }
}

/// The character sets a client may have, with one that no server takes left out by the server itself.
fn charsets(conn: &mut Conn) -> Vec<String> {
    let all: Vec<String> =
        conn.query("SELECT CHARACTER_SET_NAME FROM information_schema.CHARACTER_SETS ORDER BY 1").unwrap();
    let taken =
        all.into_iter().filter(|charset| conn.query_drop(format!("SET NAMES {charset}")).is_ok()).collect();
    conn.query_drop("SET NAMES utf8mb4").unwrap();
    taken
}

/// Statements whose texts and names are bytes of every kind: whole characters, broken ones, and such that are
/// cut where the text is.
fn statements() -> Vec<Vec<u8>> {
    let mut statements = Vec::new();
    let high: Vec<u8> = (0x80..=0xff).collect();
    for part in high.chunks(32) {
        statements.push([b"SELECT '", part, b"'"].concat());
        statements.push([b"SELECT 1 AS `", part, b"`"].concat());
    }
    // What is one character in some set, so often that the bound falls into one, at each of its bytes.
    for character in ["é", "中", "日", "ｱ", "я", "한", "😀", "a"] {
        for (at, charset) in
            [&b"\xe9"[..], b"\xd6\xd0", b"\x93\xfa", b"\xb1\xa1", b"\x8f\xb0\xa1", character.as_bytes()]
                .into_iter()
                .enumerate()
        {
            let text = charset.repeat(80);
            statements.push([&b"SELECT   '"[..10 - at % 4], &text, b"'"].concat());
            statements.push([b"SELECT 1 FROM nowhere.`", charset, b"`"].concat());
        }
    }
    // A generator of its own, so that every run asks the same.
    let mut state = 42u64;
    let mut next = |bound: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    };
    for _ in 0..40 {
        let len = next(130);
        let text: Vec<u8> =
            (0..len).map(|_| if next(3) == 0 { b'a' } else { 0x40 + next(0xc0) as u8 }).collect();
        statements.push([b"SELECT '", &text[..], b"'"].concat());
    }
    statements.push(b"SELECT 'ab\0c'".to_vec());
    statements.push(b"\xff".to_vec());
    statements.push([b"SELECT '".to_vec(), vec![b'x'; KEPT - 9], b"'".to_vec()].concat());
    statements.push([b"SELECT '".to_vec(), vec![b'x'; KEPT - 8], b"'".to_vec()].concat());
    statements
}

#[test]
fn statements_in_every_character_set_read_as_with_the_built_in() {
    let _turn = shared_turn();
    let statements = statements();
    let answers = |server: &Server| {
        let mut client = Client::connect(server);
        let charsets = charsets(&mut client.reader);
        assert!(charsets.len() > 30, "{charsets:?}");
        let said = |charset: &String| {
            client.send(format!("SET NAMES {charset}").as_bytes());
            statements.iter().for_each(|statement| client.send(statement));
            client.send(b"SET NAMES utf8mb4");
            (charset.clone(), client.said(statements.len() + 1))
        };
        charsets.iter().map(said).collect::<Vec<_>>()
    };
    let Some((expected, found)) = both(answers) else { return };
    assert_eq!(expected.len(), found.len());
    for ((charset, expected), (_, found)) in expected.iter().zip(&found) {
        for ((statement, expected), found) in statements.iter().zip(expected).zip(found) {
            let statement = statement.escape_ascii();
            assert_eq!(found, expected, "{charset}: {statement}");
        }
    }
}

/// Statements that need nothing, so that each is what it is whatever came before.
const PLAIN: &[&str] = &[
    "BEGIN",
    "COMMIT",
    "ROLLBACK",
    "UNLOCK TABLES",
    "SHOW TABLES",
    "SHOW DATABASES",
    "SHOW WARNINGS",
    "SHOW ERRORS",
    "SHOW STATUS LIKE 'no such'",
    "SHOW VARIABLES LIKE 'no such'",
    "SHOW PROCESSLIST",
    "SHOW PLUGINS",
    "SHOW ENGINES",
    "SHOW GRANTS",
    "SHOW COLLATION LIKE 'no such'",
    "SHOW CHARACTER SET LIKE 'no such'",
    "SHOW OPEN TABLES",
    "SHOW TRIGGERS",
    "SHOW EVENTS",
    "SELECT 1",
    "SELECT 1, 2",
    "SELECT NULL",
    "SELECT (1)",
    "SELECT @a",
    "SELECT @@sql_mode",
    "SELECT DATABASE()",
    "SELECT * FROM mysql.no_such_table",
    "SELECT 1 UNION SELECT 2",
    "DO 1",
    "SET @a = 1",
    "SET @b = 1",
    "SET autocommit = 1",
    "RELEASE SAVEPOINT s",
    "SAVEPOINT s",
    "ROLLBACK TO s",
    "XA RECOVER",
    "HANDLER t CLOSE",
    "DEALLOCATE PREPARE p",
    "KILL QUERY 999999999",
    "HELP 'no such'",
];

/// Without the USE before: its answer may come before it is counted, and it is counted after the TRUNCATE
/// then.
const DIGESTS: &str = "SELECT SCHEMA_NAME, DIGEST, DIGEST_TEXT, COUNT_STAR, SUM_ERRORS \
    FROM performance_schema.events_statements_summary_by_digest \
    WHERE DIGEST_TEXT NOT LIKE '%performance_schema%' AND DIGEST_TEXT NOT LIKE 'USE %' ORDER BY 1, 2";

#[test]
fn every_statement_in_every_character_set_counts_under_its_digest() {
    let _turn = shared_turn();
    type Row = (Option<String>, Option<String>, Option<String>, u64, u64);
    let answers = |server: &Server| -> (Vec<Vec<Said>>, Vec<Row>) {
        let mut client = Client::connect(server);
        let charsets = charsets(&mut client.reader);
        client.send(b"USE mysql");
        // In the order of the report, which two runs over the list do not have.
        client.reader.query_drop("TRUNCATE performance_schema.events_statements_summary_by_digest").unwrap();
        let first = ["UNLOCK TABLES", "SET NAMES latin1", "SHOW TABLES", "SHOW TABLES"];
        first.iter().for_each(|sql| client.send(sql.as_bytes()));
        let mut said = vec![client.said(first.len())];
        for charset in &charsets {
            client.send(format!("SET NAMES {charset}").as_bytes());
            PLAIN.iter().for_each(|sql| client.send(sql.as_bytes()));
            said.push(client.said(PLAIN.len()));
        }
        (said, client.reader.query(DIGESTS).unwrap())
    };
    let Some((expected, found)) = both(answers) else { return };
    for (expected, found) in expected.0.iter().flatten().zip(found.0.iter().flatten()) {
        assert_eq!(found, expected);
    }
    for (expected, found) in expected.1.iter().zip(&found.1) {
        assert_eq!(found, expected);
    }
    let counts = |(said, rows): (Vec<Vec<Said>>, Vec<Row>)| (said.len(), rows.len());
    assert!(found.1.len() > PLAIN.len() / 2, "{found:?}");
    assert_eq!(counts(found), counts(expected));
}

#[test]
fn one_statement_of_several_clients_is_one_row_that_the_first_one_spells() {
    let _turn = shared_turn();
    let answers = |server: &Server| {
        let mut reader = server.client().unwrap();
        reader.query_drop("CREATE DATABASE shop").unwrap();
        reader.query_drop("TRUNCATE performance_schema.events_statements_summary_by_digest").unwrap();
        let said = ["utf8mb4", "cp1251", "latin1", "utf8mb3", "gbk", "koi8r", "binary"].map(|charset| {
            let mut client = Client::connect(server);
            client.send(b"USE shop");
            client.send(format!("SET NAMES {charset}").as_bytes());
            client.send(b"SELECT 'a', 2 FROM nowhere.to_be_found");
            // The same bytes, and another name in each.
            client.send(b"SELECT 1 AS `\xc4\xe9`");
            client.said(3)
        });
        let rows: Vec<(Option<String>, String, String, u64, u64)> =
            reader.query(DIGESTS.replace("ORDER", "AND SCHEMA_NAME = 'shop' ORDER")).unwrap();
        (said, rows)
    };
    let Some((expected, found)) = both(answers) else { return };
    assert_eq!(found, expected);
    let counts: Vec<u64> = found.1.iter().map(|row| row.3).filter(|count| *count == 7).collect();
    assert_eq!(counts.len(), 2, "one row for seven clients: {:?}", found.1);
}

#[test]
fn connection_attributes_are_read_in_the_clients_character_set() {
    let _turn = shared_turn();
    let long = b"\xe9\xe4".repeat(30);
    let answers = |server: &Server| {
        let mut reader = server.client().unwrap();
        let before: u64 = reader.query_first("SELECT CONNECTION_ID()").unwrap().unwrap();
        // latin1, utf8mb4, gbk, cp1251, sjis, koi8r, utf8mb3, binary
        let _clients = [8, 45, 28, 51, 13, 7, 33, 63].map(|collation| {
            let attributes: &[(&[u8], &[u8])] = &[
                (b"plain", b"text"),
                (b"n\xe9", b"\xc4\xe3\x80"),
                (b"\xd6\xd0", b"\xd6\xd0\xce\xc4 \xff"),
                (b"utf8", "é 中 😀".as_bytes()),
                (b"empty", b""),
                (&long, &long),
                (b"", b"nameless"),
                (b"behind", b"the nameless one"),
            ];
            Raw::connect(server, collation, attributes)
        });
        let rows: Vec<(String, Option<String>, u64)> = reader
            .query(format!(
                "SELECT HEX(ATTR_NAME), HEX(ATTR_VALUE), ORDINAL_POSITION \
                 FROM performance_schema.session_connect_attrs \
                 WHERE PROCESSLIST_ID > {before} ORDER BY PROCESSLIST_ID, 3"
            ))
            .unwrap();
        rows
    };
    let Some((expected, found)) = both(answers) else { return };
    assert!(expected.len() >= 8 * 6, "{expected:?}");
    for (expected, found) in expected.iter().zip(&found) {
        assert_eq!(found, expected);
    }
    assert_eq!(found.len(), expected.len());
}

#[test]
fn prepared_statements_and_what_runs_show_their_bytes_as_the_built_in_does() {
    let _turn = shared_turn();
    let answers = |server: &Server| {
        let mut reader = server.client().unwrap();
        let mut said = Vec::new();
        for charset in ["utf8mb4", "utf8mb3", "latin1", "gbk", "sjis", "cp1251"] {
            let mut client = Client::connect(server);
            client.send(format!("SET NAMES {charset}").as_bytes());
            client.send("PREPARE `é` FROM 'SELECT ''a é 😀 ж''".as_bytes());
            client.send("PREPARE `é` FROM 'SELECT ''a é 😀 ж'''".as_bytes());
            client.send(b"PREPARE p FROM 'SELECT ''\xe9\xc4\xe3'''");
            client.send(b"DO SLEEP(0) /* \xe9\xc4\xe3 */ -- \xd6\xd0");
            let rows: Vec<(Option<String>, String)> = reader
                .query(format!(
                    "SELECT HEX(STATEMENT_NAME), HEX(SQL_TEXT) FROM performance_schema.prepared_statements_instances \
                     WHERE OWNER_THREAD_ID = {} ORDER BY 1, 2",
                    client.thread
                ))
                .unwrap();
            let info = b"SELECT HEX(PROCESSLIST_INFO) FROM performance_schema.threads \
                         WHERE PROCESSLIST_ID = CONNECTION_ID() /* \xe9\xc4\xe3 \xf0\x9f\x98\x80 */";
            said.push((charset, rows, client.raw.query(info)));
        }
        said
    };
    let Some((expected, found)) = both(answers) else { return };
    for (expected, found) in expected.iter().zip(&found) {
        assert_eq!(found, expected);
    }
}
