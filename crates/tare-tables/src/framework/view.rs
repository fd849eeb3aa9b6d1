//! Tables whose rows the host itself has: declared here, read by the host.

use std::sync::OnceLock;

use tare_engine::Engine;

use crate::table::{Column, Query, RowSink, SqlType, Table};

/// A column of a view, with the expression that the host evaluates for it.
#[derive(Clone, Copy, Debug)]
pub struct ViewColumn {
    column: Column,
    expression: &'static str,
}

/// Declares a column that is never NULL. The host must know that the expression is never NULL.
pub(crate) const fn expressed(
    name: &'static str,
    sql_type: SqlType,
    doc: &'static str,
    expression: &'static str,
) -> ViewColumn {
    ViewColumn { column: Column { name, sql_type, nullable: false, default: None, doc }, expression }
}

/// Declares a column that may be NULL. The host must consider the expression nullable.
pub(crate) const fn expressed_or_null(
    name: &'static str,
    sql_type: SqlType,
    doc: &'static str,
    expression: &'static str,
) -> ViewColumn {
    ViewColumn { column: Column { name, sql_type, nullable: true, default: None, doc }, expression }
}

/// A view: what it shows, and where the host finds it. The endpoint has no rows of it and does not serve it.
#[derive(Debug)]
pub struct ViewDef {
    name: &'static str,
    doc: &'static str,
    columns: &'static [&'static [ViewColumn]],
    from: &'static str,
    shape: OnceLock<Vec<Column>>,
}

impl ViewDef {
    /// Declares a view: groups of columns in order, and the rest of the SELECT from its first table on. The
    /// SQL must be printable ASCII without backslashes, and mean the same in every SQL mode.
    pub(crate) const fn new(
        name: &'static str,
        doc: &'static str,
        columns: &'static [&'static [ViewColumn]],
        from: &'static str,
    ) -> Self {
        ViewDef { name, doc, columns, from, shape: OnceLock::new() }
    }
}

impl Table for ViewDef {
    fn name(&self) -> &'static str {
        self.name
    }

    fn doc(&self) -> &'static str {
        self.doc
    }

    fn columns(&self) -> &[Column] {
        self.shape.get_or_init(|| self.columns.iter().copied().flatten().map(|it| it.column).collect())
    }

    fn body(&self) -> Option<String> {
        let columns = self.columns.iter().copied().flatten();
        let columns: Vec<String> =
            columns.map(|it| format!("{} AS `{}`", it.expression, it.column.name)).collect();
        Some(format!("SELECT {} FROM {}", columns.join(", "), self.from))
    }

    fn scan(&self, _: &Engine, _: &Query<'_>, _: RowSink<'_>) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    static PAIR: ViewDef = ViewDef::new(
        "pair",
        "",
        &[
            &[expressed("A", SqlType::Int, "", "1")],
            &[expressed_or_null("B", SqlType::LongText, "", "nullif('x', `T`)")],
        ],
        "`s`.`t` WHERE 1",
    );

    #[test]
    fn a_view_is_the_select_of_its_expressions() {
        let body = PAIR.body().expect("a view");
        assert_eq!(body, "SELECT 1 AS `A`, nullif('x', `T`) AS `B` FROM `s`.`t` WHERE 1");
        let names: Vec<(&str, bool)> = PAIR.columns().iter().map(|it| (it.name, it.nullable)).collect();
        assert_eq!(names, [("A", false), ("B", true)]);
    }

    #[test]
    fn bodies_need_no_escapes() {
        let bodies = crate::Shape::Extended.tables().iter().filter_map(|table| table.body());
        for body in bodies {
            assert!(body.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'\\'), "{body}");
            assert!(!body.contains('"') && !body.contains("||"), "means other things in other modes: {body}");
        }
    }
}
