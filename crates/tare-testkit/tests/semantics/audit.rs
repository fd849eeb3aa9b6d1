//! The published recipe for an audit of DDL alone.

use tare_testkit::shared_turn;

use crate::{Watched, refused, server};

/// Statement instruments that see DDL on tables.
const WATCHED: [&str; 4] = ["create_table", "alter_table", "drop_table", "rename_table"];

#[test]
fn the_history_shows_the_drop_and_nothing_else() {
    let _turn = shared_turn();
    let server = server();
    let mut schema = server.schema().unwrap();
    let mut watched = Watched::connect(&server, &mut schema);
    watched.run("CREATE DATABASE t");
    watched.run("CREATE TABLE t.gone (a INT)");
    if server.serves_tables() {
        let mut admin = Watched::connect(&server, &mut schema);
        admin.run(
            "UPDATE performance_schema.setup_instruments SET ENABLED = 'NO' WHERE NAME LIKE 'statement/%'",
        );
        admin.run(
            "UPDATE performance_schema.setup_instruments SET ENABLED = 'YES' WHERE NAME LIKE 'statement/abstract/%'",
        );
        for name in WATCHED {
            admin.run(&format!(
                "UPDATE performance_schema.setup_instruments SET ENABLED = 'YES' WHERE NAME = 'statement/sql/{name}'"
            ));
        }
    } else {
        for row in schema.rows("setup_instruments").unwrap() {
            let name = row.text("NAME");
            let ddl = name.strip_prefix("statement/sql/").is_some_and(|rest| WATCHED.contains(&rest));
            if name.starts_with("statement/") && !name.starts_with("statement/abstract/") && !ddl {
                let off = schema.update("setup_instruments", &[("ENABLED", "NO")], &[("NAME", name)]);
                assert_eq!(refused(off), None);
            }
        }
    }
    for table in ["events_statements_history", "events_statements_history_long"] {
        schema.truncate(table).unwrap();
    }
    watched.run("SELECT 1");
    watched.run("INSERT INTO t.gone VALUES (1)");
    watched.run("SELECT * FROM t.gone");
    watched.run("UPDATE t.gone SET a = 2");
    watched.run("DROP TABLE t.gone");
    watched.run("SELECT 2");
    watched.run("SELECT 3");
    for table in ["events_statements_history", "events_statements_history_long"] {
        let rows = schema.rows(table).unwrap();
        let seen: Vec<(&str, &str)> =
            rows.iter().map(|row| (row.text("EVENT_NAME"), row.text("SQL_TEXT"))).collect();
        assert_eq!(seen, [("statement/sql/drop_table", "DROP TABLE t.gone")], "{table}");
    }
}
