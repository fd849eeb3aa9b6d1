//! The tables that a client can name.

use tare_tables::{STREAMS, Table};

use crate::failure::ErrorPacket;

/// The schema of all tables.
pub(crate) const SCHEMA: &str = "performance_schema";

/// A function that returns the table that has this name inside the host's own process; `None` if no table has
/// it.
pub type NameInside = fn(&str) -> Option<String>;

/// The tables and their names for one client.
#[derive(Clone, Copy)]
pub(crate) struct Catalog {
    pub(crate) tables: &'static [&'static dyn Table],
    /// Translates names where the tables do not have their own names.
    pub(crate) inside: Option<NameInside>,
}

impl Catalog {
    /// Finds the table that a client names.
    pub(crate) fn find(&self, schema: &str, name: &str) -> Result<&'static dyn Table, ErrorPacket> {
        let unknown = || match self.inside {
            // The message repeats no part of the name, which may be somebody's secret.
            Some(_) => ErrorPacket::not_by_this_name(),
            None => ErrorPacket::unknown_table(schema, name),
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
