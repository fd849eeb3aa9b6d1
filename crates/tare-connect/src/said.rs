//! What one source says of a server, and the server that follows from all sources.

use std::path::PathBuf;

use crate::{Dsn, Mode, Secret, ServerAccount, ServerLocation, Tls};

/// The default port.
const PORT: u16 = 3306;
/// The default sockets of Debian, of Red Hat and of servers built by hand.
const SOCKETS: [&str; 3] = ["/run/mysqld/mysqld.sock", "/var/lib/mysql/mysql.sock", "/tmp/mysql.sock"];

/// A password that was given, or a request to ask the user for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PasswordOption {
    /// The password that was given.
    Said(Secret),
    /// The user types the password.
    User,
}

/// The reason a value is rejected. The value itself is never shown: it may be a misplaced password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name}: {allowed}")]
pub struct RejectedValue {
    /// The option's name.
    pub name: String,
    /// What the option allows.
    pub allowed: &'static str,
}

/// What one source says of a server: the command line, an address or option files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerOptions {
    /// The server's host.
    pub host: Option<String>,
    /// The server's port.
    pub port: Option<u16>,
    /// The server's Unix socket.
    pub socket: Option<PathBuf>,
    /// Whether TCP is requested although the host is this machine.
    pub tcp: Option<bool>,
    /// The account's name.
    pub user: Option<String>,
    /// The account's password.
    pub password: Option<PasswordOption>,
    /// The TLS mode.
    pub mode: Option<Mode>,
    /// The file of trusted certificate authorities.
    pub ca: Option<PathBuf>,
    /// The file of the client's certificate.
    pub cert: Option<PathBuf>,
    /// The file of the client certificate's private key.
    pub key: Option<PathBuf>,
}

impl ServerOptions {
    /// Sets an option by the name it has in files. Unknown options are ignored.
    ///
    /// # Errors
    ///
    /// When the value is invalid.
    pub fn set(&mut self, name: &str, value: Option<&str>) -> Result<(), RejectedValue> {
        let name = name.strip_prefix("loose-").unwrap_or(name);
        let wrong = |allowed| RejectedValue { name: name.to_owned(), allowed };
        let text = || value.map(str::to_owned);
        let path = || value.filter(|it| !it.is_empty()).map(PathBuf::from);
        match name {
            "host" => self.host = text().filter(|it| !it.is_empty()),
            "user" => self.user = text(),
            "socket" => self.socket = path(),
            "port" => {
                let port = value.and_then(|it| it.parse().ok());
                // Port 0 means the default port.
                self.port =
                    Some(port.ok_or(wrong("a number from 1 to 65535 is allowed"))?).filter(|port| *port > 0);
            }
            "password" => {
                self.password =
                    Some(text().map_or(PasswordOption::User, |it| PasswordOption::Said(Secret::new(it))))
            }
            "protocol" => self.tcp = value.map(|it| it.eq_ignore_ascii_case("tcp")),
            "ssl-mode" => {
                let mode = value.and_then(Mode::read);
                self.mode = Some(mode.ok_or(wrong(Mode::ALLOWED))?);
            }
            "ssl-ca" => self.ca = path(),
            "ssl-cert" => self.cert = path(),
            "ssl-key" => self.key = path(),
            "ssl" | "enable-ssl" if is_on(value) => self.at_least(Mode::Required),
            "ssl-verify-server-cert" if is_on(value) => self.at_least(Mode::VerifyIdentity),
            "ssl" | "skip-ssl" | "disable-ssl" if (name == "ssl") != is_on(value) => {
                self.mode = Some(Mode::Disabled)
            }
            _ => {}
        }
        Ok(())
    }

    fn at_least(&mut self, mode: Mode) {
        self.mode = Some(self.mode.map_or(mode, |now| now.max(mode)));
    }

    /// Returns these values, with those of `other` where this source says nothing.
    #[must_use]
    pub fn over(self, other: ServerOptions) -> ServerOptions {
        ServerOptions {
            host: self.host.or(other.host),
            port: self.port.or(other.port),
            socket: self.socket.or(other.socket),
            tcp: self.tcp.or(other.tcp),
            user: self.user.or(other.user),
            password: self.password.or(other.password),
            mode: self.mode.or(other.mode),
            ca: self.ca.or(other.ca),
            cert: self.cert.or(other.cert),
            key: self.key.or(other.key),
        }
    }

    /// Returns whether this source says where the server is.
    #[must_use]
    pub fn names_server(&self) -> bool {
        self.host.is_some() || self.port.is_some() || self.socket.is_some()
    }

    /// Returns whether this source asks for a connection to a server as an account, rather than to tare's own
    /// socket.
    #[must_use]
    pub fn names_account(&self) -> bool {
        self.user.is_some() || self.password.is_some() || self.host.is_some() || self.port.is_some()
    }

    /// Returns what an address says. An address that names a user also decides the password: no other source
    /// adds one.
    #[must_use]
    pub fn of_dsn(dsn: &Dsn) -> ServerOptions {
        let password = dsn.password.clone().map(PasswordOption::Said);
        let none = dsn.user.is_some().then(|| PasswordOption::Said(Secret::new("")));
        ServerOptions {
            // A socket takes precedence over the host.
            host: Some(dsn.host.clone()).filter(|_| dsn.socket.is_none()),
            port: dsn.port.filter(|_| dsn.socket.is_none()),
            socket: dsn.socket.clone(),
            tcp: Some(dsn.socket.is_none()),
            user: dsn.user.clone(),
            password: password.or(none),
            mode: dsn.mode,
            ca: dsn.ca.clone(),
            cert: dsn.cert.clone(),
            key: dsn.key.clone(),
        }
    }

    /// Returns the server that follows from the command line (`these`) and the option files (`files`). `ask`
    /// asks the user for a password.
    ///
    /// Where the host is this machine (not given, or `localhost`), the server's socket is used unless the
    /// command line names a port or TCP is requested.
    ///
    /// # Errors
    ///
    /// The error of `ask`.
    pub fn server<E>(
        these: ServerOptions,
        files: ServerOptions,
        ask: &mut dyn FnMut(&str) -> Result<Secret, E>,
    ) -> Result<ServerAccount, E> {
        let is_here =
            |host: &Option<String>| host.as_deref().is_none_or(|it| it.eq_ignore_ascii_case("localhost"));
        let wants_tcp =
            these.tcp.unwrap_or(these.port.is_some() && these.socket.is_none() && is_here(&these.host));
        let wants_socket = these.socket.is_some() && is_here(&these.host);
        let all = these.over(files);
        let by_tcp = !wants_socket && (!is_here(&all.host) || wants_tcp || all.tcp == Some(true));
        let place = if by_tcp {
            ServerLocation::Tcp {
                host: all.host.clone().unwrap_or_else(|| "localhost".to_owned()),
                port: all.port.unwrap_or(PORT),
            }
        } else {
            ServerLocation::Socket(all.socket.clone().unwrap_or_else(usual_socket))
        };
        let user = all.user.clone().unwrap_or_else(login);
        let password = match &all.password {
            Some(PasswordOption::Said(password)) => Some(password.clone()),
            Some(PasswordOption::User) => Some(ask(&format!("{user} at {place}"))?),
            None => None,
        };
        let password = password.filter(|it| !it.reveal().is_empty());
        Ok(ServerAccount { place, user, password, schema: None, tls: all.tls() })
    }

    /// Returns how the connection is encrypted. A file of authorities without a mode means that certificates
    /// are checked against it.
    #[must_use]
    pub fn tls(&self) -> Tls {
        let usual = if self.ca.is_some() { Mode::VerifyCa } else { Mode::Preferred };
        Tls {
            mode: self.mode.unwrap_or(usual),
            ca: self.ca.clone(),
            cert: self.cert.clone(),
            key: self.key.clone(),
        }
    }
}

/// Returns the value of a switch in an option file; a switch without a value is on.
fn is_on(value: Option<&str>) -> bool {
    !value.is_some_and(|it| ["0", "off", "false", "no"].iter().any(|no| it.eq_ignore_ascii_case(no)))
}

/// Returns the first default socket that exists, or the first of them if none does.
fn usual_socket() -> PathBuf {
    let there = SOCKETS.iter().find(|path| std::path::Path::new(path).exists());
    PathBuf::from(there.unwrap_or(&SOCKETS[0]))
}

/// Returns the user's name on this machine.
fn login() -> String {
    let named = nix::unistd::User::from_uid(nix::unistd::geteuid()).ok().flatten().map(|user| user.name);
    named.or_else(|| std::env::var("USER").ok()).unwrap_or_else(|| "root".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(these: ServerOptions, files: ServerOptions) -> ServerAccount {
        let mut ask = |_: &str| Ok::<_, ()>(Secret::new("typed"));
        ServerOptions::server(these, files, &mut ask).expect("a server")
    }

    fn file(lines: &[(&str, &str)]) -> ServerOptions {
        let mut said = ServerOptions::default();
        for (name, value) in lines {
            said.set(name, Some(value)).expect("a value");
        }
        said
    }

    #[test]
    fn value_by_value_the_command_line_comes_before_files() {
        let files = file(&[("host", "db1"), ("port", "3307"), ("user", "agent"), ("password", "a")]);
        let these = ServerOptions { host: Some("db2".into()), ..ServerOptions::default() };
        let found = server(these, files.clone());
        assert_eq!((found.to_string(), found.user.as_str()), ("db2:3307".into(), "agent"));
        let typed =
            server(ServerOptions { password: Some(PasswordOption::User), ..ServerOptions::default() }, files);
        assert_eq!(typed.password, Some(Secret::new("typed")));
    }

    #[test]
    fn this_machine_is_its_socket_unless_tcp_is_asked_for() {
        let files = file(&[("socket", "/run/my.sock")]);
        let said = |host: Option<&str>, port| ServerOptions {
            host: host.map(Into::into),
            port,
            ..ServerOptions::default()
        };
        for (these, expected) in [
            (said(None, None), "/run/my.sock"),
            (said(Some("localhost"), None), "/run/my.sock"),
            (said(Some("127.0.0.1"), None), "127.0.0.1:3306"),
            (said(None, Some(3307)), "localhost:3307"),
            (said(Some("db1"), None), "db1:3306"),
            (ServerOptions { socket: Some("/s".into()), ..said(None, Some(3307)) }, "/s"),
            (ServerOptions { tcp: Some(true), ..ServerOptions::default() }, "localhost:3306"),
        ] {
            assert_eq!(server(these.clone(), files.clone()).to_string(), expected, "{these:?}");
        }
        let port = file(&[("socket", "/run/my.sock"), ("port", "3307")]);
        assert_eq!(
            server(ServerOptions::default(), port).to_string(),
            "/run/my.sock",
            "a file's port is no wish for TCP"
        );
        let tcp = file(&[("protocol", "TCP"), ("port", "3307")]);
        assert_eq!(server(ServerOptions::default(), tcp).to_string(), "localhost:3307");
    }

    #[test]
    fn an_address_is_whole_and_files_add_what_it_leaves_open() {
        let files = file(&[("host", "db9"), ("user", "agent"), ("password", "a"), ("ssl-ca", "/ca")]);
        let of = |dsn: &str| ServerOptions::of_dsn(&Dsn::read(dsn).expect("a dsn"));
        let found = server(of("mysql://dba@db1"), files.clone());
        assert_eq!((found.to_string(), found.user.as_str()), ("db1:3306".into(), "dba"));
        assert_eq!(found.password, None, "the file's password is another account's");
        assert_eq!(found.tls.mode, Mode::VerifyCa);
        assert_eq!(server(of("mysql://dba@db1?socket=/s"), files.clone()).to_string(), "/s");
        let found = server(of("mysql://db1:3307"), files);
        assert_eq!((found.user.as_str(), found.password), ("agent", Some(Secret::new("a"))));
    }

    #[test]
    fn switches_of_both_kinds_of_clients_are_known() {
        for (lines, mode) in [
            (&[][..], Mode::Preferred),
            (&[("ssl-mode", "required")], Mode::Required),
            (&[("ssl-ca", "/ca")], Mode::VerifyCa),
            (&[("ssl-ca", "/ca"), ("ssl-mode", "REQUIRED")], Mode::Required),
            (&[("ssl", "1")], Mode::Required),
            (&[("ssl", "OFF")], Mode::Disabled),
            (&[("skip-ssl", "1")], Mode::Disabled),
            (&[("skip-ssl", "0")], Mode::Preferred),
            (&[("ssl-verify-server-cert", "ON"), ("ssl", "1")], Mode::VerifyIdentity),
            (&[("ssl-verify-server-cert", "0")], Mode::Preferred),
        ] {
            assert_eq!(file(lines).tls().mode, mode, "{lines:?}");
        }
        assert!(ServerOptions::default().set("ssl-mode", Some("sometimes")).is_err());
        assert!(ServerOptions::default().set("port", Some("70000")).is_err());
        assert!(ServerOptions::default().set("prompt", Some("x")).is_ok(), "others are left alone");
    }
}
