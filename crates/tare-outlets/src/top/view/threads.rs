//! The view of threads and their activity.

use crate::top::look::Thread;
use crate::top::page::{Cell, Column, Row, Sheet};

pub(super) const COLUMNS: [Column; 11] = [
    Column::figure("connection", "CONN", 7, 0),
    Column::figure("thread", "THREAD", 7, 5),
    Column::text("account", "ACCOUNT", 14, 1),
    Column::text("schema", "SCHEMA", 8, 6),
    Column::text("command", "COMMAND", 7, 2),
    Column::figure("time_ps", "TIME", 7, 0),
    Column::text("state", "STATE", 14, 3),
    Column::text("wait", "WAITS FOR", 20, 7),
    Column::figure("examined", "EXAM", 6, 8),
    Column::figure("sent", "SENT", 6, 9),
    Column::rest("statement", "STATEMENT"),
];

/// Column that rows are sorted by at first.
pub(super) const FIRST: usize = 5;

pub(super) fn sheet(threads: &[Thread], background: bool) -> Sheet {
    let shown = threads.iter().filter(|thread| background || thread.connection.is_some());
    let row = |thread: &Thread| Row { key: vec![thread.id.to_string()], cells: cells(thread) };
    super::sheet("threads", &COLUMNS, shown.map(row).collect())
}

/// Returns the cells of [`COLUMNS`].
#[allow(clippy::cast_precision_loss)] // shown with four digits
pub(super) fn cells(thread: &Thread) -> Vec<Cell> {
    let count = |value: Option<u64>| value.map_or(Cell::Empty, |it| Cell::Count(it as f64));
    let statement = match (&thread.statement, thread.connection) {
        (Some(text), _) => Cell::Text(text.clone()),
        (None, None) => Cell::Text(thread.name.clone()),
        (None, Some(_)) => Cell::Empty,
    };
    vec![
        // Ids of connections and threads are names, which are not abbreviated as figures are.
        thread.connection.map_or(Cell::Empty, |id| Cell::Text(id.to_string())),
        Cell::Text(thread.id.to_string()),
        Cell::text(thread.account.as_deref()),
        Cell::text(thread.schema.as_deref()),
        Cell::text(thread.command.as_deref()),
        time(thread),
        Cell::text(thread.state.as_deref()),
        wait(thread),
        count(thread.examined),
        count(thread.sent),
        statement,
    ]
}

/// Returns the time of the statement, or else of the thread's state; empty for a sleeping thread.
#[allow(clippy::cast_precision_loss)] // shown with four digits
pub(super) fn time(thread: &Thread) -> Cell {
    match (thread.statement_time, thread.seconds) {
        (Some(time), _) => Cell::Time(time as f64),
        (None, Some(seconds)) if thread.is_busy() => Cell::Time(seconds as f64 * 1e12),
        _ => Cell::Empty,
    }
}

fn wait(thread: &Thread) -> Cell {
    let Some(wait) = &thread.wait else { return Cell::Empty };
    let short = wait.trim_start_matches("wait/");
    Cell::Text(match &thread.object {
        Some(object) => format!("{short} {object}"),
        None => short.to_owned(),
    })
}
