//! Server addresses: `mysql://ACCOUNT:PASSWORD@HOST:PORT` or
//! `mysql://ACCOUNT:PASSWORD@localhost?socket=/PATH`.
//!
//! An error about an address never shows what may be its password: everything between the first `:` and the
//! last `@` or, where there is no `@`, everything after the first `:`.

use std::borrow::Cow;
use std::path::PathBuf;

use percent_encoding::percent_decode_str;

use crate::{Mode, Secret};

/// The accepted URL schemes.
const SCHEMES: [&str; 2] = ["mysql", "mariadb"];
/// The accepted URL parameters.
const PARAMETERS: [&str; 6] = ["socket", "ssl-mode", "ssl-ca", "ssl-cert", "ssl-key", "require-ssl"];

/// A server's address and an account on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dsn {
    /// The account's name; percent-decoded.
    pub user: Option<String>,
    /// The account's password; percent-decoded.
    pub password: Option<Secret>,
    /// The host's name or IP address.
    pub host: String,
    /// The TCP port.
    pub port: Option<u16>,
    /// The schema the connection starts in.
    pub schema: Option<String>,
    /// The path of the Unix socket.
    pub socket: Option<PathBuf>,
    /// The TLS mode.
    pub mode: Option<Mode>,
    /// The file of trusted certificate authorities.
    pub ca: Option<PathBuf>,
    /// The file of the client's certificate.
    pub cert: Option<PathBuf>,
    /// The file of the client certificate's private key.
    pub key: Option<PathBuf>,
}

/// The reason an address is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{given}: {why}; mysql://ACCOUNT:PASSWORD@HOST:PORT is allowed, or mysql://ACCOUNT:PASSWORD@localhost?socket=/PATH"
)]
pub struct WrongDsn {
    /// The address without its password.
    pub given: String,
    /// The fault of the address.
    pub why: String,
}

impl Dsn {
    /// Parses an address.
    ///
    /// # Errors
    ///
    /// When the address is malformed. The error shows the address without its password.
    pub fn read(given: &str) -> Result<Dsn, WrongDsn> {
        read(given).map_err(|why| WrongDsn { given: hide(given), why })
    }
}

/// The parts of an address, still percent-encoded.
struct DsnParts<'t> {
    account: Option<&'t str>,
    place: &'t str,
    parameters: &'t str,
}

/// Splits what follows the scheme. A valid URL is split as one. Where characters of the password have a
/// meaning in a URL, the account ends at the last `@`.
fn parts(rest: &str) -> DsnParts<'_> {
    let (head, parameters) = rest.split_once('?').unwrap_or((rest, ""));
    let is_url = are_known(parameters) && head.rsplit_once('@').is_none_or(|(_, place)| is_place(place));
    if is_url && (head.contains('@') || !rest.contains('@')) {
        return match head.rsplit_once('@') {
            Some((account, place)) => DsnParts { account: Some(account), place, parameters },
            None => DsnParts { account: None, place: head, parameters },
        };
    }
    let (account, behind) =
        rest.rsplit_once('@').map_or((None, rest), |(account, behind)| (Some(account), behind));
    let (place, parameters) = behind.split_once('?').unwrap_or((behind, ""));
    DsnParts { account, place, parameters }
}

/// Returns whether all parameters are accepted ones.
fn are_known(parameters: &str) -> bool {
    let is_known = |it: &str| PARAMETERS.contains(&name(it.split('=').next().unwrap_or_default()).as_str());
    parameters.is_empty() || parameters.split('&').all(is_known)
}

fn name(text: &str) -> String {
    text.to_lowercase().replace('_', "-")
}

/// Returns whether `text` is `HOST` or `HOST:PORT`, with or without `/SCHEMA`.
fn is_place(text: &str) -> bool {
    host_and_port(text).is_ok()
}

type HostAndPort<'t> = (&'t str, Option<u16>, Option<&'t str>);

fn host_and_port(text: &str) -> Result<HostAndPort<'_>, &'static str> {
    let (address, schema) = text.split_once('/').map_or((text, None), |(address, it)| (address, Some(it)));
    let (host, port) = match address.strip_prefix('[') {
        Some(rest) => {
            let (host, behind) = rest.split_once(']').ok_or("a [ without its ]")?;
            (host, behind.strip_prefix(':').or((!behind.is_empty()).then_some(behind)))
        }
        None => address.split_once(':').map_or((address, None), |(host, port)| (host, Some(port))),
    };
    if host.is_empty() {
        return Err("there is no host");
    }
    let is_part = |c: char| c.is_alphanumeric() || "-._:".contains(c);
    if !host.chars().all(is_part) || schema.is_some_and(|it| it.contains(['/', '#', '@', ':'])) {
        return Err("the host cannot be one");
    }
    let port = port
        .map(|it| it.parse().ok().filter(|port| *port > 0).ok_or("the port is no number from 1 to 65535"));
    Ok((host, port.transpose()?, schema.filter(|it| !it.is_empty())))
}

fn read(given: &str) -> Result<Dsn, String> {
    let (scheme, rest) = given.split_once("://").ok_or("there is no scheme")?;
    if !SCHEMES.contains(&scheme) {
        return Err("the scheme is another one".to_owned());
    }
    let DsnParts { account, place, parameters } = parts(rest);
    let encode = "the account or the password has characters that mean something in a URL (# / ?): percent-encode the password";
    if account.is_some_and(|it| it.contains(['#', '/', '?'])) {
        return Err(encode.to_owned());
    }
    let (host, port, schema) = host_and_port(place).map_err(|why| match account {
        // The split may have been at a raw `@` of the password.
        Some(_) => format!("{why}; if the password has characters that mean something in a URL (# / ? @), percent-encode the password"),
        None => format!("{why}; behind an account an @ and the host follow, and characters that mean something in a URL (# / ? @): percent-encode the password"),
    })?;
    let decoded = |text: &str| percent_decode_str(text).decode_utf8().map(Cow::into_owned);
    let (user, password) = account.map_or((None, None), |it| match it.split_once(':') {
        Some((user, password)) => (Some(user), Some(password)),
        None => (Some(it), None),
    });
    let not_text = |_| "it is not UTF-8 when it is decoded: percent-encode the password as UTF-8".to_owned();
    let user = user.map(decoded).transpose().map_err(not_text)?;
    let password = password.map(decoded).transpose().map_err(not_text)?;
    let mut dsn = Dsn {
        user: user.filter(|it| !it.is_empty()),
        password: password.map(Secret::new),
        host: host.to_owned(),
        port,
        schema: schema.map(decoded).transpose().map_err(not_text)?,
        socket: None,
        mode: None,
        ca: None,
        cert: None,
        key: None,
    };
    dsn.take(parameters)?;
    Ok(dsn)
}

impl Dsn {
    fn take(&mut self, parameters: &str) -> Result<(), String> {
        let mut is_required = false;
        for parameter in parameters.split('&').filter(|it| !it.is_empty()) {
            let (key, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            let value = percent_decode_str(value).decode_utf8_lossy().into_owned();
            let path = || Some(PathBuf::from(&value)).filter(|it| !it.as_os_str().is_empty());
            match name(key).as_str() {
                "socket" => self.socket = path(),
                "ssl-mode" => {
                    self.mode =
                        Some(Mode::read(&value).ok_or_else(|| format!("ssl-mode: {}", Mode::ALLOWED))?)
                }
                "ssl-ca" => self.ca = path(),
                "ssl-cert" => self.cert = path(),
                "ssl-key" => self.key = path(),
                "require-ssl" => is_required = !["false", "0"].contains(&value.as_str()),
                _ => {
                    return Err(format!(
                        "of parameters, {} are known; and a password with ? or & in it has to be percent-encoded: percent-encode the password",
                        PARAMETERS.join(", ")
                    ));
                }
            }
        }
        // A Unix socket does not leave the machine.
        if is_required && self.socket.is_none() && self.mode.is_none() {
            self.mode = Some(Mode::VerifyIdentity);
        }
        Ok(())
    }
}

/// Returns an address as it may be shown: without its parameters and without anything that may be a password.
#[must_use]
pub fn hide(given: &str) -> String {
    let Some((scheme, rest)) = given.split_once("://") else { return "the address".to_owned() };
    if scheme.len() > 16 || !scheme.chars().all(|c| c.is_ascii_alphanumeric() || c == '+') {
        return "the address".to_owned();
    }
    let DsnParts { account, place, .. } = parts(rest);
    let until = |text: &str| text.split([':', '/', '?', '#', '@']).next().unwrap_or_default().to_owned();
    match account {
        Some(account) if is_place(place) && !account.contains(['#', '/', '?']) => {
            let place = place.split('/').next().unwrap_or_default();
            format!("{scheme}://{}@{place}", until(account))
        }
        // If the host is missing, the text after the account's `:` is its password.
        _ => format!("{scheme}://{}", until(rest)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_taken_apart() {
        let read = |text: &str| Dsn::read(text).expect(text);
        let dsn = read("mysql://dba:s%23c%2Fr%40t@db1:3307/shop?ssl_mode=verify_ca&ssl-ca=/etc/ca%20b.pem");
        assert_eq!((dsn.user.as_deref(), dsn.host.as_str(), dsn.port), (Some("dba"), "db1", Some(3307)));
        assert_eq!(dsn.password, Some(Secret::new("s#c/r@t")));
        assert_eq!((dsn.schema.as_deref(), dsn.mode), (Some("shop"), Some(Mode::VerifyCa)));
        assert_eq!(dsn.ca, Some("/etc/ca b.pem".into()));
        let dsn = read("mysql://root@localhost?socket=/run/a@b.sock&require_ssl=true");
        assert_eq!(
            (dsn.socket, dsn.mode),
            (Some("/run/a@b.sock".into()), None),
            "a socket stays on the machine"
        );
        assert_eq!(read("mysql://h?require_ssl=true").mode, Some(Mode::VerifyIdentity));
        assert_eq!(read("mysql://a:b@[::1]:3307").host, "::1");
        assert_eq!(read("mysql://[fe80::1]").port, None);
    }

    #[test]
    fn a_password_ends_at_the_last_at() {
        for (given, password) in [
            ("mysql://u:p@ss@h", "p@ss"),
            ("mysql://u:@@h:3307", "@"),
            ("mysql://u:p:ss@h", "p:ss"),
            ("mysql://u:p ss@h", "p ss"),
            ("mysql://u:p[s]s@h", "p[s]s"),
            ("mysql://u:100%@h", "100%"),
            ("mysql://u:%zz@h", "%zz"),
            ("mysql://u:p%20ss@h?socket=/s", "p ss"),
        ] {
            let dsn = Dsn::read(given).expect(given);
            assert_eq!(dsn.password, Some(Secret::new(password)), "{given}");
            assert_eq!((dsn.user.as_deref(), dsn.host.as_str()), (Some("u"), "h"), "{given}");
        }
    }

    #[test]
    fn what_may_be_a_password_is_not_shown() {
        for given in [
            "mysql://dba:#secret@db1",
            "mysql://dba:se#secret@db1:3306",
            "mysql://dba:/secret@db1",
            "mysql://dba:12/secret@db1",
            "mysql://dba:?secret@db1",
            "mysql://dba:12?secret=1@db1",
            "mysql://dba:a@b#secret@db1",
            "mysql://dba:a@b/secret@db1",
            "mysql://dba:secret/a@b?c@db1",
            "mysql://dba:secret",
            "mysql://dba:12#secret",
            "mysql://dba:secret@",
            "mysql://dba:x@secret/y:z",
            "mysql://dba:a@db1:secret",
            "mysql://dba:a@db1?secret=1",
            "mysql://dba:a@db1#secret",
            "mysql://dba:secret@[db1",
        ] {
            let error = Dsn::read(given).expect_err(given);
            let said = error.to_string();
            assert!(said.contains("percent-encode the password"), "{given}: {said}");
            assert!(said.starts_with("mysql://dba"), "{given}: {said}");
            assert!(!said.contains("secret") && !format!("{error:?}").contains("secret"), "{given}: {said}");
        }
        for given in ["mysql//dba:secret@db1", "secret", "http://dba:secret@db1", "dba:secret@db1://x", ""] {
            let said = Dsn::read(given).expect_err(given).to_string();
            assert!(!said.contains("secret") && said.contains("is allowed"), "{given}: {said}");
        }
        let shown = format!("{:?}", Dsn::read("mysql://dba:secret@db1").expect("an address"));
        assert!(!shown.contains("secret"), "{shown}");
    }
}
