//! Errors of options, with the place where the option was given.

use std::fmt;
use std::path::PathBuf;

/// The place where an option was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptionOrigin {
    /// A line of an option file.
    File {
        /// The file's path.
        path: PathBuf,
        /// The line number, from 1.
        line: usize,
    },
    /// An item of `TARE_OPTIONS`.
    Environment {
        /// The item's number, from 1.
        item: usize,
    },
    /// The server's command line.
    CommandLine,
    /// The built-in default.
    Default,
}

impl fmt::Display for OptionOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OptionOrigin::File { path, line } => write!(f, "{}, line {line}", path.display()),
            OptionOrigin::Environment { item } => {
                write!(f, "environment variable {}, item {item}", super::Options::ENVIRONMENT)
            }
            OptionOrigin::CommandLine => f.write_str("command line"),
            OptionOrigin::Default => f.write_str("default"),
        }
    }
}

/// An option that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{origin}: option {key}: {problem}; allowed: {allowed}")]
pub struct OptionError {
    /// The place where it was given.
    pub origin: OptionOrigin,
    /// The key as written.
    pub key: String,
    /// The fault of the value.
    pub problem: String,
    /// What is allowed.
    pub allowed: String,
}
