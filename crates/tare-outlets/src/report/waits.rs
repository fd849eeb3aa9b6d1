//! The report's waits, by class and by instrument, and the stages of statements.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::changes::{RowChange, SnapshotPair};
use super::{Cell, Figures, ROWS, Section};

/// Number of parts of an instrument's name that make its class: `wait/io/file`.
const CLASS_PARTS: usize = 3;
/// The class of sleeping threads: the server's own, and those that wait for another.
const SLEEP: &str = "wait/synch/cond";

pub(super) fn section(between: &SnapshotPair<'_>) -> Option<Section> {
    let mut changes = between.changes(
        "events_waits_summary_global_by_event_name",
        &["EVENT_NAME"],
        &["COUNT_STAR", "SUM_TIMER_WAIT"],
    )?;
    // Idle is the time without a request.
    changes.rows.retain(|row| row.by[0] > 0 && row.name(0) != "idle");
    changes.rows.sort_by_key(|row| Reverse(row.by[1]));
    let mut classes: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for row in &changes.rows {
        let class = row.name(0).split('/').take(CLASS_PARTS).collect::<Vec<_>>().join("/");
        let sums = classes.entry(class).or_default();
        *sums = (sums.0.saturating_add(row.by[0]), sums.1.saturating_add(row.by[1]));
    }
    let mut classes: Vec<(String, (u64, u64))> = classes.into_iter().collect();
    classes.sort_by_key(|(_, (_, time))| Reverse(*time));
    let is_sleep = |name: &str| name.starts_with(SLEEP);
    let awake = changes.rows.iter().filter(|row| !is_sleep(row.name(0)));
    let all = awake.map(|row| row.by[1]).fold(0, u64::saturating_add);
    let row = |name: &str, count: u64, time: u64| {
        vec![
            Cell::Name(name.to_owned()),
            Cell::Count(count),
            Cell::rate(count, changes.seconds),
            Cell::picoseconds(time),
            if is_sleep(name) { Cell::None } else { Cell::share(time, all) },
            Cell::average(time, count),
        ]
    };
    let of_classes = classes.iter().map(|(class, (count, time))| row(class, *count, *time)).collect();
    let of_instruments = changes.rows.iter().filter(|it| !is_sleep(it.name(0)));
    let of_instruments = of_instruments.map(|it| row(it.name(0), it.by[0], it.by[1])).collect();
    let tables = vec![
        Figures::new("wait_classes", "By class", CLASSES, of_classes, ROWS),
        Figures::new("wait_instruments", "By instrument", INSTRUMENTS, of_instruments, ROWS),
    ];
    let note = "Waits of all threads, the server's own included. Those of wait/synch/cond are mostly threads without work, so they \
                have no share. With tare an uncontended lock is counted with a time of 0, except at level exact."
        .into();
    Some(Section { key: "waits", title: "Waits", note, chart: None, tables })
}

const CLASSES: &[(&str, &str)] = &[
    ("class", "class"),
    ("count", "count"),
    ("per_second", "a second"),
    ("total_seconds", "total"),
    ("share", "share"),
    ("average_seconds", "average"),
];
const INSTRUMENTS: &[(&str, &str)] = &[
    ("instrument", "instrument"),
    ("count", "count"),
    ("per_second", "a second"),
    ("total_seconds", "total"),
    ("share", "share"),
    ("average_seconds", "average"),
];

pub(super) fn stages(between: &SnapshotPair<'_>) -> Option<Section> {
    let mut changes = between.changes(
        "events_stages_summary_global_by_event_name",
        &["EVENT_NAME"],
        &["COUNT_STAR", "SUM_TIMER_WAIT"],
    )?;
    changes.rows.retain(|row| row.by[0] > 0);
    changes.rows.sort_by_key(|row| Reverse(row.by[1]));
    let all = changes.sum(1);
    let row = |row: &RowChange<'_>| {
        vec![
            Cell::Name(row.name(0).to_owned()),
            Cell::Count(row.by[0]),
            Cell::rate(row.by[0], changes.seconds),
            Cell::picoseconds(row.by[1]),
            Cell::share(row.by[1], all),
            Cell::average(row.by[1], row.by[0]),
        ]
    };
    let rows: Vec<Vec<Cell>> = changes.rows.iter().map(row).collect();
    let empty = rows.is_empty();
    let tables = vec![Figures::new("stages", "By instrument", INSTRUMENTS, rows, ROWS)];
    (!empty).then(|| Section {
        key: "stages",
        title: "Stages",
        note: "What statements spent their time on, by stage.".into(),
        chart: None,
        tables,
    })
}
