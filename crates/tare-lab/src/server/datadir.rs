//! Data directories of the lab's own servers: created, copied, removed.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use nix::unistd::{Uid, User, geteuid};
use tempfile::TempDir;

use crate::error::Tried;
use crate::process::command::{option, run};
use crate::process::watchdog::Watchdog;
use crate::server::installation::Installation;
use crate::{Error, Result};

/// The account that distributions create for the server.
const SERVER_ACCOUNT: &str = "mysql";

/// The account that a server runs as: the current user, or the server's account for root.
#[derive(Clone, Debug)]
pub struct Account {
    root_runs_as: Option<User>,
}

impl Account {
    /// Returns the account that servers of this process run as.
    pub fn of_servers() -> Result<Account> {
        if geteuid() != Uid::from_raw(0) {
            return Ok(Account { root_runs_as: None });
        }
        let user =
            User::from_name(SERVER_ACCOUNT).tried(|| format!("looking up account {SERVER_ACCOUNT}"))?;
        let user = user.ok_or_else(|| Error::NoAccount(SERVER_ACCOUNT.into()))?;
        Ok(Account { root_runs_as: Some(user) })
    }

    /// Returns the server's `--user` option, if it needs one.
    pub fn user_option(&self) -> Option<String> {
        self.root_runs_as.as_ref().map(|u| format!("--user={}", u.name))
    }

    /// Gives a file or folder to the account, with no access for others.
    pub fn own(&self, path: &Path) -> Result<()> {
        let what = || format!("setting the owner of {}", path.display());
        if let Some(user) = &self.root_runs_as {
            chown(path, Some(user.uid.as_raw()), Some(user.gid.as_raw())).tried(what)?;
        }
        fs::set_permissions(path, fs::Permissions::from_mode(0o700)).tried(what)
    }
}

/// A folder for servers, accessible to the account and root only. It is removed with its contents when
/// dropped.
#[derive(Debug)]
pub struct Scratch {
    // The first field: the folder it watches is removed after it has ended.
    _watchdog: Option<Watchdog>,
    folder: TempDir,
}

impl Scratch {
    /// Creates a folder in the system's folder for temporary files (`TMPDIR`).
    pub fn new(account: &Account) -> Result<Scratch> {
        let folder = tempfile::Builder::new()
            .prefix("tare-")
            .tempdir()
            .tried(|| "making a temporary folder".into())?;
        account.own(folder.path())?;
        Ok(Scratch { _watchdog: None, folder })
    }

    /// Creates a folder that is removed, with every server in it, even if this process is killed.
    pub fn watched(account: &Account) -> Result<Scratch> {
        let mut scratch = Scratch::new(account)?;
        scratch._watchdog = Some(Watchdog::over(scratch.path())?);
        Ok(scratch)
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Returns whether the folder is a data directory that a server can start on.
pub fn is_initialised(datadir: &Path) -> bool {
    datadir.join("mysql").is_dir()
}

/// Returns whether the folder is empty or missing.
pub fn is_vacant(datadir: &Path) -> bool {
    fs::read_dir(datadir).map_or(!datadir.exists(), |mut entries| entries.next().is_none())
}

/// Creates a data directory whose `root` has no password: the socket is accessible to the account and root
/// only. Temporary files go to `scratch`, as the server's account may not be able to write to `TMPDIR`.
pub fn create(
    installation: &Installation,
    account: &Account,
    scratch: &Scratch,
    datadir: &Path,
) -> Result<()> {
    fs::create_dir_all(datadir).tried(|| format!("making {}", datadir.display()))?;
    account.own(datadir)?;
    let mut command = Command::new(installation.install_db.as_ref().unwrap_or(&installation.mariadbd));
    command.arg("--no-defaults").arg(option("--datadir=", datadir));
    command.env_remove("LD_PRELOAD").env("TMPDIR", scratch.path());
    if installation.install_db.is_some() {
        // --force skips the name lookups, which fail on some machines and in containers.
        command.args(["--auth-root-authentication-method=normal", "--skip-test-db", "--force"]);
    } else {
        command.arg("--initialize-insecure").args(installation.own_options());
    }
    command.args(installation.basedir.as_deref().map(|b| option("--basedir=", b)));
    command.args(account.user_option());
    run(&mut command)
}

/// Copies the data directory of a server that is not running.
pub fn copy(scratch: &Scratch, from: &Path, to: &Path) -> Result<()> {
    run(&mut copying(scratch, from, to))
}

fn copying(scratch: &Scratch, from: &Path, to: &Path) -> Command {
    let mut command = Command::new("cp");
    command.args(["-a", "--reflink=auto", "--"]).args([from, to]);
    // The watchdog finds the processes of its folder by this variable.
    command.env("TMPDIR", scratch.path());
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_with_anything_in_it_is_not_vacant() {
        let folder = tempfile::tempdir().expect("folder");
        assert!(is_vacant(folder.path()));
        assert!(is_vacant(&folder.path().join("absent")));
        fs::write(folder.path().join("file"), "x").expect("file");
        assert!(!is_vacant(folder.path()));
        assert!(!is_initialised(folder.path()));
    }

    #[test]
    fn a_watchdog_can_tell_who_copies() {
        let account = Account { root_runs_as: None };
        let scratch = Scratch::new(&account).expect("a folder");
        let command = copying(&scratch, Path::new("/from"), Path::new("/to"));
        let marks: Vec<_> = command.get_envs().collect();
        assert_eq!(marks, [("TMPDIR".as_ref(), Some(scratch.path().as_os_str()))]);
    }
}
