//! `tare snapshot`: all tables in a file.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tare_lab::interrupt::Interrupt;
use tare_outlets::Source;
use tare_outlets::sessions::Moment;
use tare_outlets::snapshot::{self, Error, SnapshotTarget, TableChoice, Watcher};
use tare_outlets::units;

use crate::durations::moment;
use crate::outlet::Reach;

/// Save every table of a server's Performance Schema in a file
///
/// Tables are read one after another, and the file has the time of each. `tare report` shows the changes
/// between two such files. tare is read through its socket, which does not involve the server's SQL; any
/// MariaDB or MySQL with its own Performance Schema through an account (--dsn), and then SHOW GLOBAL STATUS
/// and SHOW GLOBAL VARIABLES are saved, too.
///
/// The name determines the format. NAME.jsonl and NAME.jsonl.gz are JSON Lines; NAME.parquet is a folder with
/// a Parquet file for each table, which DuckDB, ClickHouse and pandas open; - is standard output, as JSON
/// Lines. A snapshot appears under its name completely or not at all, and only its owner may read it.
///
/// A snapshot of a server with tare has the whole active session history: up to 76,458 rows with the default
/// ash-memory. If you take one every hour, --sessions-from 1h leaves out what the one before has.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    sudo tare snapshot before.jsonl.gz\n  \
    tare snapshot now.parquet --dsn-file monitor.dsn && duckdb -c \"FROM 'now.parquet/threads.parquet'\"\n  \
    tare snapshot small.jsonl --tables 'events_%_summary_global_%,%_by_digest' --no-text")]
pub(crate) struct Snapshot {
    #[command(flatten)]
    reach: Reach,
    /// Destination: NAME.jsonl, NAME.jsonl.gz, NAME.parquet, or -
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Only these tables; % matches anything
    #[arg(long, value_name = "PATTERNS", value_delimiter = ',')]
    tables: Vec<String>,
    /// Leave out statements as they were sent, and values from them and from rows; digests contain neither,
    /// and stay
    #[arg(long)]
    no_text: bool,
    /// Leave out rows of tare_active_session_history before this time: 10:40 or 2026-01-02 10:40:05 (UTC), or
    /// 1h for an hour ago [default: none]
    #[arg(long, value_name = "TIME", value_parser = moment)]
    sessions_from: Option<Moment>,
    /// Replace an existing snapshot of that name
    #[arg(long)]
    force: bool,
}

/// Runs the command.
pub(crate) fn snapshot(arguments: &Snapshot, interrupt: &Interrupt) -> Result<ExitCode> {
    let target = SnapshotTarget::named(&arguments.file)?;
    target.check(arguments.force)?;
    let mut source = Source::open(arguments.reach.address()?)?;
    let choice = TableChoice { tables: arguments.tables.clone(), text: !arguments.no_text };
    let header = snapshot::header(&mut source, &choice)?;
    let sessions_from = arguments.sessions_from.map(|from| from.before_now());
    let progress = SnapshotProgress::new(interrupt)?;
    let taken = snapshot::write(&target, &header, arguments.force, |sink| {
        snapshot::take_from(&mut source, &choice, sessions_from.as_deref(), sink, &progress)
    });
    progress.bar.finish_and_clear();
    let totals = taken.map_err(|error| match error {
        Error::Interrupted => anyhow::Error::from(tare_lab::Error::Interrupted),
        error => error.into(),
    })?;
    if target != SnapshotTarget::Output {
        println!(
            "{}: {} rows of {} tables",
            arguments.file.display(),
            units::count(totals.rows),
            totals.tables
        );
    }
    if totals.unread > 0 {
        eprintln!("{} tables could not be read; the snapshot says why of each", totals.unread);
    }
    Ok(ExitCode::SUCCESS)
}

/// Shows the table being read on standard error, if that is a terminal.
struct SnapshotProgress<'a> {
    bar: ProgressBar,
    interrupt: &'a Interrupt,
}

impl<'a> SnapshotProgress<'a> {
    fn new(interrupt: &'a Interrupt) -> Result<Self> {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        bar.set_style(ProgressStyle::with_template("{bar:30} {pos}/{len} tables  {msg}")?);
        bar.enable_steady_tick(Duration::from_millis(100));
        Ok(Self { bar, interrupt })
    }
}

impl Watcher for SnapshotProgress<'_> {
    fn is_stopping(&self) -> bool {
        self.interrupt.is_set()
    }

    fn reading(&self, table: &str, number: usize, of: usize) {
        self.bar.set_length(of as u64);
        self.bar.set_message(table.to_owned());
        self.bar.set_position(number as u64);
    }
}
