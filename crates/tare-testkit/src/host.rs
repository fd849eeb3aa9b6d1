//! The server program under test, and fresh data directories for it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::fcntl::{Flock, FlockArg};
use nix::unistd::{Uid, User, chown};
use tempfile::TempDir;

use crate::{Failure, Result};

/// A stock server program and its installation.
#[derive(Clone, Debug)]
pub struct Host {
    /// Path of the program.
    pub mariadbd: PathBuf,
    /// The number in `--version`, such as `10.11.19-MariaDB`.
    pub version: String,
    /// Its `--basedir`, if it is not installed in the system's own place.
    pub basedir: Option<PathBuf>,
}

/// Options shared by a data directory and every server on it: small, so that copies are cheap.
pub(crate) const SIZES: [&str; 2] = ["--innodb-log-file-size=8M", "--innodb-buffer-pool-size=64M"];

impl Host {
    /// Finds the server that `TARE_MARIADBD` names, or the first `mariadbd` of `PATH` and the system's
    /// folders.
    ///
    /// # Errors
    /// When there is none or it does not print its version.
    pub fn find() -> Result<Host> {
        let mariadbd = match std::env::var_os("TARE_MARIADBD") {
            Some(path) => PathBuf::from(path),
            None => program("mariadbd")?,
        };
        let version = version(&mariadbd)?;
        let basedir = basedir(&mariadbd);
        Ok(Host { mariadbd, version, basedir })
    }

    /// Returns whether the server has the FEDERATED plugin, without which tare's tables are only on the
    /// endpoint.
    pub fn has_federated(&self) -> bool {
        self.plugins().is_some_and(|dir| dir.join("ha_federatedx.so").exists())
    }

    /// Returns the folder of its plugins.
    pub fn plugins(&self) -> Option<PathBuf> {
        let places: [PathBuf; 2] = match &self.basedir {
            Some(base) => [base.join("lib/plugin"), base.join("lib/mysql/plugin")],
            None => ["/usr/lib/mysql/plugin".into(), "/usr/lib64/mysql/plugin".into()],
        };
        places.into_iter().find(|dir| dir.is_dir())
    }

    /// Creates a data directory in a folder of its own, copied from a template that is made once per server
    /// program.
    ///
    /// # Errors
    /// When the template cannot be made or copied.
    pub fn new_home(&self) -> Result<TempDir> {
        let template = self.template()?;
        let home = server_folder()?;
        copy(&template, &home.path().join("data"))?;
        let temporary = home.path().join("tmp");
        std::fs::create_dir(&temporary).map_err(Failure::io("create a folder for temporary files"))?;
        give_to_server(&temporary)?;
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
            self.install(&home.path().join("data"))?;
            let fresh = cache.join(format!("data-{}.new", self.version));
            // A leftover of an interrupted run.
            let _ = std::fs::remove_dir_all(&fresh);
            copy(&home.path().join("data"), &fresh)?;
            std::fs::rename(&fresh, &template).map_err(Failure::io("name the template"))?;
        }
        Ok(template)
    }

    fn install(&self, data: &Path) -> Result<()> {
        let mut command = Command::new(self.install_program()?);
        command.arg("--no-defaults").arg(format!("--datadir={}", data.display())).args(SIZES);
        command.args(["--auth-root-authentication-method=normal", "--skip-test-db"]);
        if let Some(base) = &self.basedir {
            command.arg(format!("--basedir={}", base.display()));
        }
        if let Some(user) = server_user()? {
            command.arg(format!("--user={}", user.name));
        }
        let output = command.stdin(Stdio::null()).output().map_err(Failure::io("run mariadb-install-db"))?;
        if output.status.success() {
            return Ok(());
        }
        Err(Failure::Setup(format!(
            "mariadb-install-db failed:\n{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        )))
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
        let places = self.basedir.iter().flat_map(|base| [base.join("scripts"), base.join("bin")]);
        let found = places
            .flat_map(|dir| [dir.join("mariadb-install-db"), dir.join("mysql_install_db")])
            .find(|path| path.exists());
        found.map_or_else(|| program("mariadb-install-db"), Ok)
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

/// Returns the user of servers when the test runs as root, as servers refuse to run as root.
pub(crate) fn server_user() -> Result<Option<User>> {
    if !Uid::effective().is_root() {
        return Ok(None);
    }
    match User::from_name("mysql") {
        Ok(Some(user)) => Ok(Some(user)),
        _ => Err(Failure::Setup("run as root, servers need a user named mysql".into())),
    }
}

pub(crate) fn server_folder() -> Result<TempDir> {
    let folder = tempfile::Builder::new()
        .prefix("tare-test-")
        .tempdir()
        .map_err(Failure::io("create a folder for a server"))?;
    give_to_server(folder.path())?;
    Ok(folder)
}

fn give_to_server(folder: &Path) -> Result<()> {
    let Some(user) = server_user()? else { return Ok(()) };
    chown(folder, Some(user.uid), Some(user.gid))
        .map_err(|e| Failure::Setup(format!("give {} to {}: {e}", folder.display(), user.name)))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let status = Command::new("cp")
        .args(["-a", "--sparse=always", "--reflink=auto"])
        .args([from, to])
        .status()
        .map_err(Failure::io("run cp"))?;
    if status.success() {
        return Ok(());
    }
    Err(Failure::Setup(format!("cannot copy {} to {}", from.display(), to.display())))
}

/// Finds a program in `PATH` or the system's folders.
///
/// # Errors
/// When it is not installed.
pub fn program(name: &str) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places: Vec<PathBuf> = std::env::split_paths(&path).collect();
    places.extend(["/usr/sbin".into(), "/usr/bin".into(), "/usr/local/bin".into()]);
    places.into_iter().map(|dir| dir.join(name)).find(|path| path.is_file()).ok_or_else(|| {
        Failure::Setup(format!("{name} is not installed (TARE_MARIADBD names a server elsewhere)"))
    })
}

fn version(mariadbd: &Path) -> Result<String> {
    let output = Command::new(mariadbd)
        .args(["--no-defaults", "--version"])
        .output()
        .map_err(Failure::io(format!("run {}", mariadbd.display())))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let number = text.split_whitespace().skip_while(|word| *word != "Ver").nth(1).map(str::to_owned);
    number.ok_or_else(|| Failure::Setup(format!("{} does not say its version: {text}", mariadbd.display())))
}

fn basedir(mariadbd: &Path) -> Option<PathBuf> {
    let base = mariadbd.parent()?.parent()?;
    (base != Path::new("/usr") && base.join("share").is_dir()).then(|| base.to_path_buf())
}
