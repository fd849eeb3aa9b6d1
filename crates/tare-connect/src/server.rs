//! A server, an account on it, and the connection to it.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use mysql::{Conn, OptsBuilder};

use crate::error::Connecting;
use crate::{Dsn, Error, Mode, Secret, Tls, WrongDsn, tunnel};

/// The location of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerLocation {
    /// A Unix socket of this machine.
    Socket(PathBuf),
    /// A TCP port of a host.
    Tcp {
        /// The host's name or IP address.
        host: String,
        /// The port.
        port: u16,
    },
}

impl fmt::Display for ServerLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServerLocation::Socket(path) => write!(f, "{}", path.display()),
            ServerLocation::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            ServerLocation::Tcp { host, port } => write!(f, "{host}:{port}"),
        }
    }
}

/// A server and an account on it. Neither `Debug` nor `Display` shows the password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerAccount {
    /// The server's location.
    pub place: ServerLocation,
    /// The account's name.
    pub user: String,
    /// The account's password, if it has one.
    pub password: Option<Secret>,
    /// The schema the connection starts in.
    pub schema: Option<String>,
    /// How the connection is encrypted.
    pub tls: Tls,
}

impl fmt::Display for ServerAccount {
    /// Writes the server's location, without account and password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.place.fmt(f)
    }
}

/// The limits of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Manner {
    /// The timeout of connecting, of each read and of each write; `None`: no limit.
    pub patience: Option<Duration>,
    /// The largest packet in bytes. Set it to keep the client library from asking the server.
    pub max_packet: Option<usize>,
}

impl Manner {
    fn options(self, server: &ServerAccount) -> OptsBuilder {
        OptsBuilder::new()
            .user(Some(&server.user))
            .pass(server.password.as_ref().map(Secret::reveal))
            .db_name(server.schema.as_deref())
            .prefer_socket(false)
            .max_allowed_packet(self.max_packet)
            .read_timeout(self.patience)
            .write_timeout(self.patience)
            .tcp_connect_timeout(self.patience)
    }
}

impl ServerAccount {
    /// Creates a server from an address alone, without other sources.
    ///
    /// # Errors
    ///
    /// When the address is malformed. The error does not show its password.
    pub fn of_dsn(dsn: &str) -> Result<ServerAccount, WrongDsn> {
        let Dsn { user, password, host, port, schema, socket, mode, ca, cert, key } = Dsn::read(dsn)?;
        let said = crate::ServerOptions { mode, ca, cert, key, ..crate::ServerOptions::default() };
        Ok(ServerAccount {
            place: match socket {
                Some(path) => ServerLocation::Socket(path),
                None => ServerLocation::Tcp { host, port: port.unwrap_or(3306) },
            },
            user: user.unwrap_or_default(),
            password,
            schema,
            tls: said.tls(),
        })
    }

    /// Returns the path of the Unix socket; `None` if the server is reached by TCP.
    #[must_use]
    pub fn socket(&self) -> Option<&Path> {
        match &self.place {
            ServerLocation::Socket(path) => Some(path),
            ServerLocation::Tcp { .. } => None,
        }
    }

    /// Connects to the server. Where a password is refused it is sent a second time: of `ed25519`'s random
    /// challenge the client library drops a last byte of zero, so one correct password in 256 is refused.
    ///
    /// # Errors
    ///
    /// See [`Error`]. A panic of the client library becomes [`Error::Library`].
    pub fn connect(&self, manner: Manner) -> Result<Conn, Error> {
        match self.connect_once(manner) {
            Err(Error::Denied { .. }) if self.password.is_some() => self.connect_once(manner),
            result => result,
        }
    }

    fn connect_once(&self, manner: Manner) -> Result<Conn, Error> {
        let options = manner.options(self);
        match &self.place {
            ServerLocation::Socket(path) if self.tls.mode <= Mode::Preferred => {
                let path = path.to_str().ok_or_else(|| Error::Path(path.clone()))?;
                self.opened(options.socket(Some(path)))
            }
            ServerLocation::Tcp { host, port } if self.tls.mode == Mode::Disabled => {
                self.opened(options.ip_or_hostname(Some(host)).tcp_port(*port))
            }
            _ => match tunnel::begin(self, manner)? {
                Some(tunnel) => {
                    let connection = self.opened(options.socket(Some(tunnel.path()?)));
                    connection.map_err(|error| tunnel.failure(self).unwrap_or(error))
                }
                // The server does not offer encryption and the mode does not require it.
                None => {
                    ServerAccount { tls: Tls { mode: Mode::Disabled, ..self.tls.clone() }, ..self.clone() }
                        .connect_once(manner)
                }
            },
        }
    }

    /// Connects through the client library and turns a panic of it into an error.
    fn opened(&self, options: OptsBuilder) -> Result<Conn, Error> {
        let _connecting = Connecting::begin();
        let connection = catch_unwind(AssertUnwindSafe(|| Conn::new(options)));
        let Ok(connection) = connection else {
            let why = "the client library cannot go on with what the server says; another account may do"
                .to_owned();
            return Err(Error::Library { at: self.to_string(), why });
        };
        let hint = if self.tls.cert.is_none() {
            "; or it has to come encrypted or with a certificate (--ssl-mode, --ssl-cert, --ssl-key)"
        } else {
            ""
        };
        connection.map_err(|error| Error::of(self.to_string(), &self.user, hint, error))
    }
}
