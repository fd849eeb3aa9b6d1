//! The reasons the server's code cannot be changed as expected.

use tare_host::jumps::DetourError;

/// The reason the calls cannot be redirected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DirectCallsError {
    /// The server does not look like the known ones.
    #[error("the server's own instrumentation is not where it is expected: {0}")]
    Unexpected(&'static str),
    /// The system does not let a program change its code.
    #[error("the system refuses to redirect the server's direct calls: {0}")]
    Refused(String),
}

/// The reason executions of prepared statements have no digest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PreparationError {
    /// The server's code is not as expected.
    #[error(transparent)]
    Code(#[from] DetourError),
    /// The location of the listener in the lexer was not found.
    #[error("the server's lexer is made in another way than expected")]
    Lexer,
    /// The call cannot be changed.
    #[error("the system refuses to redirect a call: {0}")]
    Refused(String),
}
