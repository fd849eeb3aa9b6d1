//! A server, an account on it, and the way there.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use mysql::{Conn, OptsBuilder};

use crate::error::Connecting;
use crate::{Dsn, Error, Mode, Secret, Tls, WrongDsn, tunnel};

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A Unix socket of this machine.
    Socket(PathBuf),
    /// A host, and a port of it.
    Tcp {
        /// The host.
        host: String,
        /// The port.
        port: u16,
    },
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Socket(path) => write!(f, "{}", path.display()),
            Place::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Place::Tcp { host, port } => write!(f, "{host}:{port}"),
        }
    }
}

/// A server, and an account on it. Neither form of printing shows the password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Where it is.
    pub place: Place,
    /// The account.
    pub user: String,
    /// Its password, if it has one.
    pub password: Option<Secret>,
    /// The schema to begin in.
    pub schema: Option<String>,
    /// How the connection is encrypted.
    pub tls: Tls,
}

impl fmt::Display for Server {
    /// As people know it, without account and password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.place.fmt(f)
    }
}

/// How patient a connection is, and how large its packets are.
#[derive(Clone, Copy, Debug, Default)]
pub struct Manner {
    /// No answer may take longer.
    pub patience: Option<Duration>,
    /// Spelled out so that the client does not ask for it.
    pub max_packet: Option<usize>,
}

impl Manner {
    fn options(self, server: &Server) -> OptsBuilder {
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

impl Server {
    /// The server of an address that says all there is to say.
    ///
    /// # Errors
    ///
    /// When the address cannot be one; without its password.
    pub fn of_dsn(dsn: &str) -> Result<Server, WrongDsn> {
        let Dsn { user, password, host, port, schema, socket, mode, ca, cert, key } = Dsn::read(dsn)?;
        let said = crate::Said { mode, ca, cert, key, ..crate::Said::default() };
        Ok(Server {
            place: match socket {
                Some(path) => Place::Socket(path),
                None => Place::Tcp { host, port: port.unwrap_or(3306) },
            },
            user: user.unwrap_or_default(),
            password,
            schema,
            tls: said.tls(),
        })
    }

    /// Its Unix socket, where that is the way to it.
    #[must_use]
    pub fn socket(&self) -> Option<&Path> {
        match &self.place {
            Place::Socket(path) => Some(path),
            Place::Tcp { .. } => None,
        }
    }

    /// A connection.
    ///
    /// # Errors
    ///
    /// As [`Error`] says; also where the client library panics.
    pub fn connect(&self, manner: Manner) -> Result<Conn, Error> {
        let options = manner.options(self);
        match &self.place {
            Place::Socket(path) if self.tls.mode <= Mode::Preferred => {
                let path = path.to_str().ok_or_else(|| Error::Path(path.clone()))?;
                self.opened(options.socket(Some(path)))
            }
            Place::Tcp { host, port } if self.tls.mode == Mode::Disabled => {
                self.opened(options.ip_or_hostname(Some(host)).tcp_port(*port))
            }
            _ => match tunnel::begin(self, manner)? {
                Some(tunnel) => {
                    let connection = self.opened(options.socket(Some(tunnel.path()?)));
                    connection.map_err(|error| tunnel.failure(self).unwrap_or(error))
                }
                // It offers no encryption, and none has to be.
                None => Server { tls: Tls { mode: Mode::Disabled, ..self.tls.clone() }, ..self.clone() }
                    .connect(manner),
            },
        }
    }

    /// A connection by the client library, of which nothing may become more than an error.
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
