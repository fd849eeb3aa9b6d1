//! Views: conversion of a sample, and the growth since the previous one, to a page.

mod detail;
mod lists;
mod locks;
pub(super) mod stretch;
mod threads;
mod waits;

use std::collections::HashMap;

use super::look::{Content, Counted, Head, Key, Look, Overview, Tally, View};
use super::page::{Block, Cell, Column, Page, Sheet};
use super::rate::Between;
use crate::units;

pub(super) use waits::{Sparks, classes};

/// Texts of digests, by schema and digest.
pub(super) type Texts = HashMap<Key, String>;

/// A sample with data of previous ones.
pub(super) struct Seen<'a> {
    pub(super) look: &'a Look,
    /// Growth since the previous sample; `None` for the first.
    pub(super) between: Option<&'a Between>,
    pub(super) texts: &'a Texts,
    pub(super) sparks: &'a Sparks,
    /// Buckets of the digest's histogram in the previous sample.
    pub(super) buckets: &'a [(u64, u64)],
    /// Whether to show background threads, too, and waits of sleeping threads.
    pub(super) background: bool,
}

/// Renders the page of a sample; its last sheet is neither sorted nor filtered.
pub(super) fn page(seen: &Seen<'_>) -> Page {
    let mut blocks: Vec<Block> = seen.look.notes.iter().map(|note| Block::Note(note.clone())).collect();
    match &seen.look.content {
        Content::Counted(_) => match seen.look.ask.view {
            View::Waits => blocks.extend(waits::blocks(seen)),
            view => {
                let sheet = lists::sheet(view, seen);
                if sheet.rows.is_empty() && seen.between.is_some() {
                    blocks.push(Block::Text(nothing(view, seen.look.head.active)));
                }
                blocks.push(Block::Sheet(sheet));
            }
        },
        Content::Threads(threads) => {
            blocks.push(Block::Sheet(threads::sheet(threads, seen.background)));
        }
        Content::Locks(found) => blocks.extend(locks::blocks(found)),
        Content::Digest(rows, digest) => blocks.extend(detail::digest(seen, rows, digest)),
        Content::Prepared(rows) => blocks.extend(detail::prepared(seen, rows)),
        Content::Table(_) => blocks.extend(detail::table(seen)),
        Content::Thread(_, thread) => blocks.extend(detail::thread(seen, thread.as_ref().as_ref())),
    }
    Page { blocks }
}

/// Returns what to say where nothing was counted.
fn nothing(view: View, active: Option<u64>) -> String {
    match (view, active) {
        (View::Statements, Some(active @ 1..)) => {
            let active = units::count(active);
            format!("No statement ended in this interval. Active: {active}, see 3 locks, 7 threads.")
        }
        (View::Statements, _) => "No statement ended in this interval.".into(),
        _ => "Nothing was counted in this interval.".into(),
    }
}

/// Returns the columns of a view's list, and the one that rows are sorted by at first; `None` where their
/// order has a meaning.
pub(super) fn columns(view: View) -> (&'static [Column], Option<usize>) {
    match view {
        View::Locks => (&locks::COLUMNS, None),
        View::Threads => (&threads::COLUMNS, Some(threads::FIRST)),
        View::Waits => (&waits::COLUMNS, Some(waits::FIRST)),
        _ => lists::columns(view),
    }
}

/// Returns the totals of all rows.
pub(super) fn totals(seen: &Seen<'_>) -> Vec<(&'static str, Cell)> {
    let Some(between) = seen.between else { return threads_in_all(seen.look) };
    let Some(tally) = seen.look.ask.view.tally().filter(|_| seen.look.ask.about.is_none()) else {
        return threads_in_all(seen.look);
    };
    let of = |column: &str| {
        between.rows.iter().map(|row| row.counter(tally, column)).sum::<f64>() / between.seconds
    };
    match seen.look.ask.view {
        View::Statements => vec![
            ("statements/s", Cell::Count(of("COUNT_STAR"))),
            ("errors/s", Cell::Count(of("SUM_ERRORS"))),
            ("examined/s", Cell::Count(of("SUM_ROWS_EXAMINED"))),
        ],
        View::Tables => vec![
            ("rows fetched/s", Cell::Count(of("COUNT_FETCH"))),
            ("changed/s", Cell::Count(of("COUNT_INSERT") + of("COUNT_UPDATE") + of("COUNT_DELETE"))),
        ],
        View::Files => vec![
            ("read/s", Cell::Bytes(of("SUM_NUMBER_OF_BYTES_READ"))),
            ("written/s", Cell::Bytes(of("SUM_NUMBER_OF_BYTES_WRITE"))),
        ],
        View::Memory => {
            let now = between.rows.iter().filter_map(|row| row.gauge(tally, "CURRENT_NUMBER_OF_BYTES_USED"));
            vec![
                ("in use", Cell::Bytes(now.sum())),
                ("allocated/s", Cell::Bytes(of("SUM_NUMBER_OF_BYTES_ALLOC"))),
            ]
        }
        View::Waits => waits::totals(between),
        View::Locks | View::Threads => vec![],
    }
}

#[allow(clippy::cast_precision_loss)] // counts of threads
fn threads_in_all(look: &Look) -> Vec<(&'static str, Cell)> {
    match &look.content {
        // A server has threads: where none is seen, they could not be read.
        Content::Threads(threads) if threads.is_empty() => vec![],
        Content::Threads(threads) => {
            let connections = threads.iter().filter(|thread| thread.connection.is_some()).count();
            let active = threads.iter().filter(|thread| thread.is_active()).count();
            vec![
                ("connections", Cell::Count(connections as f64)),
                ("active", Cell::Count(active as f64)),
                ("in the background", Cell::Count((threads.len() - connections) as f64)),
            ]
        }
        // Where some waits could not be read, nobody may seem to wait.
        Content::Locks(locks) if locks.partial && locks.waits.is_empty() => vec![],
        Content::Locks(locks) => {
            let mut waiting: Vec<u64> = locks.waits.iter().map(|wait| wait.waiting).collect();
            waiting.sort_unstable();
            waiting.dedup();
            vec![("waiting", Cell::Count(waiting.len() as f64))]
        }
        _ => vec![],
    }
}

/// Returns the second line of the head: uptime, load, overhead, losses.
pub(super) fn remarks(head: &Head, queries_per_s: Option<f64>, busy: bool) -> Vec<String> {
    let rate = queries_per_s.map_or("–".into(), units::short);
    let mut remarks = vec![];
    remarks.extend(head.uptime.map(|uptime| format!("up {}", units::duration(uptime.as_secs()))));
    let active = head.active.map(|count| format!("{} active", units::count(count)));
    let connections = head.connections.map(|count| format!("{} connections", units::count(count)));
    let of_sessions: Vec<String> = connections.into_iter().chain(active).collect();
    remarks.extend((!of_sessions.is_empty()).then(|| of_sessions.join(", ")));
    remarks.extend(head.queries.map(|_| format!("{rate} QPS")));
    if head.lost > 0 {
        remarks.push(format!("lost {}", units::count(head.lost)));
    }
    remarks.extend(overhead(head, busy));
    remarks
}

/// Returns the overview of the server, the most important first. `hits`: the share of requests for pages that
/// found them in the buffer pool.
pub(super) fn overview(of: &Overview, hits: Option<f64>) -> Vec<String> {
    let mut parts = vec![];
    parts.extend(of.replication.iter().map(|it| {
        let name =
            if it.channel.is_empty() { "replica".to_owned() } else { format!("replica {}", it.channel) };
        match (it.stopped.as_slice(), it.behind) {
            ([], Some(behind)) => format!("{name} {behind} s behind"),
            ([], None) => format!("{name}, delay unknown"),
            (stopped, _) => format!("{name} STOPPED: {}", stopped.join(", ")),
        }
    }));
    let hits = hits.map(|share| format!(", {:.1}% hit", share * 100.0)).unwrap_or_default();
    parts.extend(of.pool_used.map(|share| format!("buffer pool {:.0}% used{hits}", share * 100.0)));
    parts.extend(of.checkpoint_age.map(|(age, most)| {
        let most = most.map(|most| format!(" of {}", units::bytes(most))).unwrap_or_default();
        format!("checkpoint age {}{most}", units::bytes(age))
    }));
    parts.extend(of.history_list.map(|count| format!("history list {}", units::count(count))));
    parts
}

/// Returns the overhead, where tare reports it.
fn overhead(head: &Head, busy: bool) -> Option<String> {
    let of =
        |wanted: &str| head.budget.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str());
    // The value starts with the figure; the interval and the method follow.
    let share = of("budget_share").and_then(|it| it.split(' ').next()).filter(|it| it.ends_with('%'));
    let shown = share.map(|it| if busy { it } else { "–" });
    let Some(budget) = of("budget").filter(|it| *it != "OFF") else {
        return shown.map(|it| format!("overhead {it}"));
    };
    // `over: …` and `cannot be kept: …`; the other states are not worth a warning.
    let state = of("budget_state").and_then(|it| it.split_once(':')).map_or("", |(state, _)| state);
    let state = Some(state).filter(|it| ["over", "cannot be kept"].contains(it));
    let used = shown.map_or_else(|| format!("budget {budget}"), |it| format!("overhead {it} of {budget}"));
    Some([used.as_str()].into_iter().chain(state).collect::<Vec<_>>().join(", "))
}

/// A row's counters as rates, which are unknown for the first sample.
struct Rates<'a> {
    row: &'a Counted,
    tally: &'a Tally,
    seconds: Option<f64>,
}

impl Rates<'_> {
    /// Returns the growth of a counter.
    fn grown(&self, column: &str) -> Option<f64> {
        self.seconds.map(|_| self.row.counter(self.tally, column))
    }

    fn each_second(&self, column: &str) -> Cell {
        self.grown(column).zip(self.seconds).map_or(Cell::Empty, |(grown, s)| Cell::Count(grown / s))
    }

    fn bytes_each_second(&self, column: &str) -> Cell {
        self.grown(column).zip(self.seconds).map_or(Cell::Empty, |(grown, s)| Cell::Bytes(grown / s))
    }

    /// Returns the growth of a counter divided by that of another, such as time by count; `None` if that did
    /// not grow.
    fn each(&self, column: &str, of: &str) -> Option<f64> {
        let (part, whole) = (self.grown(column)?, self.grown(of)?);
        (whole > 0.0).then(|| part / whole)
    }

    fn time_each(&self, column: &str, of: &str) -> Cell {
        self.each(column, of).map_or(Cell::Empty, Cell::Time)
    }

    fn share(&self, column: &str, total: f64) -> Cell {
        self.grown(column).map_or(Cell::Empty, |grown| share(grown, total))
    }
}

fn share(part: f64, whole: f64) -> Cell {
    Cell::Share(if whole > 0.0 { part / whole } else { 0.0 })
}

/// Returns the rows of a page, with their growth since the previous sample, if there was one.
fn rows<'a>(seen: &Seen<'a>) -> (&'a [Counted], Option<f64>) {
    match seen.between {
        Some(between) => (&between.rows, Some(between.seconds)),
        None => (seen.look.content.counted(), None),
    }
}

/// Returns the sum of a counter over all rows.
fn total(rows: &[Counted], tally: &Tally, column: &str) -> f64 {
    rows.iter().map(|row| row.counter(tally, column)).sum()
}

/// Returns a row's key for the sheet.
fn key(row: &Counted) -> Vec<String> {
    row.key.iter().map(|part| part.clone().unwrap_or_default()).collect()
}

/// Makes a sheet; each row has a cell per column.
fn sheet(name: &'static str, columns: &'static [Column], rows: Vec<super::page::Row>) -> Sheet {
    Sheet::new(name, columns, rows)
}
