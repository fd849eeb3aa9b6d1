//! A folder that serves as `/`, for a server in a container or for a test.

use std::path::{Component, Path, PathBuf};

/// The most links that are followed in a path, as by the kernel.
const MOST_LINKS: usize = 40;

/// The folder; `/` itself by default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root(PathBuf);

impl Default for Root {
    fn default() -> Root {
        Root("/".into())
    }
}

impl Root {
    /// Creates a root at this folder.
    pub fn new(folder: impl Into<PathBuf>) -> Root {
        Root(folder.into())
    }

    /// Returns whether this is the process's own root.
    pub fn is_own(&self) -> bool {
        self.0 == Path::new("/")
    }

    /// Returns the path in this process of what is `path` below the root. Links are followed as they would be
    /// there.
    pub fn at(&self, path: &Path) -> PathBuf {
        if self.is_own() || path.is_relative() {
            return path.to_owned();
        }
        let mut links = 0;
        let mut found = PathBuf::from("/");
        let mut rest: Vec<PathBuf> = parts(path);
        while let Some(part) = rest.pop() {
            if part == Path::new("..") {
                found.pop();
                continue;
            }
            let next = found.join(part);
            match self.below(&next).read_link() {
                Ok(target) if links < MOST_LINKS => {
                    links += 1;
                    if target.is_absolute() {
                        found = "/".into();
                    }
                    rest.extend(parts(&target));
                }
                _ => found = next,
            }
        }
        self.below(&found)
    }

    fn below(&self, path: &Path) -> PathBuf {
        self.0.join(path.strip_prefix("/").unwrap_or(path))
    }
}

/// Returns a path's components, the last one first.
fn parts(path: &Path) -> Vec<PathBuf> {
    let named = |part: &Component<'_>| matches!(part, Component::Normal(_) | Component::ParentDir);
    let mut parts: Vec<PathBuf> =
        path.components().filter(named).map(|part| PathBuf::from(part.as_os_str())).collect();
    parts.reverse();
    parts
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_stay_below_the_root() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        fs::create_dir_all(folder.path().join("etc/alternatives")).unwrap();
        fs::write(folder.path().join("etc/real"), "here").unwrap();
        symlink("/etc/alternatives/my", folder.path().join("etc/my")).unwrap();
        symlink("../../../../etc/real", folder.path().join("etc/alternatives/my")).unwrap();
        symlink("loop", folder.path().join("etc/loop")).unwrap();
        assert_eq!(fs::read_to_string(root.at(Path::new("/etc/my"))).unwrap(), "here");
        assert_eq!(root.at(Path::new("/etc/../../etc/none")), folder.path().join("etc/none"));
        assert_eq!(root.at(Path::new("/etc/loop")), folder.path().join("etc/loop"));
        assert_eq!(Root::default().at(Path::new("/etc/my")), Path::new("/etc/my"));
    }
}
