//! Which tables there are for a client, and what it calls them.

use tare_tables::{STREAMS, Table};

use crate::failure::Failure;

/// The schema all tables are in.
pub(crate) const SCHEMA: &str = "performance_schema";

/// The table that goes by this name inside the host's own process; `None` where nobody has given it that name.
pub type NameInside = fn(&str) -> Option<String>;

/// The tables and their names.
#[derive(Clone, Copy)]
pub(crate) struct Catalog {
    pub(crate) tables: &'static [&'static dyn Table],
    /// What they are called, where not by their own names.
    pub(crate) inside: Option<NameInside>,
}

impl Catalog {
    /// The table a client means.
    pub(crate) fn find(&self, schema: &str, name: &str) -> Result<&'static dyn Table, Failure> {
        let unknown = || match self.inside {
            // Not a word of what was asked for: it may be somebody's secret.
            Some(_) => Failure::not_by_this_name(),
            None => Failure::unknown_table(schema, name),
        };
        if !schema.eq_ignore_ascii_case(SCHEMA) {
            return Err(unknown());
        }
        let own = match self.inside {
            Some(name_inside) => &name_inside(name).ok_or_else(unknown)?,
            None => name,
        };
        let streams = STREAMS.iter().map(|stream| *stream as &dyn Table);
        let mut all = self.tables.iter().copied().chain(streams);
        all.find(|it| it.name().eq_ignore_ascii_case(own)).ok_or_else(unknown)
    }
}
