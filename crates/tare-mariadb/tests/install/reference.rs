//! The built-in's own tables: read from a server with the built-in Performance Schema, installed over it,
//! compared.

use mysql::Conn;
use mysql::prelude::Queryable;
use tare_mariadb::install;
use tare_mariadb::install::federated::ENDPOINT;
use tare_tables::{Column, SqlType, Table};
use tare_testkit::server::Server;
use tare_testkit::subject::TestProvider;

use crate::sample::{Sample, leak, type_sql};

/// Every table of the server's `performance_schema`, as its `information_schema` declares it.
pub(crate) fn tables(conn: &mut Conn) -> Vec<Sample> {
    let names: Vec<String> = conn
        .query("SELECT table_name FROM information_schema.tables WHERE table_schema='performance_schema' ORDER BY 1")
        .unwrap();
    names.into_iter().map(|name| Sample::new(leak(name.clone()), columns(conn, &name))).collect()
}

fn columns(conn: &mut Conn, table: &str) -> Vec<Column> {
    let rows: Vec<(String, String, String, String, Option<String>)> = conn
        .query(format!(
            "SELECT column_name, column_type, is_nullable, column_comment, column_default FROM information_schema.columns \
             WHERE table_schema='performance_schema' AND table_name='{table}' ORDER BY ordinal_position"
        ))
        .unwrap();
    rows.into_iter()
        .map(|(name, sql_type, nullable, doc, default)| Column {
            name: leak(name),
            sql_type: sql_type_of(&sql_type),
            nullable: nullable == "YES",
            default: default.as_deref().and_then(text_default),
            doc: leak(doc),
        })
        .collect()
}

/// A default that is a text, which the server quotes; that of a timestamp is no text.
fn text_default(default: &str) -> Option<&'static str> {
    let text = default.strip_prefix('\'')?.strip_suffix('\'')?;
    (!text.starts_with("0000-")).then(|| leak(text))
}

/// The type the server spells so. Panics for one the tables' contract does not have.
fn sql_type_of(text: &str) -> SqlType {
    let inside =
        text.split_once('(').and_then(|(_, rest)| rest.split_once(')')).map_or("", |(inside, _)| inside);
    let number = || inside.parse().unwrap_or(0);
    let parsed = match text.split(['(', ' ']).next() {
        Some("bigint") if text.ends_with("unsigned") => SqlType::BigIntUnsigned,
        Some("bigint") => SqlType::BigInt,
        Some("int") if text.ends_with("unsigned") => SqlType::IntUnsigned,
        Some("int") => SqlType::Int,
        Some("double") => {
            let (digits, decimals) = inside.split_once(',').unwrap();
            SqlType::DoubleUnsigned(digits.parse().unwrap(), decimals.parse().unwrap())
        }
        Some("char") => SqlType::Char(number()),
        Some("varchar") => SqlType::VarChar(number()),
        Some("longtext") => SqlType::LongText,
        Some("longblob") => SqlType::LongBlob,
        Some("timestamp") => SqlType::Timestamp,
        Some("enum") => {
            let members: Vec<&str> =
                inside.split(',').map(|member| leak(member.trim_matches('\''))).collect();
            SqlType::Enum(Box::leak(members.into_boxed_slice()))
        }
        _ => panic!("no type of the contract: {text}"),
    };
    assert_eq!(type_sql(parsed), text);
    parsed
}

/// `SHOW FULL COLUMNS` of every table, one line per column.
fn full_columns(conn: &mut Conn, tables: &[Sample]) -> Vec<String> {
    let mut lines = Vec::new();
    for table in tables {
        let rows: Vec<mysql::Row> =
            conn.query(format!("SHOW FULL COLUMNS FROM performance_schema.`{}`", table.name)).unwrap();
        lines.extend(rows.into_iter().map(|row| format!("{} {:?}", table.name, row.unwrap())));
    }
    lines
}

/// `SHOW CREATE TABLE` of every table, up to the engine.
fn declarations(conn: &mut Conn, tables: &[Sample]) -> Vec<String> {
    let declaration = |table: &Sample| {
        let row: Option<(String, String)> =
            conn.query_first(format!("SHOW CREATE TABLE performance_schema.`{}`", table.name)).unwrap();
        let sql = row.unwrap().1;
        let (columns, options) = sql.split_once(") ENGINE=").unwrap();
        let charset = options.split_once(" DEFAULT CHARSET=").map_or("", |(_, rest)| rest);
        let charset: Vec<&str> = charset.split(' ').take(2).collect();
        format!("{columns} {}", charset.join(" "))
    };
    tables.iter().map(declaration).collect()
}

fn engines(conn: &mut Conn) -> Vec<(String, String)> {
    conn.query(
        "SELECT engine, table_comment FROM information_schema.tables WHERE table_schema='performance_schema' \
         GROUP BY 1, 2",
    )
    .unwrap()
}

/// Also what it takes for a running server to see tables come and go.
#[test]
fn every_table_of_the_reference_is_served_with_the_reference_s_columns() {
    if crate::without_federated() {
        return;
    }
    let server = Server::start(crate::settings(TestProvider::BuiltIn)).unwrap();
    let mut conn = server.client().unwrap();
    let tables = tables(&mut conn);
    assert!(tables.len() >= 81, "{} tables", tables.len());
    let columns = full_columns(&mut conn, &tables);
    let before = declarations(&mut conn, &tables);
    let own = engines(&mut conn);
    assert_eq!(own, [("PERFORMANCE_SCHEMA".to_owned(), String::new())]);

    let all: Vec<&dyn Table> = tables.iter().map(|table| table as &dyn Table).collect();
    crate::leave(&server.data(), &install::files(&all, ENDPOINT).unwrap().0);
    conn.query_drop("FLUSH TABLES").unwrap();
    assert_eq!(columns, full_columns(&mut conn, &tables));
    assert_eq!(before, declarations(&mut conn, &tables));
    assert_eq!(engines(&mut conn), [("FEDERATED".to_owned(), install::COMMENT.to_owned())]);

    let removed = install::remove(&server.data()).unwrap();
    assert_eq!(removed.len(), tables.len());
    conn.query_drop("FLUSH TABLES").unwrap();
    assert_eq!(engines(&mut conn), own);
    assert_eq!(columns, full_columns(&mut conn, &tables));
}
