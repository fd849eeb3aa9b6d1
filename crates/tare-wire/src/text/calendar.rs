//! Timestamps as `YYYY-MM-DD HH:MM:SS` in UTC, the zone that FEDERATED asks for (`set time_zone='+00:00'`).

const DAY: u64 = 86_400;
const MICROSECONDS: u64 = 1_000_000;

/// A formatter of timestamps that caches the text of the last day, because successive timestamps usually
/// share it.
pub(crate) struct Calendar {
    day: u64,
    text: [u8; 26],
}

impl Calendar {
    pub(crate) const fn new() -> Calendar {
        Calendar { day: u64::MAX, text: *b"0000-00-00 00:00:00.000000" }
    }

    /// Formats microseconds since the epoch with no or six decimals. The epoch itself is the zero timestamp.
    pub(crate) fn text(&mut self, microseconds: u64, decimals: u8) -> &[u8] {
        let (seconds, fraction) = (microseconds / MICROSECONDS, microseconds % MICROSECONDS);
        // Only the first second of the first day has no date.
        let day = if seconds == 0 { u64::MAX - 1 } else { seconds / DAY };
        if day != self.day {
            let (year, month, day_of_month) = if seconds == 0 { (0, 0, 0) } else { date(day) };
            self.day = day;
            self.write(0, year / 100);
            self.write(2, year);
            self.write(5, month);
            self.write(8, day_of_month);
        }
        let of_day = seconds % DAY;
        self.write(11, of_day / 3600);
        self.write(14, of_day / 60 % 60);
        self.write(17, of_day % 60);
        if decimals == 0 {
            return &self.text[..19];
        }
        self.write(20, fraction / 10_000);
        self.write(22, fraction / 100);
        self.write(24, fraction);
        &self.text
    }

    /// Writes the last two digits of a number; a year has four digits for thousands of years to come.
    #[inline]
    fn write(&mut self, at: usize, figure: u64) {
        let figure = (figure % 100) as u8;
        self.text[at..at + 2].copy_from_slice(&[b'0' + figure / 10, b'0' + figure % 10]);
    }
}

/// Formats a single timestamp. See also [`Calendar::text`].
pub(crate) fn text(microseconds: u64, decimals: u8) -> String {
    String::from_utf8_lossy(Calendar::new().text(microseconds, decimals)).into_owned()
}

/// Parses `YYYY-MM-DD`, `YYYY-MM-DD HH:MM:SS` or `YYYY-MM-DD HH:MM:SS.ffffff` into microseconds since the
/// epoch. The zero timestamp is 0. Returns `None` for anything else.
pub(crate) fn parse(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?.trim_ascii_end();
    let (date, time) = text.split_once([' ', 'T']).unwrap_or((text, "0:0:0"));
    let [year, month, day] = three(date, '-')?;
    let (time, fraction) = time.split_once('.').unwrap_or((time, ""));
    let [hour, minute, second] = three(time, ':')?;
    let fraction: u64 = format!("{fraction:0<6.6}").parse().ok()?;
    if [year, month, day, hour, minute, second] == [0; 6] {
        return Some(0);
    }
    let valid = year >= 1970 && (1..=12).contains(&month) && (1..=31).contains(&day);
    if !valid || year > 9999 || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let seconds = days(year, month, day) * DAY + hour * 3600 + minute * 60 + second;
    Some(seconds * MICROSECONDS + fraction)
}

fn three(text: &str, separator: char) -> Option<[u64; 3]> {
    let mut parts = text.split(separator).map(|part| part.parse().ok());
    let three = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(three)
}

const fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400)
}

const fn month_days(year: u64, month: u64) -> u64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Returns the days from the epoch to the first of January.
const fn year_days(year: u64) -> u64 {
    let before = year - 1;
    let leaps = before / 4 - before / 100 + before / 400;
    365 * (year - 1970) + leaps - 477
}

fn days(year: u64, month: u64, day: u64) -> u64 {
    year_days(year) + (1..month).map(|month| month_days(year, month)).sum::<u64>() + day - 1
}

/// Returns year, month and day without a loop. Years begin in March, so that the leap day is a year's last.
const fn date(days: u64) -> (u64, u64, u64) {
    const FOUR_CENTURIES: u64 = 146_097;
    // Days are counted from the first of March of the year 0.
    let days = days + 719_468;
    let day = days % FOUR_CENTURIES;
    let year = (day - day / 1460 + day / 36_524 - day / (FOUR_CENTURIES - 1)) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    // Any five successive months, counted from March, have 153 days.
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let year = year + days / FOUR_CENTURIES * 400;
    if month < 10 { (year, month + 3, day) } else { (year + 1, month - 9, day) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_text_are_one_to_one() {
        for (seconds, written) in [
            (0, "0000-00-00 00:00:00"),
            (1, "1970-01-01 00:00:01"),
            (951_782_399, "2000-02-28 23:59:59"),
            (951_782_400, "2000-02-29 00:00:00"),
            (1_078_012_800, "2004-02-29 00:00:00"),
            (1_767_323_045, "2026-01-02 03:04:05"),
            (4_107_542_400, "2100-03-01 00:00:00"),
            (253_402_300_799, "9999-12-31 23:59:59"),
        ] {
            let microseconds = seconds * MICROSECONDS + 900_009;
            assert_eq!(text(microseconds, 0), written);
            assert_eq!(parse(written.as_bytes()), Some(seconds * MICROSECONDS));
            assert_eq!(text(microseconds, 6), format!("{written}.900009"));
            if seconds > 0 {
                assert_eq!(parse(format!("{written}.900009").as_bytes()), Some(microseconds));
            }
        }
    }

    #[test]
    fn a_calendar_writes_one_day_after_another() {
        let mut calendar = Calendar::new();
        for seconds in [0, 1, 0, 86_399, 86_400, 1_767_323_045, 0, 1_767_323_046] {
            let microseconds = seconds * MICROSECONDS + 42;
            assert_eq!(calendar.text(microseconds, 6), text(microseconds, 6).as_bytes(), "{seconds}");
        }
    }

    #[test]
    fn every_day_has_its_date() {
        for days in 0..400 * 366 {
            let (year, month, day) = date(days);
            assert!((1..=12).contains(&month) && (1..=month_days(year, month)).contains(&day), "{days}");
            assert_eq!(super::days(year, month, day), days);
        }
    }

    #[test]
    fn other_text_is_no_time() {
        assert_eq!(parse(b"2026-01-02"), parse(b"2026-01-02 00:00:00.0"));
        assert_eq!(parse(b"2026-01-02 00:00:00.5"), parse(b"2026-01-02").map(|it| it + 500_000));
        for other in [
            "",
            "x",
            "2026",
            "2026-13-01",
            "2026-01-01 24:00:00",
            "2026-01-01 1:2",
            "2026-01-01 1:2:3.x",
            "1-2-3-4",
            "18446744073709551615-1-1",
        ] {
            assert_eq!(parse(other.as_bytes()), None, "{other}");
        }
    }
}
