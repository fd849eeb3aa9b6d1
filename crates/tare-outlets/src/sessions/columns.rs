//! Columns of a chart: the time of stretches side by side.

use super::{GROUPS, History, Stretch, Times};

/// Lengths that columns have, in microseconds.
const STEPS: [u64; 20] = [
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    30_000_000,
    60_000_000,
    120_000_000,
    300_000_000,
    600_000_000,
    1_200_000_000,
    1_800_000_000,
    3_600_000_000,
    7_200_000_000,
];

/// Returns the least round length, in microseconds, of which `length` has at most `most`.
#[must_use]
pub fn step(length: u64, most: u64) -> u64 {
    let least = length.div_ceil(most.max(1)).max(1);
    let hours = least.div_ceil(STEPS[STEPS.len() - 1]) * STEPS[STEPS.len() - 1];
    STEPS.into_iter().find(|step| *step >= least).unwrap_or(hours)
}

/// A column of a chart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Column {
    /// The time that it stands for; the last one may be shorter than the others.
    pub stretch: Stretch,
    /// Microseconds that sessions spent in it.
    pub times: Times,
}

impl Column {
    /// Returns the average number of active sessions, by group.
    #[must_use]
    pub fn sessions(&self) -> [f64; GROUPS.len()] {
        self.times.map(|us| super::average(us, self.stretch.length()))
    }
}

impl History {
    /// Returns the columns of a stretch, each of so many microseconds, from its beginning.
    ///
    /// The time of a row is that before its sample, so it may be in several columns. All of them have what
    /// [`History::sums`] has of the stretch.
    #[must_use]
    pub fn columns(&self, stretch: Stretch, each: u64) -> Vec<Column> {
        let each = each.max(1);
        let count = stretch.length().div_ceil(each);
        let of = |at: u64| {
            let from = stretch.from + at * each;
            let to = (from + each).min(stretch.to);
            Column { stretch: Stretch { from, to }, times: [0; GROUPS.len()] }
        };
        let mut columns: Vec<Column> = (0..count).map(of).collect();
        let place = |at: u64| usize::try_from((at - stretch.from) / each).unwrap_or(usize::MAX);
        for (row, part) in self.parts(stretch) {
            for column in &mut columns[place(part.from)..=place(part.to - 1)] {
                column.times[row.group] += column.stretch.within(part).length();
            }
        }
        columns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sessions::history::tests::row;
    use crate::sessions::microseconds;

    const SECOND: u64 = 1_000_000;

    #[test]
    fn steps_are_round() {
        assert_eq!(step(600 * SECOND, 240), 5 * SECOND);
        assert_eq!(step(600 * SECOND, 600), SECOND);
        assert_eq!(step(SECOND, 240), 10_000);
        assert_eq!(step(30 * 86_400 * SECOND, 240), 4 * 3600 * SECOND);
        assert_eq!((step(0, 240), step(5, 0)), (10_000, 10_000));
    }

    #[test]
    fn no_microsecond_is_lost_between_columns() {
        let mut history = History::default();
        history.extend((1..=60).map(|second| row(second, 1, "CPU", &[])));
        history.extend((1..=60).map(|second| row(second, 2, "ROW LOCK", &[("USECS_PER_ROW", "1000003")])));
        // A sample that came late.
        history.extend([row(61, 3, "SLEEP", &[("USECS_PER_ROW", "25000000")])]);
        let whole = history.whole().expect("rows");
        for each in [1, 7 * SECOND + 1, 10 * SECOND, 61 * SECOND, 3600 * SECOND] {
            let columns = history.columns(whole, each.max(10_000));
            let sum = |group: usize| columns.iter().map(|column| column.times[group]).sum::<u64>();
            assert_eq!([sum(0), sum(1), sum(6)], [60 * SECOND, 60 * 1_000_003, 25 * SECOND], "{each}");
            let lengths: u64 = columns.iter().map(|column| column.stretch.length()).sum();
            assert_eq!(lengths, whole.length(), "{each}");
        }
        // The late one covers the columns of its 25 seconds, of which 1 is in the last full one.
        let columns = history.columns(whole, 10 * SECOND);
        let other: Vec<u64> = columns.iter().map(|column| column.times[6]).collect();
        assert_eq!(other.iter().sum::<u64>(), 25 * SECOND);
        assert_eq!(other[4], 10 * SECOND, "{other:?}");
    }

    #[test]
    fn a_stretch_has_the_time_in_it_and_no_more() {
        let mut history = History::default();
        // Two sessions, always.
        history.extend((1..60).flat_map(|second| [1, 2].map(|thread| row(second, thread, "CPU", &[]))));
        let at = |time| microseconds(time).expect("a time");
        let stretch =
            Stretch { from: at("2026-01-02 03:00:10.900000"), to: at("2026-01-02 03:00:20.300000") };
        for each in [SECOND / 2, SECOND, 3 * SECOND] {
            for column in history.columns(stretch, each) {
                assert!((column.sessions()[0] - 2.0).abs() < 1e-9, "{column:?}");
            }
        }
    }

    #[test]
    fn a_stretch_has_the_rows_that_sql_has() {
        let mut history = History::default();
        history.extend((0..60).map(|second| row(second, 1, "CPU", &[])));
        let at = |time| microseconds(time).expect("a time");
        let stretch = Stretch { from: at("2026-01-02 03:00:10"), to: at("2026-01-02 03:00:20") };
        let columns = history.columns(stretch, 5 * SECOND);
        assert_eq!(columns.iter().map(|column| column.times[0]).sum::<u64>(), 10 * SECOND);
        let average: f64 = columns.iter().map(|column| column.sessions()[0] * column.stretch.seconds()).sum();
        assert!((average - 10.0).abs() < 1e-9);
        assert!(history.columns(Stretch { from: 5, to: 5 }, SECOND).is_empty());
        assert_eq!(history.interval(stretch), SECOND);
    }
}
