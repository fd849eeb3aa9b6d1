//! Figures as people read them: the page's own, and differences.

use tare_page::unit::{MINUS, without_negative_zero};
pub(super) use tare_page::unit::{NONE, bytes, bytes_per_second, fixed, plain, span, time};

use crate::analysis::Difference;

/// A share as a percentage with its sign and so many decimals; nothing has none.
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

/// Decimals that suit a percentage which is known to `plus_minus` (a share).
fn decimals(plus_minus: Option<f64>) -> usize {
    match plus_minus.map(|p| p * 100.0) {
        Some(p) if p < 0.095 => 2,
        Some(p) if p >= 9.5 => 0,
        _ => 1,
    }
}

/// A share as a percentage with its sign: `+3.1%`.
pub(super) fn change(share: f64, plus_minus: Option<f64>) -> String {
    if !share.is_finite() {
        return NONE.into();
    }
    signed(share, decimals(plus_minus))
}

/// A share as a percentage without a sign: `3.1%`.
pub(super) fn percent(share: f64, plus_minus: Option<f64>) -> String {
    format!("{:.*}%", decimals(plus_minus), share.abs() * 100.0)
}

/// A share that somebody chose, such as a margin: `1%`, `0.5%`.
pub(crate) fn chosen(share: f64) -> String {
    format!("{}%", (share * 1e6).round() / 1e4)
}

/// A difference's interval: `+2.7% … +3.5%`; nothing where there is none yet.
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
        assert_eq!([0.01, 0.005, 0.0025].map(chosen), ["1%", "0.5%", "0.25%"]);
        let difference = Difference { share: 0.031, interval: Some((-0.0002, 0.035)) };
        assert_eq!(interval(difference), "0.0% … +3.5%");
        assert_eq!(interval(Difference { interval: None, ..difference }), "");
    }
}
