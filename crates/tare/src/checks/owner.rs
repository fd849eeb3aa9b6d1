//! Checks of the ownership of a file that root or a server runs: others could change it, or replace it.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::unistd::User;
use tare_host::options::Root;

use super::Finding;
use crate::server::unit::link;

/// Most links that are followed.
const MOST_LINKS: usize = 40;
/// The mode bit of a folder in which only the owner of a file may rename it.
const STICKY: u32 = 0o1000;

/// A file that only root should control, and the words for a finding.
pub(super) struct Guarded<'a> {
    pub(super) check: &'static str,
    /// Path on the server's system.
    pub(super) path: &'a Path,
    /// The account that may own it besides root.
    pub(super) own: Option<u32>,
    /// What anybody else can do with it.
    pub(super) can: &'static str,
    /// Its path in packages.
    pub(super) place: &'static str,
}

impl Guarded<'_> {
    /// Checks the file and all folders of its path.
    pub(super) fn look(&self, root: &Root) -> Vec<Finding> {
        let Ok(metadata) = fs::metadata(root.at(self.path)) else { return vec![] };
        let (shown, can) = (self.path.display(), self.can);
        let mut findings = vec![];
        if let Some(owner) = self.stranger(&metadata) {
            let what = format!("{shown} belongs to {owner}, who {can}");
            findings.push(Finding::problem(self.check, what, format!("chown root:root {shown}")));
        }
        if metadata.mode() & 0o022 != 0 {
            let what = format!("{shown} can be written by others, who {can}");
            findings.push(Finding::problem(self.check, what, format!("chmod go-w {shown}")));
        }
        findings.extend(way(root, self.path).iter().find_map(|entry| self.look_above(root, entry)));
        findings
    }

    /// Returns a finding if others can replace a file, folder or link of the path.
    fn look_above(&self, root: &Root, entry: &Path) -> Option<Finding> {
        // A tree's `/` belongs to whoever made the tree.
        let is_top = |folder: &Path| !root.is_own() && root.at(folder) == root.at(Path::new("/"));
        let folder = entry.parent().filter(|folder| !is_top(folder))?;
        let (above, this) = (fs::metadata(root.at(folder)).ok()?, link(root, entry).symlink_metadata().ok()?);
        let stuck = above.mode() & STICKY != 0 && self.stranger(&this).is_none();
        let wrong = match self.stranger(&above) {
            Some(owner) => format!("belongs to {owner}"),
            None if above.mode() & 0o022 != 0 && !stuck => "can be written by others".to_owned(),
            None => return None,
        };
        let (shown, folder) = (self.path.display(), folder.display());
        let what = format!("{folder}, on the way to {shown}, {wrong}, who {}", self.can);
        let remedy = if self.path == Path::new(self.place) {
            format!("chown root:root {folder}; chmod go-w {folder}")
        } else {
            format!("put it at {}", self.place)
        };
        Some(Finding::problem(self.check, what, remedy))
    }

    /// Returns the owner, if that is neither root nor the allowed account.
    fn stranger(&self, metadata: &Metadata) -> Option<String> {
        let number = metadata.uid();
        let name = || User::from_uid(number.into()).ok().flatten().map(|user| user.name);
        (![Some(0), self.own].contains(&Some(number))).then(|| name().unwrap_or_else(|| number.to_string()))
    }
}

/// Returns every file, folder and link of a path, including the targets of links.
fn way(root: &Root, path: &Path) -> Vec<PathBuf> {
    let mut found = vec![];
    let mut open = vec![path.to_owned()];
    let mut links = 0;
    while let Some(path) = open.pop() {
        for entry in path.ancestors().filter(|entry| entry.file_name().is_some()) {
            let target = fs::read_link(link(root, entry)).ok().filter(|_| links < MOST_LINKS);
            links += usize::from(target.is_some());
            open.extend(target.map(|target| entry.parent().unwrap_or(entry).join(target)));
            found.push(entry.to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use nix::unistd::Uid;

    use super::*;

    const PLACE: &str = "/usr/bin/tare";

    /// Returns the findings about a file below a root.
    fn said(root: &Path, path: &str, own: Option<u32>) -> Vec<String> {
        let guarded = Guarded { check: "x", path: Path::new(path), own, can: "can do it", place: PLACE };
        let findings = guarded.look(&Root::new(root));
        findings.into_iter().map(|it| format!("{}. {}", it.what, it.remedy)).collect()
    }

    #[test]
    fn whoever_can_change_a_folder_on_the_way_is_named() {
        if !Uid::effective().is_root() {
            println!("skipped: only root gives folders away");
            return;
        }
        let folder = tempfile::tempdir().expect("folder");
        let at = |path: &str| folder.path().join(path.trim_start_matches('/'));
        let mode =
            |path: &str, bits| fs::set_permissions(at(path), Permissions::from_mode(bits)).expect("mode");
        let give = |path: &str, user| chown(at(path), Some(user), None).expect("chown");
        for path in ["/usr/bin", "/opt/a"] {
            fs::create_dir_all(at(path)).expect("folder");
            fs::write(at(path).join("tare"), "").expect("file");
            mode(&format!("{path}/tare"), 0o755);
        }
        ["/", "/usr", "/usr/bin", "/opt", "/opt/a"].iter().for_each(|path| mode(path, 0o755));
        symlink("../opt/a", at("/usr/link")).expect("link");
        give("/", 65534);
        for path in [PLACE, "/opt/a/tare", "/usr/link/tare"] {
            assert!(said(folder.path(), path, None).is_empty(), "{path}");
        }
        mode("/usr", 0o775);
        let text = "/usr, on the way to /usr/bin/tare, can be written by others, who can do it. chown root:root /usr; chmod go-w /usr";
        assert_eq!(said(folder.path(), PLACE, None), [text]);
        // A file of root's in a sticky folder cannot be replaced.
        mode("/usr", 0o1777);
        assert!(said(folder.path(), PLACE, None).is_empty());
        give("/usr/bin", 65534);
        assert_eq!(said(folder.path(), PLACE, None).len(), 1);
        assert!(said(folder.path(), PLACE, Some(65534)).is_empty(), "the server's own account");
        give("/opt", 65534);
        let text = "/usr/../opt, on the way to /usr/link/tare, belongs to nobody, who can do it. put it at /usr/bin/tare";
        assert_eq!(said(folder.path(), "/usr/link/tare", None), [text]);
    }
}
