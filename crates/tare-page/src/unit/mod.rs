//! Human-readable figures: here as pages show them, in [`terminal`] as terminals and logs do.

pub mod terminal;

/// A minus sign as wide as a plus.
pub const MINUS: char = '\u{2212}';
/// Placeholder for a missing figure.
pub const NONE: &str = "–";

/// Formats a number with three significant digits, without an exponent.
pub fn plain(value: f64) -> String {
    if !value.is_finite() {
        return NONE.into();
    }
    let decimals = match value.abs() {
        // A value that is rounded up to the next power of ten has the decimals of that.
        a if a >= 99.95 || a == 0.0 => 0,
        a if a >= 9.995 => 1,
        a if a >= 0.9995 => 2,
        a if a >= 0.09995 => 3,
        a if a >= 0.009_995 => 4,
        _ => 5,
    };
    grouped(&format!("{value:.decimals$}"))
}

/// Formats a number with so many decimals.
pub fn fixed(value: f64, decimals: usize) -> String {
    grouped(&without_negative_zero(format!("{value:.decimals$}")))
}

/// Removes the minus sign of a formatted number that is zero, such as `-0.00`.
pub fn without_negative_zero(text: String) -> String {
    match text.strip_prefix('-') {
        Some(rest) if rest.bytes().all(|b| b"0.".contains(&b)) => rest.to_owned(),
        _ => text,
    }
}

/// Puts spaces between thousands, and a proper minus sign in front.
fn grouped(text: &str) -> String {
    let (sign, digits) = text.strip_prefix('-').map_or((None, text), |rest| (Some(MINUS), rest));
    let (whole, rest) = digits.split_once('.').map_or((digits, ""), |(whole, rest)| (whole, rest));
    let mut grouped: String = sign.into_iter().collect();
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && whole.len() > 4 && (whole.len() - place).is_multiple_of(3) {
            grouped.push('\u{202f}'); // a narrow space that does not break
        }
        grouped.push(digit);
    }
    if !rest.is_empty() {
        grouped.push('.');
        grouped.push_str(rest);
    }
    grouped
}

/// Formats a figure in the largest unit in which it is at least 1.
fn scaled(value: f64, units: &[(f64, &str)]) -> String {
    if !value.is_finite() {
        return NONE.into();
    }
    let unit = units.iter().find(|(size, _)| value.abs() >= *size).or(units.last());
    unit.map_or_else(String::new, |(size, name)| format!("{} {name}", plain(value / size)))
}

/// Formats a share that somebody chose, such as a margin: `1%`, `0.5%`.
pub fn chosen(share: f64) -> String {
    format!("{}%", (share * 1e6).round() / 1e4)
}

/// Formats a time given in seconds, in the largest of s, ms, µs and ns in which it is at least 1.
pub fn time(seconds: f64) -> String {
    if seconds == 0.0 {
        return "0 s".into();
    }
    scaled(seconds, &[(1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")])
}

/// Formats bytes in powers of 1024.
pub fn bytes(bytes: f64) -> String {
    let kib = 1024.0;
    scaled(bytes, &[(kib * kib * kib, "GiB"), (kib * kib, "MiB"), (kib, "KiB"), (1.0, "B")])
}

/// Formats bytes per second in powers of 1000, as for disks and networks.
pub fn bytes_per_second(bytes: f64) -> String {
    scaled(bytes, &[(1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"), (1.0, "B/s")])
}

/// Formats a duration given in seconds, in seconds, minutes, or hours and minutes: `45 s`, `12 min`, `3 h 5
/// min`.
pub fn span(seconds: f64) -> String {
    let minutes = (seconds / 60.0).round();
    match minutes {
        m if m < 2.0 => format!("{seconds:.0} s"),
        m if m < 120.0 => format!("{m:.0} min"),
        m if m % 60.0 == 0.0 => format!("{:.0} h", m / 60.0),
        m => format!("{:.0} h {:.0} min", (m / 60.0).floor(), m % 60.0),
    }
}

/// Formats an estimated duration, with no more precision than an estimate has.
pub fn estimated_span(seconds: f64) -> String {
    let to = |unit: f64| (seconds / unit).round();
    match seconds {
        s if s < 1200.0 => span(to(60.0) * 60.0),
        s if s < 7200.0 => span(to(300.0) * 300.0),
        s if s < 172_800.0 => format!("{:.0} h", to(3600.0)),
        _ => format!("{} days", fixed(to(86_400.0), 0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits_and_a_unit() {
        let times = [262.4e-6, 9.43e-6, 1.5, 0.0, 41e-9].map(time);
        assert_eq!(times, ["262 µs", "9.43 µs", "1.50 s", "0 s", "41.0 ns"]);
        assert_eq!(bytes(120.0 * 1024.0 * 1024.0), "120 MiB");
        assert_eq!(bytes_per_second(1.5e6), "1.50 MB/s");
        assert_eq!(
            [1234.0, 12345.0, -1_234_567.0].map(plain),
            ["1234", "12\u{202f}345", "\u{2212}1\u{202f}234\u{202f}567"]
        );
        assert_eq!([0.5, 0.0321, 0.001_52].map(plain), ["0.500", "0.0321", "0.00152"]);
        let rounded_up = [99.96, 9.999, 0.9999, 0.099_99, 0.009_999].map(plain);
        assert_eq!(rounded_up, ["100", "10.0", "1.00", "0.100", "0.0100"]);
        assert_eq!(time(f64::NAN), NONE);
        assert_eq!([45.0, 600.0, 9000.0, 14400.0].map(span), ["45 s", "10 min", "2 h 30 min", "4 h"]);
    }

    #[test]
    fn an_estimated_span_is_no_more_exact_than_an_estimate() {
        let spans = [60.0, 400.0, 4000.0, 55_020.0, 1_274_220.0].map(estimated_span);
        assert_eq!(spans, ["60 s", "7 min", "65 min", "15 h", "15 days"]);
    }

    #[test]
    fn a_chosen_share_has_the_digits_that_were_given() {
        assert_eq!([0.01, 0.005, 0.0025].map(chosen), ["1%", "0.5%", "0.25%"]);
    }
}
