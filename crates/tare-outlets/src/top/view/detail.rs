//! Details of one row: a digest, a table, a thread.

use super::{Rates, Seen, Texts, lists, rows, sheet, threads, total, waits};
use crate::top::look::{About, Counted, DIGESTS, Digest, INDEXES, Sample, Thread};
use crate::top::page::{Block, Cell, Column, Row};
use crate::top::rate::quantile;
use crate::units;

const SAMPLES: [Column; 7] = [
    Column::figure("time_ps", "TIME", 7, 0),
    Column::figure("lock_time_ps", "LOCK", 7, 2),
    Column::figure("sent", "SENT", 6, 1),
    Column::figure("examined", "EXAM", 6, 1),
    Column::figure("error", "ERROR", 5, 3),
    Column::figure("thread", "THREAD", 6, 4),
    Column::rest("statement", "STATEMENT"),
];

/// Most parts of a bar; the rest is merged.
const PARTS: usize = 6;

/// Renders prepared statements with one text: their executions have no digest, and so no samples.
pub(super) fn prepared(seen: &Seen<'_>, found: &[Counted]) -> Vec<Block> {
    let Some(About::Prepared { text }) = &seen.look.ask.about else { return vec![] };
    let (counted, seconds) = rows(seen);
    // All have the requested text, even if it was not returned with them.
    let texts = counted.iter().chain(found).map(|row| (row.key.clone(), text.clone())).collect();
    let mut blocks = vec![Block::Text(text.clone())];
    if let Some(row) = lists::together(counted, &texts).first() {
        blocks.push(figures(row, seconds, &texts));
    }
    blocks.push(Block::Text(format!("Prepared on {} connections now.", found.len())));
    blocks.push(Block::Text(
        "Executions of prepared statements have neither digest nor text in the server's histories: there are no samples."
            .into(),
    ));
    blocks
}

/// Renders one row of the list of statements: its text stands above, and its share is omitted.
fn figures(row: &Counted, seconds: Option<f64>, texts: &Texts) -> Block {
    let mut cells = lists::statement(&Rates { row, tally: &DIGESTS, seconds }, 0.0, texts);
    cells.truncate(FIGURES.len() + 1);
    cells.remove(1);
    Block::Sheet(sheet("digest", &FIGURES, vec![Row { key: super::key(row), cells }]))
}

pub(super) fn digest(seen: &Seen<'_>, found: &[Counted], digest: &Digest) -> Vec<Block> {
    let mut blocks = vec![Block::Text(digest.text.clone().unwrap_or_else(|| "(no text)".into()))];
    let (counted, seconds) = rows(seen);
    if let Some(row) = counted.first().or(found.first()) {
        blocks.push(figures(row, seconds, seen.texts));
        blocks.extend(quantiles(seen, digest).map(Block::Text));
    }
    let last = match digest.samples.len() {
        0 => return blocks.into_iter().chain([nothing_recorded()]).collect(),
        1 => "the last one".to_owned(),
        many => format!("the last {many}"),
    };
    for (what, of, parts) in [("Stages", "stage/", &digest.stages), ("Waits", "wait/", &digest.waits)] {
        blocks.push(Block::Heading(format!("{what} of {last}")));
        blocks.push(match bar(parts, of) {
            Some(bar) => bar,
            None => Block::Text(format!("No {} of theirs were recorded.", what.to_lowercase())),
        });
    }
    blocks.push(Block::Heading(format!("Samples: {last}")));
    let rows = digest.samples.iter().enumerate().map(|(at, it)| sample(at, it)).collect();
    blocks.push(Block::Sheet(sheet("samples", &SAMPLES, rows)));
    blocks
}

/// The list's columns of figures, without the share.
const FIGURES: [Column; 11] = {
    let all = lists::STATEMENTS;
    [all[0], all[2], all[3], all[4], all[5], all[6], all[7], all[8], all[9], all[10], all[11]]
};

/// Returns the 95th and 99th percentile since the previous sample, from the histogram.
fn quantiles(seen: &Seen<'_>, digest: &Digest) -> Option<String> {
    let anew = seen.buckets.len() != digest.buckets.len()
        || seen.buckets.iter().zip(&digest.buckets).any(|(then, now)| now.1 < then.1);
    let since: Vec<(u64, u64)> = match anew {
        true => digest.buckets.clone(),
        false => digest.buckets.iter().zip(seen.buckets).map(|(now, then)| (now.0, now.1 - then.1)).collect(),
    };
    let (p95, p99) = (quantile(&since, 0.95)?, quantile(&since, 0.99)?);
    let when = if anew { "since the server counts" } else { "in this interval" };
    Some(format!("P95 {} and P99 {} {when}", units::picoseconds(p95), units::picoseconds(p99)))
}

fn nothing_recorded() -> Block {
    Block::Text("None of its statements is in the histories: there were none lately, or they are off.".into())
}

#[allow(clippy::cast_precision_loss)] // shown with four digits
fn sample(at: usize, sample: &Sample) -> Row {
    let error = if sample.error == 0 { Cell::Empty } else { Cell::Text(sample.error.to_string()) };
    let cells = vec![
        Cell::Time(sample.time as f64),
        Cell::Time(sample.lock_time as f64),
        Cell::Count(sample.sent as f64),
        Cell::Count(sample.examined as f64),
        error,
        Cell::Text(sample.thread.to_string()),
        Cell::text(sample.text.as_deref()),
    ];
    Row { key: vec![at.to_string()], cells }
}

/// Renders the times of instruments as parts of a whole; small ones are merged.
#[allow(clippy::cast_precision_loss)] // shown with three digits
fn bar(parts: &[(String, u64)], prefix: &str) -> Option<Block> {
    let all: u64 = parts.iter().map(|(_, time)| time).sum();
    if all == 0 {
        return None;
    }
    let share = |time: u64| time as f64 / all as f64;
    let name = |name: &str| name.trim_start_matches(prefix).trim_start_matches("sql/").to_owned();
    let few = parts.len().min(if parts.len() > PARTS { PARTS - 1 } else { PARTS });
    let mut shown: Vec<(String, f64)> =
        parts[..few].iter().map(|(it, time)| (name(it), share(*time))).collect();
    let rest: u64 = parts[few..].iter().map(|(_, time)| time).sum();
    if rest > 0 {
        shown.push((format!("{} others", parts.len() - few), share(rest)));
    }
    Some(Block::Bar(shown))
}

pub(super) fn table(seen: &Seen<'_>) -> Vec<Block> {
    let (counted, seconds) = rows(seen);
    let time = total(counted, &INDEXES, "SUM_TIMER_WAIT");
    let row = |row: &Counted| Row {
        key: super::key(row),
        cells: lists::index(&Rates { row, tally: &INDEXES, seconds }, time),
    };
    let sheet = sheet("indexes", &lists::INDEXES, counted.iter().map(row).collect());
    vec![Block::Sheet(sheet.sorted_by(1))]
}

pub(super) fn thread(seen: &Seen<'_>, thread: Option<&Thread>) -> Vec<Block> {
    let Some(thread) = thread else { return vec![Block::Text("The thread has ended.".into())] };
    let mut blocks = vec![];
    let row = Row { key: vec![thread.id.to_string()], cells: threads::cells(thread) };
    blocks.push(Block::Sheet(sheet("thread", &threads::COLUMNS, vec![row])));
    if let Some(connection) = thread.connection {
        blocks.push(Block::Text(format!(
            "KILL QUERY {connection} ends its statement, KILL {connection} the connection and its transaction."
        )));
    }
    if let Some(text) = &thread.statement {
        let what = if thread.statement_time.is_some() { "Statement" } else { "Last statement" };
        blocks.extend([Block::Heading(what.into()), Block::Text(text.clone())]);
    }
    let (counted, seconds) = rows(seen);
    let busy = counted.iter().filter(|row| {
        waits::class(row.named(0)).is_some() && row.counters.iter().any(|counter| *counter > 0)
    });
    let busy: Vec<&Counted> = busy.collect();
    let time: f64 =
        busy.iter().map(|row| row.counter(&crate::top::look::THREAD_WAITS, "SUM_TIMER_WAIT")).sum();
    let untimed = waits::Untimed::of(seen);
    let row =
        |row: &&Counted| Row { key: super::key(row), cells: waits::cells(row, seconds, time, &untimed) };

    blocks.push(Block::Heading("What it waited for".into()));
    let sheet = sheet("waits", &waits::COLUMNS, busy.iter().map(row).collect());
    blocks.push(Block::Sheet(sheet.sorted_by(waits::FIRST)));
    blocks
}
