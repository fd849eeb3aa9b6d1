//! An HTTP client of a collector with a persistent connection.

use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsPartialSuccess, ExportMetricsServiceResponse,
};
use prost::Message as _;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::settings::{OtlpSettings, TlsFiles};

/// Most bytes read of a collector's answer.
const ANSWER: usize = 64 << 10;
/// Statuses after which a retry may succeed.
const PASSING: [StatusCode; 4] = [
    StatusCode::TOO_MANY_REQUESTS,
    StatusCode::BAD_GATEWAY,
    StatusCode::SERVICE_UNAVAILABLE,
    StatusCode::GATEWAY_TIMEOUT,
];

/// The reason why something was not accepted.
#[derive(Debug)]
pub(super) enum PushFailure {
    /// A retry may succeed, perhaps only after a time that the collector gives.
    Passing { why: String, after: Option<Duration> },
    /// A retry would fail as well.
    Final(String),
}

fn passing(why: impl ToString) -> PushFailure {
    PushFailure::Passing { why: why.to_string(), after: None }
}

/// A collector's client.
pub(super) struct Client {
    settings: OtlpSettings,
    kept: Option<SendRequest<Full<Bytes>>>,
}

impl Client {
    pub(super) fn new(settings: OtlpSettings) -> Self {
        Self { settings, kept: None }
    }

    /// Sends a body, or only connects. Returns what the collector rejected of it.
    pub(super) async fn send(
        &mut self,
        body: Option<Bytes>,
    ) -> Result<ExportMetricsPartialSuccess, PushFailure> {
        let limit = self.settings.timeout;
        let late = || passing(format!("no answer within {limit:?}"));
        timeout(limit, self.try_send(body)).await.unwrap_or_else(|_| Err(late()))
    }

    async fn try_send(&mut self, body: Option<Bytes>) -> Result<ExportMetricsPartialSuccess, PushFailure> {
        // It is stored again after the collector's answer; an interrupted connection cannot be reused.
        let kept = match self.kept.take() {
            Some(mut kept) => kept.ready().await.is_ok().then_some(kept),
            None => None,
        };
        let mut sender = match kept {
            Some(kept) => kept,
            None => connect(&self.settings).await.map_err(passing)?,
        };
        let Some(body) = body else {
            self.kept = Some(sender);
            return Ok(ExportMetricsPartialSuccess::default());
        };
        let answer = sender.send_request(self.request(body)?).await.map_err(passing)?;
        let (head, body) = answer.into_parts();
        let body = Limited::new(body, ANSWER).collect().await.map_err(passing)?.to_bytes();
        self.kept = Some(sender);
        judge(head.status, &head.headers, &body)
    }

    fn request(&self, body: Bytes) -> Result<Request<Full<Bytes>>, PushFailure> {
        let OtlpSettings { endpoint, headers, gzip, .. } = &self.settings;
        let mut request = Request::post(&endpoint.path)
            .header(header::HOST, endpoint.authority())
            .header(header::CONTENT_TYPE, "application/x-protobuf")
            .header(header::USER_AGENT, concat!("tare-export/", env!("CARGO_PKG_VERSION")));
        if *gzip {
            request = request.header(header::CONTENT_ENCODING, "gzip");
        }
        for (name, value) in headers {
            request = request.header(name, value);
        }
        request.body(Full::new(body)).map_err(|error| PushFailure::Final(error.to_string()))
    }
}

/// Interprets a collector's answer according to OTLP.
fn judge(
    status: StatusCode,
    headers: &HeaderMap,
    body: &Bytes,
) -> Result<ExportMetricsPartialSuccess, PushFailure> {
    if status == StatusCode::OK {
        // An empty or unreadable answer means that all was accepted.
        let answer = ExportMetricsServiceResponse::decode(body.clone()).unwrap_or_default();
        return Ok(answer.partial_success.unwrap_or_default());
    }
    // A status in protobuf or a text; its readable characters are enough.
    let said: String =
        String::from_utf8_lossy(body).chars().filter(|it| !it.is_control()).take(200).collect();
    let why = if said.is_empty() { status.to_string() } else { format!("{status}: {said}") };
    if PASSING.contains(&status) {
        let after = headers.get(header::RETRY_AFTER).and_then(retry_after);
        return Err(PushFailure::Passing { why, after });
    }
    Err(PushFailure::Final(why))
}

/// Parses seconds or a date.
fn retry_after(value: &HeaderValue) -> Option<Duration> {
    let value = value.to_str().ok()?;
    let until = || jiff::fmt::rfc2822::parse(value).ok().map(|it| SystemTime::from(it.timestamp()));
    let seconds = value.parse().ok().map(Duration::from_secs);
    seconds.or_else(|| until()?.duration_since(SystemTime::now()).ok())
}

async fn connect(settings: &OtlpSettings) -> io::Result<SendRequest<Full<Bytes>>> {
    let endpoint = &settings.endpoint;
    let stream = TcpStream::connect((endpoint.host.as_str(), endpoint.port)).await?;
    stream.set_nodelay(true)?;
    if !endpoint.tls {
        return speak(stream).await;
    }
    // Files are read for each connection, so that new certificates take effect at once.
    let config = tls(&settings.tls)?;
    let name = ServerName::try_from(endpoint.host.clone()).map_err(io::Error::other)?;
    speak(TlsConnector::from(Arc::new(config)).connect(name, stream).await?).await
}

async fn speak(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> io::Result<SendRequest<Full<Bytes>>> {
    let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    // The sender learns how the connection ends.
    tokio::spawn(async { drop(connection.await) });
    Ok(sender)
}

/// Makes the TLS settings from files.
///
/// # Errors
///
/// The file that cannot be used, and the reason.
pub(super) fn tls(files: &TlsFiles) -> io::Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    match &files.authorities {
        Some(file) => {
            for certificate in certificates(file)? {
                roots.add(certificate).map_err(|error| bad(file, error))?;
            }
        }
        None => drop(roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs)),
    }
    if roots.is_empty() {
        let why = "no certificates of authorities are known; OTEL_EXPORTER_OTLP_CERTIFICATE names a file";
        return Err(io::Error::other(why));
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(roots);
    let Some((certificate, key)) = &files.identity else { return Ok(builder.with_no_client_auth()) };
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| bad(key, error))?;
    builder
        .with_client_auth_cert(certificates(certificate)?, private)
        .map_err(|error| bad(certificate, error))
}

fn certificates(file: &std::path::Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let found: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(file).map_err(|error| bad(file, error))?.collect();
    let found = found.map_err(|error| bad(file, error))?;
    if found.is_empty() { Err(bad(file, "there is no certificate in it")) } else { Ok(found) }
}

fn bad(file: &std::path::Path, why: impl std::fmt::Display) -> io::Error {
    io::Error::other(format!("{}: {why}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_mean_what_otlp_says() {
        let judged = |status: u16, after: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            headers.extend(after.map(|it| (header::RETRY_AFTER, HeaderValue::from_static(it))));
            let status = StatusCode::from_u16(status).expect("a status");
            judge(status, &headers, &Bytes::from_static(b"\x08\x03why"))
        };
        assert!(judged(200, None).is_ok_and(|it| it.rejected_data_points == 0));
        for status in [429, 502, 503, 504] {
            assert!(
                matches!(judged(status, None), Err(PushFailure::Passing { after: None, .. })),
                "{status}"
            );
        }
        for status in [301, 400, 401, 404, 413, 500, 501] {
            let Err(PushFailure::Final(why)) = judged(status, None) else { panic!("{status}") };
            assert!(why.contains(&status.to_string()) && why.ends_with("why"), "{why}");
        }
        let after = |text| match judged(503, Some(text)) {
            Err(PushFailure::Passing { after, .. }) => after,
            other => panic!("{other:?}"),
        };
        assert_eq!(after("7"), Some(Duration::from_secs(7)));
        assert!(after("Sat, 06 Nov 2094 08:49:37 GMT").is_some_and(|it| it.as_secs() > 1_000_000));
        assert_eq!(after("Sun, 06 Nov 1994 08:49:37 GMT"), None);
    }
}
