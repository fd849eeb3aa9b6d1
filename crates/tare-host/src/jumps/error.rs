//! The reasons the program's code cannot be changed as expected.

/// The reason a function cannot be detoured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DetourError {
    /// The server does not export the function.
    #[error("the server does not export {0}")]
    Missing(&'static str),
    /// The function's code is none of the known ones.
    #[error("the server's {0} is made in another way than expected")]
    Unexpected(&'static str),
    /// The system does not let a program create code.
    #[error("the system refuses memory for code: {0}")]
    Refused(String),
}

/// The reason functions do not lead elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeadError {
    /// The system does not let a program change its code.
    #[error("the system refuses to let the program's code be changed: {0}")]
    Refused(String),
    /// No page for code is free where the functions' jumps would reach it.
    #[error("no page for code is free near the program: {0}")]
    NoPage(String),
    /// The functions are further apart than a short jump reaches, or more than a page has room for.
    #[error("a short jump does not reach all of the program's functions")]
    OutOfReach,
}
