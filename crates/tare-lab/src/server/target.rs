//! The address of a server, and an account on it.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use mysql::prelude::Queryable;
pub use tare_connect::Tls;
use tare_connect::{ClientError, Dsn, Manner, Mode, Secret, ServerAccount, ServerLocation};
use tare_words::error_number::{LOGIN, LOGIN_DENIED};

use crate::error::PASSWORD;
use crate::error::Tried;
use crate::{Error, Result};

/// The longest packet to accept, in bytes.
const MOST: usize = 1 << 30;

/// A server's address and an account on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerTarget {
    /// Its Unix socket.
    pub socket: Option<PathBuf>,
    /// Its host, if it has no socket.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The account.
    pub user: String,
    /// Its password.
    pub password: Option<Secret>,
    /// Encryption of the lab's own connections; those of drivers are never encrypted.
    pub tls: Tls,
}

/// Passwords of accounts on running servers, which are not in study files.
#[derive(Clone, Debug, Default)]
pub struct AccountPasswords {
    /// The password that the user has given, for every account.
    pub given: Option<Secret>,
    /// The password from option files, with its account, or `None` for all.
    pub filed: Option<(Option<String>, Secret)>,
}

impl AccountPasswords {
    /// Returns the server of an address, with the given password, else that of the environment variable
    /// [`PASSWORD`], else that of option files, if they are about the same account.
    ///
    /// # Errors
    ///
    /// When the address is invalid, or asks for encryption. See [`ServerTarget::of_dsn`].
    pub fn target(&self, dsn: &str) -> Result<ServerTarget> {
        self.target_with(dsn, std::env::var(PASSWORD).ok())
    }

    fn target_with(&self, dsn: &str, environment: Option<String>) -> Result<ServerTarget> {
        let target = ServerTarget::of_dsn(dsn, None)?;
        let is_about = |user: &Option<String>| user.as_ref().is_none_or(|it| *it == target.user);
        let filed =
            self.filed.as_ref().filter(|(user, _)| is_about(user)).map(|(_, password)| password.clone());
        let environment = environment.filter(|it| !it.is_empty()).map(Secret::new);
        Ok(ServerTarget { password: self.given.clone().or(environment).or(filed), ..target })
    }
}

impl From<ServerAccount> for ServerTarget {
    fn from(server: ServerAccount) -> ServerTarget {
        let ServerAccount { place, user, password, schema: _, tls } = server;
        let (socket, host, port) = match place {
            ServerLocation::Socket(path) => (Some(path), "localhost".to_owned(), 0),
            ServerLocation::Tcp { host, port } => (None, host, port),
        };
        ServerTarget { socket, host, port, user, password, tls }
    }
}

impl ServerTarget {
    /// Returns the target of a server that the lab started: `root` has no password, and the socket is
    /// protected.
    pub fn of_socket(socket: &Path) -> ServerTarget {
        ServerTarget {
            socket: Some(socket.into()),
            host: "localhost".into(),
            port: 0,
            user: "root".into(),
            password: None,
            tls: Tls { mode: Mode::Disabled, ..Tls::default() },
        }
    }

    /// Returns this server with its address for connections through the network.
    #[must_use]
    pub(crate) fn listening(self, door: Option<&(String, u16)>) -> ServerTarget {
        door.map_or(self.clone(), |(host, port)| ServerTarget { host: host.clone(), port: *port, ..self })
    }

    /// Parses the address of a running server: `mysql://user@host:port`, or with `?socket=/path` after it.
    /// The error has no password. Encryption is refused, because the driver's connections have none.
    pub fn of_dsn(dsn: &str, password: Option<String>) -> Result<ServerTarget> {
        let what = || {
            "reading an address (mysql://ACCOUNT@HOST:PORT is allowed, or mysql://ACCOUNT@localhost?socket=/PATH)".to_owned()
        };
        let read = Dsn::read(dsn).map_err(io::Error::other).tried(what)?;
        if read.mode.is_some_and(|mode| mode > Mode::Preferred) {
            let why = format!(
                "{}: the driver's connections are not encrypted: leave `ssl-mode` and `require_ssl` out, and come through the server's socket",
                tare_connect::hide(dsn)
            );
            return Err(io::Error::other(why)).tried(what);
        }
        let user = read.user.clone().unwrap_or_else(|| "root".into());
        let server = ServerAccount::of_dsn(dsn).map_err(io::Error::other).tried(what)?;
        Ok(ServerTarget {
            user,
            password: password.filter(|p| !p.is_empty()).map(Secret::new),
            tls: Tls { mode: Mode::Disabled, ..Tls::default() },
            ..ServerTarget::from(server)
        })
    }

    /// Returns its name for messages.
    pub fn name(&self) -> String {
        match &self.socket {
            Some(socket) => socket.display().to_string(),
            None => format!("{}:{}", self.host, self.port),
        }
    }

    /// Connects.
    pub fn connect(&self) -> Result<mysql::Conn> {
        self.connect_in(Manner::default())
    }

    /// Connects without sending any query.
    pub(crate) fn connect_quietly(&self) -> Result<mysql::Conn> {
        self.connect_in(Manner { max_packet: Some(MOST), ..Manner::default() })
    }

    fn connect_in(&self, manner: Manner) -> Result<mysql::Conn> {
        let place = match &self.socket {
            Some(socket) => ServerLocation::Socket(socket.clone()),
            None => ServerLocation::Tcp { host: self.host.clone(), port: self.port },
        };
        let (user, password) = (self.user.clone(), self.password.clone());
        let server = ServerAccount { place, user, password, schema: None, tls: self.tls.clone() };
        server.connect(manner).map_err(|error| match error {
            // The advice differs here: a study has no option for an account.
            tare_connect::Error::Denied { why, .. } => {
                let said = mysql::MySqlError { state: "28000".to_owned(), message: why, code: LOGIN_DENIED };
                self.refused(mysql::Error::MySqlError(said))
            }
            error => error.into(),
        })
    }

    /// Returns its address, in the format of [`ServerTarget::of_dsn`].
    pub(crate) fn dsn(&self) -> String {
        let user = escaped(self.user.as_bytes());
        match &self.socket {
            Some(socket) => {
                format!("mysql://{user}@localhost?socket={}", escaped(socket.as_os_str().as_bytes()))
            }
            None => format!("mysql://{user}@{}:{}", self.host, self.port),
        }
    }

    /// Makes the error for a refused statement or account.
    pub fn refused(&self, source: mysql::Error) -> Error {
        match &source {
            mysql::Error::MySqlError(e) if LOGIN.contains(&e.code) => {
                Error::Denied { server: self.name(), user: self.user.clone(), source: ClientError(source) }
            }
            _ => Error::Sql { server: self.name(), source: ClientError(source) },
        }
    }

    /// Returns the server's process, if it is on this machine: the one at the other end of a connection.
    pub fn process(&self) -> Option<u32> {
        let Some(socket) = &self.socket else { return tare_server::peer::of_address(&self.host, self.port) };
        tare_connect::listener(socket).ok()
    }

    /// Returns the load driver's options, without the password.
    pub(crate) fn driver_options(&self) -> Vec<String> {
        let mut options = vec![format!("--mysql-user={}", self.user)];
        match &self.socket {
            Some(socket) => options.push(format!("--mysql-socket={}", socket.display())),
            None => {
                options.push(format!("--mysql-host={}", self.host));
                options.push(format!("--mysql-port={}", self.port));
            }
        }
        options
    }
}

/// Escapes bytes for a URL, as in `%2F`.
fn escaped(bytes: &[u8]) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~".contains(byte);
    let piece = |byte: &u8| if plain(byte) { char::from(*byte).into() } else { format!("%{byte:02X}") };
    bytes.iter().map(piece).collect()
}

/// Counts the statements of a server.
#[derive(Debug)]
pub struct StatementCounter {
    target: ServerTarget,
    connection: mysql::Conn,
    last: u64,
}

impl StatementCounter {
    /// Starts counting.
    pub fn of(target: &ServerTarget) -> Result<StatementCounter> {
        let mut tally = StatementCounter { target: target.clone(), connection: target.connect()?, last: 0 };
        tally.since()?;
        Ok(tally)
    }

    /// Returns the statements since the previous reading, without the query that reads them.
    pub fn since(&mut self) -> Result<u64> {
        let row: Option<(String, String)> = self
            .connection
            .query_first("SHOW GLOBAL STATUS LIKE 'Questions'")
            .map_err(|e| self.target.refused(e))?;
        let now = row.and_then(|(_, count)| count.parse().ok()).unwrap_or(self.last);
        let since = now.saturating_sub(self.last).saturating_sub(1);
        self.last = now;
        Ok(since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dsn_names_a_socket_or_a_host() {
        let target = ServerTarget::of_dsn("mysql://dba@localhost?socket=/run/my.sock", Some("x".into()))
            .expect("a dsn");
        assert_eq!((target.name(), target.user.as_str()), ("/run/my.sock".into(), "dba"));
        let target = ServerTarget::of_dsn("mysql://dba@db1:3307", Some(String::new())).expect("a dsn");
        assert_eq!((target.name(), target.password), ("db1:3307".into(), None));
    }

    #[test]
    fn what_is_wrong_with_a_dsn_is_said_without_its_password() {
        let cases = [
            ("mysqlx://dba:secret@db1:3307", "mysqlx://dba@db1:3307: "),
            ("mysql://dba:se@secret@db1?bogus=secret", "mysql://dba@db1: "),
            ("mysql://dba:secret@db1:port", "mysql://dba: "),
            ("mysql://dba:secret", "mysql://dba: "),
            ("mysql//dba:secret@db1", "the address: "),
            ("mysql://dba:secret@db1?require_ssl=true", "leave `ssl-mode`"),
        ];
        for (dsn, expected) in cases {
            let error = ServerTarget::of_dsn(dsn, None).expect_err(dsn);
            let Error::Io { what, source } = error else { panic!("{dsn}: {error}") };
            let said = format!("{what}: {source}");
            assert!(said.contains(expected) && !said.contains("secret"), "{dsn}: {said}");
        }
        let plain = ServerTarget::of_dsn("mysql://dba@localhost?socket=/require_ssl", None);
        assert!(plain.is_ok(), "a path is no parameter: {plain:?}");
    }

    #[test]
    fn a_password_that_is_given_comes_before_the_environment_and_that_before_files() {
        let secret = |text: &str| Some(Secret::new(text));
        let of = |given: Option<Secret>, environment: Option<&str>, user: Option<&str>| {
            let filed = Some((user.map(str::to_owned), Secret::new("filed")));
            let credentials = AccountPasswords { given, filed };
            credentials
                .target_with("mysql://dba@db1", environment.map(str::to_owned))
                .expect("a dsn")
                .password
        };
        assert_eq!(of(secret("given"), Some("e"), None), secret("given"));
        assert_eq!(of(None, Some("e"), Some("dba")), secret("e"));
        assert_eq!(of(None, Some(""), Some("dba")), secret("filed"));
        assert_eq!(of(None, None, None), secret("filed"));
        assert_eq!(of(None, None, Some("other")), None);
    }

    #[test]
    fn a_dsn_says_where_it_is() {
        let of = |dsn: &str| ServerTarget::of_dsn(dsn, None).expect("a dsn");
        let dsns = ["mysql://dba@localhost?socket=/tmp/a%20b/%25.sock", "mysql://d%40x@db1:3307"];
        for target in dsns.map(of) {
            assert_eq!(of(&target.dsn()), target);
        }
    }

    #[test]
    fn the_process_behind_a_socket_is_found() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("s");
        let _listener = std::os::unix::net::UnixListener::bind(&path).expect("a socket");
        assert_eq!(ServerTarget::of_socket(&path).process(), Some(std::process::id()));
    }
}
