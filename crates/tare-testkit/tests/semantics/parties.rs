//! Accounts, users and hosts: whose figures are whose while connections come, change and go.

use std::collections::HashMap;

use mysql::prelude::Queryable;
use mysql::{ChangeUserOpts, Conn};
use tare_testkit::eventually;
use tare_testkit::schema::{SchemaConnection, SchemaRow};
use tare_testkit::server::{LIMIT, Server};
use tare_testkit::shared_turn;

use crate::{error, server};

/// Levels above the threads, from the least to the greatest, as the tables' names have them.
const LEVELS: [&str; 5] = ["by_thread", "by_account", "by_user", "by_host", "global"];

/// A family of summaries: how its tables' names begin, an instrument that nobody but the watched connections
/// pass, the column that says so, and whether really nobody does (else only those of the users are looked
/// at).
type Family = (&'static str, &'static str, &'static str, bool);

const FAMILIES: [Family; 5] = [
    ("events_waits_summary", "wait/io/file/csv/data", "COUNT_STAR", true),
    ("events_stages_summary", "stage/sql/User sleep", "COUNT_STAR", true),
    ("events_statements_summary", "statement/sql/do", "COUNT_STAR", true),
    ("events_transactions_summary", "transaction", "COUNT_STAR", false),
    ("memory_summary", "memory/sql/user_var_entry::value", "COUNT_FREE", true),
];

pub(crate) fn with_users() -> (Server, SchemaConnection) {
    let server = server();
    let mut admin = server.client().unwrap();
    for user in ["ann", "bob"] {
        admin.query_drop(format!("CREATE USER {user}@localhost")).unwrap();
        admin.query_drop(format!("GRANT ALL ON *.* TO {user}@localhost")).unwrap();
    }
    admin.query_drop("CREATE DATABASE t").unwrap();
    admin.query_drop("CREATE TABLE t.c (a INT NOT NULL) ENGINE=CSV").unwrap();
    admin.query_drop("CREATE TABLE t.t (a INT AUTO_INCREMENT PRIMARY KEY) ENGINE=InnoDB").unwrap();
    let schema = server.schema().unwrap();
    (server, schema)
}

pub(crate) fn connect(server: &Server, user: &str) -> Conn {
    Conn::new(server.client_options().user(Some(user))).unwrap()
}

/// Something of every family.
pub(crate) fn work(conn: &mut Conn, times: usize) {
    for _ in 0..times {
        for sql in [
            "DO 1",
            "DO SLEEP(0.001)",
            "INSERT INTO t.c VALUES (1)",
            "SELECT COUNT(*) FROM t.c",
            "INSERT INTO t.t VALUES (NULL)",
            "SET @x = REPEAT('x', 10000)",
            "SET @x = NULL",
        ] {
            conn.query_drop(sql).unwrap();
        }
    }
}

/// CURRENT_CONNECTIONS and TOTAL_CONNECTIONS of the row where a column has a value; `None`: there is no such
/// row.
fn connections(schema: &mut SchemaConnection, table: &str, filter: &[(&str, &str)]) -> Option<(u64, u64)> {
    let rows = schema.rows_where(table, filter).unwrap();
    assert!(rows.len() <= 1, "{table} {filter:?}");
    let figure = |column| rows[0].number(column).unwrap();
    (!rows.is_empty()).then(|| (figure("CURRENT_CONNECTIONS"), figure("TOTAL_CONNECTIONS")))
}

/// Closes a connection and waits until it has been counted as closed.
pub(crate) fn close(schema: &mut SchemaConnection, conn: Conn) {
    let id = u64::from(conn.connection_id());
    drop(conn);
    eventually("a closed connection leaves threads", LIMIT, || schema.thread_of(id).unwrap().is_none());
}

fn summary(family: Family, level: &str) -> String {
    format!("{}_{level}_by_event_name", family.0)
}

/// An instrument's figure at a level: of the thread, of its account, its user, its host, of all.
fn figure(schema: &mut SchemaConnection, family: Family, level: &str, (thread, user): (&str, &str)) -> u64 {
    let (_, name, column, _) = family;
    let mut filter = vec![("EVENT_NAME", name)];
    filter.extend(match level {
        "by_thread" => vec![("THREAD_ID", thread)],
        "by_account" => vec![("USER", user), ("HOST", "localhost")],
        "by_user" => vec![("USER", user)],
        "by_host" => vec![("HOST", "localhost")],
        _ => vec![],
    });
    schema.sum(&summary(family, level), &filter, column).unwrap()
}

/// What two rows must have in common, besides their times.
fn cells(row: &SchemaRow) -> Vec<(&str, Option<&str>)> {
    row.cells().filter(|(column, _)| *column != "HOST" && !column.contains("TIMER")).collect()
}

/// True where times are the same but for how well the clock's rate was known when they were read.
fn times_agree(a: &SchemaRow, b: &SchemaRow) -> bool {
    a.columns().iter().filter(|column| column.contains("TIMER")).all(|column| {
        let (a, b) = (a.number(column).unwrap(), b.number(column).unwrap());
        a.abs_diff(b) <= a.max(b) / 10_000 + 8
    })
}

#[test]
fn figures_of_closed_connections_are_their_accounts_users_and_hosts() {
    let _turn = shared_turn();
    let (server, mut schema) = with_users();
    let common =
        |schema: &mut SchemaConnection, level| FAMILIES.map(|family| figure(schema, family, level, ("", "")));
    let before = [common(&mut schema, "by_host"), common(&mut schema, "global")];
    for (user, times) in [("ann", 1), ("bob", 2), ("ann", 3)] {
        let mut conn = connect(&server, user);
        work(&mut conn, times);
        close(&mut schema, conn);
    }
    assert_eq!(connections(&mut schema, "accounts", &[("USER", "ann"), ("HOST", "localhost")]), Some((0, 2)));
    assert_eq!(connections(&mut schema, "users", &[("USER", "ann")]), Some((0, 2)));
    assert_eq!(connections(&mut schema, "users", &[("USER", "bob")]), Some((0, 1)));
    for (at, family) in FAMILIES.into_iter().enumerate() {
        for user in ["ann", "bob"] {
            // Each has come from one host only: every figure of the user is the account's.
            let mut sorted = |level| {
                let mut rows = schema.rows_where(&summary(family, level), &[("USER", user)]).unwrap();
                rows.sort_by(|a, b| a.text("EVENT_NAME").cmp(b.text("EVENT_NAME")));
                rows
            };
            let (accounts, users) = (sorted("by_account"), sorted("by_user"));
            assert!(!accounts.is_empty() && accounts.len() == users.len(), "{family:?}");
            for (account, of_user) in accounts.iter().zip(&users) {
                assert_eq!(cells(account), cells(of_user), "{family:?}");
                assert!(times_agree(account, of_user), "{account:?} {of_user:?}");
            }
        }
        let mut of = |level, user| figure(&mut schema, family, level, ("", user));
        let (ann, bob) = (of("by_account", "ann"), of("by_account", "bob"));
        assert!(ann > bob && bob > 0, "{family:?}: {ann} {bob}");
        if family.3 {
            let added = [of("by_host", "") - before[0][at], of("global", "") - before[1][at]];
            assert_eq!(added, [ann + bob; 2], "{family:?}");
        }
    }
}

#[test]
fn truncate_of_a_summary_resets_all_it_is_made_of() {
    let _turn = shared_turn();
    let (server, mut schema) = with_users();
    let mut conn = connect(&server, "ann");
    let thread = schema.thread_of(u64::from(conn.connection_id())).unwrap().unwrap().to_string();
    let who = (thread.as_str(), "ann");
    for family in FAMILIES {
        let compared = if family.3 { &LEVELS[..] } else { &LEVELS[..3] };
        for level in LEVELS {
            let mut closed = connect(&server, "ann");
            work(&mut closed, 1);
            close(&mut schema, closed);
            work(&mut conn, 2);
            let mut figures = || -> Vec<u64> {
                compared.iter().map(|level| figure(&mut schema, family, level, who)).collect()
            };
            let before = figures();
            assert!(before.iter().all(|figure| *figure > 0), "{family:?} {before:?}");
            schema.truncate(&summary(family, level)).unwrap();
            let mut figures = || -> Vec<u64> {
                compared.iter().map(|level| figure(&mut schema, family, level, who)).collect()
            };
            let after = figures();
            let waits = family.0 == "events_waits_summary";
            let is_reset = |of: &str| match level {
                // Users and hosts are made of the same accounts, but not of each other.
                "by_host" => of != "by_user" && of != "global",
                // The global summary of waits is independent of the others.
                "global" => of == "global" || !waits,
                _ => LEVELS.iter().position(|it| *it == of) <= LEVELS.iter().position(|it| *it == level),
            };
            for ((of, before), after) in compared.iter().zip(&before).zip(&after) {
                let wanted = if is_reset(of) { 0 } else { *before };
                assert_eq!(*after, wanted, "{of} after TRUNCATE of {} {level}", family.0);
            }
        }
    }
}

#[test]
fn truncate_of_connections_leaves_those_that_are_open() {
    let _turn = shared_turn();
    let (server, mut schema) = with_users();
    let mut open = connect(&server, "ann");
    for table in ["accounts", "users", "hosts"] {
        for user in ["ann", "bob"] {
            let mut conn = connect(&server, user);
            work(&mut conn, 1);
            close(&mut schema, conn);
        }
        work(&mut open, 1);
        let mut of = |table: &str| {
            let column = if table == "hosts" { ("HOST", "localhost") } else { ("USER", "ann") };
            connections(&mut schema, table, &[column]).unwrap()
        };
        let before = [of("accounts"), of("users"), of("hosts")];
        assert!(before.iter().all(|(current, total)| total > current), "{before:?}");
        schema.truncate(table).unwrap();
        let is_reset = |of: &str| of == "accounts" || of == table;
        for (at, name) in ["accounts", "users", "hosts"].into_iter().enumerate() {
            let column = if name == "hosts" { ("HOST", "localhost") } else { ("USER", "ann") };
            let (current, total) = connections(&mut schema, name, &[column]).unwrap();
            let wanted = if is_reset(name) { before[at].0 } else { before[at].1 };
            assert_eq!((current, total), (before[at].0, wanted), "{name} after TRUNCATE of {table}");
            let bob = if name == "hosts" { None } else { connections(&mut schema, name, &[("USER", "bob")]) };
            assert_eq!(
                bob.is_some(),
                name == "users" && table != "users",
                "bob in {name}, {table} truncated"
            );
        }
        for family in FAMILIES {
            for (name, level) in [("accounts", "by_account"), ("users", "by_user"), ("hosts", "by_host")] {
                if family.3 || name != "hosts" {
                    let left = figure(&mut schema, family, level, ("", "ann"));
                    assert_eq!(left == 0, is_reset(name), "{family:?} {level}, {table} truncated: {left}");
                }
            }
        }
    }
}

#[test]
fn another_user_takes_over_what_the_connection_has_counted() {
    let _turn = shared_turn();
    let (server, mut schema) = with_users();
    let mut conn = connect(&server, "ann");
    work(&mut conn, 2);
    conn.change_user(ChangeUserOpts::new().with_user(Some("bob".to_owned()))).unwrap();
    let before = (
        connections(&mut schema, "users", &[("USER", "ann")]),
        connections(&mut schema, "users", &[("USER", "bob")]),
    );
    assert_eq!(before, (Some((0, 0)), Some((1, 1))));
    for family in FAMILIES {
        let mut of = |user| figure(&mut schema, family, "by_user", ("", user));
        assert!(of("ann") == 0 && of("bob") > 0, "{family:?}");
    }
    let conn_id = u64::from(conn.connection_id());
    close(&mut schema, conn);
    assert_eq!(schema.thread_of(conn_id).unwrap(), None);
    let accounts = [("ann", Some((0, 0))), ("bob", Some((0, 1)))];
    for (user, wanted) in accounts {
        assert_eq!(connections(&mut schema, "accounts", &[("USER", user), ("HOST", "localhost")]), wanted);
    }
    let dos = FAMILIES[2];
    assert_eq!(figure(&mut schema, dos, "by_account", ("", "bob")), 4);
    assert_eq!(figure(&mut schema, dos, "by_account", ("", "ann")), 0);
}

#[test]
fn who_is_not_let_in_is_nobody() {
    let _turn = shared_turn();
    let (server, mut schema) = with_users();
    let mut admin = server.client().unwrap();
    admin.query_drop("CREATE USER eve@localhost IDENTIFIED BY 'secret'").unwrap();
    let nobody = |schema: &mut SchemaConnection| {
        let rows = schema.rows("accounts").unwrap();
        let row = rows.iter().find(|row| row.get("USER").is_none() && row.get("HOST").is_none()).unwrap();
        row.number("TOTAL_CONNECTIONS").unwrap()
    };
    let before = nobody(&mut schema);
    let refused = Conn::new(server.client_options().user(Some("eve")).pass(Some("guess")));
    assert!(refused.is_err());
    eventually("the refused connection is counted", LIMIT, || nobody(&mut schema) != before);
    assert_eq!(connections(&mut schema, "users", &[("USER", "eve")]), None);
    assert_eq!(error(&mut admin, "DO 1"), None);
}

#[test]
fn what_clients_say_of_themselves_is_shown_as_far_as_it_fits() {
    let _turn = shared_turn();
    let (server, mut schema) = with_users();
    let long = "y".repeat(600);
    let said: HashMap<&str, &str> = [("program_name", "Größe"), ("team", "x"), ("note", &long[..100])].into();
    let conn = Conn::new(server.client_options().connect_attrs(Some(said.clone()))).unwrap();
    let id = conn.connection_id().to_string();
    let rows = schema.rows_where("session_connect_attrs", &[("PROCESSLIST_ID", &id)]).unwrap();
    let shown: HashMap<&str, &str> =
        rows.iter().map(|row| (row.text("ATTR_NAME"), row.text("ATTR_VALUE"))).collect();
    for (name, value) in &said {
        assert_eq!(shown.get(name), Some(value), "{name} in {shown:?}");
    }
    assert!(shown.contains_key("_client_name"), "{shown:?}");
    let mut positions: Vec<u64> = rows.iter().map(|row| row.number("ORDINAL_POSITION").unwrap()).collect();
    positions.sort_unstable();
    assert!(positions.into_iter().eq(0..rows.len() as u64));

    let cut = Conn::new(server.client_options().connect_attrs(Some([("note", &*long)].into()))).unwrap();
    let id = cut.connection_id().to_string();
    let rows = schema.rows_where("session_connect_attrs", &[("PROCESSLIST_ID", &id)]).unwrap();
    assert!(rows.iter().all(|row| row.text("ATTR_NAME") != "note"), "what was cut is not there");
    let lost = match schema.tare_status().unwrap().remove("session_connect_attrs_lost") {
        Some(lost) => lost,
        None => {
            let name = "SHOW GLOBAL STATUS LIKE 'Performance_schema_session_connect_attrs_lost'";
            schema.query(name).unwrap()[0].text("VALUE").to_owned()
        }
    };
    assert_eq!(lost, "1");
}
