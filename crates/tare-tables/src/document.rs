//! The tables as pages: `docs/reference/tables.md` and the pages below `docs/reference/tables/`, a page per
//! group, are generated from the declarations.

mod groups;

use std::fmt::Write;

use crate::ddl::sql_type_text;
use crate::shape::{Shape, TABLES};
use crate::table::{Access, Column, Table};
use groups::{GROUPS, TableGroup};

/// A page of the documents.
pub struct DocumentPage {
    /// Its file, below `docs/reference`.
    pub file: String,
    /// Its content, Markdown.
    pub text: String,
}

/// Returns the index of all tables and a page per group, with the tables of both shapes.
pub fn pages() -> Vec<DocumentPage> {
    let index = DocumentPage { file: "tables.md".into(), text: index() };
    let page =
        |group: &TableGroup| DocumentPage { file: format!("tables/{}.md", group.file), text: page(group) };
    [index].into_iter().chain(GROUPS.iter().map(page)).collect()
}

const GENERATED: &str = "Generated from the declarations in `crates/tare-tables`; do not edit. To bring it up to date:\n\
                         `TARE_UPDATE_DOCS=1 cargo test -p tare-tables --test document`.\n";

fn index() -> String {
    let mut text = String::from(
        "# Tables\n\n\
         For authors of queries: every table that tare serves, by group. A group's page has columns, indexes and what is allowed.\n\n\
         ```sql\n\
         SELECT * FROM performance_schema.tare_status;\n\
         ```\n\n\
         All tables are in the schema `performance_schema`. Times are in picoseconds. [Recipes](../how-to/recipes.md) has\n\
         queries to begin with.\n\n\
         | group | has |\n|---|---|\n",
    );
    for TableGroup { file, title, .. } in GROUPS {
        let page = format!("tables/{file}.md");
        let names: Vec<String> =
            tables_of(file).map(|it| format!("[`{0}`]({page}#{0})", it.name())).collect();
        let _ = writeln!(text, "| [{title}]({page}) | {} |", names.join(", "));
    }
    text.push_str(
        "\n**Shapes.** By default (`shape = strict`) tare has MariaDB's tables and columns. With `shape = extended` there \
         are more\n\
         tables, and those of both shapes have MySQL's columns, too, in MySQL's order. Each page says which.\n\n",
    );
    text.push_str(GENERATED);
    text
}

fn page(group: &TableGroup) -> String {
    let mut text = format!("# Tables: {}\n\nFor authors of queries: {}\n\n", group.title, group.about);
    let _ = write!(text, "```sql\n{}\n```\n\n", group.example);
    text.push_str("Times are in picoseconds. *MariaDB's own* is the Performance Schema that is part of MariaDB. [All tables](../tables.md).\n\n");
    text.push_str("| table | in shape | statements |\n|---|---|---|\n");
    for table in tables_of(group.file) {
        let shape = if strict(table).is_some() { "both" } else { "`extended`" };
        let _ = writeln!(text, "| [`{0}`](#{0}) | {shape} | {1} |", table.name(), access(table.access()));
    }
    text.push('\n');
    text.push_str(GENERATED);
    for table in tables_of(group.file) {
        match strict(table) {
            Some(strict) => section(&mut text, strict, &further(strict, table)),
            None => section(&mut text, table, &[]),
        }
    }
    text
}

/// Returns the tables of a group in the order of their declarations.
fn tables_of(file: &str) -> impl Iterator<Item = &'static dyn Table> {
    Shape::Extended.tables().iter().copied().filter(move |it| groups::of(it.name()) == file)
}

/// Returns the table of this name in the shape `strict`.
fn strict(table: &dyn Table) -> Option<&'static dyn Table> {
    TABLES.iter().find(|it| it.name() == table.name()).copied()
}

/// Returns the columns that only the extended table has.
fn further(strict: &dyn Table, extended: &'static dyn Table) -> Vec<&'static Column> {
    let is_strict = |name: &str| strict.columns().iter().any(|it| it.name == name);
    extended.columns().iter().filter(|it| !is_strict(it.name)).collect()
}

fn section(text: &mut String, table: &dyn Table, further: &[&Column]) {
    let _ = write!(text, "\n## {}\n\n{}\n\n", table.name(), table.doc());
    let view = if table.body().is_some() { " A view over the server's own tables." } else { "" };
    let _ = writeln!(text, "Allows {}.{}{view}\n", access(table.access()), indexes(table));
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
        Access::Read => "SELECT",
        Access::Truncate => "SELECT, TRUNCATE",
        Access::Update => "SELECT, UPDATE",
        Access::Edit => "SELECT, INSERT, UPDATE, DELETE, TRUNCATE",
    }
}

fn indexes(table: &dyn Table) -> String {
    let name = |position: &usize| table.columns().get(*position).map(|column| format!("`{}`", column.name));
    let index = |index: &&[usize]| index.iter().filter_map(name).collect::<Vec<_>>().join(", ");
    let indexes: Vec<String> = table.indexes().iter().map(|it| format!("({})", index(it))).collect();
    if indexes.is_empty() { String::new() } else { format!(" Indexes: {}.", indexes.join(", ")) }
}
