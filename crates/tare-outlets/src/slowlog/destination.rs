//! Where the log goes: a file that is rotated, standard output, or the system's log.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::Duration;

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
    /// That it does not go on, or goes on again.
    pub(super) news: Option<String>,
}

/// A place that is open.
pub(super) struct Sink {
    destination: Destination,
    open: Open,
    /// Records that are not written yet, and where each ends.
    batch: Vec<u8>,
    ends: Vec<usize>,
    /// Statements not written since this was said.
    missing: Option<u64>,
    is_gone: bool,
}

enum Open {
    File { file: File, size: u64, begun_us: Option<u64> },
    Output(io::Stdout),
    Syslog(Syslog),
}

impl Sink {
    pub(super) fn open(destination: &Destination) -> io::Result<Sink> {
        let open = match destination {
            Destination::File(path, _) => Open::file(path)?,
            Destination::Output => Open::Output(io::stdout()),
            Destination::Syslog => Open::Syslog(Syslog::connect(SYSLOG.into())?),
        };
        Ok(Sink {
            destination: destination.clone(),
            open,
            batch: Vec::new(),
            ends: Vec::new(),
            missing: None,
            is_gone: false,
        })
    }

    /// Adds a record to the batch.
    pub(super) fn put(&mut self, record: &[u8]) {
        self.batch.extend_from_slice(record);
        self.ends.push(self.batch.len());
    }

    pub(super) fn is_full(&self) -> bool {
        self.batch.len() >= BATCH
    }

    /// Writes the batch. What cannot be written is given up: whole records, so that what follows can be read.
    pub(super) fn flush(&mut self) -> Flushed {
        if self.ends.is_empty() {
            return Flushed::default();
        }
        let (written, error) = self.open.write(&self.batch, &self.ends);
        let unwritten = self.ends.len() as u64 - written;
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
        Flushed { written, unwritten, news }
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

    /// Begins a new file at this moment, and moves the old ones on.
    pub(super) fn rotate(&mut self, now_us: u64) -> io::Result<()> {
        let Destination::File(path, rotation) = &self.destination else { return Ok(()) };
        let old = |number: u32| PathBuf::from(format!("{}.{number}", path.display()));
        if rotation.keep == 0 {
            fs::remove_file(path)?;
        } else {
            for number in (1..rotation.keep).rev() {
                match fs::rename(old(number), old(number + 1)) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
            }
            fs::rename(path, old(1))?;
        }
        self.reopen()?;
        if let Open::File { begun_us, .. } = &mut self.open {
            *begun_us = Some(now_us);
        }
        Ok(())
    }

    /// Opens the file anew: it may have been moved away.
    pub(super) fn reopen(&mut self) -> io::Result<()> {
        if let Destination::File(path, _) = &self.destination {
            self.open = Open::file(path)?;
        }
        Ok(())
    }
}

impl Open {
    fn file(path: &Path) -> io::Result<Open> {
        let file = OpenOptions::new().append(true).create(true).open(path)?;
        // A pipe or a terminal has no size.
        let size = file.metadata().map_or(0, |metadata| if metadata.is_file() { metadata.len() } else { 0 });
        Ok(Open::File { file, size, begun_us: None })
    }

    /// Writes records up to `ends`; returns how many were written whole, and why not all.
    fn write(&mut self, batch: &[u8], ends: &[usize]) -> (u64, Option<io::Error>) {
        match self {
            Open::File { file, size, .. } => {
                let (bytes, error) = write_some(file, batch);
                let whole = ends.partition_point(|end| *end <= bytes);
                let good = whole.checked_sub(1).map_or(0, |last| ends[last]);
                *size += good as u64;
                if good < bytes {
                    // Half a record would spoil the next one. Where it can't be cut off, a pipe, it stays. Somebody else may
                    // have shortened the file, so its own length is what counts.
                    let half = (bytes - good) as u64;
                    let _cannot_be_helped =
                        file.metadata().and_then(|it| file.set_len(it.len().saturating_sub(half)));
                }
                (whole as u64, error)
            }
            Open::Output(output) => {
                let (bytes, error) = write_some(output, batch);
                let error = error.or_else(|| output.flush().err());
                (ends.partition_point(|end| *end <= bytes) as u64, error)
            }
            Open::Syslog(syslog) => syslog.write(batch, ends),
        }
    }
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

    /// Sends each record as a message; returns how many were sent, and why not all.
    fn write(&mut self, batch: &[u8], ends: &[usize]) -> (u64, Option<io::Error>) {
        let (mut sent, mut start) = (0, 0);
        let mut why = None;
        for end in ends {
            let record = String::from_utf8_lossy(&batch[start..*end]);
            start = *end;
            let message = format!("<{PRIORITY}>tare-slowlog[{}]: {}", std::process::id(), record.trim_end());
            match self.send(&message).or_else(|_| self.send(&message)) {
                Ok(()) => sent += 1,
                Err(error) => why = Some(error),
            }
        }
        (sent, why)
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
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Old files of a log, by their numbers.
    fn old_files(path: &Path) -> BTreeMap<u32, u64> {
        (1..100)
            .filter_map(|number| {
                let metadata = fs::metadata(format!("{}.{number}", path.display())).ok()?;
                Some((number, metadata.len()))
            })
            .collect()
    }

    fn file(rotation: Rotation) -> (tempfile::TempDir, PathBuf, Sink) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("slow.log");
        let sink = Sink::open(&Destination::File(path.clone(), rotation)).expect("a file");
        (folder, path, sink)
    }

    #[test]
    fn a_file_makes_way_by_size_and_only_so_many_are_kept() {
        let (_folder, path, mut sink) = file(Rotation { size: Some(100), time: None, keep: 2 });
        for _ in 0..50 {
            if sink.is_due(0) {
                sink.flush();
                sink.rotate(0).expect("rotated");
            }
            sink.put(b"a record of 20 bytes");
        }
        assert_eq!(sink.flush().unwritten, 0);
        assert_eq!(old_files(&path), BTreeMap::from([(1, 100), (2, 100)]));
        assert_eq!(fs::metadata(&path).expect("the log").len(), 100);
    }

    #[test]
    fn a_file_makes_way_by_time() {
        let (_folder, path, mut sink) =
            file(Rotation { size: None, time: Some(Duration::from_secs(60)), keep: 5 });
        for second in 0..180 {
            if sink.is_due(second * 1_000_000) {
                sink.flush();
                sink.rotate(second * 1_000_000).expect("rotated");
            }
            sink.put(b"x");
        }
        sink.flush();
        assert_eq!(old_files(&path), BTreeMap::from([(1, 60), (2, 60)]));
    }

    #[test]
    fn a_file_that_was_moved_away_is_begun_anew() {
        let (folder, path, mut sink) = file(Rotation::default());
        sink.put(b"one");
        sink.flush();
        fs::rename(&path, folder.path().join("moved")).expect("moved");
        sink.put(b"two");
        sink.flush();
        sink.reopen().expect("opened");
        sink.put(b"three");
        sink.flush();
        assert_eq!(fs::read_to_string(folder.path().join("moved")).expect("text"), "onetwo");
        assert_eq!(fs::read_to_string(path).expect("text"), "three");
    }

    #[test]
    fn a_full_disk_is_said_once_counted_and_got_over() {
        // A device that is always full, in the place of the file.
        let (_folder, path, mut sink) = file(Rotation::default());
        let full = OpenOptions::new().append(true).open("/dev/full").expect("the device");
        let Open::File { file, .. } = &mut sink.open else { panic!("a file") };
        let good = std::mem::replace(file, full);
        let mut news = Vec::new();
        for _ in 0..3 {
            (0..10).for_each(|_| sink.put(b"lost\n"));
            let flushed = sink.flush();
            assert_eq!((flushed.written, flushed.unwritten), (0, 10));
            news.extend(flushed.news);
        }
        assert!(matches!(&news[..], [line] if line.contains("No space left")), "{news:?}");
        let Open::File { file, .. } = &mut sink.open else { panic!("a file") };
        *file = good;
        sink.put(b"kept\n");
        let flushed = sink.flush();
        assert_eq!((flushed.written, flushed.unwritten), (1, 0));
        assert!(flushed.news.is_some_and(|line| line.contains("30 statements were left out")));
        assert_eq!(fs::read_to_string(path).expect("text"), "kept\n");
    }

    #[test]
    fn each_record_is_a_message_of_syslog_whoever_listens() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path().join("log");
        let listen = || {
            let listener = UnixDatagram::bind(&at).expect("a socket");
            listener.set_read_timeout(Some(Duration::from_secs(10))).expect("a limit");
            listener
        };
        let heard = |listener: &UnixDatagram| {
            let mut message = [0; 100];
            let length = listener.recv(&mut message).expect("a message");
            String::from_utf8_lossy(&message[..length]).into_owned()
        };
        let mut listener = listen();
        let mut sink = Sink::open(&Destination::File(folder.path().join("unused"), Rotation::default()))
            .expect("a file");
        sink.open = Open::Syslog(Syslog::connect(at.clone()).expect("somebody listens"));
        let mut log = |text: &[u8]| {
            sink.put(text);
            sink.put(b"{\"n\":2}\n");
            let flushed = sink.flush();
            (flushed.written, flushed.unwritten)
        };
        let begin = format!("<30>tare-slowlog[{}]: ", std::process::id());
        for _restart in 0..2 {
            assert_eq!(log(b"{\"n\":1}\n"), (2, 0));
            assert_eq!(heard(&listener), format!("{begin}{{\"n\":1}}"));
            assert_eq!(heard(&listener), format!("{begin}{{\"n\":2}}"));
            drop(listener);
            assert_eq!(log(b"lost\n"), (0, 2), "nobody listens");
            fs::remove_file(&at).expect("removed");
            listener = listen();
        }
    }

    /// Names the file of the child of the test below.
    const CHILD: &str = "TARE_TEST_FILLS_UP";

    #[test]
    fn a_disk_that_fills_up_keeps_whole_records_and_goes_on_with_one() {
        if let Some(path) = std::env::var_os(CHILD) {
            return fill_up(Path::new(&path));
        }
        let folder = tempfile::tempdir().expect("a folder");
        // A file may have 8 KiB: what is beyond fails in the middle of a record.
        let mut shell = std::process::Command::new("bash");
        shell.args(["-c", "trap '' XFSZ; ulimit -f 8; exec \"$0\" --exact \"$1\""]);
        shell.arg(std::env::current_exe().expect("this program"));
        shell.arg(
            "slowlog::destination::tests::a_disk_that_fills_up_keeps_whole_records_and_goes_on_with_one",
        );
        let output = shell.env(CHILD, folder.path().join("slow.log")).output().expect("bash");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
    }

    fn fill_up(path: &Path) {
        let record = [&b"x".repeat(99)[..], b"\n"].concat();
        let lines = || fs::read_to_string(path).expect("text").lines().map(str::len).collect::<Vec<_>>();
        let mut sink = Sink::open(&Destination::File(path.to_owned(), Rotation::default())).expect("a file");
        for _ in 0..2 {
            (0..100).for_each(|_| sink.put(&record));
            let flushed = sink.flush();
            assert_eq!((flushed.written, flushed.unwritten), (81, 19), "{:?}", flushed.news);
            assert_eq!(lines(), [99; 81]);
            // Somebody makes room.
            fs::write(path, "").expect("room");
        }
    }
}
