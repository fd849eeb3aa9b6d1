//! The shape of a statement: a hash of its text without numbers and strings, which the server makes, so that
//! no value leaves it. Statements of one shape have one digest, which is known as soon as one of them has
//! ended.

/// Numbers and strings of a text; or, as the group, what may look as if it had some: quoted names, strings in
/// double quotes (names to some servers), comments, words.
const PATTERN: &str = "(?:''[^'']*+'')++|[0-9]++(?:[.][0-9]*+)?(?![^[:cntrl:] -#%-/:-?[-^`{-~])|\
     (\"[^\"]*+\"|`[^`]*+`|/[*](?s:.*?)[*]/|(?:#|--[[:space:]]).*+|[^[:cntrl:] -#%-/:-?[-^`{-~]++)";

/// Returns the SQL of the shape of the column SQL_TEXT. NULL where it may not be told: of texts that are cut,
/// as those of `limit` bytes may be, and where a string may end otherwise than it looks, as with a backslash.
pub(super) fn of_text(limit: u64) -> String {
    // No backslash in what is sent: its meaning depends on the server's sql_mode.
    let backslash = "CHAR(92 USING utf8)";
    format!(
        "IF(LENGTH(`SQL_TEXT`) >= {} OR LOCATE({backslash}, `SQL_TEXT`) > 0 OR LOCATE('/*!', `SQL_TEXT`) > 0 \
         OR LOCATE('/*M!', `SQL_TEXT`) > 0, NULL, \
         CAST(MD5(REGEXP_REPLACE(`SQL_TEXT`, '{PATTERN}', CONCAT({backslash}, '1?'))) AS BINARY))",
        limit.saturating_sub(3)
    )
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use mysql::prelude::Queryable;
    use tare_testkit::server::{Server, StartSettings};
    use tare_testkit::subject::TestProvider;

    use super::of_text;

    /// Statements; those of a line have one shape.
    const LINES: [&[&str]; 14] = [
        &["SELECT 1, 'a'", "SELECT 22, 'it''s'", "SELECT 3.5, 'say \"x\"'", "SELECT 4., '`'"],
        &["SELECT 'a' AS a1", "SELECT 7 AS a1"],
        &["SELECT 'a' AS a2"],
        &["SELECT 'a' AS 1a", "SELECT 'b' AS 1a"],
        &["SELECT 'a' AS 2a"],
        &["SELECT 'x' AS `a'b`, 'c'", "SELECT 1 AS `a'b`, 2"],
        &["SELECT 'x' AS `a'c`, 'c'"],
        &["SELECT \"it's\", 'a'", "SELECT \"it's\", 'b'"],
        &["SELECT /* don't */ 'a' AS b1", "SELECT /* don't */ 'c' AS b1"],
        &["SELECT /* don't */ 'a' AS b2"],
        &["SELECT 'a' AS c1 # don't\n, 'b'", "SELECT 'b' AS c1 # don't\n, 'c'"],
        &["SELECT 'a' AS c2 # don't\n, 'b'"],
        &["SELECT 'a' AS c1 -- don't\n, 'b'", "SELECT 5 AS c1 -- don't\n, 6"],
        &["SELECT 'a' AS über1", "SELECT 'ß' AS über1"],
    ];
    /// Statements without a shape.
    const NONE: [&str; 3] = [r"SELECT 'a\'', 'b'", "SELECT /*! 'a', */ 'b'", "SELECT /*M! 'a', */ 'b'"];

    #[test]
    fn statements_of_one_shape_have_one_digest() {
        let settings = StartSettings::new(TestProvider::BuiltIn);
        let settings = ["events-statements-current", "events-statements-history-long", "statements-digest"]
            .iter()
            .fold(settings, |settings, name| {
                settings.option(format!("--performance-schema-consumer-{name}=ON"))
            });
        let server = Server::start(settings).expect("a server");
        let mut conn = server.client().expect("a connection");
        for sql in LINES.iter().copied().flatten().chain(&NONE) {
            conn.query_drop(*sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        }
        // It may be any: its own texts depend on none of them.
        conn.query_drop("SET sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES'").expect("modes");
        let sql = format!(
            "SELECT SQL_TEXT, DIGEST, {} FROM performance_schema.events_statements_history_long \
             WHERE DIGEST IS NOT NULL",
            of_text(1024)
        );
        let told: HashMap<String, (String, Option<String>)> = conn
            .query::<(String, String, Option<String>), _>(sql)
            .expect("rows")
            .into_iter()
            .map(|(text, digest, shape)| (text, (digest, shape)))
            .collect();
        let mut digests: HashMap<String, &str> = HashMap::new();
        for (digest, shape) in told.values() {
            let Some(shape) = shape else { continue };
            assert_eq!(*digests.entry(shape.clone()).or_insert(digest), digest, "{told:#?}");
        }
        for line in LINES {
            let shapes: Vec<&Option<String>> = line.iter().map(|sql| &told[*sql].1).collect();
            assert!(shapes.iter().all(|it| it.is_some() && *it == shapes[0]), "{line:?}: {shapes:?}");
        }
        for sql in NONE {
            assert_eq!(told[sql].1, None, "{sql}");
        }
    }
}
