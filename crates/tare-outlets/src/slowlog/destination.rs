//! Where the log goes: a file that is rotated, standard output, or the system's log.

use std::borrow::Cow;
use std::fmt;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Bytes of records that are written at once.
const BATCH: usize = 64 << 10;
/// Who may read a new file: its owner and its group. Statements are nobody else's.
const MODE: u32 = 0o640;
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

/// When a file makes way for a new one: it becomes `FILE.1`, what was that becomes `FILE.2`, and so on.
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
pub(super) struct Sink {
    destination: Destination,
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
    /// A file, its length, and when it was begun. Both begin anew where it could not make way.
    File {
        file: File,
        size: u64,
        begun_us: Option<u64>,
    },
    Output(io::Stdout),
    Syslog(Syslog),
}

impl Sink {
    pub(super) fn open(destination: &Destination) -> io::Result<Sink> {
        let open = match destination {
            Destination::File(path, _) => Open::file(path, None)?,
            Destination::Output => Open::Output(io::stdout()),
            Destination::Syslog => Open::Syslog(Syslog::connect(SYSLOG.into())?),
        };
        let is_shown = matches!(&open, Open::Output(output) if output.is_terminal());
        Ok(Sink {
            destination: destination.clone(),
            open,
            is_shown,
            batch: Vec::new(),
            ends: Vec::new(),
            missing: None,
            is_gone: false,
        })
    }

    /// Adds a record to the batch, which says that so many statements are missing before it.
    pub(super) fn put(&mut self, record: &str, lost: u64) {
        let record = if self.is_shown { visible(record) } else { record.into() };
        self.batch.extend_from_slice(record.as_bytes());
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
        let Written { records, untold, error } = self.open.write(&self.batch, &self.ends);
        let (written, unwritten) = (records as u64, (self.ends.len() - records) as u64);
        let broken = error.as_ref().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
        self.is_gone = broken && matches!(self.open, Open::Output(_));
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

    /// Whether nobody reads standard output any more.
    pub(super) fn is_gone(&self) -> bool {
        self.is_gone
    }

    /// Whether the file is to make way before a record of this moment is added.
    pub(super) fn is_due(&mut self, now_us: u64) -> bool {
        let (Destination::File(_, rotation), Open::File { size, begun_us, .. }) =
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
        if let Destination::File(path, _) = &self.destination {
            self.open = Open::file(path, self.open.mode())?;
        }
        Ok(())
    }
}

impl Open {
    /// Opens a file, whoever may read it. One that is not there is made: with this mode, else with ours as far as the umask
    /// allows it.
    fn file(path: &Path, mode: Option<u32>) -> io::Result<Open> {
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
        // A pipe or a terminal has no size.
        let size = file.metadata().map_or(0, |metadata| if metadata.is_file() { metadata.len() } else { 0 });
        Ok(Open::File { file, size, begun_us: None })
    }

    /// Who may read the file.
    fn mode(&self) -> Option<u32> {
        let Open::File { file, .. } = self else { return None };
        file.metadata().ok().map(|it| it.mode() & 0o777)
    }

    /// Whether the file is still the one of this name.
    fn is_at(&self, path: &Path) -> bool {
        let Open::File { file, .. } = self else { return false };
        let (Ok(own), Ok(there)) = (file.metadata(), fs::metadata(path)) else { return false };
        (own.dev(), own.ino()) == (there.dev(), there.ino())
    }

    /// Writes records up to `ends`.
    fn write(&mut self, batch: &[u8], ends: &[End]) -> Written {
        match self {
            Open::File { file, size, .. } => {
                let (bytes, error) = write_some(file, batch);
                let whole = Written::whole(ends, bytes, error);
                let good = whole.records.checked_sub(1).map_or(0, |last| ends[last].at);
                *size += good as u64;
                if good < bytes {
                    // Half a record would spoil the next one. Where it can't be cut off, a pipe, it stays. Somebody else may
                    // have shortened the file, so its own length is what counts.
                    let half = (bytes - good) as u64;
                    let _cannot_be_helped =
                        file.metadata().and_then(|it| file.set_len(it.len().saturating_sub(half)));
                }
                whole
            }
            Open::Output(output) => {
                let (bytes, error) = write_some(output, batch);
                let error = error.or_else(|| output.flush().err());
                Written::whole(ends, bytes, error)
            }
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

/// Writes as much as can be written.
fn write_some(to: &mut impl Write, bytes: &[u8]) -> (usize, Option<io::Error>) {
    let mut written = 0;
    while written < bytes.len() {
        match to.write(&bytes[written..]) {
            Ok(0) => return (written, Some(io::ErrorKind::WriteZero.into())),
            Ok(some) => written += some,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (written, Some(error)),
        }
    }
    (written, None)
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
