//! The reasons for which tare disables itself.

use tare_host::options::OptionError;
use tare_host::process::log::Severity;

use crate::abi::Series;
use crate::jumps::DirectCallsError;

/// A reason to do nothing: the server runs as if tare were absent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DisableReason {
    /// The server exports no version that tare can read.
    #[error("this server does not tell its version")]
    NoVersion,
    /// The server is of a series whose interface is not known.
    #[error("server version {version} is not supported; supported: MariaDB {}", series_list())]
    UnknownVersion {
        /// The version as the server spells it.
        version: String,
    },
    /// The run prints something and ends.
    #[error("this run ends without serving ({option})")]
    NotServing {
        /// The option that makes the run end.
        option: &'static str,
    },
    /// The run reads its statements from standard input.
    #[error("this is a bootstrap run")]
    Bootstrap,
    /// The built-in Performance Schema is on.
    #[error("the server's own Performance Schema is on (performance_schema=ON, {origin})")]
    BuiltIn {
        /// The place where `performance_schema` was switched on: a file and its line, or the command line.
        origin: String,
    },
    /// The option `enabled=OFF` is set.
    #[error("switched off by its option enabled=OFF")]
    SwitchedOff,
    /// An option in `[tare]` cannot be used.
    #[error("{0}")]
    Options(#[from] OptionError),
    /// Memory could not be reserved.
    #[error("cannot reserve memory: {0}")]
    Memory(String),
    /// The library has no interface for the series.
    #[error("this build holds no interface for MariaDB {}", .0.name())]
    NoInterface(Series),
    /// The server's direct calls could not be redirected to tare.
    #[error("{0}")]
    DirectCalls(#[from] DirectCallsError),
    /// The server asked for an interface version that does not exist.
    #[error("the server asks for version {0} of the instrumentation interface; known: 1")]
    InterfaceVersion(i32),
    /// tare panicked at start-up; this is the panic's text.
    #[error("an internal error: {0}")]
    Panic(String),
}

impl DisableReason {
    /// Returns the severity of the line in the error log: a note for what the operator asked for, else a
    /// warning.
    pub(crate) fn level(&self) -> Severity {
        match self {
            DisableReason::NotServing { .. }
            | DisableReason::Bootstrap
            | DisableReason::BuiltIn { .. }
            | DisableReason::SwitchedOff => Severity::Note,
            _ => Severity::Warning,
        }
    }

    /// Returns what to do about the reason.
    pub fn remedy(&self) -> String {
        match self {
            DisableReason::NoVersion => "tare serves stock MariaDB servers: is this one?".to_owned(),
            DisableReason::UnknownVersion { .. } => {
                format!("take a server of one of the series {}, or a newer tare", series_list())
            }
            DisableReason::NotServing { .. } | DisableReason::Bootstrap => {
                "nothing: only a server that goes on to serve has tare".to_owned()
            }
            DisableReason::BuiltIn { .. } => {
                "take performance_schema=ON away there, or set it to OFF, and restart".to_owned()
            }
            DisableReason::SwitchedOff => "take `enabled=OFF` out of [tare], and restart".to_owned(),
            DisableReason::Options(_) => "correct the option, and restart".to_owned(),
            DisableReason::Memory(_) => {
                "give the server more memory, or set a smaller memory-max in [tare]".to_owned()
            }
            DisableReason::DirectCalls(DirectCallsError::Refused(_)) => {
                "let the server change its code: MemoryDenyWriteExecute=no in its unit, or the like elsewhere"
                    .to_owned()
            }
            DisableReason::NoInterface(_)
            | DisableReason::DirectCalls(DirectCallsError::Unexpected(_))
            | DisableReason::InterfaceVersion(_)
            | DisableReason::Panic(_) => "report it, with the server's version and build".to_owned(),
        }
    }

    /// Returns whether the run goes on to serve. A run that prints and ends has no error log to write to and
    /// no data directory of its own.
    pub(crate) fn serves(&self) -> bool {
        !matches!(self, DisableReason::NotServing { .. })
    }
}

fn series_list() -> String {
    Series::ALL.map(Series::name).join(", ")
}
