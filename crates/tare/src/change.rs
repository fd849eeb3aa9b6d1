//! Changes of files that can be undone.

use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Serialize, Serializer};
use tare_host::options::Root;

use crate::server::unit::TRIALS;

/// The wanted content of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct FileChange {
    /// Path on the server's system.
    pub(crate) path: PathBuf,
    /// Content, not necessarily UTF-8; `None`: no such file.
    #[serde(serialize_with = "as_text")]
    pub(crate) content: Option<Vec<u8>>,
}

impl FileChange {
    /// Returns whether the file has this content.
    pub(crate) fn is_done(&self, root: &Root) -> bool {
        let found = fs::read(root.at(&self.path)).ok();
        found == self.content
    }

    /// Applies it atomically: readers see the file before or after.
    pub(crate) fn apply(&self, root: &Root, undo: &mut Undo) -> Result<()> {
        let path = root.at(&self.path);
        let shown = || format!("{} (are you root?)", self.path.display());
        undo.note(&path).with_context(shown)?;
        match &self.content {
            Some(content) => write(&path, content).with_context(shown),
            None => remove(&path).with_context(shown),
        }
    }
}

impl fmt::Display for FileChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.content {
            None => writeln!(f, "  removed: {}", self.path.display()),
            Some(content) => {
                writeln!(f, "  {}:", self.path.display())?;
                let content = String::from_utf8_lossy(content);
                content.lines().try_for_each(|line| writeln!(f, "{}", format!("    {line}").trim_end()))
            }
        }
    }
}

fn as_text<S: Serializer>(content: &Option<Vec<u8>>, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    content.as_deref().map(String::from_utf8_lossy).serialize(serializer)
}

/// The state before changes.
#[derive(Debug, Default)]
pub(crate) struct Undo {
    files: Vec<(PathBuf, Option<Vec<u8>>)>,
    /// Folders that did not exist.
    folders: Vec<PathBuf>,
}

impl Undo {
    /// Saves a file's state before a change.
    pub(crate) fn note(&mut self, path: &Path) -> std::io::Result<()> {
        let missing = path.ancestors().skip(1).take_while(|folder| !folder.exists()).map(Path::to_owned);
        let missing: Vec<PathBuf> = missing.collect();
        self.folders.extend(missing.into_iter().rev());
        let content = match fs::read(path) {
            Ok(content) => Some(content),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        self.files.push((path.to_owned(), content));
        Ok(())
    }

    /// Makes undoing give a file the content of another one.
    pub(crate) fn keep(&mut self, path: &Path, before: &Path) -> std::io::Result<()> {
        self.files.push((path.to_owned(), Some(fs::read(before)?)));
        Ok(())
    }

    /// Undoes all changes; a failure does not stop the others.
    pub(crate) fn put_back(&mut self) -> Result<()> {
        let mut failed = vec![];
        for (path, content) in std::mem::take(&mut self.files).into_iter().rev() {
            let put = match content {
                Some(content) => write(&path, &content),
                None => remove(&path),
            };
            if let Err(error) = put {
                failed.push(format!("putting back {}: {error:#}", path.display()));
            }
        }
        // The deepest first; a folder that is used by others stays.
        self.folders.drain(..).rev().for_each(|folder| drop(fs::remove_dir(folder)));
        if failed.is_empty() { Ok(()) } else { bail!(failed.join("; ")) }
    }
}

/// Writes a world-readable file atomically: readers see all of it, or the old content.
pub(crate) fn write(path: &Path, content: &[u8]) -> Result<()> {
    let folder = path.parent().context("a file has a folder")?;
    fs::create_dir_all(folder)?;
    let file = tempfile::Builder::new().prefix(".tare-").permissions(mode(0o644)).tempfile_in(folder)?;
    fs::write(file.path(), content)?;
    fs::set_permissions(file.path(), mode(0o644))?;
    file.persist(path)?;
    Ok(())
}

fn mode(bits: u32) -> fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(bits)
}

/// Removes the file, and its folder if that is a unit's for drop-ins or for trials, and is empty then.
fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    let ours =
        |folder: &&Path| folder.to_string_lossy().ends_with(".service.d") || folder.ends_with(&TRIALS[1..]);
    if let Some(folder) = path.parent().filter(ours) {
        // Other files keep it.
        let _ = fs::remove_dir(folder);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_changed_is_put_back_with_its_folders() {
        let folder = tempfile::tempdir().expect("folder");
        let root = Root::new(folder.path());
        fs::write(folder.path().join("old"), "before").expect("file");
        fs::create_dir(folder.path().join("x.service.d")).expect("folder");
        fs::write(folder.path().join("x.service.d/gone"), "kept").expect("file");
        let changes = [
            FileChange { path: "/old".into(), content: Some(b"after".to_vec()) },
            FileChange { path: "/a/b/new".into(), content: Some(b"new".to_vec()) },
            FileChange { path: "/x.service.d/gone".into(), content: None },
        ];
        let mut undo = Undo::default();
        for change in &changes {
            assert!(!change.is_done(&root));
            change.apply(&root, &mut undo).expect("applied");
            assert!(change.is_done(&root));
        }
        assert!(!folder.path().join("x.service.d").exists(), "nothing was left in it");
        undo.put_back().expect("put back");
        assert_eq!(fs::read(folder.path().join("old")).expect("file"), b"before");
        assert_eq!(fs::read(folder.path().join("x.service.d/gone")).expect("file"), b"kept");
        assert!(!folder.path().join("a").exists());
    }

    #[test]
    fn a_file_that_cannot_be_put_back_keeps_no_other_from_it() {
        let folder = tempfile::tempdir().expect("folder");
        let at = |name: &str| folder.path().join(name);
        let mut undo = Undo::default();
        for name in ["first", "second", "third"] {
            fs::write(at(name), "before").expect("file");
            undo.note(&at(name)).expect("noted");
            fs::write(at(name), "after").expect("file");
        }
        for name in ["second", "third"] {
            fs::remove_file(at(name)).expect("file");
            fs::create_dir(at(name)).expect("folder");
        }
        let said = undo.put_back().expect_err("two are folders now").to_string();
        assert_eq!(fs::read(at("first")).expect("file"), b"before");
        assert!(said.contains("second") && said.contains("third") && !said.contains("first"), "{said}");
    }
}
