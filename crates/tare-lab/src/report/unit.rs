//! Human-readable figures: those of pages, and differences.

use tare_page::unit::{MINUS, without_negative_zero};
pub(super) use tare_page::unit::{
    NONE, bytes, bytes_per_second, chosen, estimated_span, fixed, plain, span, time,
};

use crate::statistics::course::Estimate;
use crate::verdict::analysis::Difference;

/// Formats a share as a percentage with its sign and so many decimals; 0 has no sign.
pub(super) fn signed(share: f64, decimals: usize) -> String {
    let text = without_negative_zero(format!("{:.decimals$}", share * 100.0));
    let plus = if text.starts_with('-') || text.bytes().all(|b| b"0.".contains(&b)) { "" } else { "+" };
    let text = if plus.is_empty() && !text.starts_with('-') && decimals > 0 && share == 0.0 {
        "0".into()
    } else {
        text
    };
    format!("{plus}{text}%").replace('-', &MINUS.to_string())
}

/// Returns the decimals for a percentage that is known to `plus_minus` (a share).
fn decimals(plus_minus: Option<f64>) -> usize {
    match plus_minus.map(|p| p * 100.0) {
        Some(p) if p < 0.095 => 2,
        Some(p) if p >= 9.5 => 0,
        _ => 1,
    }
}

/// Formats a share as a percentage with its sign: `+3.1%`.
pub(super) fn change(share: f64, plus_minus: Option<f64>) -> String {
    if !share.is_finite() {
        return NONE.into();
    }
    signed(share, decimals(plus_minus))
}

/// Formats a share as a percentage without a sign: `3.1%`.
pub(super) fn percent(share: f64, plus_minus: Option<f64>) -> String {
    format!("{:.*}%", decimals(plus_minus), share.abs() * 100.0)
}

/// Formats a difference in bytes: `+210 MiB`.
pub(super) fn more_bytes(more: f64) -> String {
    let plus = if more > 0.0 { "+" } else { "" };
    format!("{plus}{}", bytes(more))
}

/// Formats a range of differences in bytes, with the unit once if both ends share it: `+110 … +111 MiB`.
pub(super) fn more_bytes_between((low, high): (f64, f64)) -> String {
    let (low, high) = (more_bytes(low), more_bytes(high));
    match (low.split_once(' '), high.split_once(' ')) {
        (Some((number, unit)), Some((_, same))) if unit == same => format!("{number} … {high}"),
        _ => format!("{low} … {high}"),
    }
}

/// Formats a mean with two digits of its standard error: `27 612 ± 41`.
pub(super) fn mean(mean: Estimate) -> String {
    // If all values are equal, the error is only rounding.
    if mean.error <= mean.value.abs() * 1e-9 || !mean.error.is_finite() {
        return plain(mean.value);
    }
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a handful
    let decimals = (1.0 - mean.error.log10().floor()).clamp(0.0, 9.0) as usize;
    format!("{} ± {}", fixed(mean.value, decimals), fixed(mean.error, decimals))
}

/// Formats a difference's interval: `+2.7% … +3.5%`; empty if there is none yet.
pub(super) fn interval(difference: Difference) -> String {
    let end = |end: f64| change(end, difference.plus_minus());
    difference.interval.map_or(String::new(), |(low, high)| format!("{} … {}", end(low), end(high)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_as_precise_as_they_are_known() {
        assert_eq!(change(0.0312, Some(0.004)), "+3.1%");
        assert_eq!(change(-0.0312, Some(0.0004)), "\u{2212}3.12%");
        assert_eq!(change(0.4567, Some(0.12)), "+46%");
        assert_eq!([-0.0001, 0.0001, 0.0].map(|s| change(s, Some(0.004))), ["0.0%", "0.0%", "0%"]);
        assert_eq!(percent(-0.0049, None), "0.5%");
        assert_eq!([2e8, -3e3, 0.0].map(more_bytes), ["+191 MiB", "\u{2212}2.93 KiB", "0 B"]);
        assert_eq!(more_bytes_between((110.2e6, 111e6)), "+105 … +106 MiB");
        assert_eq!(more_bytes_between((-1e3, 2e6)), "\u{2212}1000 B … +1.91 MiB");
        let means = [(27_612.3, 41.2), (225.2, 8.96), (0.0015, 0.00002), (5.0, 1e-17)];
        assert_eq!(
            means.map(|(value, error)| mean(Estimate { value, error })),
            ["27\u{202f}612 ± 41", "225.2 ± 9.0", "0.001500 ± 0.000020", "5.00"]
        );
        let difference = Difference { share: 0.031, interval: Some((-0.0002, 0.035)) };
        assert_eq!(interval(difference), "0.0% … +3.5%");
        assert_eq!(interval(Difference { interval: None, ..difference }), "");
    }
}
