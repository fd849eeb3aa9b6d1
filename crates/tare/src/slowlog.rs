//! `tare slowlog`: every statement a server ends, as a slow log.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::{Args, ValueEnum};
use signal_hook::consts::{SIGHUP, SIGPIPE, SIGXFSZ};
use tare_lab::interrupt::Interrupt;
use tare_outlets::slowlog::{self, Choice, Control, Destination, Form, Options, Rotation, Share, Text};

use crate::outlet::Endpoint;

/// Log every statement a running server ends, or some of them
///
/// Reads what the server's tare has recorded, over the socket `tare.sock` in its data directory, which only the server's own
/// account and root may open, and writes it as the server's own slow log has it, or as JSON Lines. The server itself writes
/// nothing. What was overwritten in the server's memory before it was read is counted and said. A server that is
/// restarted is waited for. SIGHUP has the file opened anew. docs/slowlog.md says more.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    tare slowlog                                        every statement, to standard output\n  \
    tare slowlog --over 10ms --file /var/log/mysql/tare-slow.log\n  \
    tare slowlog --sample 1/100 --text normalised --format json --file slow.jsonl --rotate-size 100M\n  \
    tare slowlog --for 60s --file minute.log && pt-query-digest minute.log")]
pub(crate) struct SlowLog {
    #[command(flatten)]
    pub(crate) endpoint: Endpoint,
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
    /// Only what examined as many rows
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
    let control = Signals {
        interrupt,
        reopen,
        end: arguments.time.map(|time| Instant::now() + Duration::from(time)),
        quiet: arguments.quiet,
    };
    let totals = slowlog::run(&options(arguments), &control)?;
    control.tell(&format!(
        "{} written, {} left out, {} lost in the server, {} not written for want of room",
        totals.written, totals.left_out, totals.lost, totals.unwritten
    ));
    Ok(ExitCode::SUCCESS)
}

fn options(arguments: &SlowLog) -> Options {
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
        socket: arguments.endpoint.path(),
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
            eprintln!("tare slowlog: {line}");
        }
    }
}
