//! An OpenTelemetry collector of the test's own, which keeps what it is sent and answers what it is told.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flate2::read::GzDecoder;
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsPartialSuccess, ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::{metric, number_data_point};
use prost::Message as _;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::page::Sample;

/// How long a test waits for a request before it fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a collector answers.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// It takes everything.
    Taken,
    /// It takes all but so many points.
    Partly(i64),
    /// Another status, with a header.
    Status(u16, &'static str),
}

/// A request it got.
pub(crate) struct Got {
    /// Its first line and headers, in lower case.
    pub(crate) head: String,
    pub(crate) message: ExportMetricsServiceRequest,
}

pub(crate) struct Collector {
    pub(crate) at: SocketAddr,
    got: Receiver<Got>,
}

impl Collector {
    /// One that gives these answers, and takes everything from then on.
    pub(crate) fn start(replies: &[Reply], tls: Option<Arc<ServerConfig>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let at = listener.local_addr().expect("an address");
        let (tell, got) = channel();
        let replies = Arc::new(Mutex::new(VecDeque::from(replies.to_vec())));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (tell, replies, tls) = (tell.clone(), replies.clone(), tls.clone());
                std::thread::spawn(move || match tls {
                    None => serve(stream, &tell, &replies),
                    Some(tls) => {
                        let tls = ServerConnection::new(tls).expect("a server");
                        serve(StreamOwned::new(tls, stream), &tell, &replies)
                    }
                });
            }
        });
        Self { at, got }
    }

    /// The next request.
    pub(crate) fn next(&self) -> Got {
        self.got.recv_timeout(PATIENCE).expect("a request")
    }

    /// Whether it got nothing.
    pub(crate) fn nothing(&self) -> bool {
        self.got.try_recv().is_err()
    }

    /// The requests of a push, the last of which has the exporter's own figures.
    pub(crate) fn push(&self) -> Vec<Got> {
        let mut all = vec![];
        loop {
            all.push(self.next());
            let last = &all.last().expect("just pushed").message;
            if metrics(last).any(|it| it.name == "tare_export_otlp_intervals_missed_total") {
                return all;
            }
        }
    }
}

fn serve(
    mut stream: impl Read + Write,
    tell: &Sender<Got>,
    replies: &Mutex<VecDeque<Reply>>,
) -> io::Result<()> {
    loop {
        let got = read(&mut stream)?;
        let reply = replies.lock().expect("no panic").pop_front().unwrap_or(Reply::Taken);
        // The test has what it wants.
        if tell.send(got).is_err() {
            return Ok(());
        }
        let (status, header, body) = match reply {
            Reply::Taken => (200, "", vec![]),
            Reply::Partly(rejected_data_points) => {
                let error_message = "too old".to_owned();
                let partial = ExportMetricsPartialSuccess { rejected_data_points, error_message };
                (200, "", ExportMetricsServiceResponse { partial_success: Some(partial) }.encode_to_vec())
            }
            Reply::Status(status, header) => (status, header, b"not now".to_vec()),
        };
        write!(stream, "HTTP/1.1 {status} x\r\n{header}Content-Length: {}\r\n\r\n", body.len())?;
        stream.write_all(&body)?;
        stream.flush()?;
    }
}

fn read(stream: &mut impl Read) -> io::Result<Got> {
    let mut head = vec![];
    while !head.ends_with(b"\r\n\r\n") {
        let mut letter = [0];
        stream.read_exact(&mut letter)?;
        head.push(letter[0]);
    }
    let head = String::from_utf8(head).expect("a head").to_lowercase();
    let header = |name: &str| head.lines().find_map(|it| it.strip_prefix(name)).map(str::trim);
    let length = header("content-length:").expect("a length").parse().expect("a number");
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    if header("content-encoding:") == Some("gzip") {
        let compressed = std::mem::take(&mut body);
        GzDecoder::new(&*compressed).read_to_end(&mut body)?;
    }
    let message = ExportMetricsServiceRequest::decode(&*body).expect("a message");
    Ok(Got { head, message })
}

fn metrics(
    message: &ExportMetricsServiceRequest,
) -> impl Iterator<Item = &opentelemetry_proto::tonic::metrics::v1::Metric> {
    let scopes = message.resource_metrics.iter().flat_map(|it| &it.scope_metrics);
    scopes.flat_map(|it| &it.metrics)
}

/// Names and texts.
pub(crate) fn texts(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |it: &KeyValue| match it.value.as_ref().and_then(|it| it.value.as_ref()) {
        Some(any_value::Value::StringValue(text)) => text.clone(),
        other => panic!("{}: {other:?}", it.key),
    };
    attributes.iter().map(|it| (it.key.clone(), text(it))).collect()
}

/// A figure as the page has it, and of which time it is.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    pub(crate) sample: Sample,
    pub(crate) start: u64,
    pub(crate) at: u64,
}

/// All figures of requests, as the page would have them: a histogram's buckets add up, quantiles have its
/// names.
pub(crate) fn points<'a>(messages: impl IntoIterator<Item = &'a ExportMetricsServiceRequest>) -> Vec<Point> {
    let mut found = vec![];
    for metric in messages.into_iter().flat_map(metrics) {
        let mut add = |suffix: &str, labels: &BTreeMap<String, String>, (start, at): (u64, u64), value| {
            let sample = Sample { name: format!("{}{suffix}", metric.name), labels: labels.clone(), value };
            found.push(Point { sample, start, at });
        };
        let with = |labels: &BTreeMap<String, String>, name: &str, value: String| {
            labels.clone().into_iter().chain([(name.to_owned(), value)]).collect()
        };
        match metric.data.as_ref().expect("data") {
            metric::Data::Gauge(gauge) => {
                for point in &gauge.data_points {
                    let times = (point.start_time_unix_nano, point.time_unix_nano);
                    add("", &texts(&point.attributes), times, number(point.value.as_ref()));
                }
            }
            metric::Data::Sum(sum) => {
                assert!(sum.is_monotonic && sum.aggregation_temporality == 2, "{}", metric.name);
                for point in &sum.data_points {
                    let times = (point.start_time_unix_nano, point.time_unix_nano);
                    add("", &texts(&point.attributes), times, number(point.value.as_ref()));
                }
            }
            metric::Data::Summary(summary) => {
                for point in &summary.data_points {
                    let times = (point.start_time_unix_nano, point.time_unix_nano);
                    let labels = texts(&point.attributes);
                    for it in &point.quantile_values {
                        // 0.95 and 0.999 are 95 and 999 there.
                        let name = it.quantile.to_string().replace("0.", "");
                        add("", &with(&labels, "quantile", name), times, it.value);
                    }
                    add("_sum", &labels, times, point.sum);
                    add("_count", &labels, times, point.count as f64);
                }
            }
            metric::Data::Histogram(histogram) => {
                assert_eq!(histogram.aggregation_temporality, 2, "{}", metric.name);
                for point in &histogram.data_points {
                    let times = (point.start_time_unix_nano, point.time_unix_nano);
                    let labels = texts(&point.attributes);
                    let bounds = point.explicit_bounds.iter().map(f64::to_string);
                    let mut total = 0;
                    for (count, bound) in point.bucket_counts.iter().zip(bounds.chain(["+Inf".to_owned()])) {
                        total += count;
                        add("_bucket", &with(&labels, "le", bound), times, total as f64);
                    }
                    add("_sum", &labels, times, point.sum.expect("a sum"));
                    add("_count", &labels, times, point.count as f64);
                }
            }
            other => panic!("{}: {other:?}", metric.name),
        }
    }
    found
}

fn number(value: Option<&number_data_point::Value>) -> f64 {
    match value.expect("a value") {
        number_data_point::Value::AsDouble(number) => *number,
        number_data_point::Value::AsInt(number) => *number as f64,
    }
}
