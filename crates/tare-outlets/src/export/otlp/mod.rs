//! Pushes scrapes to an OpenTelemetry collector: OTLP over HTTP, as protobuf.
//!
//! OpenTelemetry's SDK counts by itself; its observed values have neither a start of their own nor quantiles
//! nor buckets. So its messages are filled here, and the rest of the protocol is a POST.
//!
//! Figures are cumulative: a scrape that could not be pushed is dropped, and the next one has everything. So
//! nothing is buffered, and a server is not even read while its collector is unreachable.

mod client;
mod points;
mod settings;

use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::body::Bytes;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsPartialSuccess;
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message as _;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use super::sample::{MetricDescription, Samples};
use super::web::{PATIENCE, Service};
use crate::Address;
use crate::notice;
use client::{Client, PushFailure};
pub use points::{Requests, Streams};
pub use settings::{CollectorEndpoint, Error, OtlpSettings, TlsFiles};

/// Pause after the first failure, which doubles after each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Shortest pause, even if a collector asks for none.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(32);

static POINTS: MetricDescription = MetricDescription::counter(
    "tare_export_otlp_points_total",
    "Points pushed over OTLP, by what became of them.",
);
static FAILURES: MetricDescription = MetricDescription::counter(
    "tare_export_otlp_failures_total",
    "Tries to reach the collector or to push that failed.",
);
static MISSED: MetricDescription = MetricDescription::counter(
    "tare_export_otlp_intervals_missed_total",
    "Intervals in which nothing was pushed: the collector was away, or the server did not answer in time.",
);

/// Counts of what was pushed.
#[derive(Debug, Default)]
pub(super) struct PushCounts {
    taken: AtomicU64,
    rejected: AtomicU64,
    dropped: AtomicU64,
    failures: AtomicU64,
    missed: AtomicU64,
}

impl PushCounts {
    pub(super) fn add_to(&self, samples: &mut Samples) {
        let all = [("taken", &self.taken), ("rejected", &self.rejected), ("dropped", &self.dropped)];
        for (result, count) in all {
            samples.add(&POINTS, &[("result", result)], count.load(Ordering::Relaxed));
        }
        samples.add(&FAILURES, &[], self.failures.load(Ordering::Relaxed));
        samples.add(&MISSED, &[], self.missed.load(Ordering::Relaxed));
    }
}

/// Checks what can be checked beforehand: the files for TLS.
///
/// # Errors
///
/// The file that cannot be used, and the reason.
pub fn check(settings: &OtlpSettings) -> io::Result<()> {
    if settings.endpoint.tls { client::tls(&settings.tls).map(drop) } else { Ok(()) }
}

/// Returns the resource attributes: those of the server, with additions and changes from the environment.
#[must_use]
pub fn resource(settings: &OtlpSettings, address: &Address) -> Resource {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim();
    let mut usual = vec![("service.name", "tare".to_owned())];
    match address {
        Address::Socket(path) => {
            usual.push(("service.instance.id", format!("{host}:{}", path.display())));
            usual.push(("host.name", host.to_owned()));
        }
        Address::Account(_) => usual.push(("service.instance.id", address.to_string())),
    }
    let said = |name: &str| settings.resource.iter().any(|(it, _)| it == name);
    let usual = usual.iter().filter(|(name, _)| !said(name)).map(|(name, value)| (*name, value.as_str()));
    let given = settings.resource.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let attributes = usual.chain(given).map(|(name, value)| points::attribute(name, value)).collect();
    Resource { attributes, ..Resource::default() }
}

/// Pushes until the task is cancelled.
pub(super) async fn push(settings: OtlpSettings, tally: Arc<PushCounts>, service: Arc<Service>) {
    let resource = resource(&settings, service.address());
    let OtlpSettings { interval: every, timeout, gzip: compressed, .. } = settings;
    let mut pusher = Pusher {
        voice: Voice { collector: settings.endpoint.to_string(), said: None },
        client: Client::new(settings),
        tally,
    };
    let mut streams = Streams::new(SystemTime::now());
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        let until = ticks.tick().await + every;
        if pusher.persist(None, until).await.is_err() {
            pusher.tally.missed.fetch_add(1, Ordering::Relaxed);
            continue;
        }
        let Some(look) = service.clone().look(service.collectors(), PATIENCE).await else {
            pusher.tally.missed.fetch_add(1, Ordering::Relaxed);
            continue;
        };
        // However long the scrape took, there is time to push it.
        let until = until.max(Instant::now() + timeout);
        for (request, points) in Requests::of(&look, &mut streams, &resource) {
            let body = request.encode_to_vec();
            drop(request);
            let body = if compressed { compress(&body) } else { body };
            pusher.push(body.into(), points as u64, until).await;
        }
    }
}

fn compress(body: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    // Writing to a Vec cannot fail.
    let _ = encoder.write_all(body);
    encoder.finish().unwrap_or_default()
}

/// Retries, counts, and reports problems.
struct Pusher {
    client: Client,
    tally: Arc<PushCounts>,
    voice: Voice,
}

impl Pusher {
    async fn push(&mut self, body: Bytes, points: u64, until: Instant) {
        let Ok(answer) = self.persist(Some(body), until).await else {
            self.tally.dropped.fetch_add(points, Ordering::Relaxed);
            return;
        };
        let rejected = u64::try_from(answer.rejected_data_points).unwrap_or(0).min(points);
        self.tally.rejected.fetch_add(rejected, Ordering::Relaxed);
        self.tally.taken.fetch_add(points - rejected, Ordering::Relaxed);
        match (rejected, answer.error_message) {
            (0, message) if message.is_empty() => self.voice.say(None),
            (0, message) => self.voice.say(Some((Trouble::Warned, message))),
            (rejected, message) => {
                let why = format!("it did not take {rejected} points: {message}");
                self.voice.say(Some((Trouble::Partly, why)));
            }
        }
    }

    /// Sends a body, or only connects, with retries until that is useless or the next scrape is due.
    async fn persist(
        &mut self,
        body: Option<Bytes>,
        until: Instant,
    ) -> Result<ExportMetricsPartialSuccess, ()> {
        let mut pause = FIRST_PAUSE;
        while Instant::now() < until {
            let (why, after) = match self.client.send(body.clone()).await {
                Ok(answer) => return Ok(answer),
                Err(PushFailure::Final(why)) => {
                    self.tally.failures.fetch_add(1, Ordering::Relaxed);
                    self.voice.say(Some((Trouble::Refused, why)));
                    return Err(());
                }
                Err(PushFailure::Passing { why, after }) => (why, after),
            };
            self.tally.failures.fetch_add(1, Ordering::Relaxed);
            self.voice.say(Some((Trouble::Away, why)));
            // Half of the pause is random, so that many exporters do not retry at the same time.
            let wait =
                after.unwrap_or_else(|| pause.mul_f64(0.5 + fastrand::f64() / 2.0)).max(SHORTEST_PAUSE);
            if wait >= until.saturating_duration_since(Instant::now()) {
                break;
            }
            sleep(wait).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        Err(())
    }
}

/// The state of a collector.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trouble {
    Away,
    Refused,
    Partly,
    Warned,
}

/// Reports each problem once, and its end.
struct Voice {
    collector: String,
    said: Option<Trouble>,
}

impl Voice {
    fn say(&mut self, trouble: Option<(Trouble, String)>) {
        let kind = trouble.as_ref().map(|(kind, _)| *kind);
        if kind == self.said {
            return;
        }
        self.said = kind;
        let collector = &self.collector;
        match trouble {
            None => {
                notice::write(format_args!("tare export: {collector}: the collector takes everything again"));
            }
            Some((Trouble::Away, why)) => {
                notice::write(format_args!("tare export: {collector}: {why}; tried again"));
            }
            Some((_, why)) => notice::write(format_args!("tare export: {collector}: {why}")),
        }
    }
}
