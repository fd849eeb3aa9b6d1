//! `YYYY-MM-DD HH:MM:SS` in UTC, which is what FEDERATED asks for (`set time_zone='+00:00'`).

use std::fmt;

const DAY: u64 = 86_400;
const MICROSECONDS: u64 = 1_000_000;

/// A timestamp, ready to be written.
pub(crate) struct Text {
    seconds: u64,
    /// Microseconds, where they are written.
    fraction: Option<u64>,
}

/// Writes microseconds since the epoch with so many decimals, none or six; the epoch itself is the zero timestamp.
pub(crate) fn text(microseconds: u64, decimals: u8) -> Text {
    let fraction = (decimals > 0).then_some(microseconds % MICROSECONDS);
    Text { seconds: microseconds / MICROSECONDS, fraction }
}

impl Text {
    /// Appends it: many rows have times.
    pub(crate) fn put(&self, to: &mut Vec<u8>) {
        let (seconds, fraction) = (self.seconds, self.fraction.unwrap_or(0));
        let (year, month, day) = if seconds == 0 { (0, 0, 0) } else { date(seconds / DAY) };
        let mut text = *b"0000-00-00 00:00:00.000000";
        let figures = [
            (0, year / 100),
            (2, year % 100),
            (5, month),
            (8, day),
            (11, seconds / 3600 % 24),
            (14, seconds / 60 % 60),
            (17, seconds % 60),
            (20, fraction / 10_000),
            (22, fraction / 100 % 100),
            (24, fraction % 100),
        ];
        for (at, figure) in figures {
            // The year has four digits for some thousands of years to come.
            text[at] += (figure / 10 % 10) as u8;
            text[at + 1] += (figure % 10) as u8;
        }
        to.extend_from_slice(if self.fraction.is_some() { &text } else { &text[..19] });
    }

    /// How long it is.
    pub(crate) const fn len(&self) -> usize {
        if self.fraction.is_some() { 26 } else { 19 }
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Vec::with_capacity(self.len());
        self.put(&mut text);
        f.write_str(std::str::from_utf8(&text).unwrap_or_default())
    }
}

/// Microseconds since the epoch of `YYYY-MM-DD`, `YYYY-MM-DD HH:MM:SS` or `YYYY-MM-DD HH:MM:SS.ffffff`; 0 for the zero
/// timestamp.
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

/// Days from the epoch to the first of January.
const fn year_days(year: u64) -> u64 {
    let before = year - 1;
    let leaps = before / 4 - before / 100 + before / 400;
    365 * (year - 1970) + leaps - 477
}

fn days(year: u64, month: u64, day: u64) -> u64 {
    year_days(year) + (1..month).map(|month| month_days(year, month)).sum::<u64>() + day - 1
}

fn date(days: u64) -> (u64, u64, u64) {
    let mut year = 1970 + days / 366;
    while year_days(year + 1) <= days {
        year += 1;
    }
    let mut rest = days - year_days(year);
    let mut month = 1;
    while rest >= month_days(year, month) {
        rest -= month_days(year, month);
        month += 1;
    }
    (year, month, rest + 1)
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
            assert_eq!(text(microseconds, 0).to_string(), written);
            assert_eq!(parse(written.as_bytes()), Some(seconds * MICROSECONDS));
            assert_eq!(text(microseconds, 6).to_string(), format!("{written}.900009"));
            if seconds > 0 {
                assert_eq!(parse(format!("{written}.900009").as_bytes()), Some(microseconds));
            }
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
