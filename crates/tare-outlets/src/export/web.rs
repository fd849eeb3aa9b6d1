//! The HTTP and HTTPS server: access, pages, and limits.
//!
//! Everything is bounded: connections, scrapes, the time of a handshake, a request's head, an answer and a
//! connection, and what waits for a client that does not read.

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{Either, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsAcceptor;

use super::basic_auth::{CheckedPasswords, Credentials};
use super::format::ExpositionFormat;
use super::otlp::{self, PushCounts};
use super::page::MetricsPage;
use super::probe::Probes;
use super::query;
use super::scrape::{ScrapeResult, ServerScraper};
use super::stream::{self, LimitedStream};
use super::web_config::{WebConfig, WebConfigFile};
use crate::Address;
use crate::notice;

/// Most concurrent connections; further ones wait.
const CONNECTIONS: usize = 64;
/// Time limit for a handshake, and for a client's first byte.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Longest time until a client's next request.
const NEXT_REQUEST: Duration = Duration::from_secs(90);
/// Age at which a connection is closed, between two requests if its client allows that.
const LIFETIME: Duration = Duration::from_secs(3600);
const GOODBYE: Duration = Duration::from_secs(30);
/// Threads that read the server or compute hashes.
const WORKERS: usize = 4;
/// First byte of a TLS connection.
const TLS_HANDSHAKE: u8 = 0x16;
const PLAIN_ON_TLS: &[u8] =
    b"HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n\
    Client sent an HTTP request to an HTTPS server.\n";
/// Time limit of a scrape without a timeout from the client.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// The header with Prometheus's timeout, in seconds.
const TIMEOUT_HEADER: &str = "x-prometheus-scrape-timeout-seconds";
/// The parameter that names a collector.
pub(super) const COLLECT: &str = "collect[]";
const PLAIN: &str = "text/plain; charset=utf-8";
const LANDING: &str = "tare export: the metrics are at ";

/// The settings of the web server.
#[derive(Debug)]
pub struct Web {
    /// Addresses to listen on, `HOST:PORT` or `:PORT`.
    pub listen: Vec<String>,
    /// TLS, users and headers.
    pub config: WebConfigFile,
    /// Path of the metrics.
    pub metrics_path: String,
    /// Most concurrent requests for metrics; further ones are refused.
    pub max_requests: usize,
    /// How long before the client's timeout a scrape must end.
    pub timeout_offset: Duration,
    /// Other servers that may be probed.
    pub probes: Probes,
}

/// The reason why nothing is served.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An address cannot be listened on.
    #[error("{address}: {why}")]
    Listen {
        /// The address.
        address: String,
        /// The system's error.
        why: io::Error,
    },
    /// The file of `--web.config.file` is invalid.
    #[error(transparent)]
    Config(#[from] super::web_config::Error),
    /// The files for TLS to the collector are invalid.
    #[error("TLS to the collector: {0}")]
    Collector(io::Error),
    /// The system provides no threads or no timer.
    #[error("starting: {0}")]
    Start(io::Error),
}

/// The state shared by all connections.
pub(super) struct Service {
    web: Web,
    reader: ServerScraper,
    /// Counts of what was pushed, if anything is.
    pushed: Option<Arc<PushCounts>>,
    passwords: CheckedPasswords,
    requests: Arc<Semaphore>,
    /// The permit to read the database server: one task has it at a time.
    turn: Semaphore,
}

/// Serves, and pushes to a collector if there is one, until the other end of `stop` is written to or closed.
/// It is idle between requests. `ready` receives the addresses that are listened on.
///
/// # Errors
///
/// When nothing can be served. Problems of a single connection are logged in a line, and the others continue.
pub fn serve(
    web: Web,
    reader: ServerScraper,
    collector: Option<otlp::OtlpSettings>,
    ready: impl FnOnce(&[SocketAddr], bool),
    stop: UnixStream,
) -> Result<(), Error> {
    let config = web.config.read()?;
    if config.asks_for_http2 {
        notice::write("tare export: http2: HTTP/1.1 is offered instead, which every client speaks");
    }
    collector.as_ref().map_or(Ok(()), otlp::check).map_err(Error::Collector)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(WORKERS + web.max_requests)
        .build()
        .map_err(Error::Start)?;
    runtime.block_on(async {
        stop.set_nonblocking(true).map_err(Error::Start)?;
        let mut stop = tokio::net::UnixStream::from_std(stop).map_err(Error::Start)?;
        let listeners: Vec<TcpListener> =
            web.listen.iter().map(|address| listen(address)).collect::<Result<_, Error>>()?;
        let addresses: Vec<SocketAddr> =
            listeners.iter().filter_map(|listener| listener.local_addr().ok()).collect();
        let is_tls = config.tls.is_some();
        let service = Arc::new(Service {
            requests: Arc::new(Semaphore::new(web.max_requests)),
            web,
            reader,
            pushed: collector.is_some().then(Arc::default),
            passwords: CheckedPasswords::default(),
            turn: Semaphore::new(1),
        });
        let connections = Arc::new(Semaphore::new(CONNECTIONS));
        for listener in listeners {
            tokio::spawn(accept(listener, service.clone(), connections.clone(), is_tls));
        }
        if let (Some(collector), Some(tally)) = (collector, &service.pushed) {
            tokio::spawn(otlp::push(collector, tally.clone(), service.clone()));
        }
        ready(&addresses, is_tls);
        // A byte, the end, or an error: each means to stop.
        let _ = stop.read(&mut [0]).await;
        Ok::<(), Error>(())
    })?;
    // A scrape of a server that does not answer is not waited for.
    runtime.shutdown_background();
    Ok(())
}

fn listen(address: &str) -> Result<TcpListener, Error> {
    let failed = |why| Error::Listen { address: address.to_owned(), why };
    let bound = match address.strip_prefix(':') {
        // All addresses; on a system without IPv6 those of IPv4.
        Some(port) => bind(&format!("[::]:{port}")).or_else(|_| bind(&format!("0.0.0.0:{port}"))),
        None => bind(address),
    };
    bound.map_err(failed)
}

fn bind(address: &str) -> io::Result<TcpListener> {
    let mut last = io::Error::other("no such address");
    for address in address.to_socket_addrs()? {
        match std::net::TcpListener::bind(address) {
            Ok(listener) => {
                listener.set_nonblocking(true)?;
                return TcpListener::from_std(listener);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

async fn accept(listener: TcpListener, service: Arc<Service>, connections: Arc<Semaphore>, is_tls: bool) {
    loop {
        let Ok(permit) = connections.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, peer)) => {
                let service = service.clone();
                tokio::spawn(async move {
                    let _held = permit;
                    if let Err(why) = connection(stream, peer, service, is_tls).await {
                        notice::write(format_args!("tare export: {peer}: {why}"));
                    }
                });
            }
            // No file descriptors are left, or the like: this is temporary.
            Err(error) => {
                notice::write(format_args!("tare export: {error}"));
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

/// Serves a connection. The error says why it was refused.
async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    service: Arc<Service>,
    is_tls: bool,
) -> Result<(), String> {
    let _ = stream.set_nodelay(true);
    if !is_tls {
        requests(stream, peer, service).await;
        return Ok(());
    }
    let mut first = [0];
    match timeout(HANDSHAKE, stream.peek(&mut first)).await {
        // The client disconnected without a request, as probes of load balancers do.
        Err(_) | Ok(Err(_) | Ok(0)) => return Ok(()),
        Ok(Ok(_)) => {}
    }
    if first[0] != TLS_HANDSHAKE {
        return refuse_plain(stream).await;
    }
    let config = service.web.config.read().map_err(|error| error.to_string())?;
    let tls =
        config.tls.clone().ok_or("refused: tls_server_config is gone; without TLS only after a restart")?;
    match timeout(HANDSHAKE, TlsAcceptor::from(tls).accept(stream)).await {
        Ok(Ok(stream)) => requests(stream, peer, service).await,
        Ok(Err(error)) => return Err(format!("refused: TLS: {error}")),
        Err(_) => return Err("refused: TLS: the handshake took too long".to_owned()),
    }
    Ok(())
}

async fn refuse_plain(mut stream: TcpStream) -> Result<(), String> {
    let answer = async {
        stream.write_all(PLAIN_ON_TLS).await?;
        stream.shutdown().await?;
        // What the client has sent is read, or the system would reset the connection before the client reads
        // the answer.
        let mut rest = [0; 1024];
        while tokio::io::AsyncReadExt::read(&mut stream, &mut rest).await? > 0 {}
        io::Result::Ok(())
    };
    let _ = timeout(Duration::from_secs(2), answer).await;
    Err("refused: plain HTTP where TLS is spoken".to_owned())
}

async fn requests(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: SocketAddr,
    service: Arc<Service>,
) {
    let answer = service_fn(move |request| {
        let service = service.clone();
        async move { Ok::<_, Infallible>(service.answer(request, peer).await) }
    });
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(NEXT_REQUEST)
        .max_header_size(16 << 10)
        .serve_connection(TokioIo::new(LimitedStream::new(stream, stream::LIMIT)), answer);
    // How a connection ends is up to its client.
    if timeout(LIFETIME, Pin::new(&mut connection)).await.is_err() {
        Pin::new(&mut connection).graceful_shutdown();
        let _ = timeout(GOODBYE, connection).await;
    }
}

pub(super) type WebResponse = Response<Either<Full<Bytes>, MetricsPage>>;

pub(super) fn page(status: StatusCode, text: impl Into<Bytes>) -> WebResponse {
    let mut answer = Response::new(Either::Left(Full::new(text.into())));
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(PLAIN));
    answer
}

impl Service {
    /// Answers a request: checks it against the current file, then sends the page.
    async fn answer(self: Arc<Self>, request: Request<Incoming>, peer: SocketAddr) -> WebResponse {
        let config = match self.web.config.read() {
            Ok(config) => config,
            Err(error) => {
                notice::write(format_args!("tare export: {error}"));
                return page(StatusCode::INTERNAL_SERVER_ERROR, "The web configuration cannot be used.\n");
            }
        };
        let mut answer = if self.clone().is_allowed(&config, request.headers(), peer).await {
            self.page(&request).await
        } else {
            let mut refusal = page(StatusCode::UNAUTHORIZED, "Unauthorized\n");
            refusal.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Basic"));
            refusal
        };
        answer.headers_mut().extend(config.headers.iter().cloned());
        answer
    }

    async fn is_allowed(
        self: Arc<Self>,
        config: &Arc<WebConfig>,
        headers: &HeaderMap,
        peer: SocketAddr,
    ) -> bool {
        if config.users.is_empty() {
            return true;
        }
        let given = headers.get(header::AUTHORIZATION).map(|value| Credentials::parse(value.as_bytes()));
        let (right, why) = match given.flatten() {
            None => (false, "no user and password".to_owned()),
            Some(given) => {
                let why = format!("wrong user or password for {:?}", given.user);
                let (service, config) = (self, config.clone());
                let check = move || service.passwords.is_right(&config.users, &given);
                (tokio::task::spawn_blocking(check).await.unwrap_or(false), why)
            }
        };
        if !right {
            notice::write(format_args!("tare export: {peer}: refused: {why}"));
        }
        right
    }

    async fn page(self: Arc<Self>, request: &Request<Incoming>) -> WebResponse {
        if ![Method::GET, Method::HEAD].contains(request.method()) {
            return page(StatusCode::METHOD_NOT_ALLOWED, "GET is allowed.\n");
        }
        let sent = request.uri().path();
        match &*query::path(sent) {
            path if [path, sent].contains(&&*self.web.metrics_path) => self.metrics(request).await,
            "/probe" => self.probe(request).await,
            "/-/healthy" => page(StatusCode::OK, "OK\n"),
            "/" => page(StatusCode::OK, format!("{LANDING}{}\n", self.web.metrics_path)),
            _ => page(StatusCode::NOT_FOUND, format!("{LANDING}{}\n", self.web.metrics_path)),
        }
    }

    async fn metrics(self: Arc<Self>, request: &Request<Incoming>) -> WebResponse {
        let named = query::values(request.uri().query().unwrap_or_default(), COLLECT);
        let wanted = match self.reader.choose(&named) {
            Ok(wanted) => wanted,
            Err(error) => return page(StatusCode::BAD_REQUEST, format!("{error}\n")),
        };
        // Cheap pages need no permit, so they are answered while all permits are taken.
        let Some(place) = self.place() else {
            return page(StatusCode::SERVICE_UNAVAILABLE, "Too many requests at once.\n");
        };
        let patience = self.patience(request.headers());
        let Some(look) = self.look(wanted, patience).await else {
            return page(StatusCode::SERVICE_UNAVAILABLE, "The server does not answer in time.\n");
        };
        shown(look, request.headers(), place)
    }

    /// Returns a permit for a request; `None` if all are taken.
    pub(super) fn place(&self) -> Option<OwnedSemaphorePermit> {
        self.requests.clone().try_acquire_owned().ok()
    }

    pub(super) fn probes(&self) -> &Probes {
        &self.web.probes
    }

    /// Returns the names of the collectors that are on.
    pub(super) fn collectors(&self) -> Vec<&'static str> {
        self.reader.on()
    }

    pub(super) fn address(&self) -> &Address {
        self.reader.address()
    }

    /// Scrapes the server for these collectors, after waiting for other scrapes, and returns what could be
    /// read in time; `None` if that is nothing.
    pub(super) async fn look(
        self: Arc<Self>,
        wanted: Vec<&'static str>,
        patience: Duration,
    ) -> Option<ScrapeResult> {
        let begin = Instant::now();
        let (enough, until) = (begin + reading_time(patience), begin + patience);
        // In a task of its own, which holds its permit until the server was read, even if the client has gone
        // by then.
        let work = tokio::spawn(async move {
            let _turn = timeout_at(enough, self.turn.acquire()).await.ok()?.ok()?;
            let reading = self.clone();
            let look =
                move || (Instant::now() < enough).then(|| reading.reader.look(&wanted, enough.into_std()));
            let mut look = tokio::task::spawn_blocking(look).await.ok()??;
            if let Some(pushed) = &self.pushed {
                pushed.add_to(&mut look.own);
            }
            Some(look)
        });
        timeout_at(until, work).await.ok()?.ok()?
    }

    /// Returns the time limit of a scrape: a bit less than the client's timeout.
    pub(super) fn patience(&self, headers: &HeaderMap) -> Duration {
        let given = headers.get(TIMEOUT_HEADER).and_then(|value| value.to_str().ok()?.parse::<f64>().ok());
        let given = given.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let left = given.and_then(|given| given.checked_sub(self.web.timeout_offset));
        left.filter(|left| !left.is_zero()).map_or(PATIENCE, |left| left.min(PATIENCE))
    }
}

/// Makes the answer with a scrape in the format that the client prefers.
pub(super) fn shown(look: ScrapeResult, headers: &HeaderMap, place: OwnedSemaphorePermit) -> WebResponse {
    let (is_packed, format) = (accepts_gzip(headers), ExpositionFormat::asked_for(headers));
    let mut answer = Response::new(Either::Right(MetricsPage::new(look, format, is_packed, place)));
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(format.content_type()));
    headers.insert(header::VARY, HeaderValue::from_static("Accept, Accept-Encoding"));
    if is_packed {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    answer
}

/// Returns the part of the time limit in which reading a group may start. The rest is for groups in progress,
/// so that the client gets what was read before its timeout.
pub(super) fn reading_time(patience: Duration) -> Duration {
    patience - patience / 10
}

fn accepts_gzip(headers: &HeaderMap) -> bool {
    let accepted =
        headers.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or_default();
    accepted.split(',').any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        let refused = weight.trim().strip_prefix("q=").is_some_and(|q| q.parse::<f32>() == Ok(0.0));
        name.trim().eq_ignore_ascii_case("gzip") && !refused
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_is_given_before_the_one_who_asks_gives_up() {
        assert_eq!(reading_time(PATIENCE), Duration::from_secs(9));
        let short = Duration::from_millis(1);
        assert!(reading_time(short) < short && !reading_time(short).is_zero());
    }

    #[test]
    fn what_is_not_accepted_is_not_compressed() {
        let accepts = |text: &'static str| {
            accepts_gzip(&HeaderMap::from_iter([(header::ACCEPT_ENCODING, HeaderValue::from_static(text))]))
        };
        assert!(accepts("gzip") && accepts("deflate, gzip;q=0.5"));
        assert!(!accepts("identity") && !accepts("gzip;q=0") && !accepts(""));
    }
}
