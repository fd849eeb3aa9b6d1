//! Where the log goes: a file that is rotated, standard output, or the system's log.

mod file;

use std::borrow::Cow;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Control;
use file::LogFile;

/// Bytes of records that are written at once.
const BATCH: usize = 64 << 10;
/// Where the system's log listens.
const SYSLOG: &str = "/dev/log";
/// Facility daemon, severity informational.
const PRIORITY: u32 = 3 << 3 | 6;

/// A place to write to.
#[derive(Clone, Debug)]
pub enum Destination {
    /// A file, to whose end is added.
    File(PathBuf, Rotation),
    /// Standard output.
    Output,
    /// The system's log, a message for each statement.
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
    /// Whether it can make way for a new one if it is told to: a regular file can, or one that is not there yet. A device or
    /// a pipe would be moved away from all others that use it, a link would leave what it leads to behind.
    pub(super) fn can_make_way(&self) -> bool {
        let Destination::File(path, rotation) = self else { return true };
        let is_told = rotation.size.is_some() || rotation.time.is_some();
        let Ok(there) = fs::symlink_metadata(path) else { return true };
        !is_told || there.is_file()
    }
}

/// When a file makes way for a new one: it becomes `FILE.1`, what was that becomes `FILE.2`, and so on. Only a regular file
/// does.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rotation {
    /// Once it has as many bytes.
    pub size: Option<u64>,
    /// Once it has been written to for so long.
    pub time: Option<Duration>,
    /// How many old ones are kept.
    pub keep: u32,
}

/// What became of a batch.
#[derive(Debug, Default)]
pub(super) struct Flushed {
    pub(super) written: u64,
    pub(super) unwritten: u64,
    /// Statements that those not written would have said are missing.
    pub(super) untold: u64,
    /// That it does not go on, or goes on again.
    pub(super) news: Option<String>,
}

/// A place that is open.
pub(super) struct Sink<'a> {
    destination: Destination,
    /// Asked while a reader is waited for.
    control: &'a dyn Control,
    open: Open,
    /// Whether what is written is shown by a terminal, which does as control characters say.
    is_shown: bool,
    /// Records that are not written yet.
    batch: Vec<u8>,
    ends: Vec<End>,
    /// Statements not written since this was said.
    missing: Option<u64>,
    is_gone: bool,
}

/// Where a record ends in the batch, and how many statements it says are missing before it.
#[derive(Clone, Copy)]
struct End {
    at: usize,
    lost: u64,
}

/// What became of records: how many were written whole, what the others would have said is missing, and why not all.
struct Written {
    records: usize,
    untold: u64,
    error: Option<io::Error>,
}

enum Open {
    /// A file, its length, and when it was begun. Both begin anew where it could not make way. And whether it may.
    File {
        file: LogFile,
        size: u64,
        begun_us: Option<u64>,
        may_move: bool,
    },
    Output(LogFile),
    Syslog(Syslog),
}

impl<'a> Sink<'a> {
    /// Opens a place. `None`: it is a pipe, and the log is to end before somebody reads it.
    pub(super) fn open(destination: &Destination, control: &'a dyn Control) -> io::Result<Option<Sink<'a>>> {
        let open = match destination {
            Destination::File(path, _) => Open::file(path, None, control)?,
            Destination::Output => Some(Open::Output(LogFile::output()?)),
            Destination::Syslog => Some(Open::Syslog(Syslog::connect(SYSLOG.into())?)),
        };
        let Some(open) = open else { return Ok(None) };
        let is_shown = matches!(&open, Open::Output(output) if output.is_terminal());
        Ok(Some(Sink {
            destination: destination.clone(),
            control,
            open,
            is_shown,
            batch: Vec::new(),
            ends: Vec::new(),
            missing: None,
            is_gone: false,
        }))
    }

    /// Adds a record to the batch, which says that so many statements are missing before it.
    pub(super) fn put(&mut self, record: impl AsRef<[u8]>, lost: u64) {
        let record = record.as_ref();
        match self.is_shown {
            true => self.batch.extend_from_slice(visible(&String::from_utf8_lossy(record)).as_bytes()),
            false => self.batch.extend_from_slice(record),
        }
        self.ends.push(End { at: self.batch.len(), lost });
    }

    pub(super) fn is_full(&self) -> bool {
        self.batch.len() >= BATCH
    }

    /// Writes the batch. What cannot be written is given up: whole records, so that what follows can be read.
    pub(super) fn flush(&mut self) -> Flushed {
        if self.ends.is_empty() {
            return Flushed::default();
        }
        let Written { records, untold, error } = self.open.write(&self.batch, &self.ends, self.control);
        let (written, unwritten) = (records as u64, (self.ends.len() - records) as u64);
        let is_broken = error.as_ref().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
        self.is_gone = match &self.open {
            // A pipe with a name may find another reader.
            Open::File { file, .. } => file.has_given_up(),
            Open::Output(output) => is_broken || output.has_given_up(),
            Open::Syslog(_) => false,
        };
        self.batch.clear();
        self.ends.clear();
        let news = match (error, self.missing) {
            (Some(error), None) => {
                self.missing = Some(0);
                Some(format!(
                    "{}: {error}; statements are left out until it can be written again",
                    self.destination
                ))
            }
            (None, Some(missing)) => {
                self.missing = None;
                Some(format!("{}: written again; {missing} statements were left out", self.destination))
            }
            _ => None,
        };
        if let Some(missing) = &mut self.missing {
            *missing += unwritten;
        }
        Flushed { written, unwritten, untold, news }
    }

    /// Whether nobody reads it any more.
    pub(super) fn is_gone(&self) -> bool {
        self.is_gone
    }

    /// Whether the file is to make way before a record of this moment is added.
    pub(super) fn is_due(&mut self, now_us: u64) -> bool {
        let (Destination::File(_, rotation), Open::File { size, begun_us, may_move: true, .. }) =
            (&self.destination, &mut self.open)
        else {
            return false;
        };
        let begun_us = *begun_us.get_or_insert(now_us);
        let length = *size + self.batch.len() as u64;
        let is_long = rotation.size.is_some_and(|most| length >= most);
        let is_old =
            rotation.time.is_some_and(|most| u128::from(now_us.saturating_sub(begun_us)) >= most.as_micros());
        length > 0 && (is_long || is_old)
    }

    /// Begins a new file at this moment, and moves the old ones on. Where that fails the log goes on in the file it has, which
    /// is due again when it has grown as much again, or is as old again.
    pub(super) fn rotate(&mut self, now_us: u64) -> io::Result<()> {
        let moved = self.make_way().and_then(|()| self.reopen());
        if let Open::File { size, begun_us, .. } = &mut self.open {
            *begun_us = Some(now_us);
            if moved.is_err() {
                *size = 0;
            }
        }
        moved
    }

    /// Moves the file away, and the old ones on.
    fn make_way(&self) -> io::Result<()> {
        let Destination::File(path, rotation) = &self.destination else { return Ok(()) };
        if !self.open.is_at(path) {
            // Somebody has moved it away, or removed it: the old ones stay where they are.
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

    /// Opens the file anew: it may have been moved away. One that is not there is made as readable as the one before.
    pub(super) fn reopen(&mut self) -> io::Result<()> {
        if let Destination::File(path, _) = &self.destination
            && let Some(open) = Open::file(path, self.open.mode(), self.control)?
        {
            self.open = open;
        }
        Ok(())
    }
}

impl Open {
    /// Opens a file. `None`: it is a pipe, and the log is to end before somebody reads it.
    fn file(path: &Path, mode: Option<u32>, control: &dyn Control) -> io::Result<Option<Open>> {
        let Some(file) = LogFile::open(path, mode, control)? else { return Ok(None) };
        let may_move = fs::symlink_metadata(path).is_ok_and(|it| it.is_file());
        Ok(Some(Open::File { size: file.size(), file, begun_us: None, may_move }))
    }

    /// Who may read the file.
    fn mode(&self) -> Option<u32> {
        let Open::File { file, .. } = self else { return None };
        file.mode()
    }

    /// Whether the file is still the one of this name.
    fn is_at(&self, path: &Path) -> bool {
        matches!(self, Open::File { file, .. } if file.is_at(path))
    }

    /// Writes records up to `ends`.
    fn write(&mut self, batch: &[u8], ends: &[End], control: &dyn Control) -> Written {
        match self {
            Open::File { file, size, .. } => {
                let (written, good) = file.write(batch, ends, control);
                *size += good;
                written
            }
            Open::Output(output) => output.write(batch, ends, control).0,
            Open::Syslog(syslog) => syslog.write(batch, ends),
        }
    }
}

impl Written {
    /// Those that end within the first bytes.
    fn whole(ends: &[End], bytes: usize, error: Option<io::Error>) -> Written {
        let (whole, others) = ends.split_at(ends.partition_point(|end| end.at <= bytes));
        Written { records: whole.len(), untold: others.iter().map(|end| end.lost).sum(), error }
    }
}

/// A text without what a terminal would take for an order: control characters other than the ends of lines and tabs, of which
/// SQL may hold any.
fn visible(text: &str) -> Cow<'_, str> {
    let is_order = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    if text.contains(is_order) { text.replace(is_order, "\u{fffd}").into() } else { text.into() }
}

/// The system's log. Whoever listens may be started anew at any time.
struct Syslog {
    at: PathBuf,
    /// `None`: the last message could not be sent.
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
    fn write(&mut self, batch: &[u8], ends: &[End]) -> Written {
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
