//! `tare slowlog`: every statement a server ends, as a slow log.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use signal_hook::consts::{SIGHUP, SIGPIPE, SIGXFSZ};
use tare_lab::interrupt::Interrupt;
use tare_outlets::slowlog::{self, Choice, Control, Destination, Form, Options, Rotation, Text};

use crate::arguments::{SlowLog, SlowLogForm, SlowLogText};
use crate::status::SOCKET;

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
        socket: arguments.socket.clone().unwrap_or_else(|| arguments.datadir.join(SOCKET)),
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
