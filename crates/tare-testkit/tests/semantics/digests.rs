//! The digest table: its size, what happens when it is full, and what becomes of a text that is cut.

use mysql::prelude::Queryable;
use tare_testkit::server::{Server, StartSettings};
use tare_testkit::shared_turn;
use tare_testkit::subject::TestProvider;

const TABLE: &str = "performance_schema.events_statements_summary_by_digest";

/// A server with these settings of the provider; `None` where its tables cannot be read through the server.
fn server(provider: &[(&str, &str)], shape: &str, options: &[&str]) -> Option<Server> {
    let settings = StartSettings::new(TestProvider::under_test()).tare_option("shape", shape);
    let settings =
        provider.iter().fold(settings, |settings, (name, value)| settings.provider_option(name, value));
    let settings = options.iter().fold(settings, |settings, option| settings.option(*option));
    Server::start(settings).unwrap().on_its_port()
}

#[test]
fn a_full_table_keeps_what_is_seen_and_all_counts() {
    let _turn = shared_turn();
    let Some(server) = server(&[("digests-size", "10")], "strict", &[]) else { return };
    if !server.settings.provider.is_tare() {
        println!("skipped: the built-in counts what comes later in the row without a digest");
        return;
    }
    let mut conns: Vec<_> = (0..4).map(|_| server.client().unwrap()).collect();
    let mut reader = server.client().unwrap();
    let total = format!("SELECT CAST(SUM(COUNT_STAR) AS UNSIGNED) FROM {TABLE}");
    let mut total = || reader.query_first::<Option<u64>, _>(&total).unwrap().unwrap().unwrap_or(0);
    total();
    let before = total();
    std::thread::scope(|scope| {
        for (writer, conn) in conns.iter_mut().enumerate() {
            scope.spawn(move || {
                for n in 0..500 {
                    conn.query_drop(format!("SELECT 1 AS c{writer}_{n}")).unwrap();
                    conn.query_drop("SELECT 'again and again'").unwrap();
                }
            });
        }
    });
    // A statement has ended once the next one is answered.
    conns.iter_mut().for_each(|conn| conn.query_drop("DO 1").unwrap());
    let issued = 4 * 1000;
    let counted = total() - before;
    assert!((issued + 1..=issued + 5).contains(&counted), "{counted} of {issued} and those in between");
    let rows: Vec<(Option<String>, u64)> =
        reader.query(format!("SELECT DIGEST_TEXT, COUNT_STAR FROM {TABLE}")).unwrap();
    assert!(rows.len() <= 10, "{rows:?}");
    let count = |wanted: Option<&str>| {
        rows.iter().find(|(text, _)| text.as_deref().map(str::trim) == wanted).map(|(_, count)| *count)
    };
    assert!(count(Some("SELECT ?")) == Some(2000), "what is seen all the time stays: {rows:?}");
    assert!(count(None).is_some_and(|count| count >= 1900), "{rows:?}");
    let status = server.schema().unwrap().tare_status().unwrap();
    assert!(status["digests_evicted"].parse::<u64>().unwrap() >= 1900, "{status:?}");
    assert_eq!(status["digest_lost"], "0");
}

#[test]
fn the_row_without_a_digest_is_one_of_the_table() {
    let _turn = shared_turn();
    for (size, expected) in [("0", (0, 0)), ("1", (0, 1)), ("3", (2, 1))] {
        let Some(server) = server(&[("digests-size", size)], "strict", &[]) else { return };
        let mut conn = server.client().unwrap();
        for sql in ["SELECT 1", "SELECT 1, 2", "SELECT 1, 2, 3", "DO 1"] {
            conn.query_drop(sql).unwrap();
        }
        let rows: (u64, u64) = conn
            .query_first(format!("SELECT COUNT(DIGEST), COUNT(*) - COUNT(DIGEST) FROM {TABLE}"))
            .unwrap()
            .unwrap();
        assert_eq!(rows, expected, "digests-size={size}");
        let told: Vec<Option<String>> =
            conn.query("SELECT SQL_TEXT FROM performance_schema.events_statements_history").unwrap();
        assert!(
            told.contains(&Some("SELECT 1, 2, 3".to_owned())),
            "events are recorded all the same: {told:?}"
        );
    }
}

#[test]
fn in_the_extended_shape_a_cut_text_says_so() {
    let _turn = shared_turn();
    let columns: Vec<String> = (0..60).map(|n| format!("{n} AS a_column_with_a_long_name_{n}")).collect();
    let long = format!("SELECT {}", columns.join(", "));
    // Cut by the server's parser, and by the provider. MySQL says so, and MariaDB does not.
    let cuts = [("1024", &["--max-digest-length=200"][..]), ("200", &[])];
    for (shape, (digest_length, options)) in cuts.map(|cut| [("strict", cut), ("extended", cut)]).concat() {
        let provider = [("max-sql-text-length", "50"), ("max-digest-length", digest_length)];
        let Some(server) = server(&provider, shape, options) else { return };
        let dots = server.settings.provider.is_tare() && shape == "extended";
        let mut conn = server.client().unwrap();
        conn.query_drop(&long).unwrap();
        conn.query_drop("SELECT 1").unwrap();
        let texts: Vec<String> = conn
            .query(format!("SELECT DIGEST_TEXT FROM {TABLE} WHERE DIGEST_TEXT LIKE '%long_name%'"))
            .unwrap();
        let [text] = &texts[..] else { panic!("one digest, not {texts:?}") };
        assert!(text.ends_with("...") == dots && text.len() < 400, "{shape}, {options:?}: {text}");
        let sql: Vec<String> = conn
            .query(
                "SELECT SQL_TEXT FROM performance_schema.events_statements_history_long \
                 WHERE SQL_TEXT LIKE 'SELECT 0 AS a_column%'",
            )
            .unwrap();
        let [sql] = &sql[..] else { panic!("one statement, not {sql:?}") };
        assert_eq!((sql.len(), &sql[47..]), (50, "..."));
    }
}

#[test]
fn digests_of_which_not_all_is_kept_are_the_built_ins() {
    let _turn = shared_turn();
    // More tokens than are kept, and fewer than the server's parser keeps.
    let columns: Vec<String> = (0..12).map(|n| format!("{n} AS a_column_with_a_long_name_{n}")).collect();
    let common = format!("SELECT {}", columns.join(", "));
    let statements =
        [common.clone(), format!("{common}, 1"), format!("{common} LIMIT 1"), format!("{common}, 2")];
    let answers = |provider: TestProvider| {
        let settings = StartSettings::new(provider).provider_option("max-digest-length", 200);
        let server = Server::start(settings).unwrap().on_its_port()?;
        let mut conn = server.client().unwrap();
        statements.iter().for_each(|sql| conn.query_drop(sql).unwrap());
        let rows: Vec<(String, u64)> = conn
            .query(format!(
                "SELECT DIGEST, COUNT_STAR FROM {TABLE} WHERE DIGEST_TEXT LIKE '%long_name%' ORDER BY 1"
            ))
            .unwrap();
        Some(rows)
    };
    let Some(expected) = answers(TestProvider::BuiltIn) else { return };
    let Some(found) = answers(TestProvider::under_test()) else { return };
    assert_eq!((found.len(), &found), (3, &expected));
}
