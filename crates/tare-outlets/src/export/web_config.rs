//! The file of `--web.config.file`, in exporter-toolkit's format.
//!
//! It is read anew for every connection and every request, so that new certificates and passwords count at once. What
//! is made of it is kept for as long as no file has changed. A key that is not known, and one that is but whose wish
//! cannot be met, is an error: whoever wrote it believes in it.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use hyper::header::{HeaderName, HeaderValue};
use serde::Deserialize;

use super::tls;

/// What is wrong with the file, or with one that it names.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be read.
    #[error("{path}: {why}")]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        why: String,
    },
    /// It is no YAML, or has a key or a value that is not known.
    #[error("{path}: {why}")]
    Format {
        /// Which file.
        path: PathBuf,
        /// What is wrong, and where.
        why: String,
    },
    /// A key's value cannot be used.
    #[error("{path}: {key}: {why}")]
    Value {
        /// Which file.
        path: PathBuf,
        /// The key.
        key: &'static str,
        /// What is wrong.
        why: String,
    },
}

/// The file as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct File {
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

/// What of headers exporter-toolkit lets be set.
const HEADERS: [&str; 5] = [
    "Content-Security-Policy",
    "X-Frame-Options",
    "X-Content-Type-Options",
    "X-XSS-Protection",
    "Strict-Transport-Security",
];

/// What follows from the file.
#[derive(Debug, Default)]
pub struct WebConfig {
    /// How connections are encrypted, if they are.
    pub tls: Option<Arc<rustls::ServerConfig>>,
    /// Headers of every answer.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Who may ask, and the bcrypt hash of the password; everybody if there is none.
    pub users: BTreeMap<String, String>,
    /// HTTP/2 was asked for by name, which there is not: clients are offered HTTP/1.1.
    pub asks_for_http2: bool,
}

/// The file, and what was last made of it.
#[derive(Debug, Default)]
pub struct WebConfigFile {
    path: Option<PathBuf>,
    last: Mutex<Option<Last>>,
}

#[derive(Debug)]
struct Last {
    /// The contents of all files it was made of.
    contents: Vec<Vec<u8>>,
    config: Arc<WebConfig>,
}

impl WebConfigFile {
    /// The file at this path; without one, plain HTTP for everybody.
    #[must_use]
    pub fn new(path: Option<PathBuf>) -> Self {
        Self { path, last: Mutex::default() }
    }

    /// What the file says now.
    ///
    /// # Errors
    ///
    /// When the file, or one it names, cannot be read, or says what is not known.
    pub fn read(&self) -> Result<Arc<WebConfig>, Error> {
        let Some(path) = &self.path else { return Ok(Arc::default()) };
        let (file, contents) = File::read(path)?;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = last.as_ref().filter(|last| last.contents == contents) {
            return Ok(last.config.clone());
        }
        let config = Arc::new(file.config(path)?);
        *last = Some(Last { contents, config: config.clone() });
        Ok(config)
    }
}

impl File {
    /// Reads the file and, to see whether they have changed, those it names.
    fn read(path: &Path) -> Result<(File, Vec<Vec<u8>>), Error> {
        let text = contents(path)?;
        let format = |why: String| Error::Format { path: path.to_owned(), why };
        let yaml = std::str::from_utf8(&text).map_err(|error| format(error.to_string()))?;
        let mut file: File = if is_empty(yaml) {
            File::default()
        } else {
            serde_saphyr::from_str(yaml).map_err(|error| format(first_line(&error.to_string())))?
        };
        let mut contents_of = vec![];
        if let Some(keys) = &mut file.tls_server_config {
            // Names in the file are seen from the file's folder.
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

/// Nothing but comments is no document, and no wish.
fn is_empty(yaml: &str) -> bool {
    yaml.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#'))
}

/// The sentence of an error; the excerpt below it, which may show a hash, is left out.
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
