//! The page of a stretch of the active session history: its statements, waits and blockers.

use crate::sessions::{Digest, Stretch, Sums, average, clock, day};
use crate::top::page::{Block, Cell, Column, Page, Row, Sheet};

use super::share;

/// The group with what ran or could run.
const CPU: usize = 0;

static STATEMENTS: [Column; 6] = [
    Column::figure("sessions", "SESS", 5, 0),
    Column::figure("time_share", "TIME%", 6, 0),
    Column::figure("cpu_share", "CPU%", 6, 1),
    Column::figure("threads", "BY", 4, 3),
    Column::text("schema", "SCHEMA", 10, 4),
    Column::rest("statement", "STATEMENT"),
];
static WAITS: [Column; 6] = [
    Column::figure("sessions", "SESS", 5, 0),
    Column::figure("time_share", "TIME%", 6, 0),
    Column::figure("threads", "BY", 4, 3),
    Column::text("class", "CLASS", 13, 1),
    Column::text("object", "MOSTLY FOR", 30, 2),
    Column::name("wait", "WAIT"),
];
static BLOCKERS: [Column; 7] = [
    Column::figure("sessions", "SESS", 5, 0),
    Column::figure("threads", "HELD UP", 7, 1),
    Column::figure("connection", "BLOCKER", 8, 0),
    Column::text("account", "ACCOUNT", 18, 3),
    Column::text("class", "HAS A", 13, 2),
    Column::text("object", "OF", 24, 4),
    Column::rest("statement", "WHAT IT DID"),
];

/// Renders the page, with as many rows as there are.
pub(in crate::top) fn page(stretch: Stretch, sums: &Sums) -> Page {
    let length = stretch.length();
    let blocks = [statements(length, sums), waits(length, sums), blockers(length, sums)];
    Page { blocks: blocks.into_iter().map(Block::Sheet).collect() }
}

/// Formats the stretch and its average number of sessions.
pub(in crate::top) fn heading(stretch: Stretch, sums: &Sums) -> String {
    let sessions = crate::units::short(average(sums.us, stretch.length()));
    format!("{} to {} UTC: {sessions} active sessions", day(stretch.from), clock(stretch.to))
}

#[allow(clippy::cast_precision_loss)] // counts and times of an hour
fn cells(us: u64, length: u64, sums: &Sums) -> [Cell; 2] {
    [Cell::Count(average(us, length)), share(us as f64, sums.us as f64)]
}

fn count(count: usize) -> Cell {
    Cell::Whole(count as u64)
}

fn statements(length: u64, sums: &Sums) -> Sheet {
    #[allow(clippy::cast_precision_loss)] // times of an hour
    let rows = sums.statements.iter().map(|it| {
        let name = match (&it.text, &it.digest) {
            (Some(text), _) => text.clone(),
            (None, Some(digest)) => format!("digest {digest}"),
            (None, None) if it.is_background => "(background threads)".into(),
            (None, None) => "(no digest yet)".into(),
        };
        let cpu = share(it.times[CPU] as f64, it.us as f64);
        let names = [Cell::text(it.schema.as_deref()), Cell::Text(name.clone())];
        let key = vec![it.schema.clone().unwrap_or_default(), it.digest.clone().unwrap_or(name)];
        Row { key, cells: [&cells(it.us, length, sums)[..], &[cpu, count(it.sessions)], &names].concat() }
    });
    Sheet::new("session_statements", &STATEMENTS, rows.collect())
}

fn waits(length: u64, sums: &Sums) -> Sheet {
    let rows = sums.waits.iter().map(|it| {
        let what = it.what.strip_prefix("wait/").unwrap_or(&it.what);
        let names =
            [Cell::Text(it.class.to_lowercase()), object(it.object.as_ref()), Cell::Text(what.to_owned())];
        let key = vec![it.class.clone(), it.what.clone()];
        Row { key, cells: [&cells(it.us, length, sums)[..], &[count(it.sessions)], &names].concat() }
    });
    Sheet::new("session_waits", &WAITS, rows.collect())
}

fn blockers(length: u64, sums: &Sums) -> Sheet {
    let rows = sums.blockers.iter().map(|it| {
        let who = it
            .connection
            .map_or_else(|| format!("thread {}", it.thread), |connection| connection.to_string());
        let did = match &it.statement {
            Some(statement) => Cell::Text(text(statement)),
            None if it.was_active => Cell::Empty,
            None => Cell::Text("(idle)".into()),
        };
        let cells = vec![
            Cell::Count(average(it.us, length)),
            count(it.waiting),
            Cell::Text(who.clone()),
            Cell::text(it.account.as_deref()),
            Cell::Text(it.class.to_lowercase()),
            object(it.object.as_ref()),
            did,
        ];
        Row { key: vec![who, it.class.clone()], cells }
    });
    Sheet::new("session_blockers", &BLOCKERS, rows.collect())
}

fn object(object: Option<&(String, usize)>) -> Cell {
    match object {
        None => Cell::Empty,
        Some((name, 0)) => Cell::Text(name.clone()),
        Some((name, others)) => Cell::Text(format!("{name} +{others}")),
    }
}

fn text(statement: &Digest) -> String {
    statement.text.clone().unwrap_or_else(|| format!("digest {}", statement.digest))
}
