//! Data directories of servers that are started here: created, copied, removed.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use nix::unistd::{Uid, User, geteuid};
use tempfile::TempDir;

use crate::error::Tried;
use crate::installation::Installation;
use crate::program::{option, run};
use crate::watchdog::Watchdog;
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
        Ok(Scratch { _watchdog: None, folder: folder("tare-", account)? })
    }

    /// Creates a folder that is removed even if this process is killed; the servers in it are killed, too.
    pub fn watched(account: &Account) -> Result<Scratch> {
        let mut scratch = Scratch::new(account)?;
        scratch._watchdog = Some(Watchdog::over(scratch.path())?);
        Ok(scratch)
    }

    /// Returns the folder's path.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Creates a folder in the system's folder for temporary files (`TMPDIR`), accessible to the account and root
/// only.
///
/// # Errors
/// When it cannot be made, or not given to the account.
pub fn folder(prefix: &str, account: &Account) -> Result<TempDir> {
    let made = tempfile::Builder::new().prefix(prefix).tempdir();
    let folder = made.tried(|| "making a temporary folder".into())?;
    account.own(folder.path())?;
    Ok(folder)
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
/// only. Temporary files go to `temporary`, as the server's account may not be able to write to `TMPDIR`.
/// `options` are those of the server that fills it.
pub fn create(
    installation: &Installation,
    account: &Account,
    temporary: &Path,
    datadir: &Path,
    options: &[&str],
) -> Result<()> {
    fs::create_dir_all(datadir).tried(|| format!("making {}", datadir.display()))?;
    account.own(datadir)?;
    let mut command = Command::new(installation.install_db.as_ref().unwrap_or(&installation.mariadbd));
    command.arg("--no-defaults").arg(option("--datadir=", datadir));
    command.env_remove("LD_PRELOAD").env("TMPDIR", temporary);
    if installation.install_db.is_some() {
        // --force skips the name lookups, which fail on some machines and in containers.
        command.args(["--auth-root-authentication-method=normal", "--skip-test-db", "--force"]);
    } else {
        command.arg("--initialize-insecure").args(installation.own_options());
    }
    command.args(installation.basedir.as_deref().map(|b| option("--basedir=", b)));
    command.args(account.user_option()).args(options);
    run(&mut command)
}

/// Copies the data directory of a server that is not running.
pub fn copy(scratch: &Scratch, from: &Path, to: &Path) -> Result<()> {
    run(&mut copying_in(scratch, from, to))
}

/// Copies the data directory of a server that is not running, with holes wherever it has only zeros. For
/// tests: where time is measured, a hole is one more thing that the first write to it costs.
pub fn copy_sparse(from: &Path, to: &Path) -> Result<()> {
    run(&mut copying(&["--sparse=always"], from, to))
}

fn copying(options: &[&str], from: &Path, to: &Path) -> Command {
    let mut command = Command::new("cp");
    command.args(["-a", "--reflink=auto"]).args(options).arg("--").args([from, to]);
    command
}

fn copying_in(scratch: &Scratch, from: &Path, to: &Path) -> Command {
    let mut command = copying(&[], from, to);
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
        let command = copying_in(&scratch, Path::new("/from"), Path::new("/to"));
        let marks: Vec<_> = command.get_envs().collect();
        assert_eq!(marks, [("TMPDIR".as_ref(), Some(scratch.path().as_os_str()))]);
    }

    #[test]
    fn a_copy_has_what_the_original_has() {
        let folder = tempfile::tempdir().expect("folder");
        let [from, to, sparse] = ["from", "to", "sparse"].map(|name| folder.path().join(name));
        fs::create_dir(&from).expect("a folder");
        fs::write(from.join("file"), [0; 100_000]).expect("a file");
        let scratch = Scratch::new(&Account { root_runs_as: None }).expect("a folder");
        copy(&scratch, &from, &to).expect("a copy");
        copy_sparse(&from, &sparse).expect("a copy");
        for copied in [to, sparse] {
            assert_eq!(fs::read(copied.join("file")).expect("a file"), [0; 100_000]);
        }
    }
}
