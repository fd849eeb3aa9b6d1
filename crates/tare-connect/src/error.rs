//! Connection errors, as sentences for people.

use std::cell::Cell;
use std::fmt;
use std::path::PathBuf;

use mysql::DriverError;
use mysql_common::proto::codec::error::PacketCodecError;
use tare_words::error_number::LOGIN;

/// The authentication plugins that tare supports.
const PLUGINS: &str = "mysql_native_password, ed25519, caching_sha2_password and, over a socket, unix_socket";

thread_local! {
    static CONNECTING: Cell<bool> = const { Cell::new(false) };
}

/// Returns whether this thread is connecting to a server. A panic then is a fault of the client library and
/// becomes an error.
#[must_use]
pub fn is_connecting() -> bool {
    CONNECTING.get()
}

/// A guard that marks its thread as connecting until it is dropped.
pub(crate) struct Connecting;

impl Connecting {
    pub(crate) fn begin() -> Connecting {
        CONNECTING.set(true);
        Connecting
    }
}

impl Drop for Connecting {
    fn drop(&mut self) {
        CONNECTING.set(false);
    }
}

/// The reason a connection failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nobody answers, or no longer answers. A retry may succeed.
    #[error("{at}: no answer: {why}")]
    NoAnswer {
        /// The server's address.
        at: String,
        /// The system's message.
        why: String,
    },
    /// The system denies this user access to the socket.
    #[error("{at}: this user may not open it: try sudo, or a server's own port (-h HOST)")]
    Forbidden {
        /// The socket's path.
        at: String,
    },
    /// The server does not know the account or rejects its password.
    #[error("{at}: {why}; {advice}")]
    Denied {
        /// The server's address.
        at: String,
        /// The server's message.
        why: String,
        /// What to do next.
        advice: String,
    },
    /// The account uses an authentication plugin that this client does not support.
    #[error(
        "{at}: the server asks `{user}` to authenticate by the plugin `{plugin}`, which tare does not speak: it speaks {PLUGINS}. \
         Either the account has that plugin, and another account is needed; or the name is mistyped: of an account that there is \
         not, MariaDB names any of its plugins"
    )]
    Plugin {
        /// The server's address.
        at: String,
        /// The account's name.
        user: String,
        /// The plugin's name as the server sends it.
        plugin: String,
    },
    /// The connection cannot be encrypted as requested.
    #[error("{at}: TLS: {why}")]
    Tls {
        /// The server's address.
        at: String,
        /// The fault, and what to do next.
        why: String,
    },
    /// The server answers with any other error.
    #[error("{at}: {}", error.message)]
    Server {
        /// The server's address.
        at: String,
        /// The server's error.
        error: mysql::MySqlError,
    },
    /// The client library cannot continue.
    #[error("{at}: {why}")]
    Library {
        /// The server's address.
        at: String,
        /// The library's message.
        why: String,
    },
    /// The socket's path is not UTF-8.
    #[error("{}: the path is not UTF-8", .0.display())]
    Path(PathBuf),
}

impl Error {
    /// Converts an error of the client library into one that says what to do.
    pub(crate) fn of(at: String, user: &str, hint: &str, error: mysql::Error) -> Error {
        match lost(error) {
            mysql::Error::MySqlError(error) if LOGIN.contains(&error.code) => {
                let advice = format!(
                    "either there is no such account, or its password is another one (-u, -p, an option file or an address){hint}"
                );
                Error::Denied { at, why: error.message, advice }
            }
            mysql::Error::MySqlError(error) => Error::Server { at, error },
            mysql::Error::DriverError(error) => Error::of_driver(at, user, error),
            mysql::Error::IoError(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                Error::Forbidden { at }
            }
            mysql::Error::IoError(error) => Error::NoAnswer { at, why: error.to_string() },
            other => Error::Library { at, why: sentence(&other) },
        }
    }

    fn of_driver(at: String, user: &str, error: DriverError) -> Error {
        let plugin =
            |plugin: &str| Error::Plugin { at: at.clone(), user: user.to_owned(), plugin: plain(plugin) };
        match error {
            DriverError::UnknownAuthPlugin(name) => plugin(&name),
            DriverError::OldMysqlPasswordDisabled => plugin("mysql_old_password"),
            DriverError::CleartextPluginDisabled => plugin("mysql_clear_password"),
            DriverError::CouldNotConnect(Some((_, _, std::io::ErrorKind::PermissionDenied))) => {
                Error::Forbidden { at }
            }
            DriverError::CouldNotConnect(Some((_, why, _))) => Error::NoAnswer { at, why },
            DriverError::ConnectTimeout => Error::NoAnswer { at, why: "it took too long".to_owned() },
            other => Error::Library { at, why: other.to_string() },
        }
    }
}

/// Returns an error of the system as one, also where the client library had it while it took a packet apart:
/// the connection is lost, and the answer was not wrong.
fn lost(error: mysql::Error) -> mysql::Error {
    match error {
        mysql::Error::CodecError(PacketCodecError::Io(error)) => mysql::Error::IoError(error),
        other => other,
    }
}

/// Returns a name from a server as it may be printed: at most 64 printable ASCII characters, or `?`.
fn plain(name: &str) -> String {
    let name: String = name.chars().filter(|c| c.is_ascii_graphic()).take(64).collect();
    if name.is_empty() { "?".to_owned() } else { name }
}

/// Returns an error of the client library as a sentence, not in the library's own format.
#[must_use]
pub fn sentence(error: &mysql::Error) -> String {
    match error {
        mysql::Error::MySqlError(error) => error.message.clone(),
        mysql::Error::IoError(error) | mysql::Error::CodecError(PacketCodecError::Io(error)) => {
            error.to_string()
        }
        mysql::Error::DriverError(error) => error.to_string(),
        mysql::Error::CodecError(error) => format!("the answer is none of the protocol: {error}"),
        mysql::Error::UrlError(_) => "the address cannot be one".to_owned(),
        _ => "the server answered with a value of another type than was asked for".to_owned(),
    }
}

/// An error of the client library that is displayed as a [`sentence`].
#[derive(Debug)]
pub struct ClientError(pub mysql::Error);

impl From<mysql::Error> for ClientError {
    fn from(error: mysql::Error) -> ClientError {
        ClientError(error)
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&sentence(&self.0))
    }
}

impl std::error::Error for ClientError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_a_sentence() {
        let of = |error: mysql::Error| Error::of("db1:3306".into(), "dba", "", error).to_string();
        let server = |code, message: &str| {
            mysql::Error::MySqlError(mysql::MySqlError {
                state: "HY000".into(),
                message: message.into(),
                code,
            })
        };
        let denied = of(server(1045, "Access denied for user 'dba'@'h' (using password: YES)"));
        assert!(denied.contains("password is another one") && !denied.contains("GRANT"), "{denied}");
        assert_eq!(of(server(1040, "Too many connections")), "db1:3306: Too many connections");
        for plugin in ["dialog", "parsec", "auth_gssapi_client", "no\u{1b}[31m such"] {
            let said = of(DriverError::UnknownAuthPlugin(plugin.into()).into());
            assert!(said.contains("plugin `") && !said.contains('\u{1b}'), "{said}");
        }
        for error in [
            server(1064, "You have an error"),
            std::io::Error::other("broken").into(),
            DriverError::PacketOutOfSync.into(),
            mysql::UrlError::BadUrl.into(),
            mysql::Error::FromValueError(mysql::Value::NULL),
        ] {
            let said = ClientError(error).to_string();
            assert!(!said.contains('{') && !said.contains("Error"), "{said}");
        }
    }

    #[test]
    fn a_connection_that_is_lost_while_it_is_made_is_no_answer() {
        let reset = || std::io::Error::from(std::io::ErrorKind::ConnectionReset);
        let codec = || mysql::Error::CodecError(PacketCodecError::Io(reset()));
        for error in [codec(), mysql::Error::IoError(reset())] {
            let error = Error::of("db1:3306".into(), "dba", "", error);
            assert!(matches!(&error, Error::NoAnswer { .. }), "{error}");
        }
        assert_eq!(sentence(&codec()), reset().to_string());
        let strange = Error::of("db1".into(), "dba", "", PacketCodecError::PacketsOutOfSync.into());
        assert!(matches!(strange, Error::Library { .. }), "{strange}");
    }
}
