//! The collector of memory by instrument.

use crate::export::collector::{Collector, CollectorGroup, Scrape};
use crate::export::sample::{MetricDescription, MetricNumber};
use crate::source::Error;

static MEMORY: Collector = Collector {
    name: "perf_schema.memory_events",
    help: "Memory by instrument, from memory_summary_global_by_event_name",
    on: true,
    limit: None,
};

/// The group that reads memory.
pub(super) const GROUP: CollectorGroup = CollectorGroup { collectors: &[&MEMORY], read };

static ALLOCATED: MetricDescription = MetricDescription::counter(
    "mysql_perf_schema_memory_events_alloc_bytes_total",
    "The total number of bytes allocated by events.",
);
static FREED: MetricDescription = MetricDescription::counter(
    "mysql_perf_schema_memory_events_free_bytes_total",
    "The total number of bytes freed by events.",
);
static USED: MetricDescription = MetricDescription::gauge(
    "mysql_perf_schema_memory_events_used_bytes",
    "The number of bytes currently allocated by events.",
);

fn read(scrape: &mut Scrape<'_>) -> Result<(), Error> {
    let prefix = &scrape.options.memory_prefix;
    let samples = &mut scrape.samples;
    let columns = [
        "EVENT_NAME",
        "SUM_NUMBER_OF_BYTES_ALLOC",
        "SUM_NUMBER_OF_BYTES_FREE",
        "CURRENT_NUMBER_OF_BYTES_USED",
    ];
    let table = "memory_summary_global_by_event_name";
    scrape.tables.each(table, &columns, "WHERE `COUNT_ALLOC` > 0", &mut |row| {
        let name = row.text(0).unwrap_or_default();
        let labels = [("event_name", name.strip_prefix(prefix).unwrap_or(&name))];
        samples.add(&ALLOCATED, &labels, row.count(1));
        samples.add(&FREED, &labels, row.count(2));
        samples.add(&USED, &labels, MetricNumber::Signed(row.signed(3).unwrap_or(0)));
    })
}
