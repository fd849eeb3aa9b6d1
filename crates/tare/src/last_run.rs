//! What a server ran with when tare was last seen active in it, to say after an update what has changed.
//!
//! `tare doctor` and `tare install --restart` note it in a file of their own. A note stays as long as its
//! server's data directory, and `tare uninstall` removes it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::change::write;
use crate::changelog;
use crate::server::{FoundServer, Prospect};
use crate::state;

/// Name of the file.
const FILE: &str = "last-runs.json";

/// The versions of a server and of the provider in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Versions {
    pub(crate) server: String,
    pub(crate) tare: String,
}

/// A server's life: a process number can come again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Life {
    pid: u32,
    /// Start in clock ticks since the machine's.
    started: u64,
}

/// A note about a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ServerNote {
    life: Life,
    versions: Versions,
    /// Those of the life before, if they were others.
    before: Option<Versions>,
}

/// What an update has changed.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct VersionUpdate {
    pub(crate) before: Versions,
    pub(crate) now: Versions,
    /// Entries of the changelog about options that this server sets.
    pub(crate) settings: Vec<String>,
}

/// The notes, by data directory.
struct RunNotes {
    path: PathBuf,
    notes: BTreeMap<PathBuf, ServerNote>,
}

/// Notes what runs if tare is active (`tare` is its version), and returns what differs from the last life. A
/// server without tare is compared with the last one that had it.
pub(crate) fn compare(
    server: &FoundServer,
    prospect: &Prospect,
    tare: Option<&str>,
) -> Option<VersionUpdate> {
    let mut notes = RunNotes::read().ok()?;
    let data = key(server, prospect)?;
    let now = Versions {
        server: prospect.program.as_ref().ok()?.version.clone()?,
        tare: tare.unwrap_or(env!("CARGO_PKG_VERSION")).to_owned(),
    };
    let before = match tare {
        // A note that cannot be written is missing the next time; today's answer is complete without it.
        Some(_) => notes.take(data, life(server)?, now.clone()),
        None => notes.notes.remove(&data).map(|note| note.versions).filter(|before| *before != now),
    }?;
    let is_set = |name: &str| prospect.files.in_groups(&["tare"]).any(|it| it.key.replace('_', "-") == name);
    let settings = changelog::changes(changelog::TEXT, &before.tare, &now.tare, is_set);
    Some(VersionUpdate { before, now, settings })
}

/// Removes the note about a server.
pub(crate) fn forget(server: &FoundServer) {
    let notes = RunNotes::read().ok().zip(key(server, &server.prospect()));
    if let Some((mut notes, data)) = notes.filter(|(notes, data)| notes.notes.contains_key(data)) {
        notes.notes.remove(&data);
        let _ = notes.write();
    }
}

/// Returns a server's data directory; `None` for one of another root, whose paths are its own.
fn key(server: &FoundServer, prospect: &Prospect) -> Option<PathBuf> {
    server.root.is_own().then(|| server.data(prospect))
}

fn life(server: &FoundServer) -> Option<Life> {
    let pid = server.process.as_ref()?.pid;
    let started = tare_server::process::open(pid).ok()?.stat().ok()?.starttime;
    Some(Life { pid, started })
}

impl RunNotes {
    /// Reads the file; a missing or damaged one is empty.
    fn read() -> Result<RunNotes> {
        let path = state::folder()?.join(FILE);
        let text = fs::read(&path).unwrap_or_default();
        Ok(RunNotes { path, notes: serde_json::from_slice(&text).unwrap_or_default() })
    }

    /// Notes what runs now, and returns what ran before if that differs.
    fn take(&mut self, data: PathBuf, life: Life, versions: Versions) -> Option<Versions> {
        let old = self.notes.get(&data);
        if let Some(old) = old.filter(|old| old.life == life && old.versions == versions) {
            return old.before.clone();
        }
        let before = old.map(|old| old.versions.clone()).filter(|before| *before != versions);
        self.notes.insert(data, ServerNote { life, versions, before: before.clone() });
        let _ = self.write();
        before
    }

    /// Writes the notes about servers that are still there; removes the file if there are none.
    fn write(&mut self) -> Result<()> {
        self.notes.retain(|data, _| data.is_dir());
        match self.notes.is_empty() {
            true => Ok(fs::remove_file(&self.path)?),
            false => write(Path::new(&self.path), &serde_json::to_vec_pretty(&self.notes)?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_update_is_told_until_the_next_start_and_folders_that_are_gone_are_forgotten() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join(FILE);
        let mut notes = RunNotes { path: path.clone(), notes: BTreeMap::new() };
        let life = |pid| Life { pid, started: 7 };
        let versions = |server: &str| Versions { server: server.into(), tare: "0.1.0".into() };
        let mut take =
            |data: &Path, pid, server: &str| notes.take(data.to_owned(), life(pid), versions(server));
        let gone = tempfile::tempdir().expect("folder");
        assert_eq!(take(gone.path(), 1, "10.11.1"), None, "the first time");
        gone.close().expect("removed");
        assert_eq!(take(folder.path(), 1, "10.11.1"), None, "the first time");
        assert_eq!(take(folder.path(), 2, "10.11.1"), None, "restarted as it was");
        assert_eq!(take(folder.path(), 3, "10.11.2"), Some(versions("10.11.1")));
        assert_eq!(take(folder.path(), 3, "10.11.2"), Some(versions("10.11.1")), "in the same life");
        assert_eq!(take(folder.path(), 4, "10.11.2"), None, "the next one");
        let read: BTreeMap<PathBuf, ServerNote> =
            serde_json::from_slice(&fs::read(path).expect("file")).expect("JSON");
        assert_eq!(read.keys().collect::<Vec<_>>(), [folder.path()]);
    }
}
