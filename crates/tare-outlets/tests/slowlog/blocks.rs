//! What is logged from blocks is what is logged from rows.

use super::*;

/// A log without what depends on when it was read.
fn lines(file: &Path) -> Vec<String> {
    let log = fs::read_to_string(file).expect("the log");
    let of_load = |line: &&str| !line.contains("tare_");
    let mut lines: Vec<String> = log.lines().filter(of_load).map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn blocks_are_logged_as_rows_are() {
    let _turn = tare_testkit::turn();
    let folder = tempfile::tempdir().expect("a folder");
    let server = server("100000");
    for (text, name) in [(Text::Full, "full"), (Text::Normalised, "normalised"), (Text::None, "none")] {
        let files = ["blocks", "rows"].map(|way| folder.path().join(format!("{way}-{name}.log")));
        let by_blocks = SlowLogOptions { text, ..options(&server, &files[0]) };
        // What is chosen is asked for as rows; this leaves nothing out.
        let choice = StatementFilter { rows_examined: Some(0), ..StatementFilter::default() };
        let by_rows = SlowLogOptions { text, choice, ..options(&server, &files[1]) };
        let hands = [Hand::default(), Hand::default()];
        // No connection ends while one of the two listens and the other does not: its end is a line.
        counted(&server);
        let (blocks, (rows, ())) = log(&by_blocks, &hands[0], || {
            log(&by_rows, &hands[1], || {
                run_all_kinds(&server);
                churn(&server, 8, 300);
                counted(&server);
            })
        });
        assert_eq!((blocks.lost, rows.lost), (0, 0));
        assert_eq!(hands.each_ref().map(|hand| hand.has_said("row by row")), [false, true]);
        let [blocks, rows] = files.each_ref().map(|file| lines(file));
        assert!(blocks.len() > 2_400, "{}", blocks.len());
        for (one, other) in blocks.iter().zip(&rows) {
            assert_eq!(one, other, "{name}");
        }
        assert_eq!(blocks.len(), rows.len(), "{name}");
        let has = |what: &str| blocks.iter().any(|line| line.contains(what));
        assert!(has("\"errno\":1146") && has("\"program\""), "errors and programs are among them");
        assert_eq!((has("größer"), has("xxx...")), (text == Text::Full, text == Text::Full));
    }
}

/// Texts that are no ASCII or too long, errors, programs, another account.
fn run_all_kinds(server: &Server) {
    let mut client = server.client().expect("a client");
    for sql in [
        "CREATE OR REPLACE DATABASE shop",
        "USE shop",
        "CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(20))",
        "CREATE PROCEDURE fill() BEGIN INSERT INTO t VALUES (1, 'one'); SELECT COUNT(*) FROM t; END",
        "CALL fill()",
        "SELECT name, 'größer' FROM t ORDER BY name",
        "SET NAMES latin1",
        "SELECT 'gr\u{f6}\u{df}er'",
    ] {
        client.query_drop(sql).expect(sql);
    }
    client.query_drop("SELECT * FROM absent").expect_err("no such table");
    client.query_drop("CALL fill()").expect_err("a duplicate");
    client.query_drop(format!("SELECT '{}'", "x".repeat(3000))).expect("a row");
}
