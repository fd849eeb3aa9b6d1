//! A file, a pipe or a device that records are written to.
//!
//! The reader of a pipe may be slow, and signals do not interrupt system calls here. So while waiting for a
//! reader, `Control` is queried whether the log is to end.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, IsTerminal, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::libc::{ENXIO, O_NONBLOCK};
use nix::poll::{PollFd, PollFlags, poll};

use super::{AFTER_THE_END, Control, NAP, RecordEnd, Written};

/// Mode of a new file: only its owner and group may read the statements.
const MODE: u32 = 0o640;
/// Bytes that a pipe with room takes without blocking: the system's PIPE_BUF.
const PIECE: usize = 4096;
/// Milliseconds of waiting between queries of `Control`.
const STEP: u16 = 50;
/// How long to wait for a reader that takes nothing once the log is to end.
const GRACE: Duration = Duration::from_secs(5);

/// An open file.
pub(super) struct LogFile {
    file: File,
    /// Whether writing never blocks, and an incomplete record can be cut off.
    is_regular: bool,
    /// Since when its reader is waited for although the log is to end.
    over: Option<Instant>,
    has_given_up: bool,
}

impl From<File> for LogFile {
    fn from(file: File) -> LogFile {
        let is_regular = file.metadata().is_ok_and(|it| it.is_file());
        LogFile { file, is_regular, over: None, has_given_up: false }
    }
}

impl LogFile {
    /// Opens a path. A missing file is created: with this mode, else with the default as far as the umask
    /// allows. `None` if it is a pipe, and the log is to end before somebody reads it.
    pub(super) fn open(path: &Path, mode: Option<u32>, control: &dyn Control) -> io::Result<Option<Self>> {
        if fs::metadata(path).is_ok_and(|it| it.file_type().is_fifo()) {
            return Ok(pipe(path, control)?.map(LogFile::from));
        }
        let mut options = OpenOptions::new();
        let file = match options.append(true).open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let file = options.create(true).mode(mode.unwrap_or(MODE)).open(path)?;
                if let Some(mode) = mode {
                    // The umask removed some bits. If they cannot be restored, fewer accounts may read the
                    // file.
                    let _cannot_be_helped = file.set_permissions(Permissions::from_mode(mode));
                }
                file
            }
            opened => opened?,
        };
        Ok(Some(file.into()))
    }

    /// Opens standard output without the standard library's buffer, which would be written again after an
    /// error.
    pub(super) fn output() -> io::Result<LogFile> {
        Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?).into())
    }

    /// Returns its length; 0 for a pipe or a terminal.
    pub(super) fn size(&self) -> u64 {
        if self.is_regular { self.file.metadata().map_or(0, |it| it.len()) } else { 0 }
    }

    /// Returns its mode.
    pub(super) fn mode(&self) -> Option<u32> {
        self.file.metadata().ok().map(|it| it.mode() & 0o777)
    }

    /// Returns whether it is still the file of this name. A link to it is not.
    pub(super) fn is_at(&self, path: &Path) -> bool {
        let (Ok(own), Ok(there)) = (self.file.metadata(), fs::symlink_metadata(path)) else { return false };
        (own.dev(), own.ino()) == (there.dev(), there.ino())
    }

    pub(super) fn is_terminal(&self) -> bool {
        self.file.is_terminal()
    }

    /// Returns whether waiting for its reader was given up, because the log is to end.
    pub(super) fn has_given_up(&self) -> bool {
        self.has_given_up
    }

    /// Writes records up to `ends`. Returns the result, and the length of the complete ones in bytes.
    pub(super) fn write(
        &mut self,
        batch: &[u8],
        ends: &[RecordEnd],
        control: &dyn Control,
    ) -> (Written, u64) {
        let (bytes, error) = self.write_some(batch, control);
        let whole = Written::whole(ends, bytes, error);
        let good = whole.records.checked_sub(1).map_or(0, |last| ends[last].at);
        if good < bytes && self.is_regular {
            // An incomplete record would spoil the next one. From a pipe it cannot be removed.
            let _cannot_be_helped = self.cut((bytes - good) as u64);
        }
        (whole, good as u64)
    }

    /// Writes as much as possible.
    fn write_some(&mut self, bytes: &[u8], control: &dyn Control) -> (usize, Option<io::Error>) {
        let mut written = 0;
        while written < bytes.len() {
            let mut piece = &bytes[written..];
            if !self.is_regular {
                if !self.has_room(control) {
                    let error = io::Error::new(io::ErrorKind::TimedOut, "its reader takes nothing");
                    return (written, Some(error));
                }
                piece = &piece[..piece.len().min(PIECE)];
            }
            match self.file.write(piece) {
                Ok(0) => return (written, Some(io::ErrorKind::WriteZero.into())),
                Ok(some) => written += some,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Another process has filled the pipe meanwhile.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && !self.is_regular => {}
                Err(error) => return (written, Some(error)),
            }
        }
        (written, None)
    }

    /// Waits until something can be written. Returns false if the log is to end, and its reader has taken
    /// nothing for too long, or too little.
    fn has_room(&mut self, control: &dyn Control) -> bool {
        let (step, grace) = if self.has_given_up { (0, Duration::ZERO) } else { (STEP, GRACE) };
        let begin = Instant::now();
        loop {
            let over = control.is_over().then(|| self.over.get_or_insert_with(Instant::now).elapsed());
            if over.is_some_and(|it| it >= AFTER_THE_END) {
                break;
            }
            let mut waits = [PollFd::new(self.file.as_fd(), PollFlags::POLLOUT)];
            // An error shows when it is written to.
            if !matches!(poll(&mut waits, step), Ok(0) | Err(Errno::EINTR)) {
                return true;
            }
            if over.is_some_and(|it| it.min(begin.elapsed()) >= grace) {
                break;
            }
        }
        self.has_given_up = true;
        false
    }

    /// Cuts off the last `half` bytes written. Does nothing where another process has truncated or extended
    /// the file since.
    fn cut(&mut self, half: u64) -> io::Result<()> {
        let end = self.file.metadata()?.len();
        if self.file.stream_position()? != end {
            return Ok(());
        }
        let good = end.saturating_sub(half);
        self.file.set_len(good)?;
        // Standard output may not be in append mode (`> FILE`), and would leave a hole.
        self.file.seek(SeekFrom::Start(good)).map(drop)
    }
}

/// Opens a pipe once somebody reads it. A plain open would block, also against signals.
fn pipe(path: &Path, control: &dyn Control) -> io::Result<Option<File>> {
    let mut is_told = false;
    loop {
        match OpenOptions::new().append(true).custom_flags(O_NONBLOCK).open(path) {
            Err(error) if error.raw_os_error() == Some(ENXIO) => {}
            opened => return opened.map(Some),
        }
        if control.is_over() {
            return Ok(None);
        }
        if !is_told {
            control.tell(&format!("{}: a pipe; waits for somebody who reads it", path.display()));
            is_told = true;
        }
        std::thread::sleep(NAP);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;
    use crate::destination::tests::ENDS;

    #[test]
    fn a_reader_that_always_takes_a_little_is_not_waited_for_without_end() {
        let (mut reader, writer) = io::pipe().expect("a pipe");
        let mut log = LogFile::from(File::from(std::os::fd::OwnedFd::from(writer)));
        let reading = std::thread::spawn(move || {
            let (mut piece, mut read) = ([0; PIECE], 0);
            while let some @ 1.. = reader.read(&mut piece).expect("no error") {
                read += some;
                std::thread::sleep(Duration::from_millis(1));
            }
            read
        });
        let batch = vec![b'x'; 100 * PIECE];
        assert_eq!(log.write_some(&batch, ENDS).0, batch.len(), "there is time");
        let Some(over) = log.over.as_mut() else { panic!("the end was not seen") };
        *over -= AFTER_THE_END;
        let (written, error) = log.write_some(&batch, ENDS);
        assert_eq!((written, error.map(|it| it.kind())), (0, Some(io::ErrorKind::TimedOut)));
        assert!(log.has_given_up());
        drop(log);
        assert_eq!(reading.join().expect("no panic"), batch.len());
    }
}
