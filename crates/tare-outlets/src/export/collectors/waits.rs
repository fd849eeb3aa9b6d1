//! Collectors of waits: by instrument, and by class.

use std::collections::BTreeMap;

use crate::export::collector::{Collector, CollectorGroup, Scrape};
use crate::export::sample::{MetricDescription, MetricNumber};
use crate::source::Error;

static BY_NAME: Collector = Collector {
    name: "perf_schema.eventswaits",
    help: "Waits by instrument, from events_waits_summary_global_by_event_name",
    on: true,
    limit: None,
};

static BY_CLASS: Collector = Collector {
    name: "tare.waits",
    help: "Waits by class (io/file, synch/mutex …), summed up from the same table",
    on: true,
    limit: None,
};

/// The group that reads the waits.
pub(super) const GROUP: CollectorGroup = CollectorGroup { collectors: &[&BY_NAME, &BY_CLASS], read };

static COUNT: MetricDescription = MetricDescription::counter(
    "mysql_perf_schema_events_waits_total",
    "The total events waits by event name.",
);
static SECONDS: MetricDescription = MetricDescription::counter(
    "mysql_perf_schema_events_waits_seconds_total",
    "The total seconds of events waits by event name.",
);
static CLASS_COUNT: MetricDescription = MetricDescription::counter("tare_waits_total", "Waits by class.");
static CLASS_SECONDS: MetricDescription =
    MetricDescription::counter("tare_waits_seconds_total", "Time of waits by class.");

fn read(scrape: &mut Scrape<'_>) -> Result<(), Error> {
    let mut classes: BTreeMap<String, (u128, u128)> = BTreeMap::new();
    let by_name = scrape.wants(&BY_NAME);
    let samples = &mut scrape.samples;
    let columns = ["EVENT_NAME", "COUNT_STAR", "SUM_TIMER_WAIT"];
    scrape.tables.each("events_waits_summary_global_by_event_name", &columns, "", &mut |row| {
        let (name, count, time) = (row.text(0).unwrap_or_default(), row.total(1), row.total(2));
        let class = classes.entry(class(&name).to_owned()).or_default();
        *class = (class.0.saturating_add(count), class.1.saturating_add(time));
        if by_name {
            samples.add(&COUNT, &[("event_name", &name)], MetricNumber::count(count));
            samples.add(&SECONDS, &[("event_name", &name)], MetricNumber::seconds(time));
        }
    })?;
    if scrape.wants(&BY_CLASS) {
        for (class, (count, time)) in &classes {
            scrape.samples.add(&CLASS_COUNT, &[("class", class)], MetricNumber::count(*count));
            scrape.samples.add(&CLASS_SECONDS, &[("class", class)], MetricNumber::seconds(*time));
        }
    }
    Ok(())
}

/// Returns the class of an instrument: `synch/mutex` for `wait/synch/mutex/sql/LOCK_open`, `idle` for `idle`.
fn class(name: &str) -> &str {
    let name = name.strip_prefix("wait/").unwrap_or(name);
    let end = name.match_indices('/').nth(1).map_or(name.len(), |(at, _)| at);
    &name[..end]
}

#[cfg(test)]
mod tests {
    use super::class;

    #[test]
    fn a_class_is_what_is_waited_for() {
        assert_eq!(class("wait/synch/mutex/sql/LOCK_open"), "synch/mutex");
        assert_eq!(class("wait/io/table/sql/handler"), "io/table");
        assert_eq!(class("wait/lock/metadata"), "lock/metadata");
        assert_eq!(class("idle"), "idle");
    }
}
