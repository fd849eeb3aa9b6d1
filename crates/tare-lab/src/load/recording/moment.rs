//! Times in logs.

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

/// A time in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum LogTime {
    /// A time with microseconds.
    Exact(f64),
    /// A whole second in which it happened.
    Second(f64),
}

/// Parses `2026-11-23T09:54:29.123456Z`, MySQL's format, or `261123 9:54:29`, MariaDB's in local time.
pub(super) fn moment_of(text: &str) -> Option<LogTime> {
    let text = text.trim();
    if text.contains('T') {
        let exact: Timestamp = text.parse().ok()?;
        #[allow(clippy::cast_precision_loss)] // microseconds fit into 53 bits for centuries
        return Some(LogTime::Exact(exact.as_microsecond() as f64 / 1e6));
    }
    let (date, time) = text.split_once(char::is_whitespace)?;
    let digits = date.len() == 6 && date.bytes().all(|b| b.is_ascii_digit());
    let pair = |at: usize| date.get(at..at + 2)?.parse::<i8>().ok();
    let year = digits.then(|| pair(0))?.map(|year| 2000 + i16::from(year))?;
    let mut parts = time.trim().splitn(3, ':').map(|part| part.parse::<i8>().ok());
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
    let at = Date::new(year, pair(2)?, pair(4)?)
        .ok()?
        .to_datetime(jiff::civil::Time::new(hour, minute, second, 0).ok()?);
    let zoned = at.to_zoned(TimeZone::system()).ok()?;
    #[allow(clippy::cast_precision_loss)]
    Some(LogTime::Second(zoned.timestamp().as_second() as f64))
}

/// Items of a second, which are spread over it evenly in their order, as more is not known.
#[derive(Debug, Default)]
pub(super) struct Spread<T> {
    second: f64,
    held: Vec<T>,
}

impl<T> Spread<T> {
    /// Adds an item; returns those whose time is now known.
    pub(super) fn add(&mut self, moment: LogTime, it: T) -> Vec<(f64, T)> {
        match moment {
            LogTime::Second(second) if second == self.second => {
                self.held.push(it);
                vec![]
            }
            LogTime::Second(second) => {
                let placed = self.rest();
                self.second = second;
                self.held.push(it);
                placed
            }
            LogTime::Exact(at) => {
                let mut placed = self.rest();
                placed.push((at, it));
                placed
            }
        }
    }

    /// Returns the remaining items.
    #[allow(clippy::cast_precision_loss)] // statements of a second
    pub(super) fn rest(&mut self) -> Vec<(f64, T)> {
        let all = self.held.len() as f64;
        let placed = std::mem::take(&mut self.held).into_iter().enumerate();
        placed.map(|(place, it)| (self.second + (place as f64 + 0.5) / all, it)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_servers_times_are_read() {
        assert_eq!(moment_of("2026-11-23T09:54:29.250000Z"), Some(LogTime::Exact(1_795_427_669.25)));
        assert_eq!(moment_of("2026-11-23T11:54:29.250000+02:00"), Some(LogTime::Exact(1_795_427_669.25)));
        let Some(LogTime::Second(at)) = moment_of("261123  9:54:29") else { panic!("a second") };
        assert!((at - 1_795_427_669.0).abs() <= 14.0 * 3600.0, "{at}: local time");
        for wrong in ["", "261123", "261123 9:54", "26112x 9:54:29", "261323  9:54:29", "é1123  9:54:29"] {
            assert_eq!(moment_of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_second_is_shared_by_what_happened_in_it() {
        let mut spread = Spread::default();
        assert_eq!(spread.add(LogTime::Second(7.0), 'a'), []);
        assert_eq!(spread.add(LogTime::Second(7.0), 'b'), []);
        assert_eq!(spread.add(LogTime::Second(8.0), 'c'), [(7.25, 'a'), (7.75, 'b')]);
        assert_eq!(spread.add(LogTime::Exact(8.75), 'd'), [(8.5, 'c'), (8.75, 'd')]);
        assert_eq!(spread.rest(), []);
    }
}
