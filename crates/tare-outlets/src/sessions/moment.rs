//! Times: as tables have them, and as people name them. All are UTC.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use jiff::civil::{DateTime, Time};
use jiff::tz::TimeZone;

use super::Stretch;

/// A day in microseconds.
const DAY: u64 = 86_400_000_000;

/// Converts a time such as `2026-01-02 03:04:05.678901` to microseconds since 1970; `None` if it is none.
#[must_use]
pub fn microseconds(time: &str) -> Option<u64> {
    of_civil(time.parse().ok()?)
}

fn of_civil(time: DateTime) -> Option<u64> {
    let stamp = TimeZone::UTC.to_timestamp(time).ok()?;
    u64::try_from(stamp.as_microsecond()).ok()
}

fn civil(at: u64) -> DateTime {
    let stamp =
        i64::try_from(at).ok().and_then(|at| Timestamp::from_microsecond(at).ok()).unwrap_or_default();
    TimeZone::UTC.to_datetime(stamp)
}

/// Formats the time of day: `10:40:05`.
#[must_use]
pub fn clock(at: u64) -> String {
    civil(at).strftime("%H:%M:%S").to_string()
}

/// Formats day and time: `2026-01-02 10:40:05`.
#[must_use]
pub fn day(at: u64) -> String {
    civil(at).strftime("%F %H:%M:%S").to_string()
}

/// Formats it as headers of snapshots have it: `2026-01-02T10:40:05.123Z`.
#[must_use]
pub fn rfc3339(at: u64) -> String {
    humantime::format_rfc3339_millis(SystemTime::UNIX_EPOCH + Duration::from_micros(at)).to_string()
}

/// A time as a person names it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Moment {
    /// So long before the end.
    Before(Duration),
    /// A time of day in UTC.
    Clock(Time),
    /// Microseconds since 1970.
    At(u64),
}

impl FromStr for Moment {
    type Err = String;

    /// Parses `10m`, `10:40`, `2026-01-02 10:40:05`, or an RFC 3339 time with an offset.
    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let clock = || {
            let has_hours = text.split(':').next().is_some_and(|hours| hours.len() == 2);
            text.parse::<Time>().ok().filter(|_| has_hours && text.contains(':')).map(Moment::Clock)
        };
        let stamp = || text.parse::<Timestamp>().ok().and_then(|it| u64::try_from(it.as_microsecond()).ok());
        let before = || humantime::parse_duration(text).ok().map(Moment::Before);
        let at = || stamp().or_else(|| microseconds(text)).map(Moment::At);
        before().or_else(clock).or_else(at).ok_or_else(|| {
            "a time in UTC is allowed, such as 10:40 or 2026-01-02 10:40:05, or how long before the end, such as 15m"
                .to_owned()
        })
    }
}

impl Moment {
    /// Returns the time before the present, as the tables have it.
    #[must_use]
    pub fn before_now(self) -> String {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let now = u64::try_from(since.as_micros()).unwrap_or(u64::MAX);
        let stretch = Moment::stretch(Some(self), None, Stretch { from: 0, to: now });
        // What is not before now leaves out all rows.
        day(stretch.map_or_else(|backwards| backwards.from, |stretch| stretch.from))
    }

    /// Returns the part of `whole` between two times, in microseconds since 1970. Without a time it begins or
    /// ends with `whole`. A time of day is the last one before the end; as the end, the first one after the
    /// beginning.
    ///
    /// # Errors
    ///
    /// When it does not begin before it ends.
    pub fn stretch(from: Option<Moment>, to: Option<Moment>, whole: Stretch) -> Result<Stretch, Backwards> {
        let begin = match from {
            None => whole.from,
            Some(Moment::At(at)) => at,
            Some(Moment::Before(time)) => before(whole.to, time),
            Some(Moment::Clock(time)) => on_day(whole.to, time).min_by_last(whole.to),
        };
        let end = match to {
            None => whole.to,
            Some(Moment::At(at)) => at,
            Some(Moment::Before(time)) => before(whole.to, time),
            Some(Moment::Clock(time)) if from.is_some() => on_day(begin, time).first_after(begin),
            Some(Moment::Clock(time)) => on_day(whole.to, time).min_by_last(whole.to),
        };
        if begin < end {
            Ok(Stretch { from: begin, to: end })
        } else {
            Err(Backwards { from: begin, to: end })
        }
    }
}

/// A stretch whose end is not after its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Backwards {
    from: u64,
    to: u64,
}

impl fmt::Display for Backwards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "--from {} is not before --to {} (UTC)", day(self.from), day(self.to))
    }
}

fn before(end: u64, time: Duration) -> u64 {
    end.saturating_sub(u64::try_from(time.as_micros()).unwrap_or(u64::MAX))
}

/// A time of day on some day.
struct OnDay(u64);

fn on_day(of: u64, time: Time) -> OnDay {
    OnDay(of_civil(civil(of).date().to_datetime(time)).unwrap_or(of))
}

impl OnDay {
    /// Returns the last time of this clock that is not after `end`.
    fn min_by_last(self, end: u64) -> u64 {
        if self.0 > end { self.0.saturating_sub(DAY) } else { self.0 }
    }

    /// Returns the first time of this clock after `begin`.
    fn first_after(self, begin: u64) -> u64 {
        if self.0 <= begin { self.0 + DAY } else { self.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(time: &str) -> u64 {
        microseconds(time).unwrap_or_else(|| panic!("{time}"))
    }

    #[test]
    fn times_of_tables_are_read() {
        assert_eq!(at("1970-01-01 00:00:01.000002"), 1_000_002);
        assert_eq!(at("2024-03-01 00:00:00") - at("2024-02-29 00:00:00"), DAY);
        assert_eq!(at("2026-01-01 00:00:00.5") - at("2025-12-31 23:59:59"), 1_500_000);
        for none in ["", "now", "0000-00-00 00:00:00.000000", "2026-13-01 00:00:00"] {
            assert_eq!(microseconds(none), None, "{none}");
        }
        let time = at("2026-01-02 03:04:05.678901");
        assert_eq!((clock(time).as_str(), day(time).as_str()), ("03:04:05", "2026-01-02 03:04:05"));
        assert_eq!(rfc3339(time), "2026-01-02T03:04:05.678Z");
        assert_eq!(clock(u64::MAX), "00:00:00", "no panic");
    }

    #[test]
    fn people_name_times_in_several_ways() {
        let whole = Stretch { from: at("2026-01-02 23:30:00"), to: at("2026-01-03 00:30:00") };
        let of = |from: &str, to: &str| {
            let read = |text: &str| (!text.is_empty()).then(|| text.parse().expect("a time"));
            Moment::stretch(read(from), read(to), whole).map(|it| (day(it.from), day(it.to)))
        };
        let is = |from: &str, to: &str, begin: &str, end: &str| {
            assert_eq!(of(from, to), Ok((begin.to_owned(), end.to_owned())), "{from:?} {to:?}");
        };
        is("", "", "2026-01-02 23:30:00", "2026-01-03 00:30:00");
        is("10m", "", "2026-01-03 00:20:00", "2026-01-03 00:30:00");
        is("10m", "30s", "2026-01-03 00:20:00", "2026-01-03 00:29:30");
        is("23:50", "00:10", "2026-01-02 23:50:00", "2026-01-03 00:10:00");
        is("23:50:05", "23:50:15", "2026-01-02 23:50:05", "2026-01-02 23:50:15");
        is("00:10", "00:45", "2026-01-03 00:10:00", "2026-01-03 00:45:00");
        is("", "23:59", "2026-01-02 23:30:00", "2026-01-02 23:59:00");
        is("2026-01-03 00:00", "2026-01-03T01:05:00+01:00", "2026-01-03 00:00:00", "2026-01-03 00:05:00");
        let error = of("00:10", "25m").expect_err("it ends earlier").to_string();
        assert_eq!(error, "--from 2026-01-03 00:10:00 is not before --to 2026-01-03 00:05:00 (UTC)");
        for none in ["", "10", "noon", "10:99", "-5m", "2026-01-02T"] {
            let error = none.parse::<Moment>().expect_err(none);
            assert!(error.contains("such as 10:40"), "{error}");
        }
    }
}
