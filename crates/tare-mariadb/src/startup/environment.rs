//! Keeps tare out of the server's child processes, which would inherit it through `LD_PRELOAD`.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const PRELOAD: &CStr = c"LD_PRELOAD";

/// Removes this library's own entry from `LD_PRELOAD` and keeps all others.
///
/// # Safety
///
/// No other thread of the process runs yet: the environment is changed.
pub(crate) unsafe fn leave_children_alone() {
    // SAFETY: a NUL-terminated name; the value is copied before anything changes the environment.
    let value = unsafe { libc::getenv(PRELOAD.as_ptr()) };
    if value.is_null() {
        return;
    }
    // SAFETY: getenv returned a NUL-terminated string that lives until the environment changes.
    let value = unsafe { CStr::from_ptr(value) }.to_bytes().to_vec();
    let Some(own) = own_path() else { return };
    match without(&value, &own) {
        Remaining::Unchanged => {}
        Remaining::Empty => {
            // SAFETY: no other thread runs (this function's contract).
            unsafe { libc::unsetenv(PRELOAD.as_ptr()) };
        }
        Remaining::Others(rest) => {
            // SAFETY: no other thread runs (this function's contract); both strings are NUL-terminated.
            unsafe { libc::setenv(PRELOAD.as_ptr(), rest.as_ptr(), 1) };
        }
    }
}

/// Returns the path this library was loaded from, as the loader knows it.
fn own_path() -> Option<PathBuf> {
    // SAFETY: Dl_info is plain pointers; all-zero is a valid value.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    let inside = std::ptr::from_ref(PRELOAD.to_bytes()).cast();
    // SAFETY: `inside` is an address in this object; `info` is ours to fill.
    if unsafe { libc::dladdr(inside, &raw mut info) } == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: dladdr's name is a NUL-terminated string that lives as long as the object.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    Some(PathBuf::from(OsString::from_vec(name.to_bytes().to_vec())))
}

#[derive(Debug, PartialEq, Eq)]
enum Remaining {
    Unchanged,
    Empty,
    Others(CString),
}

/// Removes an entry from `LD_PRELOAD`, whose entries are separated by spaces or colons.
fn without(value: &[u8], own: &Path) -> Remaining {
    let entries = || value.split(|b| matches!(b, b' ' | b':')).filter(|entry| !entry.is_empty());
    let others: Vec<&[u8]> = entries().filter(|entry| !is_own(entry, own)).collect();
    if others.len() == entries().count() {
        return Remaining::Unchanged;
    }
    match CString::new(others.join(&b':')) {
        Ok(rest) if !rest.is_empty() => Remaining::Others(rest),
        _ => Remaining::Empty,
    }
}

/// Returns whether an entry means this library: the same file by path or by inode or, where the loader
/// searched for the entry or expanded a `$` in it, the same file name.
fn is_own(entry: &[u8], own: &Path) -> bool {
    let path = Path::new(OsStr::from_bytes(entry));
    if path == own {
        return true;
    }
    if !entry.contains(&b'/') || entry.contains(&b'$') {
        return path.file_name() == own.file_name();
    }
    match (path.metadata(), own.metadata()) {
        (Ok(a), Ok(b)) => (a.dev(), a.ino()) == (b.dev(), b.ino()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn others(rest: &str) -> Remaining {
        Remaining::Others(CString::new(rest).unwrap())
    }

    #[test]
    fn only_the_own_entry_goes() {
        let own = Path::new("/opt/tare/libtare_mariadb.so");
        for (value, expected) in [
            ("/opt/tare/libtare_mariadb.so", Remaining::Empty),
            ("libtare_mariadb.so", Remaining::Empty),
            (" /opt/tare/libtare_mariadb.so:", Remaining::Empty),
            ("/opt/tare/$LIB/libtare_mariadb.so", Remaining::Empty),
            ("libjemalloc.so.2", Remaining::Unchanged),
            ("/elsewhere/libtare_mariadb.so", Remaining::Unchanged),
            ("", Remaining::Unchanged),
            ("libjemalloc.so.2:/opt/tare/libtare_mariadb.so", others("libjemalloc.so.2")),
            ("/a.so /opt/tare/libtare_mariadb.so /b.so", others("/a.so:/b.so")),
        ] {
            assert_eq!(without(value.as_bytes(), own), expected, "{value:?}");
        }
    }

    #[test]
    fn a_link_to_the_library_is_the_library() {
        let dir = tempfile::tempdir().unwrap();
        let own = dir.path().join("libtare_mariadb.so.1");
        let link = dir.path().join("libtare_mariadb.so");
        std::fs::write(&own, b"").unwrap();
        std::os::unix::fs::symlink(&own, &link).unwrap();
        assert_eq!(without(link.as_os_str().as_bytes(), &own), Remaining::Empty);
    }
}
