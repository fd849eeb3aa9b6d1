//! `/probe?target=HOST:PORT&auth_module=NAME`: other servers, each with the account of a section
//! `[client.NAME]` of the option file, as in mysqld_exporter.
//!
//! A section is for the server that it names (`host` and `port`, or `socket`), and for those of its
//! `probe-targets`. A client of the exporter can name any host: without this restriction, it could send the
//! account to a server of its own.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::{Request, StatusCode};
use tare_connect::option_file::{self, OptionLine};
use tare_connect::{Secret, ServerAccount, ServerLocation, ServerOptions};
use tokio::time::{Instant, timeout_at};

use super::collector::CollectorOptions;
use super::query;
use super::scrape::{ScrapeResult, ServerScraper};
use super::web::{COLLECT, Service, WebResponse, page, reading_time, shown};
use crate::Address;

/// The default section.
const CLIENT: &str = "client";
/// The option of a section that names further servers.
const TARGETS: &str = "probe-targets";
/// The default port.
const PORT: u16 = 3306;
/// Most connections that are kept.
const KEPT: usize = 256;

/// The servers that may be probed.
#[derive(Default)]
pub struct Probes {
    file: Option<PathBuf>,
    options: CollectorOptions,
    readers: Mutex<TargetScrapers>,
}

/// Readers by section and target, each with the server's configuration at the time.
type TargetScrapers = BTreeMap<(String, String), (ServerAccount, Arc<ServerScraper>)>;

impl std::fmt::Debug for Probes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Probes").field("file", &self.file).finish_non_exhaustive()
    }
}

/// The reason why a server is not probed.
type Refusal = (StatusCode, String);

impl Probes {
    /// Creates the probes of an option file, which is read anew for every request; none without a file.
    #[must_use]
    pub fn new(file: Option<PathBuf>, options: CollectorOptions) -> Probes {
        Probes { file, options, readers: Mutex::default() }
    }

    /// Returns the reader of the server that a request names.
    fn reader(&self, query: &str) -> Result<Arc<ServerScraper>, Refusal> {
        let target = parameter(query, "target").filter(|it| !it.is_empty());
        let target = target.ok_or_else(|| bad("target is missing: /probe?target=HOST:PORT"))?;
        let module = parameter(query, "auth_module").filter(|it| !it.is_empty());
        let section = match &module {
            None => CLIENT.to_owned(),
            Some(name) if name == CLIENT || name.starts_with("client.") => name.clone(),
            Some(name) => format!("{CLIENT}.{name}"),
        };
        let file = self
            .file
            .as_ref()
            .ok_or_else(|| bad("there is no option file with accounts: --config.my-cnf FILE"))?;
        let entries = option_file::entries(file, &mut vec![]);
        let entries = entries.map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")))?;
        let server = server(&entries, &section, &target)?;
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        if readers.len() >= KEPT {
            readers.clear();
        }
        let (known, reader) = readers.entry((section, target)).or_insert_with(|| self.new_reader(&server));
        if *known != server {
            (*known, *reader) = self.new_reader(&server);
        }
        Ok(Arc::clone(reader))
    }

    fn new_reader(&self, server: &ServerAccount) -> (ServerAccount, Arc<ServerScraper>) {
        let reader = ServerScraper::new(Address::Account(Box::new(server.clone())), self.options.clone());
        (server.clone(), Arc::new(reader))
    }
}

fn bad(why: &str) -> Refusal {
    (StatusCode::BAD_REQUEST, format!("{why}\n"))
}

/// Returns the first value of a parameter.
fn parameter(query: &str, name: &str) -> Option<String> {
    query::values(query, name).into_iter().next()
}

/// Returns a target's server with the account of a section, if the section is for it.
fn server(entries: &[OptionLine], section: &str, target: &str) -> Result<ServerAccount, Refusal> {
    if !entries.iter().any(|entry| entry.group == section) {
        return Err(bad("auth_module: the option file has no such section: [client.NAME]"));
    }
    let place = place(target).ok_or_else(|| bad("target: HOST:PORT or unix:///PATH is allowed"))?;
    // [client] provides defaults for a section, except for the address: an account is for the servers of its
    // own section.
    let own = option_file::of_groups(entries, &[section]);
    let common = option_file::of_groups(entries, &[CLIENT]);
    let wrong = |why: tare_connect::RejectedValue| {
        (StatusCode::INTERNAL_SERVER_ERROR, format!("[{section}] {why}\n"))
    };
    let (own, common) = (own.map_err(wrong)?, common.map_err(wrong)?);
    let common = ServerOptions { host: None, port: None, socket: None, tcp: None, ..common };
    let said = own.over(common);
    let is_its_own = said.names_server() && is_same(&known(said.clone()).place, &place);
    let targets = entries.iter().filter(|entry| entry.group == section && entry.name == TARGETS);
    let mut targets =
        targets.filter_map(|entry| entry.value.as_deref()).flat_map(|list| list.split([',', ' ']));
    if !is_its_own && !targets.any(|pattern| is_meant(pattern.trim(), &place)) {
        let why = format!(
            "the section [{section}] is not for this target: it needs the target's host and port, or {TARGETS} with it\n"
        );
        return Err((StatusCode::FORBIDDEN, why));
    }
    Ok(ServerAccount { place, ..known(said) })
}

/// Returns the server that a section describes. Nobody can be asked for a password here.
fn known(said: ServerOptions) -> ServerAccount {
    let mut ask = |_: &str| Ok::<_, std::convert::Infallible>(Secret::new(""));
    match ServerOptions::server(ServerOptions::default(), said, &mut ask) {
        Ok(server) => server,
        Err(never) => match never {},
    }
}

/// Parses a target.
fn place(target: &str) -> Option<ServerLocation> {
    if let Some(path) = target.strip_prefix("unix://").or_else(|| target.strip_prefix("unix:")) {
        return Some(ServerLocation::Socket(path.into())).filter(|_| path.starts_with('/'));
    }
    let (host, port) = match target.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            (host, port.strip_prefix(':'))
        }
        None => target.split_once(':').map_or((target, None), |(host, port)| (host, Some(port))),
    };
    let is_host = !host.is_empty() && host.chars().all(|c| c.is_alphanumeric() || "-._:".contains(c));
    let port = port.map_or(Some(PORT), |port| port.parse().ok().filter(|port| *port > 0))?;
    is_host.then(|| ServerLocation::Tcp { host: host.to_owned(), port })
}

fn is_same(one: &ServerLocation, other: &ServerLocation) -> bool {
    match (one, other) {
        (ServerLocation::Tcp { host, port }, ServerLocation::Tcp { host: other, port: its }) => {
            host.eq_ignore_ascii_case(other) && port == its
        }
        (one, other) => one == other,
    }
}

/// Returns whether a place matches `HOST`, `HOST:PORT`, `*.DOMAIN`, `HOST:*`, `*` or a socket.
fn is_meant(pattern: &str, place: &ServerLocation) -> bool {
    let ServerLocation::Tcp { host, port } = place else {
        return self::place(pattern).is_some_and(|it| it == *place);
    };
    let is_v6 = pattern.starts_with('[');
    let (name, of_port) = match pattern.rsplit_once(':') {
        Some((name, of_port)) if !is_v6 || name.ends_with(']') => (name, of_port),
        _ => (pattern, if pattern == "*" { "*" } else { "3306" }),
    };
    let name = name.trim_start_matches('[').trim_end_matches(']');
    let is_host = match name.strip_prefix('*') {
        Some("") => true,
        Some(domain) if domain.starts_with('.') => {
            let ends =
                host.len().checked_sub(domain.len()).filter(|at| *at > 0 && host.is_char_boundary(*at));
            ends.is_some_and(|at| host[at..].eq_ignore_ascii_case(domain))
        }
        _ => name.eq_ignore_ascii_case(host),
    };
    is_host && (of_port == "*" || of_port.parse() == Ok(*port))
}

impl Service {
    /// Answers a request for another server.
    pub(super) async fn probe(self: Arc<Self>, request: &Request<Incoming>) -> WebResponse {
        let Some(place) = self.place() else {
            return page(StatusCode::SERVICE_UNAVAILABLE, "Too many requests at once.\n");
        };
        let query = request.uri().query().unwrap_or_default();
        let reader = match self.probes().reader(query) {
            Ok(reader) => reader,
            Err((status, why)) => return page(status, why),
        };
        let wanted = match reader.choose(&query::values(query, COLLECT)) {
            Ok(wanted) => wanted,
            Err(error) => return page(StatusCode::BAD_REQUEST, format!("{error}\n")),
        };
        let patience = self.patience(request.headers());
        match looked(reader, wanted, patience).await {
            Some(look) => shown(look, request.headers(), place),
            None => page(StatusCode::SERVICE_UNAVAILABLE, "The server does not answer in time.\n"),
        }
    }
}

async fn looked(
    reader: Arc<ServerScraper>,
    wanted: Vec<&'static str>,
    patience: Duration,
) -> Option<ScrapeResult> {
    let begin = Instant::now();
    let (enough, until) = (begin + reading_time(patience), begin + patience);
    let look = tokio::task::spawn_blocking(move || reader.look(&wanted, enough.into_std()));
    timeout_at(until, look).await.ok()?.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(text: &str) -> Vec<OptionLine> {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), text).expect("written");
        option_file::entries(file.path(), &mut vec![]).expect("an option file")
    }

    #[test]
    fn an_account_is_shown_to_the_servers_of_its_section_only() {
        let entries = entries(
            "[client]\nuser=agent\npassword=common\nhost=db0\n[client.shop]\npassword=shop\n\
             probe-targets=db1, db2:3307 *.example.org:*\n[client.own]\nuser=own\nhost=db3\nport=3308\n\
             [client.all]\nprobe_targets=*\n[client.none]\n[client.sock]\nuser=s\nsocket=/run/s\n[mysqld]\nuser=no\n",
        );
        let of = |section: &str, target: &str| {
            let server = server(&entries, section, target).map_err(|(status, _)| status.as_u16())?;
            let password = server.password.as_ref().map_or("", Secret::reveal);
            Ok(format!("{}:{password}@{server}", server.user))
        };
        for (section, target, expected) in [
            ("client", "db0", Ok("agent:common@db0:3306")),
            ("client", "DB0:3306", Ok("agent:common@DB0:3306")),
            ("client", "db0:3307", Err(403)),
            ("client", "db1", Err(403)),
            ("client.shop", "db1", Ok("agent:shop@db1:3306")),
            ("client.shop", "db1:3307", Err(403)),
            ("client.shop", "db2:3307", Ok("agent:shop@db2:3307")),
            ("client.shop", "db2", Err(403)),
            ("client.shop", "a.example.org:1", Ok("agent:shop@a.example.org:1")),
            ("client.shop", "example.org", Err(403)),
            ("client.shop", "badexample.org", Err(403)),
            ("client.shop", "evil.test/x.example.org", Err(400)),
            ("client.shop", "db0", Err(403)),
            ("client.own", "db3:3308", Ok("own:common@db3:3308")),
            ("client.own", "db3", Err(403)),
            ("client.all", "any:1", Ok("agent:common@any:1")),
            ("client.all", "[::1]:3307", Ok("agent:common@[::1]:3307")),
            ("client.none", "db0", Err(400)),
            ("client.nobody", "db0", Err(400)),
            ("client.sock", "unix:///run/s", Ok("s:common@/run/s")),
            ("client.sock", "unix:///run/t", Err(403)),
            ("client.sock", "db0", Err(403)),
            ("client", "db0:port", Err(400)),
            ("client", "user:pw@db0", Err(400)),
        ] {
            let expected = expected.map(str::to_owned);
            assert_eq!(of(section, target), expected, "{section} {target}");
        }
    }

    #[test]
    fn parameters_are_decoded() {
        assert_eq!(parameter("a=1&target=db1%3A3306", "target").as_deref(), Some("db1:3306"));
        assert_eq!(parameter("auth%5Fmodule=x", "auth_module").as_deref(), Some("x"));
        assert_eq!(parameter("", "target"), None);
    }
}
