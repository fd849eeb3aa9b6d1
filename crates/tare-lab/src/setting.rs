//! What is compared: the ways a server can be observed.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// A way to run a server: its options, and what is loaded into it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Short name, unique within a study.
    pub name: String,
    /// What it means, for a report's legend.
    pub meaning: &'static str,
    /// Server options.
    pub options: Vec<OsString>,
    /// A shared object put into `LD_PRELOAD`.
    pub preload: Option<PathBuf>,
    /// Further variables of the server's environment.
    pub environment: Vec<(&'static str, &'static str)>,
}

/// The classes of events that have current, history and history_long consumers.
const EVENT_CLASSES: [&str; 4] = ["waits", "stages", "statements", "transactions"];

/// The option that loads the storage engine tare's tables are read through.
pub const FEDERATED: &str = "--plugin-load-add=ha_federatedx";
/// Tare's options, whatever its defaults are.
const TARE_ALL: (&str, &str) = ("TARE_OPTIONS", "instrument=%=ON;consumer=%=ON");

impl Setting {
    /// No instrumentation at all: what everything else is compared with.
    pub fn off(name: &str) -> Setting {
        Setting {
            name: name.into(),
            meaning: "no instrumentation (--performance-schema=OFF)",
            options: vec!["--performance-schema=OFF".into()],
            preload: None,
            environment: vec![],
        }
    }

    /// Tare with everything on, every event counted and timed; with the engine its tables are read through, where the
    /// server has it.
    pub fn tare(provider: &Path, federated: bool) -> Setting {
        let mut options: Vec<OsString> = vec!["--performance-schema=OFF".into()];
        options.extend(federated.then(|| FEDERATED.into()));
        Setting {
            name: "tare".into(),
            meaning: "tare, every instrument and consumer on, exact",
            options,
            preload: Some(provider.into()),
            environment: vec![TARE_ALL],
        }
    }

    /// The server's own Performance Schema with every instrument and consumer on.
    pub fn builtin_all() -> Setting {
        let mut options: Vec<OsString> =
            vec!["--performance-schema=ON".into(), "--performance-schema-instrument=%=ON".into()];
        for class in EVENT_CLASSES {
            for scope in ["current", "history", "history-long"] {
                options.push(format!("--performance-schema-consumer-events-{class}-{scope}=ON").into());
            }
        }
        Setting {
            name: "built-in".into(),
            meaning: "the server's own Performance Schema, every instrument and consumer on",
            options,
            preload: None,
            environment: vec![],
        }
    }
}
