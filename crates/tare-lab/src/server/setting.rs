//! The way a server is run: its options, and what is preloaded into it.

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

/// The option that loads the storage engine through which tare's tables are read.
pub const FEDERATED: &str = "--plugin-load-add=ha_federatedx";

impl Setting {
    /// Makes a setting of options only.
    pub fn plain(name: &str, options: Vec<String>) -> Setting {
        Setting { name: name.into(), options, preload: None, environment: vec![] }
    }

    /// Makes the setting of tare with everything on, every event counted and timed, and the engine for its
    /// tables.
    pub fn tare(provider: &Path) -> Setting {
        Setting {
            name: "tare".into(),
            options: vec!["--performance-schema=OFF".into(), FEDERATED.into()],
            preload: Some(provider.into()),
            environment: vec![("TARE_OPTIONS".into(), "instrument=%=ON;consumer=%=ON".into())],
        }
    }
}
