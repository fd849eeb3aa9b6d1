//! The tables as a document: `docs/tables.md` is generated from the declarations.

use std::fmt::Write;

use crate::ddl::sql_type_text;
use crate::table::{Access, Column, Table};

/// The whole of `docs/tables.md`.
pub fn markdown(tables: &[&dyn Table]) -> String {
    let mut text = String::from(
        "# Tables\n\n\
         Generated from the declarations in `crates/tare-tables`; do not edit. To bring it up to date:\n\
         `TARE_UPDATE_DOCS=1 cargo test -p tare-tables --test document`.\n\n\
         All are served in the schema `performance_schema`. Times are picoseconds.\n\n\
         | table | may be |\n|---|---|\n",
    );
    for table in tables {
        let _ = writeln!(text, "| [`{0}`](#{0}) | {1} |", table.name(), access(table.access()));
    }
    for table in tables {
        section(&mut text, *table);
    }
    text
}

fn section(text: &mut String, table: &dyn Table) {
    let _ = write!(text, "\n## {}\n\n{}\n\n", table.name(), table.doc());
    let view = if table.body().is_some() { " A view over the server's own tables." } else { "" };
    let _ = writeln!(text, "May be {}.{}{view}\n", access(table.access()), indexes(table));
    text.push_str("| column | type | meaning |\n|---|---|---|\n");
    for Column { name, sql_type, nullable, default, doc } in table.columns() {
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
