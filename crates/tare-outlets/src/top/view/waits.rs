//! The view of waits: by class over time, and by instrument.

use std::collections::{BTreeMap, HashSet, VecDeque};

use super::{Rates, Seen, key, rows, sheet};
use crate::top::look::{Counted, WAITS};
use crate::top::page::{Block, Cell, Column, Row, Sheet};
use crate::top::rate::Between;

/// The latest values of each class, oldest first.
pub(in crate::top) type Sparks = BTreeMap<String, VecDeque<f64>>;

const OF_CLASSES: [Column; 6] = [
    Column::text("class", "CLASS", 16, 0),
    Column::figure("rate_per_s", "RATE/s", 7, 0),
    Column::figure("time_ps_per_s", "TIME/s", 8, 0),
    Column::figure("time_share", "TIME%", 6, 0),
    Column::figure("avg_ps", "AVG", 7, 1),
    Column { width: 30, ..Column::rest("time_ps_per_s_history", "TIME/s, LAST SAMPLES") },
];

pub(super) const COLUMNS: [Column; 6] = [
    Column::figure("rate_per_s", "RATE/s", 7, 0),
    Column::figure("time_ps_per_s", "TIME/s", 8, 0),
    Column::figure("time_share", "TIME%", 6, 0),
    Column::figure("avg_ps", "AVG", 7, 1),
    Column::figure("max_ps", "MAX", 7, 2),
    Column::name("event", "EVENT"),
];

/// Column that rows are sorted by at first.
pub(super) const FIRST: usize = 1;

/// Returns a wait's class: `io/file` for `wait/io/file/innodb/innodb_data_file`; `None` for an idle
/// connection.
pub(super) fn class(event: &str) -> Option<&str> {
    let rest = event.strip_prefix("wait/")?;
    let end = rest.match_indices('/').nth(1).map_or(rest.len(), |(at, _)| at);
    Some(&rest[..end])
}

/// The class of threads that sleep until there is work; its time is not lost.
const SLEEP: &str = "synch/cond";

/// Returns count and time of the waits of each class.
pub(in crate::top) fn classes(waits: &[Counted]) -> BTreeMap<&str, (f64, f64)> {
    let mut classes = BTreeMap::new();
    for row in waits {
        let Some(class) = class(row.named(0)) else { continue };
        let sums: &mut (f64, f64) = classes.entry(class).or_default();
        sums.0 += row.counter(&WAITS, "COUNT_STAR");
        sums.1 += row.counter(&WAITS, "SUM_TIMER_WAIT");
    }
    classes
}

pub(super) fn blocks(seen: &Seen<'_>) -> Vec<Block> {
    let (counted, seconds) = rows(seen);
    let classes = classes(counted);
    let time = lost(&classes).1;
    let untimed = Untimed::of(seen);
    let class_row = |(class, (count, time_of)): (&&str, &(f64, f64))| {
        let figure = |cell: Cell| if seconds.is_some() { cell } else { Cell::Empty };
        let seconds = seconds.unwrap_or(1.0);
        let spark = seen.sparks.get(*class).map(|values| values.iter().copied().collect());
        let cells = vec![
            Cell::Text((*class).to_owned()),
            figure(Cell::Count(count / seconds)),
            figure(Cell::Time(time_of / seconds)),
            if **class == *SLEEP { Cell::Empty } else { figure(super::share(*time_of, time)) },
            if *count > 0.0 && *time_of > 0.0 && !untimed.counts_in(counted, class) {
                figure(Cell::Time(time_of / count))
            } else {
                Cell::Empty
            },
            spark.map_or(Cell::Empty, Cell::Spark),
        ];
        Row { key: vec![(*class).to_owned()], cells }
    };
    let rows = classes.iter().map(class_row).collect();
    // Before anything was recorded, the list of classes is useless.
    let classes = sheet("classes", &OF_CLASSES, rows).sorted_by(2);
    vec![Block::Sheet(classes), Block::Sheet(events(counted, seconds, time, seen.background, &untimed))]
}

/// Instruments that are counted more often than timed, so that their times have no mean.
pub(super) struct Untimed<'a>(HashSet<&'a str>);

impl<'a> Untimed<'a> {
    pub(super) fn of(seen: &Seen<'a>) -> Untimed<'a> {
        Untimed(seen.look.untimed.iter().map(String::as_str).collect())
    }

    /// Returns whether one of them, in a class, has counted.
    fn counts_in(&self, counted: &[Counted], of: &str) -> bool {
        let counts = |row: &&Counted| row.counter(&WAITS, "COUNT_STAR") > 0.0;
        let mut rows = counted.iter().filter(|row| class(row.named(0)) == Some(of)).filter(counts);
        rows.any(|row| self.0.contains(row.named(0)))
    }
}

/// Returns count and time of all waits except those of sleeping threads.
fn lost(classes: &BTreeMap<&str, (f64, f64)>) -> (f64, f64) {
    let waits = classes.iter().filter(|(class, _)| **class != SLEEP).map(|(_, sums)| sums);
    waits.fold((0.0, 0.0), |(count, time), sums| (count + sums.0, time + sums.1))
}

fn events(
    counted: &[Counted],
    seconds: Option<f64>,
    time: f64,
    sleeping: bool,
    untimed: &Untimed<'_>,
) -> Sheet {
    let is_shown = |class: &str| sleeping || class != SLEEP;
    let shown = counted.iter().filter(|row| {
        class(row.named(0)).is_some_and(is_shown) && row.counters.iter().any(|counter| *counter > 0)
    });
    let row = |row: &Counted| Row { key: key(row), cells: cells(row, seconds, time, untimed) };
    sheet("waits", &COLUMNS, shown.map(row).collect())
}

/// Returns the cells of [`COLUMNS`].
pub(super) fn cells(row: &Counted, seconds: Option<f64>, time: f64, untimed: &Untimed<'_>) -> Vec<Cell> {
    let rates = Rates { row, tally: &WAITS, seconds };
    // There is no mean either for what was counted and never timed: it did not take no time.
    let mean = match rates.grown("SUM_TIMER_WAIT") {
        Some(spent) if spent > 0.0 && !untimed.0.contains(row.named(0)) => {
            rates.time_each("SUM_TIMER_WAIT", "COUNT_STAR")
        }
        _ => Cell::Empty,
    };
    let spent = match (rates.grown("SUM_TIMER_WAIT"), seconds) {
        (Some(spent), Some(seconds)) => Cell::Time(spent / seconds),
        _ => Cell::Empty,
    };
    vec![
        rates.each_second("COUNT_STAR"),
        spent,
        rates.share("SUM_TIMER_WAIT", time),
        mean,
        row.gauge(&WAITS, "MAX_TIMER_WAIT").map_or(Cell::Empty, Cell::Time),
        Cell::Text(row.named(0).trim_start_matches("wait/").to_owned()),
    ]
}

pub(super) fn totals(between: &Between) -> Vec<(&'static str, Cell)> {
    let classes = classes(&between.rows);
    let (count, time) = lost(&classes);
    vec![("waits/s", Cell::Count(count / between.seconds)), ("waited/s", Cell::Time(time / between.seconds))]
}
