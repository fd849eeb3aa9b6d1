//! The server program under test, and fresh data directories for it.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use nix::fcntl::{Flock, FlockArg};
use tare_server::datadir::{self, Account};
use tare_server::installation::Installation;
use tare_server::program::find_program;
use tempfile::TempDir;

use crate::{Failure, Result};

/// A stock server program and its installation.
#[derive(Clone, Debug)]
pub struct HostProgram(Installation);

impl Deref for HostProgram {
    type Target = Installation;

    fn deref(&self) -> &Installation {
        &self.0
    }
}

/// Options shared by a data directory and every server on it: small, so that copies are cheap.
pub(crate) const SIZES: [&str; 2] = ["--innodb-log-file-size=8M", "--innodb-buffer-pool-size=64M"];
/// Beginning of the names of servers' folders.
const PREFIX: &str = "tare-test-";

impl HostProgram {
    /// Finds the server that `TARE_MARIADBD` names, or the first `mariadbd` of `PATH` and the system's
    /// folders.
    ///
    /// # Errors
    /// When there is none or it does not answer as a server does.
    pub fn find() -> Result<HostProgram> {
        static FOUND: OnceLock<HostProgram> = OnceLock::new();
        if let Some(host) = FOUND.get() {
            return Ok(host.clone());
        }
        let named = std::env::var_os("TARE_MARIADBD").map(PathBuf::from);
        let host = HostProgram(Installation::find(named.as_deref())?);
        Ok(FOUND.get_or_init(|| host).clone())
    }

    /// Returns the folder of its plugins.
    pub fn plugins(&self) -> Option<PathBuf> {
        Some(self.plugin_dir.clone()).filter(|dir| dir.is_dir())
    }

    /// Creates a data directory in a folder of its own, copied from a template that is made once per server
    /// program.
    ///
    /// # Errors
    /// When the template cannot be made or copied.
    pub fn new_home(&self) -> Result<TempDir> {
        let template = self.template()?;
        let home = server_folder()?;
        datadir::copy_sparse(&template, &home.path().join("data"))?;
        let temporary = home.path().join("tmp");
        std::fs::create_dir(&temporary).map_err(Failure::io("create a folder for temporary files"))?;
        Account::of_servers()?.own(&temporary)?;
        Ok(home)
    }

    fn template(&self) -> Result<PathBuf> {
        let cache = build_folder()?.join("testkit");
        std::fs::create_dir_all(&cache).map_err(Failure::io(format!("create {}", cache.display())))?;
        let lock =
            std::fs::File::create(cache.join("lock")).map_err(Failure::io("create the template's lock"))?;
        let _held = Flock::lock(lock, FlockArg::LockExclusive)
            .map_err(|(_, e)| Failure::Setup(format!("lock the template: {e}")))?;
        let template = cache.join(format!("data-{}", self.version));
        if !template.exists() {
            let home = server_folder()?;
            let data = home.path().join("data");
            datadir::create(&self.0, &Account::of_servers()?, home.path(), &data, &SIZES)?;
            let fresh = cache.join(format!("data-{}.new", self.version));
            // A leftover of an interrupted run.
            let _ = std::fs::remove_dir_all(&fresh);
            datadir::copy_sparse(&data, &fresh)?;
            std::fs::rename(&fresh, &template).map_err(Failure::io("name the template"))?;
        }
        Ok(template)
    }

    /// Returns a client program of the same installation, such as `mariadb-dump`.
    ///
    /// # Errors
    /// When there is none.
    pub fn client_program(&self, name: &str) -> Result<PathBuf> {
        let own = self.basedir.iter().map(|base| base.join("bin").join(name)).find(|path| path.exists());
        own.map_or_else(|| program(name), Ok)
    }

    /// Returns the program that creates data directories.
    ///
    /// # Errors
    /// When there is none.
    pub fn install_program(&self) -> Result<PathBuf> {
        self.install_db.clone().ok_or_else(|| Failure::Setup("it makes its data itself".into()))
    }
}

/// Returns the folder that Cargo builds in, from the test's own path (`target/<profile>/deps/test`).
pub(crate) fn build_folder() -> Result<PathBuf> {
    Ok(profile_folder()?.parent().map(Path::to_path_buf).unwrap_or_default())
}

/// Returns `target/<profile>`, which contains the provider.
pub(crate) fn profile_folder() -> Result<PathBuf> {
    let test = std::env::current_exe().map_err(Failure::io("find the test's own program"))?;
    let deps = test.parent().unwrap_or(Path::new("."));
    let folder = if deps.ends_with("deps") { deps.parent().unwrap_or(deps) } else { deps };
    Ok(folder.to_path_buf())
}

pub(crate) fn server_folder() -> Result<TempDir> {
    Ok(datadir::folder(PREFIX, &Account::of_servers()?)?)
}

/// Finds a program in `PATH` or the system's folders.
///
/// # Errors
/// When it is not installed.
pub fn program(name: &str) -> Result<PathBuf> {
    find_program(name, &[]).ok_or_else(|| {
        Failure::Setup(format!("{name} is not installed (TARE_MARIADBD names a server elsewhere)"))
    })
}
