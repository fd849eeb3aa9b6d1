//! An exporter of the test's own, and clients of it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use tare_outlets::Address;
use tare_outlets::export::collector::CollectorOptions;
use tare_outlets::export::collectors;
use tare_outlets::export::otlp::OtlpSettings;
use tare_outlets::export::probe::Probes;
use tare_outlets::export::scrape::ServerScraper;
use tare_outlets::export::web::{Web, serve};
use tare_outlets::export::web_config::WebConfigFile;

/// An exporter that ends with the test.
pub(crate) struct Exporter {
    pub(crate) at: SocketAddr,
    /// Closed: it ends.
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Exporter {
    pub(crate) fn start(address: Address, options: CollectorOptions) -> Self {
        Self::with(address, options, None, 8)
    }

    /// One whose server is away.
    pub(crate) fn without_server(web_config: PathBuf) -> Self {
        Self::with(
            Address::Socket("/no/such/socket".into()),
            CollectorOptions::default(),
            Some(web_config),
            8,
        )
    }

    pub(crate) fn with(
        address: Address,
        options: CollectorOptions,
        web_config: Option<PathBuf>,
        max_requests: usize,
    ) -> Self {
        Self::pushing(ServerScraper::new(address, options), web_config, max_requests, None)
    }

    /// One that pushes, too.
    pub(crate) fn pushing(
        reader: ServerScraper,
        web_config: Option<PathBuf>,
        max_requests: usize,
        collector: Option<OtlpSettings>,
    ) -> Self {
        Self::serving(reader, web_config, max_requests, collector, Probes::default())
    }

    /// One whose own server is away, and which probes others with the accounts of an option file.
    pub(crate) fn probing(file: PathBuf) -> Self {
        let reader =
            ServerScraper::new(Address::Socket("/no/such/socket".into()), CollectorOptions::default());
        Self::serving(reader, None, 8, None, Probes::new(Some(file), CollectorOptions::default()))
    }

    fn serving(
        reader: ServerScraper,
        web_config: Option<PathBuf>,
        max_requests: usize,
        collector: Option<OtlpSettings>,
        probes: Probes,
    ) -> Self {
        let web = Web {
            listen: vec!["127.0.0.1:0".to_owned()],
            config: WebConfigFile::new(web_config),
            metrics_path: "/metrics".to_owned(),
            max_requests,
            timeout_offset: Duration::from_millis(250),
            probes,
        };
        let (stop, stopped) = UnixStream::pair().expect("two sockets");
        let (told, hear) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let ready = |addresses: &[SocketAddr], _| told.send(addresses[0]).expect("the test waits");
            serve(web, reader, collector, ready, stopped).expect("it serves");
        });
        let at = hear.recv().expect("it listens");
        Self { at, stop: Some(stop), thread: Some(thread) }
    }

    /// Asks over plain HTTP.
    pub(crate) fn get(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        ask(&mut self.connect(), path, headers).expect("an answer")
    }

    pub(crate) fn connect(&self) -> TcpStream {
        TcpStream::connect(self.at).expect("it listens")
    }

    /// Asks over TLS; the error is what ended the connection.
    pub(crate) fn get_encrypted(
        &self,
        config: &Arc<ClientConfig>,
        path: &str,
        headers: &[(&str, &str)],
    ) -> std::io::Result<Answer> {
        let name = ServerName::try_from("localhost").expect("a name");
        let connection = ClientConnection::new(config.clone(), name).expect("a client");
        ask(&mut StreamOwned::new(connection, self.connect()), path, headers)
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.stop.take();
        let ended = self.thread.take().expect("it ran").join();
        assert!(ended.is_ok() || std::thread::panicking(), "the exporter panicked");
    }
}

/// What was answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).expect("UTF-8")
    }
}

/// Sends a request and reads what comes until the connection ends.
pub(crate) fn ask(
    stream: &mut (impl Read + Write),
    path: &str,
    headers: &[(&str, &str)],
) -> std::io::Result<Answer> {
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n")?;
    let mut answer = vec![];
    stream.read_to_end(&mut answer)?;
    let end = answer.windows(4).position(|it| it == b"\r\n\r\n");
    let end = end.ok_or_else(|| std::io::Error::other(format!("no answer: {answer:?}")))?;
    let head = String::from_utf8_lossy(&answer[..end]).to_lowercase();
    let status = head.split(' ').nth(1).and_then(|it| it.parse().ok()).expect("a status");
    let body = &answer[end + 4..];
    let is_chunked = head.contains("transfer-encoding: chunked");
    Ok(Answer { status, head, body: if is_chunked { unchunked(body) } else { body.to_vec() } })
}

/// Puts chunks together, each of which stands behind its length.
fn unchunked(mut rest: &[u8]) -> Vec<u8> {
    let mut body = vec![];
    loop {
        let end = rest.windows(2).position(|it| it == b"\r\n").expect("a length");
        let length = std::str::from_utf8(&rest[..end]).expect("a length");
        let length = usize::from_str_radix(length, 16).expect("a length");
        let chunk = &rest[end + 2..];
        body.extend(&chunk[..length]);
        if length == 0 {
            return body;
        }
        rest = &chunk[length + 2..];
    }
}

/// Everything there is, switched on.
pub(crate) fn everything() -> CollectorOptions {
    let switched = collectors::all().map(|it| (it.name, true)).collect();
    CollectorOptions { switched, digest_text: true, ..CollectorOptions::default() }
}
