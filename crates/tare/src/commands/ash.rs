//! `tare ash`: the active session history of any server, in a file.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use tare_lab::interrupt::Interrupt;
use tare_outlets::ash::{self, Control as _, Destination, Options, Rotation};
use tare_outlets::units;

use crate::control::{Signals, bytes};
use crate::durations;
use crate::outlet::Reach;

/// Size at which a regular file is rotated by default.
const ROTATE_SIZE: u64 = 64 << 20;

/// Record what the sessions of any server do, once a second, in a file
///
/// Samples a MySQL 5.7 to 9, or a MariaDB with its own Performance Schema, through an account: which sessions
/// are active, in which statement and stage, what they wait for, and who blocks them. A server with tare
/// keeps this history itself, and is only read. `tare top FILE` and `tare report FILE` read the file, also
/// while it is written or if its end is cut off. The file has digests, not the text of statements.
///
/// The command says at the start what the server does not collect, and how to enable that; every ten minutes
/// and at the end it says what sampling costs. It waits for a server that is restarted. SIGHUP reopens the
/// file. See docs/how-to/active-sessions.md.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    tare ash --dsn-file db3.dsn -o db3.ash.jsonl     # until Ctrl-C, in at most 512 MB\n  \
    tare ash -h db3 -u monitor -p --for 10m -o incident.jsonl && tare report incident.jsonl\n  \
    tare ash --interval 100ms --for 1m -o - | jq -c .row\n\n\
    An account needs GRANT SELECT ON performance_schema.*, and PROCESS for row locks of MariaDB and MySQL 5.7.")]
pub(crate) struct Ash {
    #[command(flatten)]
    pub(crate) reach: Reach,
    /// Append to this file [default: standard output, which is also -]
    #[arg(short = 'o', long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Time between samples
    #[arg(long, default_value = "1s", value_name = "TIME", value_parser = durations::between("10ms", "60s"))]
    pub(crate) interval: Duration,
    /// Start a new file at this size, such as 100M [default: 64M]
    #[arg(long, value_name = "SIZE", requires = "output", value_parser = bytes)]
    pub(crate) rotate_size: Option<u64>,
    /// Start a new file after this time, such as 1day
    #[arg(long, value_name = "TIME", requires = "output", value_parser = durations::any)]
    pub(crate) rotate_every: Option<Duration>,
    /// Old files to keep: FILE.1 is the youngest
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    pub(crate) keep: u32,
    /// End after this time
    #[arg(long = "for", value_name = "TIME", value_parser = durations::any)]
    pub(crate) time: Option<Duration>,
    /// Print nothing on standard error
    #[arg(long)]
    pub(crate) quiet: bool,
}

/// Runs the command.
pub(crate) fn ash(arguments: &Ash, interrupt: &Interrupt) -> Result<ExitCode> {
    let control = Signals::new("tare ash", interrupt, arguments.time, arguments.quiet)?;
    let options = Options {
        address: arguments.reach.address()?,
        interval: arguments.interval,
        destination: destination(arguments),
    };
    let totals = ash::run(&options, &control)?;
    control.tell(&format!(
        "{} rows of {} samples written{}",
        units::count(totals.rows),
        units::count(totals.samples),
        match totals.unwritten {
            0 => String::new(),
            unwritten => format!(", {unwritten} not written for want of room"),
        }
    ));
    Ok(ExitCode::SUCCESS)
}

fn destination(arguments: &Ash) -> Destination {
    let Some(file) = arguments.output.as_ref().filter(|file| *file != Path::new("-")) else {
        return Destination::Output;
    };
    // A device or a pipe is not rotated unless that is asked for, and then it is refused.
    let may_move = fs::symlink_metadata(file).map_or(true, |it| it.is_file());
    let size = arguments.rotate_size.or(may_move.then_some(ROTATE_SIZE));
    Destination::File(file.clone(), Rotation { size, time: arguments.rotate_every, keep: arguments.keep })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::{Arguments, Command};

    fn parsed(line: &str) -> Ash {
        let words = line.split(' ').map(std::ffi::OsString::from);
        match crate::command_line::read(words) {
            Ok(Arguments { command: Command::Ash(ash) }) => *ash,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn only_a_regular_file_is_rotated_by_default() {
        let of = |line: &str| match destination(&parsed(line)) {
            Destination::File(_, rotation) => Some((rotation.size, rotation.keep)),
            _ => None,
        };
        assert_eq!(of("tare ash"), None);
        assert_eq!(of("tare ash -o -"), None);
        assert_eq!(of("tare ash -o /nowhere/x"), Some((Some(ROTATE_SIZE), 7)));
        assert_eq!(of("tare ash -o /nowhere/x --rotate-size 1M --keep 2"), Some((Some(1 << 20), 2)));
        assert_eq!(of("tare ash -o /dev/null"), Some((None, 7)));
        assert_eq!(
            of("tare ash -o /dev/null --rotate-size 1M"),
            Some((Some(1 << 20), 7)),
            "which is refused"
        );
    }
}
