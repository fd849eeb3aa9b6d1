//! Human-readable figures in plain text: columns of a terminal have few characters, and a narrow space or a
//! wide minus sign may not be there.

/// Formats `1234567` as `1,234,567`.
#[must_use]
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (i, digit) in digits.char_indices() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Formats a time in picoseconds with three to four digits and a unit.
#[must_use]
#[allow(clippy::cast_precision_loss)] // shown with four digits
pub fn picoseconds(ps: u64) -> String {
    if ps == 0 {
        return "0 s".into(); // nothing has no unit that would suit it better
    }
    scaled(
        ps as f64,
        &[("ps", 1e3), ("ns", 1e3), ("µs", 1e3), ("ms", 1e3), ("s", 60.0), ("min", f64::INFINITY)],
    )
}

/// Formats seconds in a fitting unit.
#[must_use]
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // shown with four digits
pub fn seconds(s: f64) -> String {
    picoseconds((s * 1e12) as u64)
}

/// Formats a duration in its two largest units: `3 d 4 h`, `4 h 12 min`, `12 min 5 s`, `5 s`.
#[must_use]
pub fn duration(seconds: u64) -> String {
    let units = [
        ("d", seconds / 86_400),
        ("h", seconds / 3600 % 24),
        ("min", seconds / 60 % 60),
        ("s", seconds % 60),
    ];
    let first = units.iter().position(|(_, count)| *count > 0).unwrap_or(3);
    let shown: Vec<String> =
        units[first..].iter().take(2).map(|(unit, count)| format!("{count} {unit}")).collect();
    shown.join(" ")
}

/// Formats a duration in its two largest units, in at most seven characters up to a thousand days: `3d 4h`,
/// `4h 12m`, `12m 5s`, `5s`.
#[must_use]
pub fn brief(seconds: u64) -> String {
    duration(seconds).replace(" min", "m").replace(" d", "d").replace(" h", "h").replace(" s", "s")
}

/// Formats bytes in powers of 1024.
#[must_use]
#[allow(clippy::cast_precision_loss)] // shown with four digits
pub fn bytes(n: u64) -> String {
    scaled(n as f64, &[("B", 1024.0), ("KiB", 1024.0), ("MiB", 1024.0), ("GiB", f64::INFINITY)])
}

fn scaled(mut value: f64, units: &[(&str, f64)]) -> String {
    for (i, (unit, next)) in units.iter().enumerate() {
        // A value that would be rounded up to the next unit is shown in that.
        if value < next - 0.05 {
            let places = if i == 0 { 0 } else { usize::from(value < 99.95) + usize::from(value < 9.995) };
            return format!("{value:.places$} {unit}");
        }
        value /= next;
    }
    unreachable!("the last unit has no end")
}

/// Formats a figure in at most five characters: `1.23`, `12.3`, `123`, `1234`, `12.3k`, `1.23M`.
#[must_use]
pub fn short(value: f64) -> String {
    if value == 0.0 {
        return "0".into();
    }
    if value < 9999.5 {
        let places = usize::from(value < 99.95) + usize::from(value < 9.995);
        return format!("{value:.places$}");
    }
    let (mut value, mut unit) = (value / 1e3, "k");
    for next in ["M", "G", "T", "P", "E"] {
        if value < 999.5 {
            break;
        }
        (value, unit) = (value / 1e3, next);
    }
    let places = usize::from(value < 99.95) + usize::from(value < 9.995);
    format!("{value:.places$}{unit}")
}

/// Formats a whole rate per second.
#[must_use]
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // rates are small and positive
pub fn rate(per_second: f64) -> String {
    count(per_second.round() as u64)
}

/// Formats a relative change: `0.0123` as `+1.2%`.
#[must_use]
pub fn change(ratio: f64) -> String {
    let text = format!("{:+.1}%", ratio * 100.0);
    // What rounds to zero has no sign.
    if text == "+0.0%" || text == "-0.0%" { "0.0%".into() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_two_units() {
        let shown = [0, 59, 60, 3600 * 4 + 725, 86_400 * 3 + 3600 * 4 + 59, 86_400 * 400].map(duration);
        assert_eq!(shown, ["0 s", "59 s", "1 min 0 s", "4 h 12 min", "3 d 4 h", "400 d 0 h"]);
        let shown = [0, 60, 59 * 60 + 59, 15_120, 86_399, 273_600, 999 * 86_400 + 86_399].map(brief);
        assert_eq!(shown, ["0s", "1m 0s", "59m 59s", "4h 12m", "23h 59m", "3d 4h", "999d 23h"]);
    }

    #[test]
    fn counts_have_separators() {
        assert_eq!([0, 999, 1000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn times_take_the_unit_that_fits() {
        let times = [0, 999, 1500, 12_345, 123_456_789, 99_960_000, 999_990_000, 61_000_000_000_000];
        assert_eq!(
            times.map(picoseconds),
            ["0 s", "999 ps", "1.50 ns", "12.3 ns", "123 µs", "100 µs", "1.00 ms", "1.02 min"]
        );
        assert_eq!(seconds(0.000_26), "260 µs");
    }

    #[test]
    fn short_figures_have_five_places_at_most() {
        let figures = [0.0, 0.004, 1.5, 99.96, 9999.0, 9999.6, 123_456.0, 999_600.0, 1.844e19];
        assert_eq!(
            figures.map(short),
            ["0", "0.00", "1.50", "100", "9999", "10.0k", "123k", "1.00M", "18.4E"]
        );
    }

    #[test]
    fn bytes_and_changes() {
        assert_eq!([12, 2048, 100 << 20].map(bytes), ["12 B", "2.00 KiB", "100 MiB"]);
        assert_eq!(change(0.0123), "+1.2%");
        assert_eq!(change(-0.5), "-50.0%");
        assert_eq!([-0.0004, 0.0, 0.0004].map(change), ["0.0%", "0.0%", "0.0%"]);
    }
}
