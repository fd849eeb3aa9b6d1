//! The tables of the built-in and of the provider under test, column by column, on the same server program.

#![allow(clippy::unwrap_used)] // in a test a failure is a panic

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Deserialize;
use tare_testkit::difference::matches;
use tare_testkit::schema::SchemaConnection;
use tare_testkit::server::{Server, StartSettings};
use tare_testkit::subject::TestProvider;
use tare_testkit::turn;

/// `expected/ddl.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectedColumns {
    /// Tables of the reference the subject does not serve. The list may only get shorter.
    missing: Vec<String>,
    /// Tables of the subject the reference does not have.
    own: Vec<String>,
    keys: Keys,
    #[serde(default)]
    difference: Vec<ColumnDifference>,
}

/// The one thing SHOW CREATE TABLE shows of every table that the reference's does not.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Keys {
    /// Tables without any.
    without: Vec<String>,
    #[allow(dead_code)] // for the reader
    reason: String,
}

/// What may differ, and why. Each must occur on some server; on every one unless it names a version.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ColumnDifference {
    table: String,
    column: String,
    traits: Vec<String>,
    #[serde(default = "any")]
    host: String,
    #[allow(dead_code)] // for the reader
    reason: String,
}

fn any() -> String {
    "*".into()
}

fn expected() -> ExpectedColumns {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("expected/ddl.toml");
    toml::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Traits of a column by their names.
type Traits = BTreeMap<&'static str, String>;

const TRAITS: [&str; 5] =
    ["ORDINAL_POSITION", "COLUMN_TYPE", "IS_NULLABLE", "COLLATION_NAME", "COLUMN_DEFAULT"];

/// Every column in the schema by table and name.
fn columns(schema: &mut SchemaConnection) -> BTreeMap<String, BTreeMap<String, Traits>> {
    let sql = "SELECT * FROM information_schema.columns WHERE table_schema = 'performance_schema'";
    let mut tables: BTreeMap<String, BTreeMap<String, Traits>> = BTreeMap::new();
    for row in schema.query(sql).unwrap() {
        let traits = TRAITS.map(|it| (it, row.get(it).unwrap_or("none").to_owned())).into();
        tables
            .entry(row.text("TABLE_NAME").into())
            .or_default()
            .insert(row.text("COLUMN_NAME").into(), traits);
    }
    tables
}

/// The tables that are not the built-in's: FEDERATED ones, and views.
fn installed(schema: &mut SchemaConnection, kind: &str) -> BTreeSet<String> {
    let sql = format!(
        "SELECT table_name FROM information_schema.tables \
         WHERE table_schema = 'performance_schema' AND {kind}"
    );
    schema.query(&sql).unwrap().iter().map(|row| row.text("TABLE_NAME").to_owned()).collect()
}

/// The columns in SHOW CREATE TABLE, without what the reference says of them and without keys.
fn shown(schema: &mut SchemaConnection, table: &str) -> Vec<String> {
    let rows = schema.query(&format!("SHOW CREATE TABLE performance_schema.`{table}`")).unwrap();
    let lines = rows[0].text("CREATE TABLE").lines().filter(|line| line.starts_with("  `"));
    lines.map(|line| line.split(" COMMENT '").next().unwrap().trim_end_matches(',').to_owned()).collect()
}

/// The keys in SHOW CREATE TABLE.
fn keys(schema: &mut SchemaConnection, table: &str) -> Vec<String> {
    let rows = schema.query(&format!("SHOW CREATE TABLE performance_schema.`{table}`")).unwrap();
    let is_key = |line: &&str| ["  KEY ", "  PRIMARY KEY "].iter().any(|word| line.starts_with(word));
    rows[0].text("CREATE TABLE").lines().filter(is_key).map(str::to_owned).collect()
}

#[test]
fn every_table_is_declared_as_the_references_or_is_known_to_be_missing() {
    let _turn = turn();
    if !TestProvider::under_test().is_tare() {
        println!("skipped: the built-in's tables are the reference");
        return;
    }
    let server = Server::start(StartSettings::new(TestProvider::under_test())).unwrap();
    let Some(server) = server.on_its_port() else { return };
    let reference_server = Server::start(StartSettings::new(TestProvider::BuiltIn)).unwrap();
    let mut subject = server.schema().unwrap();
    let mut reference = reference_server.schema().unwrap();
    let expected = expected();
    let version = &server.host().version;

    let views = installed(&mut subject, "table_type = 'VIEW'");
    let tables = installed(&mut subject, "engine = 'FEDERATED'");
    let served: BTreeSet<&String> = views.iter().chain(&tables).collect();
    let wanted = columns(&mut reference);
    let missing: Vec<&String> = wanted.keys().filter(|table| !served.contains(table)).collect();
    assert_eq!(missing, expected.missing.iter().collect::<Vec<_>>(), "the reference's that are not served");
    let own: Vec<&String> = served.iter().filter(|table| !wanted.contains_key(**table)).copied().collect();
    assert_eq!(own, expected.own.iter().collect::<Vec<_>>(), "tables of its own");

    let found = columns(&mut subject);
    let mut used = vec![false; expected.difference.len()];
    let mut unexplained = Vec::new();
    let mut differing = BTreeSet::new();
    for (table, wanted) in wanted.iter().filter(|(table, _)| served.contains(table)) {
        let found = &found[table];
        let names: BTreeSet<&String> = wanted.keys().chain(found.keys()).collect();
        for column in names {
            let (wanted, found) = (wanted.get(column), found.get(column));
            for it in TRAITS {
                let (wanted, found) = (wanted.map(|of| &of[it]), found.map(|of| &of[it]));
                let explains = |why: &ColumnDifference| {
                    matches(&why.table, table)
                        && matches(&why.column, column)
                        && why.traits.iter().any(|name| name == it)
                        && matches(&why.host, version)
                };
                if wanted == found {
                    continue;
                }
                differing.insert(table.clone());
                match expected.difference.iter().position(explains) {
                    Some(at) => used[at] = true,
                    None => unexplained.push(format!("{table}.{column} {it}: {wanted:?}, not {found:?}")),
                }
            }
        }
    }
    assert_eq!(unexplained, Vec::<String>::new(), "differences nobody explained");
    let for_this_host = |at: &usize| matches(&expected.difference[*at].host, version);
    let stale: Vec<&ColumnDifference> = (0..used.len())
        .filter(|at| !used[*at])
        .filter(for_this_host)
        .map(|at| &expected.difference[at])
        .collect();
    assert!(stale.is_empty(), "differences that no longer occur: {stale:?}");

    // What the server shows beyond that is in the text; where the columns differ it differs, too.
    let alike = |table: &&String| wanted.contains_key(*table) && !differing.contains(*table);
    for table in tables.iter().filter(alike) {
        assert_eq!(shown(&mut subject, table), shown(&mut reference, table), "{table}");
    }
    let without: Vec<&String> = tables.iter().filter(|table| keys(&mut subject, table).is_empty()).collect();
    assert_eq!(without, expected.keys.without.iter().collect::<Vec<_>>(), "tables without keys");
    for table in wanted.keys() {
        assert_eq!(
            keys(&mut reference, table),
            Vec::<String>::new(),
            "the reference shows keys now: {table}"
        );
    }
    assert!(tables.len() > 40 && views.len() > 2, "{tables:?}, {views:?}");
}

/// `expected/mysql.toml`.
#[derive(Debug, Deserialize)]
struct OfMysql {
    missing: Vec<String>,
    own: Vec<String>,
    missing_columns: Vec<String>,
    difference: Vec<OtherType>,
}

/// A column that has another type than MySQL's, or other NULLs, and why.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OtherType {
    /// Name as table.column.
    column: String,
    /// What MySQL has.
    mysql: String,
    #[allow(dead_code)] // for the reader
    reason: String,
}

/// MySQL's columns by table, each with its type as MariaDB prints it.
fn mysqls() -> BTreeMap<String, Vec<(String, String)>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tare-tables/src/mysql/columns.tsv");
    let mut tables: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    for line in std::fs::read_to_string(path).unwrap().lines() {
        let [table, column, sql_type, nullable] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("not four fields: {line}");
        };
        let width = [("bigint", 20), ("int", 11), ("mediumint", 8), ("smallint", 6), ("tinyint", 4)];
        let mut sql_type = sql_type.to_owned();
        if let Some((name, digits)) = width.iter().find(|(name, _)| sql_type.split(' ').next() == Some(name))
        {
            let digits = if sql_type == "int unsigned" { 10 } else { *digits };
            sql_type = sql_type.replacen(name, &format!("{name}({digits})"), 1);
        }
        let null = if nullable == "YES" { " or NULL" } else { "" };
        tables.entry(table.into()).or_default().push((column.to_uppercase(), sql_type + null));
    }
    tables
}

#[test]
fn every_table_of_the_extended_shape_is_declared_as_mysqls_or_the_difference_is_explained() {
    let _turn = turn();
    if !TestProvider::under_test().is_tare() {
        println!("skipped: the built-in has one shape");
        return;
    }
    let options = vec![("shape".to_owned(), "extended".to_owned())];
    let server = Server::start(StartSettings::new(TestProvider::Tare(options))).unwrap();
    let Some(server) = server.on_its_port() else { return };
    let mut schema = server.schema().unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("expected/mysql.toml");
    let expected: OfMysql = toml::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();

    let wanted = mysqls();
    let found = columns(&mut schema);
    let missing: Vec<&String> = wanted.keys().filter(|table| !found.contains_key(*table)).collect();
    assert_eq!(missing, expected.missing.iter().collect::<Vec<_>>(), "MySQL's tables that are missing");
    let own: Vec<&String> = found.keys().filter(|table| !wanted.contains_key(*table)).collect();
    assert_eq!(own, expected.own.iter().collect::<Vec<_>>(), "tables of its own");

    let views = installed(&mut schema, "table_type = 'VIEW'");
    let mut used = vec![false; expected.difference.len()];
    let (mut unexplained, mut missing) = (Vec::new(), Vec::new());
    for (table, wanted) in &wanted {
        let Some(found) = found.get(table) else { continue };
        let mut position = 0;
        for (column, sql_type) in wanted {
            let name = format!("{table}.{column}");
            let Some(traits) = found.get(column) else {
                missing.push(name);
                continue;
            };
            position += 1;
            assert_eq!(traits["ORDINAL_POSITION"], position.to_string(), "{name}: MySQL's order");
            let null = if traits["IS_NULLABLE"] == "YES" { " or NULL" } else { "" };
            let own = format!("{}{null}", traits["COLUMN_TYPE"]);
            if own == *sql_type || views.contains(table) {
                continue;
            }
            let explains = |why: &OtherType| {
                matches(&why.column, &name) && sql_type.trim_end_matches(" or NULL") == why.mysql
            };
            match expected.difference.iter().position(explains) {
                Some(at) => used[at] = true,
                None => unexplained.push(format!("{name}: {sql_type}, not {own}")),
            }
        }
    }
    assert_eq!(missing, expected.missing_columns, "MySQL's columns that are missing");
    assert_eq!(unexplained, Vec::<String>::new(), "differences nobody explained");
    let stale: Vec<&OtherType> =
        (0..used.len()).filter(|at| !used[*at]).map(|at| &expected.difference[at]).collect();
    assert!(stale.is_empty(), "differences that no longer occur: {stale:?}");
}
