//! The settings of a push, from the command line and OpenTelemetry's environment variables.

use std::path::PathBuf;
use std::time::Duration;

use hyper::Uri;
use hyper::header::{HeaderName, HeaderValue};
use percent_encoding::percent_decode_str;

/// Time limit of a request by default.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Interval between pushes by default.
const INTERVAL: Duration = Duration::from_secs(60);
/// A collector's path for metrics.
const PATH: &str = "v1/metrics";

/// A setting that cannot be used, and the reason.
#[derive(Debug, thiserror::Error)]
#[error("{name}: {why}")]
pub struct Error {
    name: String,
    why: String,
}

/// A collector, and what it is sent.
#[derive(Clone, Debug)]
pub struct OtlpSettings {
    /// Its address.
    pub endpoint: CollectorEndpoint,
    /// Headers of every request, such as a key; never shown.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Interval between pushes.
    pub interval: Duration,
    /// Time limit of a request.
    pub timeout: Duration,
    /// Whether requests are compressed.
    pub gzip: bool,
    /// Files for TLS.
    pub tls: TlsFiles,
    /// Resource attributes besides those of the server: names and values.
    pub resource: Vec<(String, String)>,
}

/// A parsed address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectorEndpoint {
    /// Whether to use TLS.
    pub tls: bool,
    /// Name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Path for requests.
    pub path: String,
}

/// Files for TLS, in PEM.
#[derive(Clone, Debug, Default)]
pub struct TlsFiles {
    /// Accepted certificate authorities; `None`: the system's.
    pub authorities: Option<PathBuf>,
    /// The client's certificate and key.
    pub identity: Option<(PathBuf, PathBuf)>,
}

impl OtlpSettings {
    /// Reads the values of `--otlp-endpoint` and `--otlp-interval`, or else the environment through
    /// `variable`; `None` if neither names an endpoint.
    ///
    /// # Errors
    ///
    /// The option or variable that cannot be used.
    pub fn read(
        endpoint: Option<&str>,
        interval: Option<Duration>,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, Error> {
        let environment = Environment(variable);
        let Some(endpoint) = find_endpoint(endpoint, &environment)? else { return Ok(None) };
        environment.check_protocol()?;
        let milliseconds = environment.number("OTEL_METRIC_EXPORT_INTERVAL")?;
        let interval = interval.or(milliseconds.map(Duration::from_millis)).unwrap_or(INTERVAL);
        Ok(Some(Self {
            endpoint,
            headers: environment.headers()?,
            interval: interval.max(Duration::from_secs(1)),
            timeout: environment.timeout()?.unwrap_or(TIMEOUT),
            gzip: environment.is_compressed()?,
            tls: environment.tls_files()?,
            resource: environment.resource()?,
        }))
    }
}

fn find_endpoint(
    given: Option<&str>,
    environment: &Environment<'_>,
) -> Result<Option<CollectorEndpoint>, Error> {
    if let Some(given) = given {
        return CollectorEndpoint::base(given).map(Some).map_err(|why| wrong("--otlp-endpoint", why));
    }
    // The variable for metrics has the whole address, the other one the base for all signals.
    let (whole, base) = ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT");
    let found = match (environment.get(whole), environment.get(base)) {
        (Some(given), _) => CollectorEndpoint::parse(&given).map_err(|why| wrong(whole, why))?,
        (None, Some(given)) => CollectorEndpoint::base(&given).map_err(|why| wrong(base, why))?,
        (None, None) => return Ok(None),
    };
    Ok(Some(found))
}

fn wrong(name: impl Into<String>, why: impl Into<String>) -> Error {
    Error { name: name.into(), why: why.into() }
}

impl CollectorEndpoint {
    /// Parses a base address and appends the path of metrics, if it is missing.
    fn base(given: &str) -> Result<Self, String> {
        let mut endpoint = Self::parse(given)?;
        if !endpoint.path.ends_with(PATH) {
            endpoint.path = format!("{}/{PATH}", endpoint.path.trim_end_matches('/'));
        }
        Ok(endpoint)
    }

    fn parse(given: &str) -> Result<Self, String> {
        const ALLOWED: &str = "http://HOST:PORT or https://HOST:PORT is allowed, with a path or without";
        let uri: Uri = given.trim().parse().map_err(|_| ALLOWED.to_owned())?;
        let tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(ALLOWED.to_owned()),
        };
        let authority = uri.authority().ok_or(ALLOWED)?;
        if authority.as_str().contains('@') {
            return Err("others see addresses: a password goes into OTEL_EXPORTER_OTLP_HEADERS".to_owned());
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = authority.port_u16().unwrap_or(if tls { 443 } else { 80 });
        Ok(Self { tls, host, port, path: uri.path_and_query().map_or("/", |it| it.as_str()).to_owned() })
    }
}

impl std::fmt::Display for CollectorEndpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority(), self.path)
    }
}

impl CollectorEndpoint {
    /// Returns `HOST:PORT` as in a URL.
    #[must_use]
    pub fn authority(&self) -> String {
        let Self { host, port, .. } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }
}

/// Environment variables, of which empty ones count as unset.
struct Environment<'a>(&'a dyn Fn(&str) -> Option<String>);

impl Environment<'_> {
    fn get(&self, name: &str) -> Option<String> {
        (self.0)(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
    }

    /// Returns the variable for metrics, or else that for all signals: its name and value.
    fn of_signal(&self, name: &str) -> Option<(String, String)> {
        let names = [format!("OTEL_EXPORTER_OTLP_METRICS_{name}"), format!("OTEL_EXPORTER_OTLP_{name}")];
        names.into_iter().find_map(|name| self.get(&name).map(|value| (name, value)))
    }

    fn check_protocol(&self) -> Result<(), Error> {
        match self.of_signal("PROTOCOL") {
            Some((name, value)) if value != "http/protobuf" => {
                let hint = "http/protobuf is spoken, which collectors listen for on port 4318";
                Err(wrong(name, format!("{value}: {hint}")))
            }
            _ => Ok(()),
        }?;
        let name = "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE";
        match self.get(name) {
            Some(value) if value.eq_ignore_ascii_case("delta") => {
                let hint = "sums are cumulative; a collector's processor cumulativetodelta makes differences";
                Err(wrong(name, format!("{value}: {hint}")))
            }
            _ => Ok(()),
        }
    }

    fn number(&self, name: &str) -> Result<Option<u64>, Error> {
        let parse = |value: String| value.parse().ok().filter(|number| *number > 0);
        match self.get(name) {
            None => Ok(None),
            Some(value) => match parse(value.clone()) {
                Some(number) => Ok(Some(number)),
                None => Err(wrong(name, format!("{value}: milliseconds are allowed"))),
            },
        }
    }

    fn timeout(&self) -> Result<Option<Duration>, Error> {
        let Some((name, _)) = self.of_signal("TIMEOUT") else { return Ok(None) };
        Ok(self.number(&name)?.map(Duration::from_millis))
    }

    fn is_compressed(&self) -> Result<bool, Error> {
        match self.of_signal("COMPRESSION") {
            None => Ok(false),
            Some((_, value)) if value == "gzip" => Ok(true),
            Some((_, value)) if value == "none" => Ok(false),
            Some((name, value)) => Err(wrong(name, format!("{value}: gzip and none are allowed"))),
        }
    }

    fn tls_files(&self) -> Result<TlsFiles, Error> {
        let file = |name| self.of_signal(name).map(|(_, value)| PathBuf::from(value));
        let identity = match (file("CLIENT_CERTIFICATE"), file("CLIENT_KEY")) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            (Some(_), None) => return Err(wrong("OTEL_EXPORTER_OTLP_CLIENT_KEY", "there is none")),
            (None, Some(_)) => return Err(wrong("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", "there is none")),
        };
        Ok(TlsFiles { authorities: file("CERTIFICATE"), identity })
    }

    fn headers(&self) -> Result<Vec<(HeaderName, HeaderValue)>, Error> {
        let Some((name, list)) = self.of_signal("HEADERS") else { return Ok(vec![]) };
        let bad = || wrong(&*name, "NAME=VALUE,NAME=VALUE is allowed, values with % as in a URL");
        let pairs = pairs(&list).ok_or_else(bad)?;
        let header = |(name, value): (String, String)| {
            let mut value = HeaderValue::from_str(&value).ok()?;
            value.set_sensitive(true);
            Some((HeaderName::try_from(name).ok()?, value))
        };
        pairs.into_iter().map(|pair| header(pair).ok_or_else(bad)).collect()
    }

    fn resource(&self) -> Result<Vec<(String, String)>, Error> {
        let name = "OTEL_RESOURCE_ATTRIBUTES";
        let bad = || wrong(name, "NAME=VALUE,NAME=VALUE is allowed, values with % as in a URL");
        let mut found = match self.get(name) {
            Some(list) => pairs(&list).ok_or_else(bad)?,
            None => vec![],
        };
        if let Some(service) = self.get("OTEL_SERVICE_NAME") {
            found.retain(|(name, _)| name != "service.name");
            found.push(("service.name".to_owned(), service));
        }
        Ok(found)
    }
}

/// Parses `NAME=VALUE,NAME=VALUE`, with percent-encoded values.
fn pairs(list: &str) -> Option<Vec<(String, String)>> {
    let pair = |it: &str| {
        let (name, value) = it.split_once('=')?;
        let value = percent_decode_str(value.trim()).decode_utf8().ok()?;
        Some((name.trim().to_owned(), value.into_owned())).filter(|(name, _)| !name.is_empty())
    };
    list.split(',').filter(|it| !it.trim().is_empty()).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(given: Option<&str>, variables: &[(&str, &str)]) -> Result<Option<OtlpSettings>, Error> {
        OtlpSettings::read(given, None, &|name| {
            variables.iter().find(|(it, _)| *it == name).map(|(_, value)| (*value).to_owned())
        })
    }

    fn endpoint(given: Option<&str>, variables: &[(&str, &str)]) -> Option<String> {
        read(given, variables).expect("settings").map(|it| it.endpoint.to_string())
    }

    #[test]
    fn the_endpoint_comes_from_the_command_line_or_the_environment() {
        let (all, metrics) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT");
        assert_eq!(endpoint(None, &[(all, "")]), None);
        let at = |given, variables: &[(&str, &str)]| endpoint(given, variables).expect("an endpoint");
        assert_eq!(at(Some("http://c:4318"), &[(all, "http://d")]), "http://c:4318/v1/metrics");
        assert_eq!(at(Some("https://c/otlp/"), &[]), "https://c:443/otlp/v1/metrics");
        assert_eq!(at(Some("https://c/v1/metrics"), &[]), "https://c:443/v1/metrics");
        assert_eq!(at(None, &[(all, "http://[::1]:4318")]), "http://[::1]:4318/v1/metrics");
        assert_eq!(at(None, &[(all, "http://d"), (metrics, "http://c/api?x=1")]), "http://c:80/api?x=1");
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        let error = |given, variables: &[(&str, &str)]| {
            let mut variables = variables.to_vec();
            variables.push(("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c"));
            read(given, &variables).expect_err("an error").to_string()
        };
        assert!(error(Some("c:4317"), &[]).starts_with("--otlp-endpoint: http://"));
        assert!(error(Some("grpc://c:4317"), &[]).starts_with("--otlp-endpoint: http://"));
        let said = error(Some("http://me:secret@c"), &[]);
        assert!(said.contains("OTEL_EXPORTER_OTLP_HEADERS") && !said.contains("secret"), "{said}");
        for (name, value) in [
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "soon"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "zstd"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "secret"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "0"),
            ("OTEL_RESOURCE_ATTRIBUTES", "=x"),
            ("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "delta"),
        ] {
            let said = error(None, &[(name, value)]);
            assert!(said.starts_with(name) && !said.contains("secret"), "{said}");
        }
    }

    #[test]
    fn the_environment_says_the_rest_and_no_header_is_shown() {
        let settings = read(
            Some("http://c"),
            &[
                ("OTEL_EXPORTER_OTLP_HEADERS", "x-key=of%20all"),
                ("OTEL_EXPORTER_OTLP_METRICS_HEADERS", "api-key=a%2Cb, x=1"),
                ("OTEL_EXPORTER_OTLP_TIMEOUT", "2500"),
                ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
                ("OTEL_METRIC_EXPORT_INTERVAL", "15000"),
                ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test,service.name=x"),
                ("OTEL_SERVICE_NAME", "shop"),
            ],
        );
        let settings = settings.expect("settings").expect("an endpoint");
        let headers: Vec<_> =
            settings.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        assert_eq!(headers, [("api-key", &b"a,b"[..]), ("x", b"1")]);
        assert_eq!(settings.timeout, Duration::from_millis(2500));
        assert_eq!(settings.interval, Duration::from_secs(15));
        assert!(settings.gzip);
        let resource = [("deployment.environment", "test"), ("service.name", "shop")];
        assert_eq!(settings.resource, resource.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert!(!format!("{settings:?}").contains("a,b"));
    }
}
