//! The tables as a document: `docs/reference/tables.md` is generated from the declarations.

use std::fmt::Write;

use crate::ddl::sql_type_text;
use crate::shape::{Shape, TABLES};
use crate::table::{Access, Column, Table};

/// Returns the content of `docs/reference/tables.md`: the tables of both shapes.
pub fn markdown() -> String {
    let strict = |table: &'static dyn Table| TABLES.iter().find(|it| it.name() == table.name()).copied();
    let tables = Shape::Extended.tables();
    let mut text = String::from(
        "# Tables\n\n\
         For authors of queries: every table and column that tare serves, and what may be done with it.\n\n\
         ```sql\n\
         SELECT * FROM performance_schema.tare_status;\n\
         ```\n\n\
         All are served in the schema `performance_schema`. Times are picoseconds. In the shape `extended` there are \
         more tables, and those of both shapes have MySQL's columns, in MySQL's order. *The built-in* is MariaDB's own \
         Performance Schema. \
         [Recipes](../how-to/recipes.md) has queries to begin with.\n\n\
         Generated from the declarations in `crates/tare-tables`; do not edit. To bring it up to date:\n\
         `TARE_UPDATE_DOCS=1 cargo test -p tare-tables --test document`.\n\n\
         | table | shape | may be |\n|---|---|---|\n",
    );
    for table in tables {
        let shape = if strict(*table).is_some() { "both" } else { "extended" };
        let _ = writeln!(text, "| [`{0}`](#{0}) | {shape} | {1} |", table.name(), access(table.access()));
    }
    for table in tables {
        match strict(*table) {
            Some(strict) => section(&mut text, strict, &further(strict, *table)),
            None => section(&mut text, *table, &[]),
        }
    }
    text
}

/// Returns the columns that only the extended table has.
fn further(strict: &dyn Table, extended: &'static dyn Table) -> Vec<&'static Column> {
    let is_strict = |name: &str| strict.columns().iter().any(|it| it.name == name);
    extended.columns().iter().filter(|it| !is_strict(it.name)).collect()
}

fn section(text: &mut String, table: &dyn Table, further: &[&Column]) {
    let _ = write!(text, "\n## {}\n\n{}\n\n", table.name(), table.doc());
    let view = if table.body().is_some() { " A view over the server's own tables." } else { "" };
    let _ = writeln!(text, "May be {}.{}{view}\n", access(table.access()), indexes(table));
    columns(text, &table.columns().iter().collect::<Vec<_>>());
    if !further.is_empty() {
        text.push_str("\nIn the shape `extended` also:\n\n");
        columns(text, further);
    }
}

fn columns(text: &mut String, columns: &[&Column]) {
    text.push_str("| column | type | meaning |\n|---|---|---|\n");
    for Column { name, sql_type, nullable, default, doc } in columns {
        let null = if *nullable { ", or NULL" } else { "" };
        let default = default.map(|default| format!(", default `{default}`")).unwrap_or_default();
        let _ = writeln!(text, "| `{name}` | {}{null}{default} | {doc} |", sql_type_text(*sql_type));
    }
}

const fn access(access: Access) -> &'static str {
    match access {
        Access::Read => "read",
        Access::Truncate => "read, truncated",
        Access::Update => "read, updated",
        Access::Edit => "read, updated, inserted into, deleted from, truncated",
    }
}

fn indexes(table: &dyn Table) -> String {
    let name = |position: &usize| table.columns().get(*position).map(|column| format!("`{}`", column.name));
    let index = |index: &&[usize]| index.iter().filter_map(name).collect::<Vec<_>>().join(", ");
    let indexes: Vec<String> = table.indexes().iter().map(|it| format!("({})", index(it))).collect();
    if indexes.is_empty() { String::new() } else { format!(" Indexes: {}.", indexes.join(", ")) }
}
