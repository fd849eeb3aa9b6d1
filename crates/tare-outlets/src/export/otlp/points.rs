//! Conversion of a scrape to OpenTelemetry's messages: cumulative, with the start of each figure.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::time::{SystemTime, UNIX_EPOCH};

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics,
    ScopeMetrics, Sum, Summary, SummaryDataPoint, metric, number_data_point, summary_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;

use crate::export::histogram;
use crate::export::sample::{MetricDescription, MetricKind, MetricNumber, MetricValue, Samples, Set};
use crate::export::scrape::ScrapeResult;

/// Most points of a request: with labels a few hundred kilobytes, while collectors accept some megabytes.
const POINTS: usize = 1000;
/// Start times of a server that differ by less (in nanoseconds) are the same start.
const SAME_START: u64 = 2_000_000_000;
/// Streams that are remembered although the last scrape did not have them: as many as it had, plus these.
const SPARE: usize = 1024;
const CUMULATIVE: i32 = AggregationTemporality::Cumulative as i32;

/// Returns nanoseconds since 1970.
fn nanoseconds(at: SystemTime) -> u64 {
    at.duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

/// The start of each counted figure.
///
/// It is the server's start until a figure falls. Then a table was truncated, or a digest or a table was
/// replaced, at some time after the previous scrape; the new stream starts there.
pub struct Streams {
    hasher: RandomState,
    known: HashMap<u64, CumulativeSeries>,
    /// Start of the exporter.
    own: u64,
    /// Start of the server.
    server: Option<u64>,
    /// Number of streams in the last scrape, and its time.
    last: (usize, u64),
}

#[derive(Clone, Copy)]
struct CumulativeSeries {
    start: u64,
    at: u64,
    value: f64,
}

impl Streams {
    /// Creates an empty set of streams for an exporter started at `started`.
    #[must_use]
    pub fn new(started: SystemTime) -> Self {
        Self {
            hasher: RandomState::new(),
            known: HashMap::new(),
            own: nanoseconds(started),
            server: None,
            last: (0, 0),
        }
    }

    /// Returns the number of remembered figures.
    #[must_use]
    pub fn remembered(&self) -> usize {
        self.known.len()
    }

    /// Begins a scrape. After a restart of the server, all figures start anew, whatever their values.
    fn begin(&mut self, look: &ScrapeResult) {
        let last = self.last.1;
        if self.known.len() > 2 * self.last.0 + SPARE {
            self.known.retain(|_, stream| stream.at == last);
        }
        self.last = (0, nanoseconds(look.at));
        let Some(started) = look.started.map(nanoseconds) else { return };
        match self.server {
            Some(server) if server.abs_diff(started) <= SAME_START => {}
            _ => {
                self.known.clear();
                self.server = Some(started);
            }
        }
    }

    /// Returns the start of a figure with this value.
    fn start(&mut self, family: &MetricDescription, labels: Set<'_>, value: f64, origin: Option<u64>) -> u64 {
        let at = self.last.1;
        self.last.0 += 1;
        let mut hasher = self.hasher.build_hasher();
        family.name.hash(&mut hasher);
        labels.for_each(|label| label.hash(&mut hasher));
        let new = CumulativeSeries { start: origin.unwrap_or(at).min(at), at, value };
        let stream = self.known.entry(hasher.finish()).or_insert(new);
        if value < stream.value {
            stream.start = stream.at;
        }
        (stream.at, stream.value) = (at, value);
        stream.start
    }
}

/// A scrape divided into requests, each made on demand.
pub struct Requests<'a> {
    streams: &'a mut Streams,
    resource: &'a Resource,
    /// The server's samples and the exporter's, with the start of their counters.
    parts: [(&'a Samples, Option<u64>); 2],
    /// Current position: part, family, sample.
    place: (usize, usize, usize),
}

impl<'a> Requests<'a> {
    /// Divides a scrape.
    pub fn of(look: &'a ScrapeResult, streams: &'a mut Streams, resource: &'a Resource) -> Self {
        streams.begin(look);
        let parts = [(&look.server, streams.server), (&look.own, Some(streams.own))];
        Self { streams, resource, parts, place: (0, 0, 0) }
    }

    /// Returns points of the current family, as many as there is room for.
    fn some(&mut self, room: usize) -> Option<(Metric, usize)> {
        let (part, family, sample) = self.place;
        let (samples, origin) = *self.parts.get(part)?;
        if family == samples.families() {
            self.place = (part + 1, 0, 0);
            return self.some(room);
        }
        let (of, all) = samples.family(family);
        let mut points = Points { family: of, origin, streams: self.streams, made: made(of.kind) };
        let mut count = 0;
        for (labels, value) in all.skip(sample).take(room) {
            points.add(labels, value);
            count += 1;
        }
        let is_whole = count < room;
        self.place = if is_whole { (part, family + 1, 0) } else { (part, family, sample + count) };
        let metric = Metric {
            name: of.name.to_owned(),
            description: of.help.to_owned(),
            data: Some(points.made),
            ..Metric::default()
        };
        Some((metric, count))
    }
}

impl Iterator for Requests<'_> {
    /// A request, and the number of its points.
    type Item = (ExportMetricsServiceRequest, usize);

    fn next(&mut self) -> Option<Self::Item> {
        let (mut metrics, mut points) = (vec![], 0);
        while points < POINTS
            && let Some((metric, count)) = self.some(POINTS - points)
        {
            points += count;
            if count > 0 {
                metrics.push(metric);
            }
        }
        let scope = InstrumentationScope {
            name: "tare".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..InstrumentationScope::default()
        };
        let scope_metrics = vec![ScopeMetrics { scope: Some(scope), metrics, ..ScopeMetrics::default() }];
        let resource = Some(self.resource.clone());
        let all = ResourceMetrics { resource, scope_metrics, ..ResourceMetrics::default() };
        (points > 0).then(|| (ExportMetricsServiceRequest { resource_metrics: vec![all] }, points))
    }
}

/// Makes empty data of a kind.
fn made(kind: MetricKind) -> metric::Data {
    let (data_points, aggregation_temporality) = (vec![], CUMULATIVE);
    match kind {
        MetricKind::Counter => {
            metric::Data::Sum(Sum { data_points, aggregation_temporality, is_monotonic: true })
        }
        MetricKind::Gauge => metric::Data::Gauge(Gauge { data_points }),
        MetricKind::Summary => metric::Data::Summary(Summary { data_points: vec![] }),
        MetricKind::Histogram => {
            metric::Data::Histogram(Histogram { data_points: vec![], aggregation_temporality })
        }
    }
}

/// Points of a family.
struct Points<'a> {
    family: &'a MetricDescription,
    origin: Option<u64>,
    streams: &'a mut Streams,
    made: metric::Data,
}

impl Points<'_> {
    fn add(&mut self, labels: Set<'_>, value: &MetricValue) {
        let (at, counted) = (self.streams.last.1, counted(value));
        let is_counted = self.family.kind != MetricKind::Gauge;
        let start = if is_counted {
            self.streams.start(self.family, labels.clone(), counted, self.origin)
        } else {
            0
        };
        let attributes = labels.map(|(name, value)| attribute(name, value)).collect();
        match (&mut self.made, value) {
            (
                metric::Data::Sum(Sum { data_points, .. }) | metric::Data::Gauge(Gauge { data_points }),
                MetricValue::Figure(figure),
            ) => data_points.push(NumberDataPoint {
                attributes,
                start_time_unix_nano: start,
                time_unix_nano: at,
                value: Some(number(*figure)),
                ..NumberDataPoint::default()
            }),
            (metric::Data::Summary(summary), MetricValue::Summary(value)) => {
                let quantile = |(_, quantile, figure): &(_, f64, MetricNumber)| {
                    summary_data_point::ValueAtQuantile { quantile: *quantile, value: figure.real() }
                };
                summary.data_points.push(SummaryDataPoint {
                    attributes,
                    start_time_unix_nano: start,
                    time_unix_nano: at,
                    count: value.count,
                    sum: value.sum.real(),
                    quantile_values: value.quantiles.iter().map(quantile).collect(),
                    ..SummaryDataPoint::default()
                });
            }
            (metric::Data::Histogram(all), MetricValue::Histogram(value, sum)) => {
                all.data_points.push(HistogramDataPoint {
                    attributes,
                    start_time_unix_nano: start,
                    time_unix_nano: at,
                    count: value.total(),
                    sum: Some(sum.real()),
                    bucket_counts: value.classic().to_vec(),
                    explicit_bounds: histogram::bounds().filter_map(|it| it.parse().ok()).collect(),
                    ..HistogramDataPoint::default()
                });
            }
            // A family's samples are of its kind.
            _ => {}
        }
    }
}

/// Returns the count that falls after a reset.
#[expect(clippy::cast_precision_loss, reason = "compared with its like only")]
fn counted(value: &MetricValue) -> f64 {
    match value {
        MetricValue::Figure(figure) => figure.real(),
        MetricValue::Summary(summary) => summary.count as f64,
        MetricValue::Histogram(histogram, _) => histogram.total() as f64,
    }
}

/// Converts a figure. A count stays whole; beyond 63 bits it becomes a double.
fn number(figure: MetricNumber) -> number_data_point::Value {
    let whole = match figure {
        MetricNumber::Whole(count) => i64::try_from(count).ok(),
        MetricNumber::Signed(count) => Some(count),
        MetricNumber::Real(_) => None,
    };
    whole.map_or(number_data_point::Value::AsDouble(figure.real()), number_data_point::Value::AsInt)
}

/// Makes an attribute with a text value.
pub(super) fn attribute(name: &str, value: &str) -> KeyValue {
    let value = AnyValue { value: Some(any_value::Value::StringValue(value.to_owned())) };
    KeyValue { key: name.to_owned(), value: Some(value), ..KeyValue::default() }
}
