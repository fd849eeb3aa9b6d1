//! A file, a pipe or a device that records are written to.
//!
//! The reader of a pipe may take its time, and a signal ends no system call here. So while a reader is waited for,
//! `Control` is asked whether the log is to end.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, IsTerminal, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::libc::{ENXIO, O_NONBLOCK};
use nix::poll::{PollFd, PollFlags, poll};

use super::{End, Written};
use crate::slowlog::{AFTER_THE_END, Control, NAP};

/// Who may read a new file: its owner and its group. Statements are nobody else's.
const MODE: u32 = 0o640;
/// What a pipe that has room takes at once, without waiting: the system's PIPE_BUF.
const PIECE: usize = 4096;
/// How long room is waited for before `Control` is asked, in milliseconds.
const STEP: u16 = 50;
/// How long a reader that takes nothing is waited for once the log is to end.
const GRACE: Duration = Duration::from_secs(5);

/// What is open.
pub(super) struct LogFile {
    file: File,
    /// Whether writing waits for nobody, and half a record can be cut off.
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
    /// Opens what is at a path, whoever may read it. A file that is not there is made: with this mode, else with ours as far
    /// as the umask allows it. `None`: it is a pipe, and the log is to end before somebody reads it.
    pub(super) fn open(path: &Path, mode: Option<u32>, control: &dyn Control) -> io::Result<Option<Self>> {
        if fs::metadata(path).is_ok_and(|it| it.file_type().is_fifo()) {
            return Ok(pipe(path, control)?.map(LogFile::from));
        }
        let mut options = OpenOptions::new();
        let file = match options.append(true).open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let file = options.create(true).mode(mode.unwrap_or(MODE)).open(path)?;
                if let Some(mode) = mode {
                    // The umask took some of it. Where it cannot be given back, fewer may read the file.
                    let _cannot_be_helped = file.set_permissions(Permissions::from_mode(mode));
                }
                file
            }
            opened => opened?,
        };
        Ok(Some(file.into()))
    }

    /// Standard output, without what the standard library keeps of it: after an error that is written again.
    pub(super) fn output() -> io::Result<LogFile> {
        Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?).into())
    }

    /// How long it is. A pipe or a terminal has no size.
    pub(super) fn size(&self) -> u64 {
        if self.is_regular { self.file.metadata().map_or(0, |it| it.len()) } else { 0 }
    }

    /// Who may read it.
    pub(super) fn mode(&self) -> Option<u32> {
        self.file.metadata().ok().map(|it| it.mode() & 0o777)
    }

    /// Whether it is still what has this name. A link to it is something else.
    pub(super) fn is_at(&self, path: &Path) -> bool {
        let (Ok(own), Ok(there)) = (self.file.metadata(), fs::symlink_metadata(path)) else { return false };
        (own.dev(), own.ino()) == (there.dev(), there.ino())
    }

    pub(super) fn is_terminal(&self) -> bool {
        self.file.is_terminal()
    }

    /// Whether its reader was not waited for any more, as the log is to end.
    pub(super) fn has_given_up(&self) -> bool {
        self.has_given_up
    }

    /// Writes records up to `ends`. Returns what became of them, and how many bytes those have that were written whole.
    pub(super) fn write(&mut self, batch: &[u8], ends: &[End], control: &dyn Control) -> (Written, u64) {
        let (bytes, error) = self.write_some(batch, control);
        let whole = Written::whole(ends, bytes, error);
        let good = whole.records.checked_sub(1).map_or(0, |last| ends[last].at);
        if good < bytes && self.is_regular {
            // Half a record would spoil the next one. Of a pipe it cannot be taken back.
            let _cannot_be_helped = self.cut((bytes - good) as u64);
        }
        (whole, good as u64)
    }

    /// Writes as much as can be written.
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
                // Somebody else has filled the pipe meanwhile.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && !self.is_regular => {}
                Err(error) => return (written, Some(error)),
            }
        }
        (written, None)
    }

    /// Waits until something can be written. `false`: the log is to end, and its reader has taken nothing for too long, or too
    /// little.
    fn has_room(&mut self, control: &dyn Control) -> bool {
        let (step, grace) = if self.has_given_up { (0, Duration::ZERO) } else { (STEP, GRACE) };
        let begin = Instant::now();
        loop {
            let over = control.is_over().then(|| self.over.get_or_insert_with(Instant::now).elapsed());
            if over.is_some_and(|it| it >= AFTER_THE_END) {
                break;
            }
            let mut waits = [PollFd::new(self.file.as_fd(), PollFlags::POLLOUT)];
            // An error is told when it is written to.
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

    /// Cuts so many bytes off, which were written last. Where somebody else has shortened the file or added to it since, they
    /// are not at its end.
    fn cut(&mut self, half: u64) -> io::Result<()> {
        let end = self.file.metadata()?.len();
        if self.file.stream_position()? != end {
            return Ok(());
        }
        let good = end.saturating_sub(half);
        self.file.set_len(good)?;
        // Standard output need not be open for adding (`> FILE`): it would go on behind a hole.
        self.file.seek(SeekFrom::Start(good)).map(drop)
    }
}

/// Opens a pipe once somebody reads it. Opened the usual way, it would wait for that, and hear no signal meanwhile.
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
    use crate::slowlog::destination::tests::ENDS;

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
