//! The slow log: all statements that a server ends, or a choice of them, as lines of text.
//!
//! One thread requests new statements from the endpoint, writes them, and repeats. So a slow disk delays
//! nothing else: the server counts what it overwrites in its memory meanwhile, and the log reports it.

mod answer;
mod charset;
mod choice;
mod form;
mod statement;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

pub use choice::{ParseShare, Share, StatementFilter};
pub use form::{SlowLogFormat, Text};

use crate::destination::{AFTER_THE_END, DestinationWriter, NAP};
pub use crate::destination::{Control, Destination, Rotation};
use crate::{Address, Error, Row, Source};
use answer::{NewStatements, STREAM, StatementRequests};
use choice::Chooser;
use form::StatementFormatter;

/// How often to retry a server that does not answer.
const RETRY: Duration = Duration::from_millis(250);
/// The table of the instruments' levels, which a tare may be older than.
const LEVELS: &str = "tare_levels";
/// Shortest interval between messages about losses.
const COMPLAIN: Duration = Duration::from_secs(10);

/// What is logged, how, and where to.
#[derive(Clone, Debug)]
pub struct SlowLogOptions {
    /// Path of the endpoint's socket.
    pub socket: PathBuf,
    /// The choice of statements.
    pub choice: StatementFilter,
    /// The format.
    pub form: SlowLogFormat,
    /// The part of their texts.
    pub text: Text,
    /// The destination.
    pub destination: Destination,
    /// Pause before the next request, once all has been read.
    pub interval: Duration,
}

/// Counts of statements since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlowLogTotals {
    /// Statements written.
    pub written: u64,
    /// Statements not chosen.
    pub left_out: u64,
    /// Statements overwritten in the server's memory before they could be read.
    pub lost: u64,
    /// Statements read, but not written for lack of room or of a reader.
    pub unwritten: u64,
}

/// The reason why the log cannot continue.
#[derive(Debug, thiserror::Error)]
pub enum SlowLogError {
    /// The server cannot be queried.
    #[error(transparent)]
    Source(#[from] Error),
    /// The server's tare is older than streams.
    #[error("{0}: this server's tare has no table {STREAM}: restart it with this version's provider")]
    NoStream(String),
    /// The destination with rotation is a device, a pipe or a link.
    #[error(
        "{0}: no regular file, so it is not rotated: leave --rotate-size and --rotate-every out, or name a regular file"
    )]
    NoRotation(String),
    /// The destination cannot be opened.
    #[error("{place}: {error}")]
    Destination {
        /// The destination.
        place: String,
        /// The system's error, which the text has already.
        error: io::Error,
    },
}

/// Logs until `control` ends it; waits for a server that does not answer, and for the reader of a pipe.
///
/// # Errors
/// When the first connection fails, the server refuses, or the destination cannot be opened or rotated.
pub fn run(options: &SlowLogOptions, control: &dyn Control) -> Result<SlowLogTotals, SlowLogError> {
    let Some(mut log) = Log::new(options, control)? else { return Ok(SlowLogTotals::default()) };
    let mut source = log.connect()?;
    log.warn_of_consumers(&mut source)?;
    log.warn_of_levels(&mut source)?;
    let way = if log.reader.reads_blocks() { "" } else { ", row by row" };
    control.tell(&format!("reads what ends from now on at {}{way}", options.socket.display()));
    loop {
        match log.follow(&mut source) {
            Ok(()) => break,
            Err(SlowLogError::Source(error)) if error.is_passing() => {
                control.tell(&format!("{error}; waiting for the server"));
                let Some(again) = log.wait_for_server()? else { break };
                source = again;
                control.tell(&format!("{} answers again", options.socket.display()));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(log.totals)
}

struct Log<'a> {
    options: &'a SlowLogOptions,
    control: &'a dyn Control,
    sink: DestinationWriter<'a>,
    chooser: Chooser,
    writer: StatementFormatter,
    reader: StatementRequests,
    totals: SlowLogTotals,
    /// Process and position of the server at its last answer.
    last: Option<(u64, u64)>,
    /// Time of the last message about losses, and their number.
    said: Option<(Instant, u64)>,
}

impl<'a> Log<'a> {
    /// Opens the destination. `None` if the log ends before somebody reads it.
    fn new(options: &'a SlowLogOptions, control: &'a dyn Control) -> Result<Option<Log<'a>>, SlowLogError> {
        let place = options.destination.to_string();
        if !options.destination.can_make_way() {
            return Err(SlowLogError::NoRotation(place));
        }
        let sink = DestinationWriter::open(&options.destination, "statements", control)
            .map_err(|error| SlowLogError::Destination { place, error })?;
        let Some(sink) = sink else { return Ok(None) };
        Ok(Some(Log {
            options,
            control,
            sink,
            chooser: Chooser::new(&options.choice),
            writer: StatementFormatter::new(options.form, options.text, options.choice.share),
            reader: StatementRequests::new(options.form, options.text, options.choice.share),
            totals: SlowLogTotals::default(),
            last: None,
            said: None,
        }))
    }

    /// Connects and starts at the server's current position. Statements that the same server recorded since
    /// its last answer are lost.
    fn connect(&mut self) -> Result<Source, SlowLogError> {
        let mut source = Source::open(Address::Socket(self.options.socket.clone()))?;
        let Some(position) = self.reader.begin(&mut source, &self.chooser.filter())? else {
            return Err(SlowLogError::NoStream(source.address().to_string()));
        };
        let pid = source.status("pid")?.and_then(|pid| pid.parse().ok()).unwrap_or(0);
        if let Some((same, before)) = self.last
            && same == pid
        {
            self.lose(position.saturating_sub(before));
        }
        self.last = Some((pid, position));
        Ok(source)
    }

    fn wait_for_server(&mut self) -> Result<Option<Source>, SlowLogError> {
        while !self.control.is_over() {
            match self.connect() {
                Ok(source) => return Ok(Some(source)),
                Err(SlowLogError::Source(error)) if error.is_passing() => std::thread::sleep(RETRY),
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Reads and writes until the end.
    fn follow(&mut self, source: &mut Source) -> Result<(), SlowLogError> {
        let filter = self.chooser.filter();
        let mut over: Option<Instant> = None;
        loop {
            // Checked before reading, so that the last answer has all that ended before.
            let is_over = self.control.is_over();
            if self.control.reopens() {
                self.reopen();
            }
            let begin = Instant::now();
            let has_more = self.read(source, &filter)?;
            if is_over && !has_more || self.sink.is_gone() {
                return Ok(());
            }
            if is_over && over.get_or_insert(begin).elapsed() >= AFTER_THE_END {
                self.control.tell("what ended last is not logged: there is more than can be written in time");
                return Ok(());
            }
            while !has_more && !is_over && begin.elapsed() < self.options.interval && !self.control.is_over()
            {
                std::thread::sleep(NAP.min(self.options.interval.saturating_sub(begin.elapsed())));
            }
        }
    }

    /// Reads one answer. Returns whether there is more.
    fn read(&mut self, source: &mut Source, filter: &str) -> Result<bool, SlowLogError> {
        let answer = self.reader.ask(source, filter)?;
        let end = answer.end;
        self.lose(end.lost);
        self.last = self.last.map(|(pid, _)| (pid, end.position));
        self.totals.left_out += end.events.saturating_sub(self.write(&answer));
        Ok(end.has_more)
    }

    /// Writes the chosen statements of an answer, in the order of their ends; returns their number.
    fn write(&mut self, answer: &NewStatements) -> u64 {
        let (entries, ended) = self.reader.entries(answer);
        let mut order: Vec<(u64, usize)> = ended.into_iter().zip(0..).collect();
        // Statements of one thread are in order already, and stay so.
        order.sort_unstable();
        let mut chosen = 0;
        for (ended, at) in order {
            let entry = &entries[at];
            if !self.chooser.chooses(|| self.reader.digest(entry)) {
                continue;
            }
            chosen += 1;
            if self.sink.is_due(ended) {
                self.flush();
                self.rotate(ended);
            }
            let record = self.writer.record(&self.reader.statement(entry));
            self.sink.put(record.text, record.lost);
            if self.sink.is_full() {
                self.flush();
            }
        }
        self.flush();
        chosen
    }

    fn flush(&mut self) {
        let flushed = self.sink.flush();
        self.totals.written += flushed.written;
        self.totals.unwritten += flushed.unwritten;
        if flushed.unwritten > 0 {
            self.writer.lose(flushed.unwritten + flushed.untold);
            // The next record must not rely on what was not written.
            self.writer.begin_anew();
        }
        if let Some(line) = flushed.news {
            self.control.tell(&line);
        }
    }

    fn rotate(&mut self, now_us: u64) {
        if let Err(error) = self.sink.rotate(now_us) {
            self.control.tell(&format!(
                "{}: {error}; the log goes on in the file it has, and makes way when that has grown as much again, or is as \
                 old again",
                self.options.destination
            ));
        }
        self.writer.begin_anew();
    }

    fn reopen(&mut self) {
        self.flush();
        if let Err(error) = self.sink.reopen() {
            self.control
                .tell(&format!("{}: {error}; the log goes on in the file it had", self.options.destination));
        }
        self.writer.begin_anew();
    }

    /// Counts statements that cannot be logged any more, and reports them.
    fn lose(&mut self, lost: u64) {
        if lost == 0 {
            return;
        }
        self.totals.lost += lost;
        self.writer.lose(lost);
        let (before, said) = self.said.map_or((None, 0), |(when, lost)| (Some(when), lost));
        if before.is_none_or(|when| when.elapsed() > COMPLAIN) {
            self.control.tell(&format!(
                "lost {}: they were overwritten in the server before they were read; a larger \
                 performance-schema-events-statements-history-long-size keeps them longer",
                self.totals.lost - said
            ));
            self.said = Some((Instant::now(), self.totals.lost));
        }
    }

    /// Warns about consumers that keep statements out of the stream.
    fn warn_of_consumers(&self, source: &mut Source) -> Result<(), SlowLogError> {
        let rows = source.rows("setup_consumers", &["NAME", "ENABLED"], "")?;
        let on: BTreeMap<String, bool> = rows
            .iter()
            .map(|row| (row.text(0).unwrap_or_default(), row.text(1).as_deref() == Some("YES")))
            .collect();
        for (name, why) in [
            ("global_instrumentation", "nothing is recorded"),
            ("thread_instrumentation", "nothing is recorded"),
            ("events_statements_current", "no statement is recorded"),
            ("events_statements_history_long", "most are overwritten before they can be read"),
        ] {
            if on.get(name) == Some(&false) {
                self.control.tell(&format!(
                    "the consumer {name} is off, so {why}: UPDATE performance_schema.setup_consumers SET ENABLED = 'YES' \
                     WHERE NAME = '{name}'"
                ));
            }
        }
        Ok(())
    }

    /// Warns about instruments whose statements are counted at most, and so not recorded for any reader.
    fn warn_of_levels(&self, source: &mut Source) -> Result<(), SlowLogError> {
        if source.columns(LEVELS)?.is_empty() {
            return Ok(());
        }
        let rows = source.rows(LEVELS, &["LEVEL"], "WHERE NAME LIKE 'statement/%'")?;
        let is_unrecorded =
            |row: &&Row| ["off", "counts", "sums"].contains(&row.text(0).unwrap_or_default().as_str());
        let unrecorded = rows.iter().filter(is_unrecorded).count();
        if unrecorded > 0 {
            self.control.tell(&format!(
                "{unrecorded} of {} instruments of statements are at level off, counts or sums, so their statements are not \
                 recorded and will be missing: UPDATE performance_schema.{LEVELS} SET LEVEL = 'sampled' WHERE NAME LIKE \
                 'statement/%'",
                rows.len()
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use statement::LoggedStatement;

    struct Silent;

    impl Control for Silent {
        fn is_over(&self) -> bool {
            true
        }
        fn reopens(&self) -> bool {
            false
        }
        fn tell(&self, _line: &str) {}
    }

    fn options(form: SlowLogFormat, file: &Path, rotation: Rotation) -> SlowLogOptions {
        SlowLogOptions {
            socket: PathBuf::new(),
            choice: StatementFilter::default(),
            form,
            text: Text::Full,
            destination: Destination::File(file.to_owned(), rotation),
            interval: Duration::ZERO,
        }
    }

    #[test]
    fn what_is_no_regular_file_is_not_to_be_rotated() {
        let folder = tempfile::tempdir().expect("a folder");
        let [file, link, absent] = ["file", "link", "absent"].map(|name| folder.path().join(name));
        std::fs::write(&file, "").expect("a file");
        std::os::unix::fs::symlink(&file, &link).expect("a link");
        let by_size = Rotation { size: Some(1 << 20), ..Rotation::default() };
        let by_time = Rotation { time: Some(Duration::from_secs(60)), ..Rotation::default() };
        let opened = |path: &Path, rotation| {
            let options = options(SlowLogFormat::Slow, path, rotation);
            Log::new(&options, &Silent).map(|log| log.is_some())
        };
        for rotation in [by_size, by_time] {
            for path in [Path::new("/dev/null"), &link] {
                let refused = opened(path, rotation).expect_err("it would be moved away");
                assert!(matches!(refused, SlowLogError::NoRotation(_)), "{refused}");
                assert!(refused.to_string().contains("leave --rotate-size"), "{refused}");
                assert!(matches!(opened(path, Rotation::default()), Ok(true)), "without it they are fine");
            }
            assert!(matches!(opened(&file, rotation), Ok(true)));
            assert!(matches!(opened(&absent, rotation), Ok(true)), "it is made");
            std::fs::remove_file(&absent).expect("removed");
        }
    }

    #[test]
    fn what_an_unwritten_record_says_is_missing_the_next_one_says() {
        for (form, said) in
            [(SlowLogFormat::Slow, "# Lost: 122\n"), (SlowLogFormat::Json, "\"lost_before\":122}")]
        {
            // A disk that is always full.
            let options = options(form, Path::new("/dev/full"), Rotation::default());
            let mut log = Log::new(&options, &Silent).expect("a log").expect("nobody is waited for");
            log.lose(120);
            for _ in 0..2 {
                let record = log.writer.record(&LoggedStatement::default());
                log.sink.put(record.text, record.lost);
                log.flush();
            }
            assert_eq!((log.totals.lost, log.totals.unwritten), (120, 2));
            let next = log.writer.record(&LoggedStatement::default()).text;
            let next = String::from_utf8_lossy(next);
            assert!(next.contains(said), "{next}");
        }
    }
}
