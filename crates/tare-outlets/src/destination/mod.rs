//! The destination of records, such as a log's: a file with rotation, standard output, or the system's log.

mod file;

use std::borrow::Cow;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::Duration;

use file::LogFile;

/// Bytes of records that are written together.
const BATCH: usize = 64 << 10;
/// Socket of the system's log.
const SYSLOG: &str = "/dev/log";
/// Facility daemon, severity informational.
const PRIORITY: u32 = 3 << 3 | 6;

/// Length of a single sleep while nothing is to be done, so that signals take effect soon.
pub(crate) const NAP: Duration = Duration::from_millis(50);
/// Longest time after the end for what ended before it: a reader that is slower than the server would never
/// finish.
pub(crate) const AFTER_THE_END: Duration = Duration::from_secs(30);

/// The caller's control of what runs until it is ended.
pub trait Control {
    /// Returns whether it is to end.
    fn is_over(&self) -> bool;
    /// Returns whether the file is to be reopened, once for each request.
    fn reopens(&self) -> bool;
    /// Shows a line to the user.
    fn tell(&self, line: &str);
}

/// A place to write to.
#[derive(Clone, Debug)]
pub enum Destination {
    /// A file to append to.
    File(PathBuf, Rotation),
    /// Standard output.
    Output,
    /// The system's log, with a message for each record.
    Syslog,
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Destination::File(path, _) => write!(f, "{}", path.display()),
            Destination::Output => f.write_str("standard output"),
            Destination::Syslog => f.write_str(SYSLOG),
        }
    }
}

impl Destination {
    /// Returns whether it can be rotated, if rotation is set: a regular file can, or one that does not exist
    /// yet. A device or a pipe would be taken from its other users; a link would be moved without its target.
    pub(crate) fn can_make_way(&self) -> bool {
        let Destination::File(path, rotation) = self else { return true };
        let is_told = rotation.size.is_some() || rotation.time.is_some();
        let Ok(there) = fs::symlink_metadata(path) else { return true };
        !is_told || there.is_file()
    }
}

/// When a file is rotated: it becomes `FILE.1`, the old `FILE.1` becomes `FILE.2`, and so on. Only regular
/// files are rotated.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rotation {
    /// Size in bytes.
    pub size: Option<u64>,
    /// Age since it was begun.
    pub time: Option<Duration>,
    /// Number of old files to keep.
    pub keep: u32,
}

/// The result of writing a batch.
#[derive(Debug, Default)]
pub(crate) struct Flushed {
    pub(crate) written: u64,
    pub(crate) unwritten: u64,
    /// Number of lost records that the unwritten ones would have reported.
    pub(crate) untold: u64,
    /// Message that writing fails, or works again.
    pub(crate) news: Option<String>,
}

/// An open destination.
pub(crate) struct DestinationWriter<'a> {
    destination: Destination,
    /// What the records are, for messages: `statements`.
    records: &'static str,
    /// Queried while waiting for a reader.
    control: &'a dyn Control,
    open: OpenTarget,
    /// Whether the output is a terminal, which would obey control characters.
    is_shown: bool,
    /// Records that are not written yet.
    batch: Vec<u8>,
    ends: Vec<RecordEnd>,
    /// Number of unwritten records since the message about them.
    missing: Option<u64>,
    is_gone: bool,
}

/// The end of a record in the batch, and the number of lost statements it reports.
#[derive(Clone, Copy)]
struct RecordEnd {
    at: usize,
    lost: u64,
}

/// The result of writing: the number of complete records, the losses that the others would have reported, and
/// the error.
struct Written {
    records: usize,
    untold: u64,
    error: Option<io::Error>,
}

enum OpenTarget {
    /// A file, its length, its start, and whether it may be rotated. Length and start are reset where
    /// rotation failed.
    File {
        file: LogFile,
        size: u64,
        begun_us: Option<u64>,
        may_move: bool,
    },
    Output(LogFile),
    Syslog(Syslog),
}

impl<'a> DestinationWriter<'a> {
    /// Opens a destination of `records`, as messages call them. `None` if it is a pipe, and the end comes
    /// before somebody reads it.
    pub(crate) fn open(
        destination: &Destination,
        records: &'static str,
        control: &'a dyn Control,
    ) -> io::Result<Option<DestinationWriter<'a>>> {
        let open = match destination {
            Destination::File(path, _) => OpenTarget::file(path, None, control)?,
            Destination::Output => Some(OpenTarget::Output(LogFile::output()?)),
            Destination::Syslog => Some(OpenTarget::Syslog(Syslog::connect(SYSLOG.into())?)),
        };
        let Some(open) = open else { return Ok(None) };
        let is_shown = matches!(&open, OpenTarget::Output(output) if output.is_terminal());
        Ok(Some(DestinationWriter {
            destination: destination.clone(),
            records,
            control,
            open,
            is_shown,
            batch: Vec::new(),
            ends: Vec::new(),
            missing: None,
            is_gone: false,
        }))
    }

    /// Adds a record to the batch, which reports that so many statements are missing before it.
    pub(crate) fn put(&mut self, record: impl AsRef<[u8]>, lost: u64) {
        let record = record.as_ref();
        match self.is_shown {
            true => self.batch.extend_from_slice(visible(&String::from_utf8_lossy(record)).as_bytes()),
            false => self.batch.extend_from_slice(record),
        }
        self.ends.push(RecordEnd { at: self.batch.len(), lost });
    }

    pub(crate) fn is_full(&self) -> bool {
        self.batch.len() >= BATCH
    }

    /// Writes the batch. What cannot be written is dropped in whole records, so that the rest stays readable.
    pub(crate) fn flush(&mut self) -> Flushed {
        if self.ends.is_empty() {
            return Flushed::default();
        }
        let Written { records, untold, error } = self.open.write(&self.batch, &self.ends, self.control);
        let (written, unwritten) = (records as u64, (self.ends.len() - records) as u64);
        let is_broken = error.as_ref().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
        self.is_gone = match &self.open {
            // A named pipe may find another reader.
            OpenTarget::File { file, .. } => file.has_given_up(),
            OpenTarget::Output(output) => is_broken || output.has_given_up(),
            OpenTarget::Syslog(_) => false,
        };
        self.batch.clear();
        self.ends.clear();
        let news = match (error, self.missing) {
            (Some(error), None) => {
                self.missing = Some(0);
                Some(format!(
                    "{}: {error}; {} are left out until it can be written again",
                    self.destination, self.records
                ))
            }
            (None, Some(missing)) => {
                self.missing = None;
                Some(format!("{}: written again; {missing} {} were left out", self.destination, self.records))
            }
            _ => None,
        };
        if let Some(missing) = &mut self.missing {
            *missing += unwritten;
        }
        Flushed { written, unwritten, untold, news }
    }

    /// Returns whether nobody reads it any more.
    pub(crate) fn is_gone(&self) -> bool {
        self.is_gone
    }

    /// Returns whether the file is to be rotated before a record of this time is added.
    pub(crate) fn is_due(&mut self, now_us: u64) -> bool {
        let (Destination::File(_, rotation), OpenTarget::File { size, begun_us, may_move: true, .. }) =
            (&self.destination, &mut self.open)
        else {
            return false;
        };
        let begun_us = begun_us.get_or_insert(now_us);
        // A clock that is set back would keep the file for as long again.
        *begun_us = now_us.min(*begun_us);
        let begun_us = *begun_us;
        let length = *size + self.batch.len() as u64;
        let is_long = rotation.size.is_some_and(|most| length >= most);
        let is_old =
            rotation.time.is_some_and(|most| u128::from(now_us.saturating_sub(begun_us)) >= most.as_micros());
        length > 0 && (is_long || is_old)
    }

    /// Starts a new file and renames the old ones. If that fails, logging continues in the present file,
    /// until it has grown by the same size or aged by the same time again.
    pub(crate) fn rotate(&mut self, now_us: u64) -> io::Result<()> {
        let moved = self.make_way().and_then(|()| self.reopen());
        if let OpenTarget::File { size, begun_us, .. } = &mut self.open {
            *begun_us = Some(now_us);
            if moved.is_err() {
                *size = 0;
            }
        }
        moved
    }

    /// Renames the file and the old ones.
    fn make_way(&self) -> io::Result<()> {
        let Destination::File(path, rotation) = &self.destination else { return Ok(()) };
        if !self.open.is_at(path) {
            // Somebody has renamed or removed it, so the old ones stay in place.
            return Ok(());
        }
        if rotation.keep == 0 {
            return fs::remove_file(path);
        }
        let old = |number: u32| PathBuf::from(format!("{}.{number}", path.display()));
        for number in (1..rotation.keep).rev() {
            match fs::rename(old(number), old(number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        fs::rename(path, old(1))
    }

    /// Reopens the file, which may have been renamed. A new one gets the mode of the previous one.
    pub(crate) fn reopen(&mut self) -> io::Result<()> {
        if let Destination::File(path, _) = &self.destination
            && let Some(open) = OpenTarget::file(path, self.open.mode(), self.control)?
        {
            self.open = open;
        }
        Ok(())
    }
}

impl OpenTarget {
    /// Opens a file. `None` if it is a pipe, and the log is to end before somebody reads it.
    fn file(path: &Path, mode: Option<u32>, control: &dyn Control) -> io::Result<Option<OpenTarget>> {
        let Some(file) = LogFile::open(path, mode, control)? else { return Ok(None) };
        let may_move = fs::symlink_metadata(path).is_ok_and(|it| it.is_file());
        Ok(Some(OpenTarget::File { size: file.size(), file, begun_us: None, may_move }))
    }

    /// Returns the mode of the file.
    fn mode(&self) -> Option<u32> {
        let OpenTarget::File { file, .. } = self else { return None };
        file.mode()
    }

    /// Returns whether the path still refers to the open file.
    fn is_at(&self, path: &Path) -> bool {
        matches!(self, OpenTarget::File { file, .. } if file.is_at(path))
    }

    /// Writes records up to `ends`.
    fn write(&mut self, batch: &[u8], ends: &[RecordEnd], control: &dyn Control) -> Written {
        match self {
            OpenTarget::File { file, size, .. } => {
                let (written, good) = file.write(batch, ends, control);
                *size += good;
                written
            }
            OpenTarget::Output(output) => output.write(batch, ends, control).0,
            OpenTarget::Syslog(syslog) => syslog.write(batch, ends),
        }
    }
}

impl Written {
    /// Returns the result if the first `bytes` were written.
    fn whole(ends: &[RecordEnd], bytes: usize, error: Option<io::Error>) -> Written {
        let (whole, others) = ends.split_at(ends.partition_point(|end| end.at <= bytes));
        Written { records: whole.len(), untold: others.iter().map(|end| end.lost).sum(), error }
    }
}

/// Replaces what a terminal would obey: control characters other than line ends and tabs, which SQL may
/// contain.
fn visible(text: &str) -> Cow<'_, str> {
    let is_order = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    if text.contains(is_order) { text.replace(is_order, "\u{fffd}").into() } else { text.into() }
}

/// The system's log, whose daemon may be restarted at any time.
struct Syslog {
    at: PathBuf,
    /// `None` if the last message could not be sent.
    socket: Option<UnixDatagram>,
}

impl Syslog {
    fn connect(at: PathBuf) -> io::Result<Syslog> {
        let mut syslog = Syslog { at, socket: None };
        syslog.socket = Some(syslog.opened()?);
        Ok(syslog)
    }

    fn opened(&self) -> io::Result<UnixDatagram> {
        let socket = UnixDatagram::unbound()?;
        socket.connect(&self.at)?;
        Ok(socket)
    }

    /// Sends each record as a message.
    fn write(&mut self, batch: &[u8], ends: &[RecordEnd]) -> Written {
        let mut start = 0;
        let mut written = Written { records: 0, untold: 0, error: None };
        for end in ends {
            let record = String::from_utf8_lossy(&batch[start..end.at]);
            start = end.at;
            let message = format!("<{PRIORITY}>tare-slowlog[{}]: {}", std::process::id(), record.trim_end());
            match self.send(&message).or_else(|_| self.send(&message)) {
                Ok(()) => written.records += 1,
                Err(error) => {
                    written.untold += end.lost;
                    written.error = Some(error);
                }
            }
        }
        written
    }

    fn send(&mut self, message: &str) -> io::Result<()> {
        let socket = match self.socket.take() {
            Some(socket) => socket,
            None => self.opened()?,
        };
        socket.send(message.as_bytes())?;
        self.socket = Some(socket);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
