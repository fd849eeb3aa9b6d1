//! The loopback address in the tables' connect strings, which [`crate::interpose::redirect`] leads to tare's
//! Unix socket.

use std::net::Ipv4Addr;

use tare_host::socket::SocketPathError;

/// The address that means "tare" in the connect string of an installed table: 127 and "TAR".
pub const HOST: Ipv4Addr = Ipv4Addr::new(127, b'T', b'A', b'R');
/// The port that goes with [`HOST`]; it is below every common range of ephemeral ports.
pub const PORT: u16 = 16969;

/// The reason the redirection cannot lead to a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServiceError {
    /// The path cannot be a socket's.
    #[error(transparent)]
    Path(#[from] SocketPathError),
    /// The redirection already leads to another socket.
    #[error("the redirection already leads to another socket")]
    AlreadySet,
}
