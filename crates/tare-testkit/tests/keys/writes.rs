//! UPDATE and DELETE by such keys hit the rows that they hit in a copy of the table.

use mysql::Conn;
use mysql::prelude::Queryable;
use tare_testkit::shared_turn;

use crate::reads::IndexColumns;
use crate::{MODES, server_of_names};

/// Tables one may UPDATE by name, and their keys; whether one may DELETE from them.
const TABLES: [(&str, &[&str], bool); 5] = [
    ("setup_actors", &["HOST", "USER", "ROLE"], true),
    ("setup_objects", &["OBJECT_TYPE", "OBJECT_SCHEMA", "OBJECT_NAME"], true),
    ("setup_objects", &["OBJECT_SCHEMA", "OBJECT_NAME", "OBJECT_TYPE"], true),
    ("setup_instruments", &["NAME"], false),
    ("setup_consumers", &["NAME"], false),
];

/// All of a table that says which rows a statement changed, in an order of its own.
fn rows(conn: &mut Conn, table: &str, columns: &[&str]) -> Vec<String> {
    let columns: Vec<String> = columns.iter().map(|column| format!("IFNULL({column}, '~NULL')")).collect();
    let mut rows: Vec<String> =
        conn.query(format!("SELECT CONCAT_WS('|', {}, ENABLED) FROM {table}", columns.join(", "))).unwrap();
    rows.sort();
    rows
}

/// Copies a table; the copy has the same types and collations.
fn twin(conn: &mut Conn, name: &str, table: &str) {
    let sql = format!("CREATE OR REPLACE TABLE own.{name} ENGINE=InnoDB AS SELECT * FROM {table}");
    conn.query_drop(&sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
}

/// A condition's UPDATE, which is its own reverse; and its DELETE, where there is one.
fn statements(condition: &str, deletes: bool) -> Vec<String> {
    let update = format!("UPDATE {{}} SET ENABLED = IF(ENABLED = 'YES', 'NO', 'YES') WHERE {condition}");
    let delete = deletes.then(|| format!("DELETE FROM {{}} WHERE {condition}"));
    std::iter::once(update).chain(delete).collect()
}

/// Writes to both, and gives both back what they had. How many rows were hit, or what is wrong.
fn write(
    conn: &mut Conn,
    looking: &mut Conn,
    table: &str,
    columns: &[&str],
    statement: &str,
) -> Result<usize, String> {
    let both = [table, "own.twin"];
    let before = rows(looking, "own.twin", columns);
    let run = |conn: &mut Conn| {
        both.map(|it| conn.query_drop(statement.replace("{}", it)).map_err(|error| error.to_string()).is_ok())
    };
    let done = run(conn);
    let [got, expected] = both.map(|it| rows(looking, it, columns));
    let hits = expected.iter().filter(|row| !before.contains(row)).count() + before.len() - expected.len();
    if statement.starts_with("DELETE") && hits > 0 {
        for sql in [
            "TRUNCATE TABLE {}".replace("{}", table),
            format!("INSERT INTO {table} SELECT * FROM own.base"),
            "TRUNCATE TABLE own.twin".to_owned(),
            "INSERT INTO own.twin SELECT * FROM own.base".to_owned(),
        ] {
            looking.query_drop(&sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        }
    } else if hits > 0 {
        let _as_before = run(conn);
    }
    if (done[0], &got) == (done[1], &expected) {
        Ok(hits)
    } else {
        Err(format!("{got:?}, and not {expected:?}"))
    }
}

#[test]
fn a_write_by_a_key_of_any_names_hits_its_rows() {
    let _turn = shared_turn();
    let Some((server, mut conn, _open)) = server_of_names() else { return };
    let mut looking = server.client().unwrap();
    let (mut compared, mut hits, mut wrong) = (0, 0, String::new());
    for (table, columns, deletes) in TABLES {
        let subject = format!("performance_schema.{table}");
        let owned = columns.iter().map(|column| (*column).to_owned()).collect();
        let mut index = IndexColumns::new(table, columns[0], owned);
        conn.query_drop("SET sql_mode = ''").unwrap();
        let list = columns.join(", ");
        conn.query_drop(format!(
            "CREATE OR REPLACE TEMPORARY TABLE own.copy AS SELECT {list} FROM {subject}"
        ))
        .unwrap();
        index.sample(&mut conn);
        twin(&mut looking, "base", &subject);
        twin(&mut looking, "twin", &subject);
        for (place, mode) in MODES.iter().enumerate() {
            conn.query_drop(format!("SET sql_mode = '{mode}'")).unwrap();
            // Each row in two modes; ranges of names there are only a few of.
            for at in (0..index.samples.len()).filter(|at| [0, 1].contains(&((at + place) % MODES.len()))) {
                let mut conditions = index.lookups(at, mode);
                if deletes && at == place {
                    conditions.extend(index.ranges(&index.samples[at], mode));
                }
                for statement in conditions.iter().flat_map(|condition| statements(condition, deletes)) {
                    compared += 1;
                    match write(&mut conn, &mut looking, &subject, columns, &statement) {
                        Ok(hit) => hits += usize::from(hit > 0),
                        Err(text) => wrong += &format!("{mode:?} {statement}\n    {text}\n"),
                    }
                }
            }
        }
    }
    println!("{compared} writes, {hits} with rows");
    assert_eq!(wrong, "");
    assert!(hits > 200, "{hits} of {compared}");
}

/// A CHAR holds no blanks at its end, also where it is sent with them: a rule is about the user it names.
#[test]
fn a_rule_inserted_under_any_sql_mode_acts() {
    let _turn = shared_turn();
    let Some((server, mut conn, _open)) = server_of_names() else { return };
    let mut looking = server.client().unwrap();
    let instrumented = |looking: &mut Conn| -> Option<String> {
        let bearer = Conn::new(server.client_options().user(Some("u_1"))).unwrap();
        let id = bearer.connection_id();
        looking
            .query_first(format!(
                "SELECT INSTRUMENTED FROM performance_schema.threads WHERE PROCESSLIST_ID = {id}"
            ))
            .unwrap()
    };
    for mode in MODES {
        conn.query_drop(format!("SET sql_mode = '{mode}'")).unwrap();
        let mut run = |sql: &str| {
            conn.query_drop(sql).unwrap_or_else(|error| panic!("{mode} {sql}: {error}"));
        };
        run("INSERT INTO performance_schema.setup_actors VALUES ('localhost', 'u_1 ', '%', 'NO', 'NO')");
        assert_eq!(instrumented(&mut looking).as_deref(), Some("NO"), "{mode}");
        run(
            "UPDATE performance_schema.setup_actors SET ENABLED = 'YES' WHERE HOST = 'localhost' AND USER = 'u_1'",
        );
        assert_eq!(instrumented(&mut looking).as_deref(), Some("YES"), "{mode}");
        run("DELETE FROM performance_schema.setup_actors WHERE HOST = 'localhost' AND USER = 'u_1'");
        let left: Option<u64> = looking
            .query_first("SELECT COUNT(*) FROM performance_schema.setup_actors WHERE HOST = 'localhost'")
            .unwrap();
        assert_eq!(left, Some(0), "{mode}");
    }
}
