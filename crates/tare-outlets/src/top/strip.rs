//! The strip of active sessions: the columns that are shown, and the stretch that is chosen among them.

use crate::sessions::{Column, GROUPS, History, Stretch, Sums, average};

const SECOND: u64 = 1_000_000;
/// Seconds of a column, from which one is chosen.
const SCALES: [u64; 9] = [10, 20, 30, 60, 120, 300, 600, 1800, 3600];
/// Numbers of columns that a chosen stretch has.
const WIDTHS: [u64; 6] = [1, 2, 3, 6, 12, 30];
/// Columns of a large step.
pub(super) const LARGE: isize = 6;
/// Time that is kept of a server's history, in microseconds.
const KEPT: u64 = 3600 * SECOND;
/// Time over which the legend's averages go.
const NOW: u64 = 60 * SECOND;

/// The active sessions of the last hour, or of a file.
#[derive(Clone, Debug, Default)]
pub(super) struct Strip {
    history: History,
    /// The server's time, in microseconds since 1970, if it is later than the last row.
    now: u64,
    /// Index in [`SCALES`], and in [`WIDTHS`].
    scale: usize,
    width: usize,
    /// Beginning of the chosen stretch.
    chosen: Option<u64>,
}

impl Strip {
    /// Shows a file.
    pub(super) fn of_file(history: History) -> Strip {
        let mut strip = Strip { history, ..Strip::default() };
        let length = strip.history.whole().map_or(0, |whole| whole.length());
        // About an hour at 10 seconds each; a longer file is shown as a whole.
        let fits = |scale: &u64| length / (*scale * SECOND) <= 360;
        strip.scale = SCALES.iter().position(fits).unwrap_or(SCALES.len() - 1);
        strip
    }

    /// Adds rows; what is older than an hour is dropped.
    pub(super) fn take(&mut self, fresh: &History, now: Option<u64>) {
        self.history.merge(fresh);
        self.now = now.unwrap_or(0);
        if let Some(whole) = self.history.whole() {
            self.history.forget_before(whole.to.saturating_sub(KEPT));
        }
    }

    pub(super) fn processors(&self) -> Option<u64> {
        self.history.processors
    }

    /// Returns the time of a column, in microseconds.
    pub(super) fn each(&self) -> u64 {
        SCALES[self.scale] * SECOND
    }

    /// Returns the time of all columns: those that have begun before the first row or are not over yet are
    /// left out.
    fn over(&self) -> Option<Stretch> {
        let (whole, each) = (self.history.whole()?, self.each());
        let (from, to) = (whole.from.div_ceil(each) * each, whole.to.max(self.now) / each * each);
        // What is short is shown as one column.
        let short = Stretch { from: whole.from / each * each, to: whole.to.div_ceil(each) * each };
        Some(if from < to { Stretch { from, to } } else { short })
    }

    /// Returns the columns to show, oldest first, at most so many: the latest, or those around the chosen
    /// stretch.
    pub(super) fn columns(&self, most: usize) -> Vec<Column> {
        let Some(over) = self.over() else { return vec![] };
        let (each, most) = (self.each(), u64::try_from(most).unwrap_or(u64::MAX));
        let room = most.saturating_mul(each);
        let last = over.to.saturating_sub(room).max(over.from);
        let from = self.chosen.map_or(last, |chosen| chosen.min(last));
        let to = from.saturating_add(room).min(over.to);
        // With the neighbours, as a row covers the time before its sample.
        let around = Stretch { from: from.saturating_sub(each), to: to + each };
        let mut columns = self.history.columns(around, each);
        columns.retain(|column| column.stretch.from >= from && column.stretch.to <= to);
        columns
    }

    /// Returns the names of the groups with their average over the last minute, or over the chosen stretch.
    pub(super) fn averages(&self) -> Vec<(&'static str, f64)> {
        let stretch = self.stretch().or_else(|| {
            let to = self.over()?.to;
            Some(Stretch { from: to.saturating_sub(NOW), to })
        });
        let (times, length) =
            stretch.map_or(([0; GROUPS.len()], 0), |stretch| (self.history.times(stretch), stretch.length()));
        GROUPS.iter().zip(times).map(|((name, _), us)| (*name, average(us, length))).collect()
    }

    /// Returns the chosen stretch.
    pub(super) fn stretch(&self) -> Option<Stretch> {
        let (from, over) = (self.chosen?, self.over()?);
        Some(Stretch { from, to: from + WIDTHS[self.width] * self.each() }.within(over))
    }

    /// Returns what the time of the chosen stretch went to.
    pub(super) fn sums(&self) -> Option<(Stretch, Sums)> {
        let stretch = self.stretch()?;
        Some((stretch, self.history.sums(stretch)))
    }

    /// Returns what all of the time went to.
    pub(super) fn all(&self) -> Option<(Stretch, Sums)> {
        let whole = self.history.whole()?;
        Some((whole, self.history.sums(whole)))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.history.is_empty()
    }

    pub(super) fn is_chosen(&self) -> bool {
        self.chosen.is_some()
    }

    /// Moves the choice by so many columns, beginning with the last one. Behind the last one is the present.
    pub(super) fn step(&mut self, by: isize) {
        let Some(over) = self.over() else { return };
        let (each, width) = (self.each(), WIDTHS[self.width] * self.each());
        let last = over.to.saturating_sub(width).max(over.from);
        let Some(chosen) = self.chosen else {
            self.chosen = (by < 0).then_some(last);
            return;
        };
        let columns = u64::try_from(by.unsigned_abs()).unwrap_or(u64::MAX).saturating_mul(each);
        self.chosen = match by {
            ..0 => Some(chosen.saturating_sub(columns).max(over.from)),
            _ if chosen >= last => None,
            _ => Some((chosen + columns).min(last)),
        };
    }

    /// Chooses the first columns.
    pub(super) fn first(&mut self) {
        self.chosen = self.over().map(|over| over.from);
    }

    /// Chooses the last columns.
    pub(super) fn last(&mut self) {
        self.chosen = None;
        self.step(-1);
    }

    /// Chooses nothing.
    pub(super) fn leave(&mut self) {
        self.chosen = None;
    }

    /// Shows less time in more detail, or more time; the chosen stretch stays in sight.
    pub(super) fn zoom(&mut self, by: isize) {
        let all = self.history.whole().map_or(0, |whole| whole.length());
        let scale = self.scale.saturating_add_signed(by).min(SCALES.len() - 1);
        if by > 0 && self.each().saturating_mul(10) >= all {
            return;
        }
        self.scale = scale;
        self.align();
    }

    /// Makes the chosen stretch longer or shorter.
    pub(super) fn widen(&mut self, by: isize) {
        self.width = self.width.saturating_add_signed(by).min(WIDTHS.len() - 1);
        self.align();
    }

    /// Keeps the chosen stretch on columns and within those that there are.
    fn align(&mut self) {
        let (Some(chosen), Some(over)) = (self.chosen, self.over()) else { return };
        let last = over.to.saturating_sub(WIDTHS[self.width] * self.each()).max(over.from);
        self.chosen = Some((chosen / self.each() * self.each()).clamp(over.from, last));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sessions::history_tests::row;
    use crate::sessions::{clock, microseconds};

    fn strip(seconds: u64) -> Strip {
        let mut strip = Strip::default();
        let mut fresh = History::default();
        fresh.extend((0..seconds).map(|at| row(at, 1, "ROW LOCK", &[("USECS_PER_ROW", "1000000")])));
        fresh.extend((0..5).map(|at| row(at, 2, "SLEEP", &[])));
        strip.take(&fresh, None);
        strip
    }

    fn sessions(strip: &Strip, most: usize) -> Vec<[f64; 2]> {
        strip.columns(most).iter().map(|it| it.sessions()).map(|it| [it[1], it[6]]).collect()
    }

    fn chosen(strip: &Strip) -> String {
        let clocks = |it: Stretch| format!("{} {}", clock(it.from), clock(it.to));
        strip.stretch().map(clocks).unwrap_or_default()
    }

    #[test]
    fn columns_are_averages_and_those_that_are_not_whole_are_left_out() {
        let mut strip = strip(25);
        assert_eq!(sessions(&strip, 10), [[1.0, 0.4], [1.0, 0.0]]);
        assert_eq!(sessions(&strip, 1), [[1.0, 0.0]]);
        assert_eq!(strip.averages()[1].0, "row locks");
        // Nobody has been active for a minute, which the last row does not tell.
        strip.take(&History::default(), microseconds("2026-01-02 03:01:29"));
        assert_eq!(sessions(&strip, 3), [[0.0, 0.0]; 3]);
        assert!(strip.averages().iter().all(|(_, sessions)| *sessions == 0.0 || *sessions < 0.2));
        assert!(Strip::default().columns(10).is_empty());
    }

    #[test]
    fn the_choice_moves_over_whole_columns_and_back_to_now() {
        let mut strip = strip(125);
        strip.step(1);
        assert!(!strip.is_chosen(), "there is nothing after now");
        for (by, expected) in [
            (-1, "03:01:50 03:02:00"),
            (-1, "03:01:40 03:01:50"),
            (-6, "03:00:40 03:00:50"),
            (-6, "03:00:00 03:00:10"),
            (-1, "03:00:00 03:00:10"),
            (6, "03:01:00 03:01:10"),
            (6, "03:01:50 03:02:00"),
            (1, ""),
        ] {
            strip.step(by);
            assert_eq!(chosen(&strip), expected, "{by}");
        }
        strip.first();
        assert_eq!(chosen(&strip), "03:00:00 03:00:10");
        let (stretch, sums) = strip.sums().expect("a stretch");
        assert_eq!((stretch.length(), sums.times[1]), (10 * SECOND, 10 * SECOND));
        // The window follows the choice.
        assert_eq!(strip.columns(3)[0].stretch.from, stretch.from);
        strip.widen(2);
        assert_eq!(chosen(&strip), "03:00:00 03:00:30");
        strip.zoom(1);
        assert_eq!((strip.each(), chosen(&strip).as_str()), (20 * SECOND, "03:00:00 03:01:00"));
        strip.zoom(-5);
        assert_eq!(strip.each(), 10 * SECOND);
        strip.last();
        assert_eq!(chosen(&strip), "03:01:30 03:02:00");
        strip.leave();
        assert!(!strip.is_chosen());
    }

    #[test]
    fn marked_columns_have_the_time_of_the_lists_below_them() {
        let mut fresh = History::default();
        // Samples between the columns' edges.
        fresh.extend((0..40).map(|at| row(at * 3, 1, "MUTEX", &[("USECS_PER_ROW", "3000000")])));
        let mut strip = Strip::default();
        strip.take(&fresh, None);
        for (step, width) in [(-1, 0), (-3, 1), (-4, 1), (2, 2)] {
            strip.step(step);
            strip.widen(width);
            let (stretch, sums) = strip.sums().expect("a stretch");
            let marked = strip.columns(80).into_iter().filter(|it| it.stretch.within(stretch).length() > 0);
            assert_eq!(marked.map(|it| it.times[4]).sum::<u64>(), sums.us, "{}", chosen(&strip));
            // That is what one session has that is always active.
            assert_eq!(sums.us, stretch.length(), "{}", chosen(&strip));
        }
    }

    #[test]
    fn an_hour_is_kept_and_a_file_as_a_whole() {
        let mut strip = strip(10);
        let mut fresh = History::default();
        fresh.extend((4000..4010).map(|at| row(at, 1, "CPU", &[])));
        strip.take(&fresh, None);
        assert_eq!(strip.all().expect("rows").1.us, 10 * SECOND, "the first rows are gone");
        let mut history = History::default();
        history.extend((0..9000).map(|at| row(at, 1, "CPU", &[])));
        let file = Strip::of_file(history);
        assert_eq!(file.each(), 30 * SECOND);
        assert_eq!(file.all().expect("rows").1.us, 9000 * SECOND);
    }
}
