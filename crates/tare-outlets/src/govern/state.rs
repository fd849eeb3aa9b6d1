//! The file with the rows that a governor has changed, written before any change, so that they can be
//! restored after a kill.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::settings::{RowSetting, SetupTableName};
use crate::source::{Error, Source};

/// Start times that differ by more than so many seconds belong to different runs of the server.
const SAME_START: i64 = 3;

/// The identity of a server and of its run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerIdentity {
    host: String,
    port: u64,
    data: String,
    /// Start in seconds since 1970, computed from the uptime.
    started: i64,
}

impl ServerIdentity {
    /// Queries the server.
    ///
    /// # Errors
    ///
    /// Those of [`Source::ask`].
    pub fn read(source: &mut Source) -> Result<ServerIdentity, Error> {
        let rows = source.ask("SELECT @@hostname, @@port, @@datadir, UNIX_TIMESTAMP()")?;
        let text = |at| rows.first().and_then(|row| row.text(at)).unwrap_or_default();
        let now: i64 = text(3).parse().unwrap_or(0);
        let status = source.ask("SHOW GLOBAL STATUS LIKE 'Uptime'")?;
        let uptime = status.first().and_then(|row| row.signed(1)).unwrap_or(0);
        Ok(ServerIdentity {
            host: text(0),
            port: text(1).parse().unwrap_or(0),
            data: text(2),
            started: now - uptime,
        })
    }

    /// Returns whether it is the same server, not restarted.
    #[must_use]
    pub fn is_same_run(&self, other: &ServerIdentity) -> bool {
        let place = |it: &ServerIdentity| (it.host.clone(), it.port, it.data.clone());
        place(self) == place(other) && (self.started - other.started).abs() <= SAME_START
    }

    /// Returns the name of its file, which differs between servers.
    fn file(&self) -> String {
        let part = |text: &str| -> String {
            text.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).collect()
        };
        format!("govern-{}-{}{}.json", part(&self.host), self.port, part(self.data.trim_end_matches('/')))
    }
}

/// A row that was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedRow {
    /// Table of the row.
    pub table: SetupTableName,
    /// Name of the row.
    pub name: String,
    /// Original value.
    pub original: RowSetting,
    /// All values written since. Any other value is somebody else's.
    pub given: Vec<RowSetting>,
}

/// The content of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateFile {
    /// Identity of the server.
    pub server: ServerIdentity,
    /// Rows that were changed.
    pub owed: Vec<ChangedRow>,
    /// Rows that a person has set meanwhile.
    pub persons: Vec<(SetupTableName, String)>,
}

impl StateFile {
    /// Returns the path of a server's file.
    #[must_use]
    pub fn path(folder: &Path, server: &ServerIdentity) -> PathBuf {
        folder.join(server.file())
    }

    /// Reads the file; `None` if it does not exist, or is of an earlier run of the server, whose changes are
    /// gone.
    ///
    /// # Errors
    ///
    /// When the file exists and cannot be read or parsed.
    pub fn read(path: &Path, server: &ServerIdentity) -> io::Result<Option<StateFile>> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let state: StateFile = serde_json::from_str(&text).map_err(io::Error::other)?;
        Ok(state.server.is_same_run(server).then_some(state))
    }

    /// Writes the file atomically, and syncs it to disk.
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let text = serde_json::to_string_pretty(self).map_err(io::Error::other)?;
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let new = unfinished(path);
        let mut file = File::create(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, path)
    }

    /// Removes the file, and an unfinished one that a killed process has left.
    ///
    /// # Errors
    ///
    /// Those of the system; a missing file is none.
    pub fn remove(path: &Path) -> io::Result<()> {
        for file in [path, &unfinished(path)] {
            match fs::remove_file(file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Returns the path of the file while it is being written.
fn unfinished(path: &Path) -> PathBuf {
    path.with_extension("new")
}

/// Changed rows by name.
pub(crate) type Debts = BTreeMap<(SetupTableName, String), ChangedRow>;

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(started: i64, data: &str) -> ServerIdentity {
        ServerIdentity { host: "db 1".into(), port: 3306, data: data.into(), started }
    }

    #[test]
    fn what_was_owed_to_an_earlier_run_is_owed_no_more() {
        let folder = tempfile::tempdir().expect("a folder");
        let server = identity(1000, "/var/lib/mysql/");
        let path = StateFile::path(folder.path(), &server);
        assert!(path.ends_with("govern-db-1-3306-var-lib-mysql.json"), "{}", path.display());
        assert_ne!(path, StateFile::path(folder.path(), &identity(1000, "/srv/b/")));
        let setting = RowSetting { enabled: true, timed: None };
        let owed = ChangedRow {
            table: SetupTableName::Consumers,
            name: "c".into(),
            original: setting,
            given: vec![setting],
        };
        let state = StateFile { server: server.clone(), owed: vec![owed], persons: vec![] };
        state.write(&path).expect("written");
        assert_eq!(StateFile::read(&path, &server).expect("read"), Some(state.clone()));
        assert_eq!(StateFile::read(&path, &identity(1002, "/var/lib/mysql/")).expect("read"), Some(state));
        assert_eq!(StateFile::read(&path, &identity(1010, "/var/lib/mysql/")).expect("read"), None);
        std::fs::write(&path, "{").expect("written");
        assert!(StateFile::read(&path, &server).is_err());
    }

    #[test]
    fn nothing_is_left_also_of_one_who_was_killed_while_writing() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = StateFile::path(folder.path(), &identity(1000, "/var/lib/mysql/"));
        for left in [&[][..], &[&path], &[&unfinished(&path)], &[&path, &unfinished(&path)]] {
            left.iter().for_each(|file| std::fs::write(file, "{").expect("written"));
            StateFile::remove(&path).expect("removed");
            assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0);
        }
    }
}
