//! What can go wrong around a measured server, in words that say what to do about it.

use std::io;
use std::path::PathBuf;

/// Why a server, a load or a study did not do what it should.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The user pressed Ctrl-C, or the process was asked to end.
    #[error("interrupted")]
    Interrupted,
    /// A program that is needed is not installed.
    #[error("`{program}` was not found; {hint}")]
    Missing {
        /// Its name or path.
        program: String,
        /// What brings it.
        hint: &'static str,
    },
    /// The operating system refused something.
    #[error("{what}")]
    Io {
        /// What was tried.
        what: String,
        /// What it said.
        source: io::Error,
    },
    /// A program ran and failed.
    #[error("`{program}` failed ({status})\n{output}")]
    Program {
        /// Its name.
        program: String,
        /// How it ended.
        status: String,
        /// The last lines it printed.
        output: String,
    },
    /// The server ended or did not answer while starting.
    #[error("the server did not start: {why}\nlast lines of {}:\n{tail}", log.display())]
    NotStarted {
        /// What was seen.
        why: String,
        /// Its error log.
        log: PathBuf,
        /// The log's last lines.
        tail: String,
    },
    /// A Unix socket's path may have 107 bytes.
    #[error(
        "the socket path {} is too long for a Unix socket (107 bytes at most); use a shorter folder (--datadir, or TMPDIR)",
        .0.display()
    )]
    SocketPathTooLong(PathBuf),
    /// Running as root needs an account to run the server as.
    #[error(
        "running as root needs an account `{0}` to run the server as; install the distribution's mariadb-server (which \
         makes it), or run as another user"
    )]
    NoAccount(String),
    /// The load driver printed something else than expected.
    #[error("cannot read sysbench's report: {why}\n{output}")]
    LoadReport {
        /// What was missing.
        why: &'static str,
        /// What it printed.
        output: String,
    },
    /// A study's file is wrong.
    #[error("{file}, line {line}, `{key}`: {why}")]
    Study {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// The key, or the section.
        key: String,
        /// What is wrong, and what is allowed.
        why: String,
    },
    /// The server refused a statement or the connection.
    #[error("the server at {} refused", socket.display())]
    Sql {
        /// Its socket.
        socket: PathBuf,
        /// What it said.
        source: mysql::Error,
    },
}

/// Adds what was tried to an I/O error.
pub(crate) trait Tried<T> {
    fn tried(self, what: impl FnOnce() -> String) -> crate::Result<T>;
}

impl<T, E: Into<io::Error>> Tried<T> for std::result::Result<T, E> {
    fn tried(self, what: impl FnOnce() -> String) -> crate::Result<T> {
        self.map_err(|e| Error::Io { what: what(), source: e.into() })
    }
}
