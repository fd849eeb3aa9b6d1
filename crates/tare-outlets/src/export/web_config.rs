//! The file of `--web.config.file`, in exporter-toolkit's format.
//!
//! It is read for every connection and every request, so that new certificates and passwords take effect at
//! once. The parsed result is cached until a file changes. An unknown key is an error, and so is a known one
//! that cannot be honoured, because its author relies on it.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use hyper::header::{HeaderName, HeaderValue};
use serde::Deserialize;

use super::tls;

/// An error in the file, or in one that it names.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be read.
    #[error("{path}: {why}")]
    Unreadable {
        /// Path of the file.
        path: PathBuf,
        /// The system's error.
        why: String,
    },
    /// It is not YAML, or has an unknown key or value.
    #[error("{path}: {why}")]
    Format {
        /// Path of the file.
        path: PathBuf,
        /// The fault, and its place.
        why: String,
    },
    /// The value of a key cannot be used.
    #[error("{path}: {key}: {why}")]
    Value {
        /// Path of the file.
        path: PathBuf,
        /// The key.
        key: &'static str,
        /// The fault.
        why: String,
    },
}

/// The content of the file.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct WebConfigYaml {
    tls_server_config: Option<TlsKeys>,
    http_server_config: HttpKeys,
    basic_auth_users: BTreeMap<String, String>,
}

/// `tls_server_config`
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct TlsKeys {
    pub(super) cert: Option<String>,
    pub(super) key: Option<String>,
    pub(super) client_ca: Option<String>,
    pub(super) cert_file: Option<PathBuf>,
    pub(super) key_file: Option<PathBuf>,
    pub(super) client_ca_file: Option<PathBuf>,
    pub(super) client_auth_type: Option<String>,
    pub(super) min_version: Option<String>,
    pub(super) max_version: Option<String>,
    pub(super) cipher_suites: Vec<String>,
    pub(super) curve_preferences: Vec<String>,
    pub(super) prefer_server_cipher_suites: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct HttpKeys {
    http2: Option<bool>,
    headers: BTreeMap<String, String>,
}

/// The headers that exporter-toolkit allows to set.
const HEADERS: [&str; 5] = [
    "Content-Security-Policy",
    "X-Frame-Options",
    "X-Content-Type-Options",
    "X-XSS-Protection",
    "Strict-Transport-Security",
];

/// The parsed configuration.
#[derive(Debug, Default)]
pub struct WebConfig {
    /// TLS settings, if connections are encrypted.
    pub tls: Option<Arc<rustls::ServerConfig>>,
    /// Headers of every answer.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Users with the bcrypt hash of their password; without users, everybody has access.
    pub users: BTreeMap<String, String>,
    /// Whether HTTP/2 was requested, which is not supported: clients are offered HTTP/1.1.
    pub asks_for_http2: bool,
}

/// The file, and its last parsed content.
#[derive(Debug, Default)]
pub struct WebConfigFile {
    path: Option<PathBuf>,
    last: Mutex<Option<Last>>,
}

#[derive(Debug)]
struct Last {
    /// Contents of all files that it was made of.
    contents: Vec<Vec<u8>>,
    config: Arc<WebConfig>,
}

impl WebConfigFile {
    /// Creates the configuration of a file; without a path, plain HTTP for everybody.
    #[must_use]
    pub fn new(path: Option<PathBuf>) -> Self {
        Self { path, last: Mutex::default() }
    }

    /// Returns the current configuration.
    ///
    /// # Errors
    ///
    /// When the file, or one it names, cannot be read or is invalid.
    pub fn read(&self) -> Result<Arc<WebConfig>, Error> {
        let Some(path) = &self.path else { return Ok(Arc::default()) };
        let (file, contents) = WebConfigYaml::read(path)?;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = last.as_ref().filter(|last| last.contents == contents) {
            return Ok(last.config.clone());
        }
        let config = Arc::new(file.config(path)?);
        *last = Some(Last { contents, config: config.clone() });
        Ok(config)
    }
}

impl WebConfigYaml {
    /// Reads the file and, to detect changes, those it names.
    fn read(path: &Path) -> Result<(WebConfigYaml, Vec<Vec<u8>>), Error> {
        let text = contents(path)?;
        let format = |why: String| Error::Format { path: path.to_owned(), why };
        let yaml = std::str::from_utf8(&text).map_err(|error| format(error.to_string()))?;
        let mut file: WebConfigYaml = if is_empty(yaml) {
            WebConfigYaml::default()
        } else {
            serde_saphyr::from_str(yaml).map_err(|error| format(first_line(&error.to_string())))?
        };
        let mut contents_of = vec![];
        if let Some(keys) = &mut file.tls_server_config {
            // Names in the file are relative to its folder.
            let folder = path.parent().unwrap_or(Path::new(""));
            let named = [&mut keys.cert_file, &mut keys.key_file, &mut keys.client_ca_file];
            for name in named.into_iter().flatten() {
                *name = folder.join(&name);
                contents_of.push(contents(name)?);
            }
        }
        contents_of.push(text);
        Ok((file, contents_of))
    }

    fn config(self, path: &Path) -> Result<WebConfig, Error> {
        let value = |key, why| Error::Value { path: path.to_owned(), key, why };
        let tls = self.tls_server_config.map(|keys| tls::config(&keys)).transpose();
        let tls = tls.map_err(|(key, why)| value(key, why))?.map(Arc::new);
        let headers = self.http_server_config.headers.iter().map(|(name, text)| header(name, text));
        let headers: Result<Vec<_>, String> = headers.collect();
        let headers = headers.map_err(|why| value("http_server_config.headers", why))?;
        for (user, hash) in &self.basic_auth_users {
            hash.parse::<bcrypt::HashParts>()
                .map_err(|error| value("basic_auth_users", format!("{user}: no bcrypt hash: {error}")))?;
        }
        Ok(WebConfig {
            tls,
            headers,
            users: self.basic_auth_users,
            asks_for_http2: self.http_server_config.http2 == Some(true),
        })
    }
}

fn contents(path: &Path) -> Result<Vec<u8>, Error> {
    let unreadable = |error: io::Error| Error::Unreadable { path: path.to_owned(), why: error.to_string() };
    fs::read(path).map_err(unreadable)
}

/// Returns whether there are only comments, which is an empty configuration.
fn is_empty(yaml: &str) -> bool {
    yaml.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#'))
}

/// Returns the first line of an error; the excerpt below it may show a hash.
fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

fn header(name: &str, text: &str) -> Result<(HeaderName, HeaderValue), String> {
    if !HEADERS.iter().any(|it| it.eq_ignore_ascii_case(name)) {
        return Err(format!("{name}: these may be set: {}", HEADERS.join(", ")));
    }
    let bad = |_| format!("{name}: {text:?} cannot be a header's value");
    let known = HeaderName::from_bytes(name.as_bytes()).map_err(|_| format!("{name}: no header's name"))?;
    Ok((known, HeaderValue::from_str(text).map_err(bad)?))
}
