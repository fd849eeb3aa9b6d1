//! `tare slowlog`: all statements that a server ends, as a slow log.

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

use crate::durations;
use crate::outlet::Reach;

/// Signals within this time of the first one count as the same: `timeout` signals its child, and the child's
/// group.
const SAME: Duration = Duration::from_secs(1);

/// Log every statement a running server ends, or some of them
///
/// While it is connected, the server records every statement it asks for, whatever level `sampled` chooses.
/// Reads them over the socket `tare.sock` in its data directory, which only
/// the server's own account and root may open, and writes them in the format of the server's own slow log, or
/// as JSON Lines. The server itself writes nothing. Statements that the server's memory overwrote before they
/// were read are counted and reported. It waits for a server that is restarted. SIGHUP reopens the file. See
/// docs/how-to/slow-log.md.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    tare slowlog                                        # every statement, to standard output\n  \
    tare slowlog --over 10ms -o /var/log/mysql/tare-slow.log\n  \
    tare slowlog --sample 1/100 --text normalised --format json -o slow.jsonl --rotate-size 100M\n  \
    tare slowlog --for 60s -o minute.log && pt-query-digest minute.log")]
pub(crate) struct SlowLog {
    #[command(flatten)]
    pub(crate) reach: Reach,
    /// Append to this file [default: standard output]
    #[arg(short = 'o', long, value_name = "FILE", conflicts_with = "syslog")]
    pub(crate) output: Option<PathBuf>,
    /// Write to the system's log, a message for each statement
    #[arg(long)]
    pub(crate) syslog: bool,
    /// Format of the log [default: slow; json with --syslog]
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) format: Option<SlowLogForm>,
    /// Part of a statement's text to write
    #[arg(long, value_enum, value_name = "TEXT", default_value_t = SlowLogText::Full)]
    pub(crate) text: SlowLogText,
    /// Only statements that took longer, such as 10ms
    #[arg(long, value_name = "TIME", value_parser = durations::any)]
    pub(crate) over: Option<Duration>,
    /// Share of each digest's statements to log, such as 1/100
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
    /// Only statements that examined N rows or more
    #[arg(long, value_name = "N")]
    pub(crate) rows_examined: Option<u64>,
    /// Only statements that failed
    #[arg(long)]
    pub(crate) errors: bool,
    /// No statements of stored programs: only what clients sent
    #[arg(long)]
    pub(crate) outermost: bool,
    /// Start a new file at this size, such as 100M
    #[arg(long, value_name = "SIZE", requires = "output", value_parser = bytes)]
    pub(crate) rotate_size: Option<u64>,
    /// Start a new file after this time, such as 1day
    #[arg(long, value_name = "TIME", requires = "output", value_parser = durations::any)]
    pub(crate) rotate_every: Option<Duration>,
    /// Old files to keep: FILE.1 is the youngest
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    pub(crate) keep: u32,
    /// Pause before the next read
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = durations::any)]
    pub(crate) interval: Duration,
    /// End after this time
    #[arg(long = "for", value_name = "TIME", value_parser = durations::any)]
    pub(crate) time: Option<Duration>,
    /// Print nothing on standard error
    #[arg(long)]
    pub(crate) quiet: bool,
}

/// The format of the slow log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SlowLogForm {
    /// The server's own, with its query plan
    Slow,
    /// One JSON object per line
    Json,
}

/// The part of a statement's text in the slow log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SlowLogText {
    /// The text as it was sent
    Full,
    /// The text of its digest, without any literal
    Normalised,
    /// No text
    None,
}

/// Parses a number of bytes, with K, M or G.
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
    // A failed write returns an error instead of ending the program.
    for signal in [SIGXFSZ, SIGPIPE] {
        signal_hook::flag::register(signal, Arc::default())?;
    }
    end_at_later_signal()?;
    let end = arguments.time.and_then(end_after);
    let control = Signals { interrupt, reopen, end, quiet: arguments.quiet };
    let totals = slowlog::run(&options(arguments, arguments.reach.endpoint()?), &control)?;
    control.tell(&format!(
        "{} written, {} left out, {} lost in the server, {} not written for want of room",
        totals.written, totals.left_out, totals.lost, totals.unwritten
    ));
    Ok(ExitCode::SUCCESS)
}

/// Makes a later signal end the program at once. The first one takes effect when the log checks for its end,
/// which a hanging disk may prevent.
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

/// Returns the end of a duration; `None` if the clock does not go that far.
fn end_after(time: Duration) -> Option<Instant> {
    Instant::now().checked_add(time)
}

fn options(arguments: &SlowLog, socket: PathBuf) -> Options {
    let rotation =
        Rotation { size: arguments.rotate_size, time: arguments.rotate_every, keep: arguments.keep };
    let destination = match &arguments.output {
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
            over: arguments.over,
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
        interval: arguments.interval,
    }
}

/// The control of the log by signals and the clock.
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

    /// Environment variable of the child process in the test below.
    const CHILD: &str = "TARE_TEST_HEARS";

    #[test]
    fn the_first_signal_is_heard_and_a_later_one_ends_it() {
        if std::env::var_os(CHILD).is_some() {
            end_at_later_signal().expect("handlers");
            // Sent twice, as `timeout` does.
            (0..2).for_each(|_| raise(Signal::SIGTERM).expect("raised"));
            println!("it goes on");
            for _ in 0..600 {
                std::thread::sleep(Duration::from_millis(100));
                raise(Signal::SIGINT).expect("raised");
            }
            return;
        }
        let name = "commands::slowlog::tests::the_first_signal_is_heard_and_a_later_one_ends_it";
        let mut child = Command::new(std::env::current_exe().expect("this program"));
        let output = child.args(["--exact", name, "--nocapture"]).env(CHILD, "").output().expect("a child");
        assert!(String::from_utf8_lossy(&output.stdout).contains("it goes on"), "{output:?}");
        assert_eq!(output.status.signal(), Some(SIGINT), "{output:?}");
    }
}
