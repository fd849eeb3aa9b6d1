//! `tare slowlog`: every statement a server ends, as a slow log.

use std::io::{self, Read as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::{Args, ValueEnum};
use signal_hook::consts::{SIGHUP, SIGINT, SIGPIPE, SIGTERM, SIGXFSZ};
use signal_hook::low_level::pipe;
use tare_lab::interrupt::Interrupt;
use tare_outlets::notice;
use tare_outlets::slowlog::{self, Choice, Control, Destination, Form, Options, Rotation, Share, Text};

use crate::outlet::Reach;

/// Signals within this time of the first one mean the same: `timeout` sends one to its child, and one to all of its group.
const SAME: Duration = Duration::from_secs(1);

/// Log every statement a running server ends, or some of them
///
/// Reads what the server's tare has recorded, over the socket `tare.sock` in its data directory, which only the server's own
/// account and root may open, and writes it as the server's own slow log has it, or as JSON Lines. The server itself writes
/// nothing. What was overwritten in the server's memory before it was read is counted and reported. When the server
/// restarts, the log waits for it. SIGHUP reopens the file.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    tare slowlog                                        every statement, to standard output\n  \
    tare slowlog --over 10ms --file /var/log/mysql/tare-slow.log\n  \
    tare slowlog --sample 1/100 --text normalised --format json --file slow.jsonl --rotate-size 100M\n  \
    tare slowlog --for 60s --file minute.log && pt-query-digest minute.log")]
pub(crate) struct SlowLog {
    #[command(flatten)]
    pub(crate) reach: Reach,
    /// Write to this file's end [default: standard output]
    #[arg(long, value_name = "FILE", conflicts_with = "syslog")]
    pub(crate) file: Option<PathBuf>,
    /// Write to the system's log, a message for each statement
    #[arg(long)]
    pub(crate) syslog: bool,
    /// Form of the log [default: slow; json with --syslog]
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) format: Option<SlowLogForm>,
    /// What of a statement's text is written
    #[arg(long, value_enum, value_name = "TEXT", default_value_t = SlowLogText::Full)]
    pub(crate) text: SlowLogText,
    /// Only what took longer, such as 10ms
    #[arg(long, value_name = "TIME")]
    pub(crate) over: Option<humantime::Duration>,
    /// Of each digest one in so many, such as 1/100
    #[arg(long, value_name = "1/N", default_value = "1/1", hide_default_value = true)]
    pub(crate) sample: Share,
    /// Only statements of this user; may be repeated
    #[arg(long = "user", value_name = "NAME")]
    pub(crate) users: Vec<String>,
    /// Only statements from this host; may be repeated
    #[arg(long = "host", value_name = "NAME")]
    pub(crate) hosts: Vec<String>,
    /// Only statements in this current schema; may be repeated
    #[arg(long = "schema", value_name = "NAME")]
    pub(crate) schemas: Vec<String>,
    /// Only statements of this digest; may be repeated
    #[arg(long = "digest", value_name = "HASH")]
    pub(crate) digests: Vec<String>,
    /// Only what examined N rows or more
    #[arg(long, value_name = "N")]
    pub(crate) rows_examined: Option<u64>,
    /// Only what failed
    #[arg(long)]
    pub(crate) errors: bool,
    /// No statements of stored programs: only what clients sent
    #[arg(long)]
    pub(crate) outermost: bool,
    /// Begin a new file when the log has as many bytes, such as 100M
    #[arg(long, value_name = "SIZE", requires = "file", value_parser = bytes)]
    pub(crate) rotate_size: Option<u64>,
    /// Begin a new file after so long, such as 1day
    #[arg(long, value_name = "TIME", requires = "file")]
    pub(crate) rotate_every: Option<humantime::Duration>,
    /// Old files to keep: FILE.1 is the youngest
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    pub(crate) keep: u32,
    /// How long to wait before asking the server again
    #[arg(long, value_name = "TIME", default_value = "100ms")]
    pub(crate) interval: humantime::Duration,
    /// End after so long
    #[arg(long = "for", value_name = "TIME")]
    pub(crate) time: Option<humantime::Duration>,
    /// Tell nothing on standard error
    #[arg(long)]
    pub(crate) quiet: bool,
}

/// The form of the slow log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SlowLogForm {
    /// The server's own, with its query plan
    Slow,
    /// A JSON object a line
    Json,
}

/// What the slow log has of a statement's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SlowLogText {
    /// All, as it was sent
    Full,
    /// Its digest's text, without any literal
    Normalised,
    /// Nothing
    None,
}

/// A number of bytes, with K, M or G.
fn bytes(text: &str) -> Result<u64, String> {
    let (number, shift) = match text.as_bytes().last() {
        Some(b'K' | b'k') => (&text[..text.len() - 1], 10),
        Some(b'M' | b'm') => (&text[..text.len() - 1], 20),
        Some(b'G' | b'g') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let number: u64 = number.parse().map_err(|_| "a number of bytes is allowed, such as 4096 or 100M")?;
    number
        .checked_mul(1 << shift)
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| "between 1 byte and 2^64".to_owned())
}

/// Runs the command.
pub(crate) fn slowlog(arguments: &SlowLog, interrupt: &Interrupt) -> Result<ExitCode> {
    let reopen = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGHUP, Arc::clone(&reopen))?;
    // Errors of writing, and not the end of the program.
    for signal in [SIGXFSZ, SIGPIPE] {
        signal_hook::flag::register(signal, Arc::default())?;
    }
    end_at_later_signal()?;
    let end = arguments.time.and_then(|time| end_after(time.into()));
    let control = Signals { interrupt, reopen, end, quiet: arguments.quiet };
    let totals = slowlog::run(&options(arguments, arguments.reach.endpoint()?), &control)?;
    control.tell(&format!(
        "{} written, {} left out, {} lost in the server, {} not written for want of room",
        totals.written, totals.left_out, totals.lost, totals.unwritten
    ));
    Ok(ExitCode::SUCCESS)
}

/// The first signal is heard where the log looks whether it is over; a disk that does not answer keeps it from that. A
/// later one ends it at once.
fn end_at_later_signal() -> io::Result<()> {
    let is_later = Arc::new(AtomicBool::new(false));
    let (mut heard, told) = UnixStream::pair()?;
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_default(signal, Arc::clone(&is_later))?;
        pipe::register(signal, told.try_clone()?)?;
    }
    std::thread::spawn(move || {
        if heard.read_exact(&mut [0]).is_ok() {
            std::thread::sleep(SAME);
            is_later.store(true, Ordering::SeqCst);
        }
    });
    Ok(())
}

/// When so much time has passed. `None`: never, as the clock does not go so far.
fn end_after(time: Duration) -> Option<Instant> {
    Instant::now().checked_add(time)
}

fn options(arguments: &SlowLog, socket: PathBuf) -> Options {
    let rotation = Rotation {
        size: arguments.rotate_size,
        time: arguments.rotate_every.map(Duration::from),
        keep: arguments.keep,
    };
    let destination = match &arguments.file {
        Some(file) => Destination::File(file.clone(), rotation),
        None if arguments.syslog => Destination::Syslog,
        None => Destination::Output,
    };
    // A message of the system's log is one line.
    let form =
        arguments.format.unwrap_or(if arguments.syslog { SlowLogForm::Json } else { SlowLogForm::Slow });
    Options {
        socket,
        choice: Choice {
            over: arguments.over.map(Duration::from),
            users: arguments.users.clone(),
            hosts: arguments.hosts.clone(),
            schemas: arguments.schemas.clone(),
            digests: arguments.digests.clone(),
            rows_examined: arguments.rows_examined,
            errors: arguments.errors,
            outermost: arguments.outermost,
            share: arguments.sample,
        },
        form: match form {
            SlowLogForm::Slow => Form::Slow,
            SlowLogForm::Json => Form::Json,
        },
        text: match arguments.text {
            SlowLogText::Full => Text::Full,
            SlowLogText::Normalised => Text::Normalised,
            SlowLogText::None => Text::None,
        },
        destination,
        interval: arguments.interval.into(),
    }
}

/// What signals and the clock say.
struct Signals<'a> {
    interrupt: &'a Interrupt,
    reopen: Arc<AtomicBool>,
    end: Option<Instant>,
    quiet: bool,
}

impl Control for Signals<'_> {
    fn is_over(&self) -> bool {
        self.interrupt.is_set() || self.end.is_some_and(|end| Instant::now() >= end)
    }

    fn reopens(&self) -> bool {
        self.reopen.swap(false, Ordering::Relaxed)
    }

    fn tell(&self, line: &str) {
        if !self.quiet {
            notice::write(format_args!("tare slowlog: {line}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    use nix::sys::signal::{Signal, raise};

    use super::*;

    #[test]
    fn a_time_that_is_too_long_for_the_clock_has_no_end() {
        assert_eq!(end_after(Duration::MAX), None);
        assert!(end_after(Duration::from_secs(60)).is_some_and(|end| end > Instant::now()));
    }

    /// Set for the child of the test below.
    const CHILD: &str = "TARE_TEST_HEARS";

    #[test]
    fn the_first_signal_is_heard_and_a_later_one_ends_it() {
        if std::env::var_os(CHILD).is_some() {
            end_at_later_signal().expect("handlers");
            // Sent twice, as `timeout` does it.
            (0..2).for_each(|_| raise(Signal::SIGTERM).expect("raised"));
            println!("it goes on");
            for _ in 0..600 {
                std::thread::sleep(Duration::from_millis(100));
                raise(Signal::SIGINT).expect("raised");
            }
            return;
        }
        let name = "slowlog::tests::the_first_signal_is_heard_and_a_later_one_ends_it";
        let mut child = Command::new(std::env::current_exe().expect("this program"));
        let output = child.args(["--exact", name, "--nocapture"]).env(CHILD, "").output().expect("a child");
        assert!(String::from_utf8_lossy(&output.stdout).contains("it goes on"), "{output:?}");
        assert_eq!(output.status.signal(), Some(SIGINT), "{output:?}");
    }
}
