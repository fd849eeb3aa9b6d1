//! Durations on the command line: a number with its unit, such as `10s`, `500ms` or `1h 30m`.

use std::time::Duration;

use tare_outlets::sessions::Moment;

/// Units of a single number, which may have decimal places. Others, and sums, are humantime's.
const UNITS: [(&str, f64); 5] = [("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0), ("d", 86_400.0)];

/// Parses a duration; `None` if it is none, or has no unit.
pub(crate) fn read(text: &str) -> Option<Duration> {
    humantime::parse_duration(text).ok().or_else(|| fraction(text))
}

/// Parses a number with decimal places and a unit.
fn fraction(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic())?);
    let (_, seconds) = UNITS.into_iter().find(|(name, _)| *name == unit)?;
    Duration::try_from_secs_f64(number.parse::<f64>().ok()? * seconds).ok()
}

/// Parses any duration.
pub(crate) fn any(text: &str) -> Result<Duration, String> {
    read(text).ok_or_else(|| "a number with its unit is allowed, such as 500ms, 10s or 1h".to_owned())
}

/// Parses a time: a duration before the end, or a time of the clock.
pub(crate) fn moment(text: &str) -> Result<Moment, String> {
    read(text).map(Moment::Before).map_or_else(|| text.parse(), Ok)
}

/// Returns a parser of durations in these bounds.
pub(crate) fn between(
    least: &'static str,
    most: &'static str,
) -> impl Fn(&str) -> Result<Duration, String> + Clone + Send + Sync + 'static {
    move |text| {
        let bounds = read(least).unwrap_or(Duration::ZERO)..=read(most).unwrap_or(Duration::MAX);
        let found = read(text).filter(|time| bounds.contains(time));
        found.ok_or_else(|| format!("{least} to {most} are allowed, with a unit such as {least}"))
    }
}

/// Returns a parser of whole seconds in these bounds.
pub(crate) fn seconds(
    least: &'static str,
    most: &'static str,
) -> impl Fn(&str) -> Result<u32, String> + Clone + Send + Sync + 'static {
    let within = between(least, most);
    move |text| {
        let time = within(text)?;
        let whole = u32::try_from(time.as_secs()).ok().filter(|_| time.subsec_nanos() == 0);
        whole.ok_or_else(|| format!("whole seconds are allowed, {least} to {most}"))
    }
}

/// Formats a duration in one unit, as an option takes it.
pub(crate) fn shown(time: Duration) -> String {
    let ms = time.as_millis();
    let whole = [("h", 3_600_000), ("m", 60_000), ("s", 1000)]
        .into_iter()
        .find(|(_, it)| ms > 0 && ms.is_multiple_of(*it));
    whole.map_or_else(|| format!("{ms}ms"), |(unit, it)| format!("{}{unit}", ms / it))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_a_unit() {
        for (text, ms) in [
            ("10s", 10_000),
            ("500ms", 500),
            ("0.5s", 500),
            ("1.5m", 90_000),
            ("2min", 120_000),
            ("1h 30m", 5_400_000),
            ("1day", 86_400_000),
            ("0s", 0),
        ] {
            assert_eq!(read(text), Some(Duration::from_millis(ms)), "{text}");
        }
        for text in [
            "",
            "10",
            "0.5",
            "s",
            "-1s",
            "-5ms",
            "1e3",
            "1 lightyear",
            "NaNs",
            "infs",
            "99999999999999999999d",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_allowed_is_said() {
        let parser = between("500ms", "1h");
        assert_eq!(parser("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parser("60m"), Ok(Duration::from_secs(3600)));
        for text in ["499ms", "61m", "2", "", "x"] {
            let said = parser(text).expect_err(text);
            assert!(said.starts_with("500ms to 1h are allowed"), "{text}: {said}");
        }
        let whole = seconds("1s", "1h");
        assert_eq!(whole("1m"), Ok(60));
        assert!(whole("1500ms").expect_err("half a second").starts_with("whole seconds"));
    }

    #[test]
    fn a_duration_is_shown_as_it_is_read() {
        for text in ["250ms", "1s", "90s", "10m", "24h", "1500ms"] {
            assert_eq!(shown(read(text).expect(text)), text);
        }
    }
}
