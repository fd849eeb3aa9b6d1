//! `tare lab record` and `tare lab replay`: recording of a load, and its replay.

use std::fs::File;
use std::io::{BufReader, stdout};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::json;
use tare_connect::Secret;
use tare_lab::definition::PASSWORD;
use tare_lab::interrupt::Interrupt;
use tare_lab::recording::general_log::Programs;
use tare_lab::recording::kind::{KINDS, Sent, StatementEffect};
use tare_lab::recording::token::Dialect;
use tare_lab::recording::{StatementRecording, file, general_log, history, slow_log};
use tare_lab::replay::{self, Pace, Replay, ReplayResult, printed, study};
use tare_lab::target::ServerTarget;

use crate::durations;
use crate::exit::misuse;
use crate::outlet::Reach;
use crate::output::CommandOutput;
use crate::page::{self, Column, Grid};

/// Record a load of your own, to be replayed
///
/// Takes statements from a slow log (MariaDB's, MySQL's or that of `tare slowlog`), a general log, or the
/// memory of a server (events_statements_history_long), and lists their kinds. What cannot be replayed is
/// left out and counted: truncated texts, missing values. A busy server with tare at its default level does
/// not remember every statement; the command warns about that, and `tare slowlog` logs them all. Nothing is
/// sent to any server. The file contains texts of statements with their values; only its owner may read it.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    tare lab record shop.rec --slow-log /var/log/mysql/slow.log\n  \
    tare slowlog --for 60s --outermost --format json -o minute.log\n  \
    tare lab record shop.rec --slow-log minute.log\n  \
    tare lab record shop.rec --dsn 'mysql://dba@localhost?socket=/run/mysqld/mysqld.sock'\n\n\
A password comes from -p, an option file, the address, or the environment variable TARE_LAB_PASSWORD. docs/how-to/replay.md says more.")]
pub(crate) struct LabRecord {
    /// File to write
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    from: From,
    #[command(flatten)]
    reach: Reach,
    /// The stored programs, as `mariadb-dump --no-data --routines --triggers --events` prints them: a general
    /// log has their statements, too, which are left out
    #[arg(long, value_name = "FILE", requires = "general_log")]
    programs: Option<PathBuf>,
    /// The server's sql_mode, as far as it affects quotes, such as NO_BACKSLASH_ESCAPES,ANSI_QUOTES
    #[arg(long, value_name = "MODE", default_value = "", hide_default_value = true)]
    sql_mode: String,
}

/// The source of statements.
#[derive(Args, Debug)]
#[group(multiple = false)]
struct From {
    /// A slow log
    #[arg(long, value_name = "FILE")]
    slow_log: Option<PathBuf>,
    /// A general log
    #[arg(long, value_name = "FILE")]
    general_log: Option<PathBuf>,
}

/// Send a recording's statements to a server
///
/// Each recorded session is sent in its order over a connection of its own. Statements other than reads are
/// sent only with --send, because they change the server's data. KILL, SHUTDOWN and replication statements
/// are never sent.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    tare lab replay shop.rec --dsn mysql://lab@db1:3306 --send reads\n  \
    tare lab replay shop.rec -h db1 -u lab -p --send reads,writes --pace own\n  \
    tare lab replay shop.rec --dsn mysql://lab@db1:3306 --send reads --connections 32 --for 60s\n\n\
A password comes from -p, an option file, the address, or the environment variable TARE_LAB_PASSWORD. To compare settings under \
this load, write a study: docs/how-to/replay.md.")]
pub(crate) struct LabReplay {
    /// File that `tare lab record` wrote
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    reach: Reach,
    /// Kinds of statements to send: some of reads, writes, definitions, administration, separated by commas
    #[arg(long, value_name = "KINDS")]
    send: Option<Sent>,
    /// `fast`: each statement when the previous one of its session has ended; `own`: at the times of the
    /// recording
    #[arg(long, value_name = "PACE", default_value = "fast")]
    pace: Pace,
    /// Connections of the load, a recorded session each at a time, 1 to 10000 [default: as many as in the
    /// recording]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    connections: Option<u32>,
    /// Time for which to repeat the recording [default: once]
    #[arg(long = "for", value_name = "TIME", value_parser = durations::seconds("1s", "365d"))]
    seconds: Option<u32>,
    /// Print the output of a study's driver
    #[arg(long, hide = true)]
    as_driver: bool,
    #[command(flatten)]
    pub(super) answer: CommandOutput,
}

/// What to know about statements that a sampling server remembers.
const SAMPLED: &str = "this server samples its statements (sample_weight_max in performance_schema.tare_status): quick ones may be \
    missing. To have all of them, record what `tare slowlog --outermost --format json` writes during the load, or set level = \
    statement/%=lean in [tare] before it";

/// Runs `tare lab record`.
pub(crate) fn record(arguments: &LabRecord) -> Result<()> {
    let recording = take(arguments)?;
    if recording.statements.is_empty() {
        bail!("{} has no statement that can be replayed{}", recording.source, left_out(&recording));
    }
    file::write(&recording, &arguments.file)?;
    println!(
        "{}: {} statements of {} sessions ({} at once) in {:.1} s",
        arguments.file.display(),
        recording.statements.len(),
        recording.sessions(),
        recording.most_at_once(),
        recording.seconds()
    );
    println!("from {}", recording.source);
    let schemas: Vec<&str> = recording.schemas().into_iter().collect();
    println!("schemas: {}", if schemas.is_empty() { "none".into() } else { schemas.join(", ") });
    print_kinds(&recording);
    if !recording.left_out.is_empty() {
        println!("left out{}", left_out(&recording));
    }
    Ok(())
}

fn take(arguments: &LabRecord) -> Result<StatementRecording> {
    let (from, reach) = (&arguments.from, &arguments.reach);
    let dialect = Dialect::of_mode(&arguments.sql_mode);
    let open = |path: &Path| {
        File::open(path).map(BufReader::new).with_context(|| format!("reading {}", path.display()))
    };
    let logged =
        |what: &str, path: &Path, taken: std::io::Result<Option<tare_lab::recording::take::Take>>| {
            let taken = taken.with_context(|| format!("reading {}", path.display()))?;
            let taken = taken.with_context(|| {
                format!("{} is no {what}: none of its lines looks like one of such a log", path.display())
            })?;
            Ok(taken.finish(format!("{what} {}", path.display()), true))
        };
    match (&from.slow_log, &from.general_log) {
        (Some(path), _) => logged("slow log", path, slow_log::read(open(path)?, dialect)),
        (_, Some(path)) => {
            let programs = match &arguments.programs {
                Some(dump) => Programs::read(open(dump)?, dialect)
                    .with_context(|| format!("reading {}", dump.display()))?,
                None => Programs::default(),
            };
            if let (Some(dump), true) = (&arguments.programs, programs.is_empty()) {
                bail!(
                    "{} creates no stored program: `mariadb-dump --no-data --routines --triggers --events` writes them",
                    dump.display()
                );
            }
            logged("general log", path, general_log::read(open(path)?, dialect, programs))
        }
        _ if reach.is_said() => {
            let target = target(reach)?;
            let taken = history::read(&target)?;
            // After the reading, in which it would be a statement of the load.
            if history::is_sampled(&target)? {
                page::note(SAMPLED);
            }
            Ok(taken.finish(format!("events_statements_history_long of {}", target.name()), false))
        }
        _ => misuse!("say what to record: --slow-log, --general-log, or a server (--socket, -h, --dsn)"),
    }
}

/// Returns the server, with the password of [`PASSWORD`] if none is given otherwise.
fn target(reach: &Reach) -> Result<ServerTarget> {
    if !reach.is_said() {
        misuse!("which server? Name it with --socket, -h or --dsn");
    }
    let target = ServerTarget::from(reach.account()?);
    let password = std::env::var(PASSWORD).ok().filter(|it| !it.is_empty()).map(Secret::new);
    Ok(ServerTarget { password: target.password.or(password), ..target })
}

fn left_out(recording: &StatementRecording) -> String {
    let all = recording.left_out.iter().map(|(why, count)| format!("{count} because {why}"));
    let all: Vec<String> = all.collect();
    if all.is_empty() { String::new() } else { format!(": {}", all.join(", ")) }
}

/// Prints the kinds of statements, and their effects.
fn print_kinds(recording: &StatementRecording) {
    let kinds = recording.kinds();
    let mut grid = Grid::new(&[("KIND", Column::Left), ("STATEMENTS", Column::Right), ("", Column::CutEnd)]);
    for kind in KINDS {
        let does = match kind {
            StatementEffect::Reads => "change nothing, but in their session",
            StatementEffect::Writes => "change rows, or may (CALL, EXECUTE)",
            StatementEffect::Definitions => "change tables and schemas: CREATE, ALTER, DROP, TRUNCATE",
            StatementEffect::Administration => {
                "change the server: accounts, global variables, FLUSH, files; and what is not known"
            }
            StatementEffect::Never => "are never sent: KILL, SHUTDOWN, replication",
        };
        if let Some(count) = kinds.get(&kind) {
            grid.row([kind.name().to_owned(), count.to_string(), does.into()]);
        }
    }
    grid.print();
}

/// Runs `tare lab replay`.
pub(crate) fn replay(arguments: &LabReplay, interrupt: &Interrupt) -> Result<()> {
    let recording = file::read(&arguments.file)?;
    if arguments.send.is_none() {
        study::refuse_unasked(&recording, &arguments.file, "--send")?;
    }
    let at_once = u32::try_from(recording.most_at_once()).unwrap_or(u32::MAX).clamp(1, 10_000);
    let users = arguments.connections.unwrap_or(at_once);
    let replay = Replay {
        target: target(&arguments.reach)?,
        users,
        pace: arguments.pace,
        sent: arguments.send.unwrap_or_else(Sent::reads),
        seconds: arguments.seconds,
        recording,
    };
    if !arguments.as_driver {
        let outcome = replay::play(replay, interrupt, &mut |_| {})?;
        if arguments.answer.format.is_json() {
            println!("{}", serde_json::to_string_pretty(&object(&outcome, users))?);
        } else {
            print(&outcome, users, arguments.pace);
        }
        return Ok(());
    }
    println!("{}", printed::STARTED);
    let outcome = replay::play(replay, interrupt, &mut |progress| {
        // When nobody reads the output any more, SIGPIPE ends the program.
        let _ = printed::progress(&mut stdout(), users, &progress);
    })?;
    Ok(printed::outcome(&mut stdout(), &outcome)?)
}

/// Makes the object for programs. Times are seconds.
#[allow(clippy::cast_precision_loss)] // counts of a replay
fn object(outcome: &ReplayResult, users: u32) -> serde_json::Value {
    let (sum, count) = outcome.latencies.sum();
    let errors = outcome
        .errors
        .iter()
        .map(|(code, (count, message))| json!({ "number": code, "count": count, "example": message }));
    json!({
        "statements": outcome.statements, "seconds": outcome.seconds, "rows": outcome.rows, "connections": users,
        "latency": {
            "mean": sum / count.max(1) as f64, "p50": outcome.latencies.at(0.5), "p95": outcome.latencies.at(0.95),
            "p99": outcome.latencies.at(0.99),
        },
        "begun_too_late": outcome.behind, "left_out": outcome.left_out, "not_sent": outcome.not_reached,
        "errors": errors.collect::<Vec<_>>(),
    })
}

fn print(outcome: &ReplayResult, users: u32, pace: Pace) {
    let (sum, count) = outcome.latencies.sum();
    #[allow(clippy::cast_precision_loss)] // counts of a replay
    let (statements, count) = (outcome.statements as f64, count.max(1) as f64);
    println!(
        "{} statements in {:.2} s ({:.0} a second), {users} sessions at a time, {} rows",
        outcome.statements,
        outcome.seconds,
        statements / outcome.seconds,
        outcome.rows
    );
    let milliseconds = |seconds: f64| seconds * 1000.0;
    println!(
        "latency: {:.3} ms on average, p50 {:.3} ms, p95 {:.3} ms, p99 {:.3} ms",
        milliseconds(sum / count),
        milliseconds(outcome.latencies.at(0.5)),
        milliseconds(outcome.latencies.at(0.95)),
        milliseconds(outcome.latencies.at(0.99))
    );
    if pace == Pace::Own {
        println!("begun too late by {:.3} ms at most", milliseconds(outcome.behind));
    }
    if outcome.left_out > 0 {
        println!("{} left out, of kinds that were not to be sent", outcome.left_out);
    }
    if outcome.not_reached > 0 {
        println!("{} not sent, as one before them in their packet failed", outcome.not_reached);
    }
    if outcome.errors.is_empty() {
        return page::note("no errors");
    }
    println!("{} errors:", outcome.errors());
    for (code, (count, message)) in &outcome.errors {
        println!("  {count} of number {code}, such as: {message}");
    }
}
