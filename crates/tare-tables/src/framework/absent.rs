//! Tables of MySQL that are always empty.

use tare_engine::Engine;

use crate::mysql;
use crate::table::{Column, Query, RowSink, Table};

/// A table of MySQL that has no rows here, because the host has nothing like what it shows.
#[derive(Debug)]
pub(crate) struct AbsentDef {
    name: &'static str,
    doc: &'static str,
}

impl AbsentDef {
    /// Declares a table; `doc` says why it is empty.
    pub(crate) const fn new(name: &'static str, doc: &'static str) -> Self {
        AbsentDef { name, doc }
    }
}

impl Table for AbsentDef {
    fn name(&self) -> &'static str {
        self.name
    }

    fn doc(&self) -> &'static str {
        self.doc
    }

    fn columns(&self) -> &[Column] {
        mysql::columns(self.name)
    }

    fn scan(&self, _: &Engine, _: &Query<'_>, _: RowSink<'_>) {}
}
