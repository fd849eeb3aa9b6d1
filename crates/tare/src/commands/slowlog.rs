//! `tare slowlog`: all statements that a server ends, as a slow log.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, ValueEnum};
use tare_lab::interrupt::Interrupt;
use tare_outlets::slowlog::{
    self, Control as _, Destination, Rotation, Share, SlowLogFormat, SlowLogOptions, StatementFilter, Text,
};

use crate::control::{Signals, bytes};
use crate::durations;
use crate::outlet::Reach;

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

/// Runs the command.
pub(crate) fn slowlog(arguments: &SlowLog, interrupt: &Interrupt) -> Result<ExitCode> {
    let control = Signals::new("tare slowlog", interrupt, arguments.time, arguments.quiet)?;
    let totals = slowlog::run(&options(arguments, arguments.reach.endpoint()?), &control)?;
    control.tell(&format!(
        "{} written, {} left out, {} lost in the server, {} not written for want of room",
        totals.written, totals.left_out, totals.lost, totals.unwritten
    ));
    Ok(ExitCode::SUCCESS)
}

fn options(arguments: &SlowLog, socket: PathBuf) -> SlowLogOptions {
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
    SlowLogOptions {
        socket,
        choice: StatementFilter {
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
            SlowLogForm::Slow => SlowLogFormat::Slow,
            SlowLogForm::Json => SlowLogFormat::Json,
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
