//! `tare report`: the changes between two snapshots.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, ValueEnum};
use tare_outlets::report::{self, Cell, Figures, When, html, visible};
use tare_outlets::sessions::Moment;
use tare_outlets::units;

use crate::durations::moment;
use crate::endpoint::file_to_read;
use crate::output;
use crate::page::{self, Column, Grid};

/// Rows of a section's first table in a terminal, and of the others.
const ROWS: usize = 10;
const FEW_ROWS: usize = 5;
/// Columns that are left out in a terminal, of one table or of all (an empty key).
const PAGE_ONLY: [(&str, &str); 11] = [
    ("", "digest"),
    ("", "lock_share"),
    ("", "rows_sent_each"),
    ("", "tmp_tables"),
    ("by_time", "per_second"),
    ("by_time", "tmp_disk_tables"),
    ("by_time", "schema"),
    ("kinds", "rows_affected"),
    ("session_statements", "schema"),
    ("session_blockers", "share"),
    ("session_blockers", "digest_text"),
];
/// Placeholder for a missing figure.
const NONE: &str = "–";

/// Report the changes between two snapshots of a server, and its active sessions
///
/// Shows the server's load, the statements that took most time, waits by class and instrument, tables, unused
/// indexes, files, memory, errors, changed settings, and losses. If counters were reset in between, by a
/// restart or a TRUNCATE, the report says so, and they count from there.
///
/// For a server with tare the report begins with the active sessions: by wait class over time, and which
/// statements, waits, blocking sessions and sessions took the time. This part is about the time between the
/// snapshots, or from --from to --to, as far as their tare_active_session_history reaches. One file is enough
/// for it.
///
/// The page is one self-contained file; it is light or dark like the browser, and can be printed. The page
/// and the terminal show the first rows of each table, JSON has all.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    tare report before.jsonl.gz after.jsonl.gz                     # in the terminal\n  \
    tare report before.jsonl.gz after.jsonl.gz -o monday.html      # to be opened in a browser\n  \
    tare report now.jsonl.gz --from 10:40 --to 10:45               # what sessions did then\n  \
    tare report now.jsonl.gz --from 15m -o active.html             # the last 15 minutes\n  \
    tare report before.parquet after.parquet --format json | jq .figures")]
pub(crate) struct Report {
    /// The earlier snapshot, or the only one
    #[arg(value_name = "BEFORE", value_parser = file_to_read())]
    first: PathBuf,
    /// The later one; without it, only the active sessions of the first are reported
    #[arg(value_name = "AFTER", value_parser = file_to_read())]
    last: Option<PathBuf>,
    /// Active sessions from this time on: 10:40 or 2026-01-02 10:40:05 (UTC), or
    /// 15m for the last 15 minutes
    /// [default: the first snapshot, or all]
    #[arg(long, value_name = "TIME", value_parser = moment)]
    from: Option<Moment>,
    /// Active sessions before this time, given likewise [default: the last snapshot, or all]
    #[arg(long, value_name = "TIME", value_parser = moment)]
    to: Option<Moment>,
    /// Format of the report [default: that of the file's name, else table]
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<Form>,
    /// Write it to this file, as NAME.html, NAME.json or any other for tables [default: standard output]
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long, requires = "output")]
    force: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    /// Tables for people
    #[value(alias = "text")]
    Table,
    /// A page for a browser
    Html,
    /// One JSON object
    Json,
}

/// Runs the command.
pub(crate) fn report(arguments: &Report) -> Result<ExitCode> {
    let when = When { from: arguments.from, to: arguments.to };
    let first = report::read(&arguments.first)?;
    let report = match &arguments.last {
        Some(last) => report::Report::between_at(&first, &report::read(last)?, when),
        None => report::Report::of_sessions(&first, when)
            .map_err(|why| format!("{}: {why}", arguments.first.display())),
    };
    let report = report.map_err(|why| anyhow!(why))?;
    let ending = arguments.output.as_deref().and_then(Path::extension).and_then(|ending| ending.to_str());
    let form = arguments.format.unwrap_or(match ending {
        Some("html") => Form::Html,
        Some("json") => Form::Json,
        _ => Form::Table,
    });
    let text = match form {
        Form::Html => html::page(&report),
        Form::Json => serde_json::to_string_pretty(&report)? + "\n",
        Form::Table => lines(&report, arguments.output.is_none()),
    };
    match &arguments.output {
        Some(path) => write(path, &text, arguments.force)?,
        None => output::print(&text)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes a file atomically.
fn write(path: &Path, text: &str, force: bool) -> Result<()> {
    if !force && path.exists() {
        bail!("{} is there already; --force replaces it", path.display());
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let failed = || format!("writing {}", path.display());
    let mut file = tempfile::NamedTempFile::new_in(folder).with_context(failed)?;
    file.write_all(text.as_bytes()).and_then(|()| file.as_file().sync_all()).with_context(failed)?;
    file.persist(path).map(drop).with_context(failed)?;
    fs::metadata(path).map(drop).with_context(failed)
}

/// Formats the report for a terminal.
fn lines(report: &report::Report, styled: bool) -> String {
    let mut lines = vec![];
    let mut say = |text: &str| lines.extend(page::broken(text, page::width()));
    say(&format!("{}, {}", visible(&report.last.address), visible(&report.last.version)));
    say(&html::span(report));
    report.warnings.iter().for_each(|warning| say(&format!("Warning: {}", visible(warning))));
    say("");
    for figure in &report.figures {
        say(&format!("  {:>10}  {}", cell(&figure.value), figure.title));
    }
    for section in &report.sections {
        lines.push(String::new());
        let title = console::style(section.title).bold();
        lines.push(if styled { title.to_string() } else { section.title.to_owned() });
        let shown = section.tables.iter().filter(|figures| !figures.rows.is_empty());
        let mut most = ROWS;
        for figures in shown {
            if figures.folded {
                lines.push(format!(
                    "{}: {} rows, in the page and as JSON",
                    figures.title,
                    figures.rows.len()
                ));
                continue;
            }
            let title = console::style(figures.title).dim();
            lines.push(if styled { title.to_string() } else { figures.title.to_owned() });
            lines.extend(grid(figures, most));
            most = FEW_ROWS;
        }
        if section.tables.iter().all(|figures| figures.rows.is_empty()) {
            lines.extend(page::broken(&section.note, page::width()));
        }
    }
    lines.push(String::new());
    lines.join("\n")
}

fn grid(figures: &Figures, most: usize) -> Vec<String> {
    let hidden = |(key, _): (&str, &str)| {
        PAGE_ONLY.iter().any(|(of, column)| *column == key && (of.is_empty() || *of == figures.key))
    };
    let shown: Vec<usize> = (0..figures.columns.len()).filter(|at| !hidden(figures.columns[*at])).collect();
    let rows = &figures.shown()[..most.min(figures.shown().len())];
    let column = |at: &usize| {
        let is = |kind: fn(&Cell) -> bool| rows.iter().any(|row| kind(&row[*at]));
        let kind = match (is(|it| matches!(it, Cell::Code(_))), is(|it| matches!(it, Cell::Name(_)))) {
            (true, _) => Column::CutEnd,
            (_, true) if *at == 0 => Column::CutStart,
            (_, true) => Column::Left,
            _ => Column::Right,
        };
        (figures.columns[*at].1, kind)
    };
    let mut grid = Grid::new(&shown.iter().map(column).collect::<Vec<_>>());
    rows.iter().for_each(|row| grid.row(shown.iter().map(|at| cell(&row[*at]))));
    let mut lines = grid.lines(page::width());
    let more = figures.rows.len() - rows.len();
    if more > 0 {
        lines.push(format!("… {more} more"));
    }
    lines
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // figures are shown with a few digits
fn cell(cell: &Cell) -> String {
    match cell {
        Cell::None => NONE.into(),
        Cell::Name(text) | Cell::Code(text) => visible(text),
        Cell::Count(count) => units::count(*count),
        Cell::Rate(number) | Cell::Number(number) if *number >= 100.0 => units::count(number.round() as u64),
        Cell::Rate(number) | Cell::Number(number) => units::short(*number),
        Cell::Time(seconds) => units::seconds(*seconds),
        Cell::Bytes(bytes) if *bytes < 0 => format!("-{}", units::bytes(bytes.unsigned_abs())),
        Cell::Bytes(bytes) => units::bytes(bytes.unsigned_abs()),
        Cell::Share(share) => format!("{:.1}%", share * 100.0),
    }
}
