//! Where an option stands, and what is wrong with it.

use std::fmt;
use std::path::PathBuf;

/// Where an option was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A line of an option file, 1-based.
    File {
        /// The file.
        path: PathBuf,
        /// The line.
        line: usize,
    },
    /// An item of `TARE_OPTIONS`, 1-based.
    Environment {
        /// The item.
        item: usize,
    },
    /// The server's command line.
    CommandLine,
    /// The built-in default.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::File { path, line } => write!(f, "{}, line {line}", path.display()),
            Origin::Environment { item } => {
                write!(f, "environment variable {}, item {item}", super::Options::ENVIRONMENT)
            }
            Origin::CommandLine => f.write_str("command line"),
            Origin::Default => f.write_str("default"),
        }
    }
}

/// An option that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{origin}: option {key}: {problem}; allowed: {allowed}")]
pub struct OptionError {
    /// Where it was given.
    pub origin: Origin,
    /// The key, as given.
    pub key: String,
    /// What is wrong with it.
    pub problem: String,
    /// What would be right.
    pub allowed: String,
}
