//! Files in which the kernel tells of threads. They stay open while they are read at one sample after the
//! other, because opening one takes several times as long as reading it.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Result;
use std::os::unix::fs::FileExt;
use std::sync::LazyLock;

/// The number of samples without a reading after which a file is closed.
const UNUSED: u64 = 64;
/// The most files that are open, and the part of all that the server may open.
const MOST: usize = 128;
const PART: usize = 64;

/// The files of one name of the threads of this process.
pub(super) struct ThreadFiles {
    name: &'static str,
    path: String,
    /// Open files, by THREAD_OS_ID.
    open: HashMap<u64, OpenFile>,
    /// Number of samples so far.
    sample: u64,
}

struct OpenFile {
    file: File,
    /// The sample at which it was read last.
    read_at: u64,
}

impl ThreadFiles {
    pub(super) fn new(name: &'static str) -> ThreadFiles {
        ThreadFiles { name, path: String::new(), open: HashMap::new(), sample: 0 }
    }

    /// Reads the file of a thread.
    pub(super) fn read<'b>(&mut self, os_id: u64, to: &'b mut [u8]) -> Result<&'b [u8]> {
        if let Some(open) = self.open.get_mut(&os_id) {
            open.read_at = self.sample;
            if let Ok(len) = open.file.read_at(to, 0) {
                return Ok(&to[..len]);
            }
            // That thread has ended. Another one may have its number.
            self.open.remove(&os_id);
        }
        self.path.clear();
        let _written = write!(self.path, "/proc/self/task/{os_id}/{}", self.name);
        let file = File::open(&self.path)?;
        let len = file.read_at(to, 0)?;
        if self.open.len() < most() {
            self.open.insert(os_id, OpenFile { file, read_at: self.sample });
        }
        Ok(&to[..len])
    }

    /// Ends a sample: closes files that have not been read for long.
    pub(super) fn end_sample(&mut self) {
        self.sample += 1;
        let sample = self.sample;
        self.open.retain(|_, open| sample - open.read_at <= UNUSED);
    }
}

/// Returns the most files that may be open: few where the server may not open many.
fn most() -> usize {
    static OPEN_FILES: LazyLock<Option<usize>> =
        LazyLock::new(|| open_files(&std::fs::read_to_string("/proc/self/limits").ok()?));
    OPEN_FILES.map_or(0, |files| (files / PART).min(MOST))
}

/// Returns the number of files that a process may open, from the text of `limits`.
fn open_files(limits: &str) -> Option<usize> {
    let soft =
        limits.lines().find_map(|line| line.strip_prefix("Max open files"))?.split_whitespace().next()?;
    if soft == "unlimited" { Some(usize::MAX) } else { soft.parse().ok() }
}

#[cfg(test)]
mod tests {
    use tare_testkit::eventually;

    use super::super::sleeper::{LIMIT, Sleeper};
    use super::*;

    #[test]
    fn a_file_stays_open_while_it_is_read_and_one_of_an_ended_thread_is_gone() {
        let sleeper = Sleeper::start();
        let number = sleeper.number;
        let (mut files, mut buffer) = (ThreadFiles::new("comm"), [0; 64]);
        let first = files.read(number, &mut buffer).unwrap().to_vec();
        assert!(!first.is_empty());
        assert_eq!(files.read(number, &mut buffer).unwrap(), first, "read from its beginning again");
        assert_eq!(files.open.len(), 1);
        for _ in 0..UNUSED {
            files.end_sample();
        }
        assert_eq!(files.read(number, &mut buffer).unwrap(), first);
        files.end_sample();
        assert_eq!(files.open.len(), 1, "it was read a sample ago");
        for _ in 0..UNUSED {
            files.end_sample();
        }
        assert_eq!(files.open.len(), 0, "nobody needs it");
        files.read(number, &mut buffer).unwrap();
        sleeper.end();
        eventually("it is gone", LIMIT, || files.read(number, &mut buffer).is_err());
        assert!(files.open.is_empty());
        assert!(files.read(u64::MAX, &mut buffer).is_err() && files.open.is_empty());
    }

    #[test]
    fn the_number_of_files_is_bounded() {
        let limits = "Limit   Soft Limit   Hard Limit   Units\nMax open files            1024                 \
                      524288               files     \n";
        assert_eq!(open_files(limits), Some(1024));
        assert_eq!(open_files("Max open files            unlimited unlimited files"), Some(usize::MAX));
        assert_eq!((open_files(""), open_files("Max open files")), (None, None));
        assert!(most() <= MOST);
    }
}
