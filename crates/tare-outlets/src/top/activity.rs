//! Active sessions over time: what they did in the last minutes, by the server's active session history.

use std::collections::BTreeMap;

/// Seconds that one column of the picture of activity stands for.
pub(super) const SECONDS: u64 = 10;
/// The most columns of that picture that are kept: an hour.
const KEPT: usize = 360;

/// What time goes to: the names of the groups, and the wait classes in each. What is in none is in the last.
const GROUPS: [(&str, &[&str]); 7] = [
    ("cpu", &["CPU"]),
    ("row locks", &["ROW LOCK"]),
    ("metadata locks", &["METADATA LOCK"]),
    ("file I/O", &["FILE IO"]),
    ("mutexes", &["MUTEX"]),
    ("network", &["NETWORK"]),
    ("other", &[]),
];

/// Average active sessions by group.
pub(super) type Sessions = [f64; GROUPS.len()];

/// Active sessions of the last hour, as far as the server has them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Activity {
    /// Microseconds that sessions spent, by column and group.
    spent: BTreeMap<u64, [u64; GROUPS.len()]>,
    /// The time of the latest sample, as the server says it.
    latest: Option<String>,
    /// Processors of the server.
    pub(super) processors: Option<u64>,
}

#[cfg(test)]
impl Activity {
    pub(super) fn of_processors(count: u64) -> Activity {
        Activity { processors: Some(count), ..Activity::default() }
    }
}

impl Activity {
    /// Returns the latest sample's time, as text of the server's.
    pub(super) fn latest(&self) -> Option<&str> {
        self.latest.as_deref()
    }

    /// Adds a row of the history: SAMPLE_TIME, WAIT_CLASS and USECS_PER_ROW.
    pub(super) fn add(&mut self, time: &str, class: &str, us: u64) {
        let Some(second) = seconds(time) else { return };
        let group =
            GROUPS.iter().position(|(_, classes)| classes.contains(&class)).unwrap_or(GROUPS.len() - 1);
        self.spent.entry(second / SECONDS).or_default()[group] += us;
        while self.spent.len() > KEPT {
            self.spent.pop_first();
        }
        if self.latest.as_deref().is_none_or(|latest| latest < time) {
            self.latest = Some(time.to_owned());
        }
    }

    /// Returns the last columns, oldest first, at most so many. The one that is not over yet is left out.
    pub(super) fn columns(&self, most: usize) -> Vec<Sessions> {
        let Some((last, _)) = self.spent.last_key_value() else { return vec![] };
        let first = self.spent.first_key_value().map_or(*last, |(first, _)| *first);
        let from = first.max(last.saturating_sub(most as u64));
        #[allow(clippy::cast_precision_loss)] // shown with three digits
        let sessions = |us: u64| us as f64 / (SECONDS * 1_000_000) as f64;
        (from..*last)
            .map(|at| self.spent.get(&at).map_or([0.0; GROUPS.len()], |it| it.map(sessions)))
            .collect()
    }

    /// Returns the names of the groups with their average over the last minute.
    pub(super) fn now(&self) -> Vec<(&'static str, f64)> {
        let columns = self.columns(60 / SECONDS as usize);
        #[allow(clippy::cast_precision_loss)] // at most six
        let of = |group: usize| columns.iter().map(|it| it[group]).sum::<f64>() / columns.len().max(1) as f64;
        GROUPS.iter().enumerate().map(|(at, (name, _))| (*name, of(at))).collect()
    }
}

/// Returns the seconds of a time such as `2026-01-02 03:04:05.678901` since some day.
fn seconds(time: &str) -> Option<u64> {
    let number = |from: usize, to: usize| time.get(from..to)?.parse::<u64>().ok();
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    // Years begin in March, so that a leap day is their last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year.checked_sub(1)?, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day;
    Some(((days * 24 + hour) * 60 + minute) * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_follow_each_other() {
        let of = |time| seconds(time).expect(time);
        let day = 86_400;
        assert_eq!(of("2024-02-29 00:00:00.000000") - of("2024-02-28 00:00:00.000000"), day);
        assert_eq!(of("2024-03-01 00:00:00") - of("2024-02-29 00:00:00"), day);
        assert_eq!(of("2026-01-01 00:00:00.5") - of("2025-12-31 23:59:59"), 1);
        assert_eq!(of("2100-03-01 00:00:00") - of("2100-02-28 00:00:00"), day, "no leap year");
        assert_eq!((seconds(""), seconds("2026-01-01"), seconds("now")), (None, None, None));
    }

    #[test]
    fn columns_are_averages_and_the_last_is_not_over() {
        let mut activity = Activity::default();
        for second in 0..25 {
            let time = format!("2026-01-02 03:00:{second:02}.000000");
            activity.add(&time, "ROW LOCK", 2_000_000);
            if second < 5 {
                activity.add(&time, "SLEEP", 1_000_000);
            }
        }
        assert_eq!(activity.latest(), Some("2026-01-02 03:00:24.000000"));
        let column = |locks: f64, other: f64| [0.0, locks, 0.0, 0.0, 0.0, 0.0, other];
        assert_eq!(activity.columns(10), [column(2.0, 0.5), column(2.0, 0.0)]);
        assert_eq!(activity.columns(1), [column(2.0, 0.0)]);
        assert_eq!(activity.now()[1], ("row locks", 2.0));
        activity.add("2026-01-02 04:30:00.000000", "CPU", 1_000_000);
        assert_eq!(activity.columns(3), [[0.0; 7]; 3], "nobody was active");
    }
}
