//! Why tare disables itself in a server.

use std::ffi::CStr;

/// A reason to change nothing in the server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DisableReason {
    /// The option `enabled` is off.
    #[error("it is switched off (enabled = OFF)")]
    SwitchedOff,
    /// The server's own Performance Schema is off, and there is nothing to count.
    #[error("performance_schema is off, and without it there are no events")]
    BuiltInOff,
    /// An option cannot be used.
    #[error("{0}")]
    Option(String),
    /// A symbol is missing.
    #[error("the server exports no {0}: docs/reference/mysql.md says which builds are supported")]
    Missing(String),
    /// A family of events cannot be taken, and the tables show it together with the others.
    #[error("events of {name} cannot be taken: {why}")]
    Family {
        /// The family.
        name: &'static str,
        /// The obstacle.
        why: String,
    },
    /// Code or data are not as in the builds that were tried.
    #[error("{0} of the server is not as expected: docs/reference/mysql.md says which builds are supported")]
    Unexpected(String),
    /// The engine got no memory.
    #[error("no memory: {0}; lower memory-max in TARE_OPTIONS, or give the server more")]
    Memory(String),
    /// The system does not let code be written.
    #[error("{0}; allow the server to change its own code (SELinux: execmod), or do without tare")]
    Code(String),
    /// A panic, which is a bug.
    #[error("internal error: {0}; please report it")]
    Panic(String),
}

impl DisableReason {
    /// Returns that the server exports no such symbol.
    pub(crate) fn missing(name: &CStr) -> DisableReason {
        DisableReason::Missing(name.to_string_lossy().into_owned())
    }

    /// Returns that what this symbol names is not as expected.
    pub(crate) fn unexpected(name: &CStr) -> DisableReason {
        DisableReason::Unexpected(name.to_string_lossy().into_owned())
    }
}
