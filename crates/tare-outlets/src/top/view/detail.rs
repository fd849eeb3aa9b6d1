//! One thing in detail: a digest, a table, a thread.

use super::{Rates, Seen, lists, rows, sheet, threads, total, waits};
use crate::top::look::{Counted, DIGESTS, Digest, INDEXES, Sample, Thread};
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

/// More parts of a bar than that are one.
const PARTS: usize = 6;

pub(super) fn digest(seen: &Seen<'_>, found: &[Counted], digest: &Digest) -> Vec<Block> {
    let mut blocks = vec![Block::Text(digest.text.clone().unwrap_or_else(|| "(no text)".into()))];
    let (counted, seconds) = rows(seen);
    let time = total(counted, &DIGESTS, "SUM_TIMER_WAIT");
    if let Some(row) = counted.first().or(found.first()) {
        let mut cells = lists::statement(&Rates { row, tally: &DIGESTS, seconds }, time, seen.texts);
        // It is alone here, and its text stands above.
        (cells[1], cells[13], cells[14]) = (Cell::Empty, Cell::Empty, Cell::Text(quantiles(seen, digest)));
        blocks.push(Block::Sheet(sheet("digest", &DIGEST, vec![Row { key: super::key(row), cells }])));
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

const DIGEST: [Column; 15] = {
    let mut columns = lists::STATEMENTS;
    // Nothing but a place: the whole list's share is not asked for here.
    columns[1].rank = 20;
    columns[14] = Column::rest("quantiles", "QUANTILES");
    columns
};

/// P95 and P99 of what ended since the look before, from the histogram.
fn quantiles(seen: &Seen<'_>, digest: &Digest) -> String {
    let anew = seen.buckets.len() != digest.buckets.len()
        || seen.buckets.iter().zip(&digest.buckets).any(|(then, now)| now.1 < then.1);
    let since: Vec<(u64, u64)> = match anew {
        true => digest.buckets.clone(),
        false => digest.buckets.iter().zip(seen.buckets).map(|(now, then)| (now.0, now.1 - then.1)).collect(),
    };
    match (quantile(&since, 0.95), quantile(&since, 0.99)) {
        (Some(p95), Some(p99)) => {
            let when = if anew { "in all" } else { "now" };
            format!("{when}: P95 {}, P99 {}", units::picoseconds(p95), units::picoseconds(p99))
        }
        _ => String::new(),
    }
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

/// Instruments and their times as parts of a whole; the small ones together.
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
    let mut blocks = vec![];
    if let Some(first) = counted.first() {
        let name = format!("Indexes of {}.{}", first.named(0), first.named(1));
        blocks.push(Block::Heading(name));
    }
    let sheet = sheet("indexes", &lists::INDEXES, counted.iter().map(row).collect());
    blocks.push(Block::Sheet(sheet.sorted_by(1)));
    blocks
}

pub(super) fn thread(seen: &Seen<'_>, thread: Option<&Thread>) -> Vec<Block> {
    let Some(thread) = thread else { return vec![Block::Text("The thread has ended.".into())] };
    let mut blocks = vec![];
    let row = Row { key: vec![thread.id.to_string()], cells: threads::cells(thread) };
    blocks.push(Block::Sheet(sheet("thread", &threads::COLUMNS, vec![row])));
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
    let row = |row: &&Counted| Row { key: super::key(row), cells: waits::cells(row, seconds, time) };
    blocks.push(Block::Heading("What it waited for".into()));
    let sheet = sheet("waits", &waits::COLUMNS, busy.iter().map(row).collect());
    blocks.push(Block::Sheet(sheet.sorted_by(waits::FIRST)));
    blocks
}
