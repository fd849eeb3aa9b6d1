//! The collectors. Names, help, labels and units of metrics are those of mysqld_exporter 0.20, where it has
//! them, so that its dashboards and rules work; tare's own metrics begin with `tare_`.

mod files;
mod memory;
mod objects;
mod replication;
mod statements;
mod status;
mod waits;

use super::collector::{Collector, CollectorGroup};

/// All groups of collectors.
pub static GROUPS: &[CollectorGroup] = &[
    status::GROUP,
    statements::GROUP,
    statements::OVERALL_GROUP,
    waits::GROUP,
    files::EVENTS_GROUP,
    files::INSTANCES_GROUP,
    objects::TABLES_GROUP,
    objects::INDEXES_GROUP,
    objects::LOCKS_GROUP,
    memory::GROUP,
    replication::GROUP,
];

/// Returns all collectors.
pub fn all() -> impl Iterator<Item = &'static Collector> {
    GROUPS.iter().flat_map(|group| group.collectors.iter().copied())
}
