//! The collector of tare itself: its version, its memory, and what it lost for lack of room.

use tare_engine::snapshot::WaitClass;

use crate::export::collector::{Collector, CollectorGroup, Scrape};
use crate::export::sample::{MetricDescription, MetricNumber};
use crate::source::Error;

static STATUS: Collector = Collector {
    name: "tare.status",
    help: "Tare's version, memory, consumers, what it lost, and active sessions by wait class, from tare_status",
    on: true,
    limit: None,
};

/// The group that reads the status.
pub(super) const GROUP: CollectorGroup = CollectorGroup { collectors: &[&STATUS], read };

static INFO: MetricDescription = MetricDescription::gauge("tare_info", "Tare's version, as a label.");
static USED: MetricDescription =
    MetricDescription::gauge("tare_memory_used_bytes", "Memory tare holds in the server.");
static CAP: MetricDescription =
    MetricDescription::gauge("tare_memory_cap_bytes", "Memory tare may hold in the server.");
static EVICTED: MetricDescription =
    MetricDescription::counter("tare_digests_evicted_total", "Digests that lost their place to others.");
static LOST: MetricDescription =
    MetricDescription::counter("tare_lost_total", "What was lost for want of room, by what it was.");
static ACTIVE: MetricDescription = MetricDescription::counter(
    "tare_active_session_seconds_total",
    "Time of active sessions by what it went to, sampled; its rate is the average number of active sessions.",
);
static PROCESSORS: MetricDescription =
    MetricDescription::gauge("tare_processors", "Processors that the server may use.");
static CONSUMER: MetricDescription =
    MetricDescription::gauge("tare_consumer_enabled", "Whether a consumer is on.");

fn read(scrape: &mut Scrape<'_>) -> Result<(), Error> {
    let samples = &mut scrape.samples;
    // The server would have to compute the rows about the budget.
    let filter = "WHERE `NAME` NOT LIKE 'budget%'";
    let found = scrape.tables.each("tare_status", &["NAME", "VALUE"], filter, &mut |row| {
        let (name, value) = (row.text(0).unwrap_or_default(), row.text(1).unwrap_or_default());
        let number = value.parse::<u64>().ok();
        match (name.as_str(), number) {
            ("version", _) => samples.add(&INFO, &[("version", &value)], 1_u64),
            ("memory_used", Some(bytes)) => samples.add(&USED, &[], bytes),
            ("memory_cap", Some(bytes)) => samples.add(&CAP, &[], bytes),
            ("processors", Some(count)) => samples.add(&PROCESSORS, &[], count),
            ("digests_evicted", Some(count)) => samples.add(&EVICTED, &[], count),
            (name, Some(us)) if name.starts_with(WaitClass::TIME_ROW) => {
                let class = name.trim_start_matches(WaitClass::TIME_ROW).replace('_', " ");
                samples.add(&ACTIVE, &[("class", &class)], MetricNumber::seconds(u128::from(us) * 1_000_000));
            }
            _ => match (name.strip_suffix("_lost"), name.strip_prefix("consumer_"), number) {
                (Some(what), _, Some(count)) => samples.add(&LOST, &[("what", what)], count),
                (_, Some(consumer), _) => samples.add(&CONSUMER, &[("consumer", consumer)], value == "YES"),
                _ => {}
            },
        }
    });
    match found {
        // A server without tare.
        Err(Error::Absent { .. }) => Ok(()),
        found => found,
    }
}
