//! Streams: a connection reads on where it was.

mod fixture;

use fixture::*;
use mysql::prelude::Queryable;

const STATEMENTS: &str = "SELECT SQL_TEXT, LOST, EVENTS, MORE, POSITION FROM tare_stream_statements";

#[test]
fn each_connection_has_a_position_of_its_own() {
    let served = served();
    let (mut one, mut other) = (served.client(), served.client());
    let position = |client: &mut mysql::Conn| {
        let rows = rows(client, STATEMENTS);
        let [row] = &rows[..] else { panic!("{rows:?}") };
        assert_eq!((&row[0], row[1].as_deref(), row[3].as_deref()), (&None, Some("0"), Some("NO")));
        row[4].clone()
    };
    assert_eq!(position(&mut one), position(&mut other));
    assert_eq!(position(&mut one), Some("0".to_owned()));
    let filtered =
        rows(&mut one, "SELECT LOST FROM tare_stream_transactions WHERE TIMER_WAIT > 5 AND STATE = 'x'");
    assert_eq!(filtered, [[Some("0".to_owned())]], "WHERE never leaves the last row out");
}

#[test]
fn what_a_stream_cannot_do_is_refused() {
    let served = served();
    let mut client = served.client();
    for sql in [
        "SELECT COUNT(*) FROM tare_stream_statements",
        "SELECT * FROM tare_stream_statements ORDER BY THREAD_ID",
        "SELECT * FROM tare_stream_statements LIMIT 5",
    ] {
        let error = client.query_drop(sql).expect_err(sql).to_string();
        assert!(error.contains("read forwards"), "{sql}: {error}");
    }
    let shown = rows(&mut client, "SHOW COLUMNS FROM tare_stream_statements");
    assert!(shown.len() > 40, "{shown:?}");
    let tables: Vec<String> = client.query("SHOW TABLES").expect("tables");
    assert!(!tables.iter().any(|name| name.contains("stream")), "{tables:?}");
}
