//! Errors of starting the endpoint.

use std::io;
use std::path::PathBuf;

/// Why there is no endpoint.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// Another process listens there.
    #[error("{} is in use by another server", path.display())]
    InUse {
        /// The socket.
        path: PathBuf,
    },
    /// Something that is no socket is there, and is left alone.
    #[error("{} exists and is not a socket", path.display())]
    NotASocket {
        /// The file.
        path: PathBuf,
    },
    /// The socket could not be made.
    #[error("cannot listen at {}: {error}", path.display())]
    Socket {
        /// The socket.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// The thread that accepts could not be started.
    #[error("cannot start the endpoint's thread: {0}")]
    Thread(#[source] io::Error),
}
