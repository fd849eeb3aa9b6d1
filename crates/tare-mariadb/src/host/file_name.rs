//! The column FILE_NAME: the absolute form of the names by which the server opens files.

use std::sync::OnceLock;

/// The longest name in bytes that the tables can show.
const MAX: usize = 512;

/// A file's name in its absolute form, on the stack: no allocation, and no system call after the first.
///
/// The built-in resolves the directory part of each file with `realpath`. Here the working directory (the
/// data directory) is resolved once, and `.`, `..` and doubled slashes are removed textually. A name through
/// a symbolic link is therefore shown as it was opened.
pub(crate) struct FileName {
    bytes: [u8; MAX],
    len: usize,
}

impl FileName {
    pub(crate) fn new(name: &[u8]) -> FileName {
        let mut absolute = FileName { bytes: [0; MAX], len: 0 };
        if name.first() != Some(&b'/') {
            absolute.push_all(working_directory());
        }
        absolute.push_all(name);
        absolute
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    fn push_all(&mut self, path: &[u8]) {
        for part in path.split(|byte| *byte == b'/') {
            match part {
                b"" | b"." => {}
                b".." => self.len = self.bytes().iter().rposition(|byte| *byte == b'/').unwrap_or(0),
                part => self.push(part),
            }
        }
    }

    fn push(&mut self, part: &[u8]) {
        for byte in std::iter::once(&b'/').chain(part) {
            if let Some(place) = self.bytes.get_mut(self.len) {
                *place = *byte;
                self.len += 1;
            }
        }
    }
}

/// Returns the server's working directory, which is its data directory once it has changed into it.
fn working_directory() -> &'static [u8] {
    static DIRECTORY: OnceLock<Vec<u8>> = OnceLock::new();
    DIRECTORY.get_or_init(|| {
        use std::os::unix::ffi::OsStringExt;
        std::env::current_dir().map(|path| path.into_os_string().into_vec()).unwrap_or_default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_absolute_and_plain() {
        // The directory at the first call: another test may have changed it since.
        let here = String::from_utf8(working_directory().to_vec()).expect("utf8");
        let name =
            |name: &str| String::from_utf8(FileName::new(name.as_bytes()).bytes().to_vec()).expect("utf8");
        assert_eq!(name("/a//b/./c"), "/a/b/c");
        assert_eq!(name("/a/b/../c"), "/a/c");
        assert_eq!(name("./ibdata1"), format!("{here}/ibdata1"));
        assert_eq!(name("test/t1.ibd"), format!("{here}/test/t1.ibd"));
        assert_eq!(name("/.."), "");
        assert_eq!(name(&format!("/{}", "x".repeat(600))).len(), MAX);
    }
}
