//! The provider under test.

use std::path::PathBuf;

use crate::host::profile_folder;
use crate::{Failure, Result};

/// The provider that fills `performance_schema`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TestProvider {
    /// None: `--performance-schema=OFF`.
    Off,
    /// The server's own, with all instruments and consumers on.
    BuiltIn,
    /// Tare with these start-up settings (`key=value`).
    Tare(Vec<(String, String)>),
}

impl TestProvider {
    /// Returns tare with its defaults.
    pub fn tare() -> TestProvider {
        TestProvider::Tare(Vec::new())
    }

    /// Returns the provider under test: tare, unless `TARE_TEST_PROVIDER=builtin` validates the tests
    /// themselves by comparing the reference with itself.
    pub fn under_test() -> TestProvider {
        match std::env::var("TARE_TEST_PROVIDER").as_deref() {
            Ok("builtin") => TestProvider::BuiltIn,
            _ => TestProvider::tare(),
        }
    }

    /// Returns whether it is tare.
    pub fn is_tare(&self) -> bool {
        matches!(self, TestProvider::Tare(_))
    }
}

/// Returns the shared object under test: `TARE_PROVIDER`, or the one built next to the test.
///
/// # Errors
/// When it has not been built.
pub fn provider_library() -> Result<PathBuf> {
    let path = match std::env::var_os("TARE_PROVIDER") {
        Some(path) => PathBuf::from(path),
        None => profile_folder()?.join("libtare_mariadb.so"),
    };
    if path.is_file() {
        return Ok(path);
    }
    Err(Failure::Setup(format!("{} is missing: build it with `cargo build -p tare-mariadb`", path.display())))
}

/// Returns the provider with debug assertions that Cargo has built beside the test, even where
/// `TARE_PROVIDER` names another one. It has what only tests may ask for. `None`: there is none.
pub fn checked_provider() -> Option<PathBuf> {
    let library = profile_folder().ok()?.join("libtare_mariadb.so");
    (cfg!(debug_assertions) && library.is_file()).then_some(library)
}

/// Returns a number that the environment may change for a longer or shorter run.
pub fn setting(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")),
        Err(_) => default,
    }
}
