//! Errors around a server's programs, in words that say what to do.

use std::io;

/// The reason why a server could not be found or prepared.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A required program is not installed.
    #[error("`{program}` was not found; {hint}")]
    Missing {
        /// Name or path of the program.
        program: String,
        /// How to install it.
        hint: String,
    },
    /// A program does not answer as a server does.
    #[error(
        "`{program}` does not look like a MariaDB or MySQL server: asked for {asked} it ended at once ({status}) and {printed}; name \
         the server's program, such as /usr/sbin/mariadbd, with --mariadbd"
    )]
    NotAServer {
        /// Path of the program.
        program: String,
        /// The option it was asked with.
        asked: &'static str,
        /// Exit status.
        status: String,
        /// Its output, in words.
        printed: String,
    },
    /// The operating system refused an operation.
    #[error("{what}")]
    Io {
        /// The operation.
        what: String,
        /// The system's error.
        source: io::Error,
    },
    /// A program ran and failed.
    #[error("`{program}` failed ({status})\n{output}")]
    Program {
        /// Name of the program.
        program: String,
        /// Exit status.
        status: String,
        /// The last lines it printed.
        output: String,
    },
    /// The account that servers of root run as is missing.
    #[error(
        "running as root needs an account `{0}` to run the server as; install the distribution's mariadb-server (which \
         makes it), or run as another user"
    )]
    NoAccount(String),
}

/// Adds the attempted operation to an I/O error.
pub(crate) trait Tried<T> {
    fn tried(self, what: impl FnOnce() -> String) -> crate::Result<T>;
}

impl<T, E: Into<io::Error>> Tried<T> for std::result::Result<T, E> {
    fn tried(self, what: impl FnOnce() -> String) -> crate::Result<T> {
        self.map_err(|e| Error::Io { what: what(), source: e.into() })
    }
}
