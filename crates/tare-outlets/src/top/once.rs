//! A single output for programs and for paper: plain text, or JSON.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::draw::broken;
use super::page::{Block, Cell, Page, Sheet};
use super::read::Reader;
use super::state::State;
use crate::source::Error;

/// Takes two samples, the state's interval apart, because rates are differences; returns false when
/// interrupted.
///
/// # Errors
///
/// Those of [`Reader::look`].
pub fn look_twice(reader: &mut Reader, state: &mut State, stop: &AtomicBool) -> Result<bool, Error> {
    state.take(reader.look(state.ask())?);
    if state.has_rates() {
        return Ok(true);
    }
    let begin = Instant::now();
    while let Some(left) = state.interval().checked_sub(begin.elapsed()) {
        if stop.load(Ordering::Relaxed) {
            return Ok(false);
        }
        std::thread::sleep(left.min(Duration::from_millis(100)));
    }
    state.take(reader.look(state.ask())?);
    Ok(true)
}

/// Renders the sample as lines of text.
#[must_use]
pub fn text(state: &State, width: usize, rows: usize) -> String {
    let mut lines = vec![];
    let (server, place) =
        state.head().map(|head| (head.server.clone(), head.place.clone())).unwrap_or_default();
    let view = if state.file().is_some() { "active sessions" } else { state.view().name() };
    let mut first = vec![server, place, view.to_owned()];
    first.extend(state.between().map(|(seconds, _)| format!("over {seconds:.1} s")));
    lines.push(first.join("  "));
    lines.push(state.remarks().join("  "));
    let totals = state.totals().into_iter().map(|(name, cell)| format!("{} {name}", cell.whole()));
    lines.push(state.stretch().unwrap_or_else(|| totals.collect::<Vec<_>>().join("   ")));
    if state.file().is_some() {
        let groups = state.active_sessions().into_iter().filter(|(_, sessions)| *sessions > 0.0);
        let groups = groups.map(|(name, sessions)| format!("{} {name}", crate::units::short(sessions)));
        lines.push(groups.collect::<Vec<_>>().join("  "));
    }
    lines.extend(state.message().map(str::to_owned));
    for block in &state.page().blocks {
        match block {
            Block::Heading(text) => lines.push(text.clone()),
            Block::Text(text) | Block::Note(text) => lines.extend(broken(text, width)),
            Block::Sheet(sheet) => {
                lines.push(String::new());
                let fit = sheet.fit(width);
                lines.push(sheet.titles(&fit));
                lines.extend(sheet.rows.iter().take(rows).map(|row| sheet.row(row, &fit)));
            }
            Block::Bar(parts) => {
                lines.extend(parts.iter().map(|(name, share)| format!("{:.1}% {name}", share * 100.0)));
            }
        }
    }
    lines.iter().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// Renders the sample as one object. Figures are numbers, in the unit at the end of their name.
#[must_use]
pub fn json(state: &State, rows: usize) -> Value {
    let page: Page = state.page();
    let mut sheets = Map::new();
    for block in &page.blocks {
        if let Block::Sheet(sheet) = block {
            sheets.insert(sheet.name.to_owned(), sheet_json(sheet, rows));
        }
    }
    let totals: Map<String, Value> = state
        .totals()
        .into_iter()
        .map(|(name, cell)| {
            let unit = if matches!(cell, Cell::Time(_)) { "_ps_per_s" } else { "_per_s" };
            (name.replace("/s", unit).replace(' ', "_"), cell.json())
        })
        .collect();
    let head = state.head().cloned().unwrap_or_default();
    let budget: Map<String, Value> =
        head.budget.into_iter().map(|(name, value)| (name, value.into())).collect();
    json!({
        "server": head.server,
        "place": head.place,
        "uptime_s": head.uptime.map(|it| it.as_secs()),
        "connections": head.connections,
        "active_now": head.active,
        "queries_per_s": state.queries_per_s(),
        "view": state.view().name(),
        "seconds": state.between().map(|(seconds, _)| seconds),
        "reset": state.between().is_some_and(|(_, reset)| reset),
        "lost": head.lost,
        "budget": budget,
        "active_sessions": state.active_sessions(),
        "notes": state.notes(),
        "totals": totals,
        "sheets": sheets,
    })
}

fn sheet_json(sheet: &Sheet, rows: usize) -> Value {
    let row = |row: &super::page::Row| {
        let cells = sheet.columns.iter().zip(&row.cells);
        Value::Object(cells.map(|(column, cell)| (column.name.to_owned(), cell.json())).collect())
    };
    Value::Array(sheet.rows.iter().take(rows).map(row).collect())
}
