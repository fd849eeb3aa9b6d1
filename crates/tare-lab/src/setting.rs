//! How a server of ours is started: its options, and what is loaded into it.

use std::path::{Path, PathBuf};

/// A way to run a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Short name, unique within a study.
    pub name: String,
    /// Server options.
    pub options: Vec<String>,
    /// A shared object put into `LD_PRELOAD`.
    pub preload: Option<PathBuf>,
    /// Further variables of the server's environment.
    pub environment: Vec<(String, String)>,
}

/// The option that loads the storage engine tare's tables are read through.
pub const FEDERATED: &str = "--plugin-load-add=ha_federatedx";

impl Setting {
    /// A server with options.
    pub fn plain(name: &str, options: Vec<String>) -> Setting {
        Setting { name: name.into(), options, preload: None, environment: vec![] }
    }

    /// Tare with everything on, every event counted and timed, and the engine its tables are read through.
    pub fn tare(provider: &Path) -> Setting {
        Setting {
            name: "tare".into(),
            options: vec!["--performance-schema=OFF".into(), FEDERATED.into()],
            preload: Some(provider.into()),
            environment: vec![("TARE_OPTIONS".into(), "instrument=%=ON;consumer=%=ON".into())],
        }
    }
}
