//! Collectors of files: by instrument, and one by one.

use crate::export::collector::{Collector, CollectorGroup, Scrape};
use crate::export::sample::{MetricDescription, MetricNumber};
use crate::source::Error;

static EVENTS: Collector = Collector {
    name: "perf_schema.file_events",
    help: "Accesses to files by instrument, from file_summary_by_event_name",
    on: true,
    limit: None,
};

static INSTANCES: Collector = Collector {
    name: "perf_schema.file_instances",
    help: "Accesses to files one by one, from file_summary_by_instance",
    on: false,
    limit: Some(1000),
};

/// The group that reads files by instrument.
pub(super) const EVENTS_GROUP: CollectorGroup = CollectorGroup { collectors: &[&EVENTS], read: read_events };
/// The group that reads files one by one.
pub(super) const INSTANCES_GROUP: CollectorGroup =
    CollectorGroup { collectors: &[&INSTANCES], read: read_instances };

static COUNT: MetricDescription = MetricDescription::counter(
    "mysql_perf_schema_file_events_total",
    "The total file events by event name/mode.",
);
static SECONDS: MetricDescription = MetricDescription::counter(
    "mysql_perf_schema_file_events_seconds_total",
    "The total seconds of file events by event name/mode.",
);
static BYTES: MetricDescription = MetricDescription::counter(
    "mysql_perf_schema_file_events_bytes_total",
    "The total bytes of file events by event name/mode.",
);
static FILE_COUNT: MetricDescription = MetricDescription::counter(
    "mysql_perf_schema_file_instances_total",
    "The total number of file read/write operations.",
);
static FILE_BYTES: MetricDescription = MetricDescription::counter(
    "mysql_perf_schema_file_instances_bytes",
    "The number of bytes processed by file read/write operations.",
);

fn read_events(scrape: &mut Scrape<'_>) -> Result<(), Error> {
    let samples = &mut scrape.samples;
    let columns = [
        "EVENT_NAME",
        "COUNT_READ",
        "SUM_TIMER_READ",
        "SUM_NUMBER_OF_BYTES_READ",
        "COUNT_WRITE",
        "SUM_TIMER_WRITE",
        "SUM_NUMBER_OF_BYTES_WRITE",
        "COUNT_MISC",
        "SUM_TIMER_MISC",
    ];
    scrape.tables.each("file_summary_by_event_name", &columns, "", &mut |row| {
        let name = row.text(0).unwrap_or_default();
        for (mode, at) in [("read", 1), ("write", 4), ("misc", 7)] {
            let labels = [("event_name", &*name), ("mode", mode)];
            samples.add(&COUNT, &labels, row.count(at));
            samples.add(&SECONDS, &labels, MetricNumber::seconds(row.total(at + 1)));
            if mode != "misc" {
                samples.add(&BYTES, &labels, row.count(at + 2));
            }
        }
    })
}

fn read_instances(scrape: &mut Scrape<'_>) -> Result<(), Error> {
    let options = scrape.options;
    let columns = [
        "FILE_NAME",
        "EVENT_NAME",
        "COUNT_READ",
        "COUNT_WRITE",
        "SUM_NUMBER_OF_BYTES_READ",
        "SUM_NUMBER_OF_BYTES_WRITE",
    ];
    let rows = scrape.highest(
        &INSTANCES,
        ("file_summary_by_instance", &columns),
        |row| row.text(0).is_some_and(|name| options.file_filter.is_match(&name)),
        |row| row.total(4).saturating_add(row.total(5)),
    )?;
    for row in rows {
        let (file, event) = (row.text(0).unwrap_or_default(), row.text(1).unwrap_or_default());
        let file = file.strip_prefix(&options.file_prefix).unwrap_or(&file);
        for (mode, at) in [("read", 2), ("write", 3)] {
            let labels = [("file_name", file), ("event_name", &*event), ("mode", mode)];
            scrape.samples.add(&FILE_COUNT, &labels, row.count(at));
            scrape.samples.add(&FILE_BYTES, &labels, row.count(at + 2));
        }
    }
    Ok(())
}
