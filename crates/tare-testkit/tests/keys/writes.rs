//! UPDATE and DELETE by such keys hit the rows that they hit in a copy of the table.

use mysql::Conn;
use mysql::prelude::Queryable;
use tare_testkit::shared_turn;

use crate::reads::Index;
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

/// What changes the rows a condition is true of.
fn statements(conditions: &[String], deletes: bool) -> Vec<String> {
    let update = "UPDATE {} SET ENABLED = IF(ENABLED = 'YES', 'NO', 'YES') WHERE";
    let mut all = Vec::new();
    for condition in conditions {
        all.push(format!("{update} {condition}"));
        if deletes {
            all.push(format!("DELETE FROM {{}} WHERE {condition}"));
        }
    }
    all
}

#[test]
fn a_write_by_a_key_of_any_names_hits_its_rows() {
    let _turn = shared_turn();
    let Some((server, mut conn, _open)) = server_of_names() else { return };
    let mut looking = server.client().unwrap();
    let (mut compared, mut hits, mut wrong) = (0, 0, String::new());
    for (table, columns, deletes) in TABLES {
        let subject = format!("performance_schema.{table}");
        let name = (*columns.first().unwrap()).to_owned();
        let owned = columns.iter().map(|column| (*column).to_owned()).collect();
        let mut index = Index { table: table.to_owned(), name, columns: owned, samples: Vec::new() };
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
            for at in 0..index.samples.len() {
                let mut conditions = index.lookups(at, mode);
                if at % MODES.len() == place {
                    conditions.extend(index.ranges(&index.samples[at], mode));
                }
                for statement in statements(&conditions, deletes) {
                    let before = rows(&mut looking, "own.twin", columns);
                    let done = [&subject, "own.twin"].map(|it| {
                        conn.query_drop(statement.replace("{}", it)).map_err(|error| error.to_string())
                    });
                    let [got, expected] = [&subject, "own.twin"].map(|it| rows(&mut looking, it, columns));
                    compared += 1;
                    hits += usize::from(expected != before);
                    if (done[0].is_ok(), &got) != (done[1].is_ok(), &expected) {
                        wrong +=
                            &format!("{mode:?} {statement}\n    {done:?} {got:?}, and not {expected:?}\n");
                    }
                    if got != before || expected != before {
                        restore(&mut looking, &subject, deletes);
                    }
                }
            }
        }
        restore(&mut looking, &subject, deletes);
    }
    println!("{compared} writes, {hits} with rows");
    assert_eq!(wrong, "");
    assert!(hits > 500, "{hits} of {compared}");
}

/// Gives both what they had in the beginning.
fn restore(conn: &mut Conn, subject: &str, deletes: bool) {
    twin(conn, "twin", "own.base");
    let back = if deletes {
        vec![format!("TRUNCATE TABLE {subject}"), format!("INSERT INTO {subject} SELECT * FROM own.base")]
    } else {
        vec![
            format!("UPDATE {subject} SET ENABLED = 'YES'"),
            "UPDATE own.twin SET ENABLED = 'YES'".to_owned(),
        ]
    };
    for sql in back {
        conn.query_drop(&sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
}

/// A CHAR holds no blanks at its end, also where it is sent with them.
#[test]
fn what_is_inserted_is_found_under_any_sql_mode() {
    let _turn = shared_turn();
    let Some((server, mut conn, _open)) = server_of_names() else { return };
    let mut looking = server.client().unwrap();
    for mode in MODES {
        conn.query_drop(format!("SET sql_mode = '{mode}'")).unwrap();
        for sql in [
            "INSERT INTO performance_schema.setup_actors VALUES ('h_1', 'u_1 ', '%', 'YES', 'NO')",
            "UPDATE performance_schema.setup_actors SET HISTORY = 'YES' WHERE HOST = 'h_1' AND USER = 'u_1'",
        ] {
            conn.query_drop(sql).unwrap_or_else(|error| panic!("{mode} {sql}: {error}"));
        }
        let found: Option<(String, String)> = looking
            .query_first("SELECT CONCAT('<', USER, '>'), HISTORY FROM performance_schema.setup_actors WHERE HOST = 'h_1'")
            .unwrap();
        assert_eq!(found, Some(("<u_1>".to_owned(), "YES".to_owned())), "{mode}");
        conn.query_drop("DELETE FROM performance_schema.setup_actors WHERE HOST = 'h_1' AND USER = 'u_1'")
            .unwrap();
        let left: Option<u64> = looking
            .query_first("SELECT COUNT(*) FROM performance_schema.setup_actors WHERE HOST = 'h_1'")
            .unwrap();
        assert_eq!(left, Some(0), "{mode}");
    }
}
