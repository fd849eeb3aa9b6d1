//! Budgets as people write them: `1%`, `0.5%`.

use std::fmt;

/// A share of the server's CPU time in millionths: above 0, at most all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Budget(u32);

/// Millionths per percent.
const PERCENT: f64 = 1e4;

impl Budget {
    /// The values that [`Budget::read`] accepts, for messages.
    pub const ALLOWED: &'static str = "a share such as 1% or 0.5%, at most 100%";

    /// Parses a budget; `None`: not an allowed share.
    ///
    /// # Examples
    ///
    /// ```
    /// use tare_budget::Budget;
    ///
    /// let budget = Budget::read("0.5%").expect("a share");
    /// assert_eq!((budget.share(), budget.to_string()), (0.005, "0.5%".to_owned()));
    /// assert_eq!(Budget::read("101%"), None);
    /// ```
    #[must_use]
    pub fn read(text: &str) -> Option<Budget> {
        let number = text.trim().strip_suffix('%')?.trim_end();
        let is_plain = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let millionths = number.parse::<f64>().ok().filter(|_| is_plain)? * PERCENT;
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // within the bounds
        let millionths = (0.5..=100.0 * PERCENT).contains(&millionths).then(|| millionths.round() as u32);
        millionths.map(Budget)
    }

    /// Returns the budget as a fraction: 1% is 0.01.
    #[must_use]
    pub fn share(self) -> f64 {
        f64::from(self.0) / PERCENT / 100.0
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", f64::from(self.0) / PERCENT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_read_as_it_is_written() {
        for (text, share, shown) in [
            ("1%", 0.01, "1%"),
            ("0.5%", 0.005, "0.5%"),
            (" 2.25 %", 0.0225, "2.25%"),
            ("100%", 1.0, "100%"),
            ("0.0001%", 1e-6, "0.0001%"),
        ] {
            let budget = Budget::read(text).unwrap();
            assert!((budget.share() - share).abs() < 1e-12, "{text}");
            assert_eq!(budget.to_string(), shown);
            assert_eq!(Budget::read(shown), Some(budget));
        }
        for text in ["", "%", "1", "0%", "0.00001%", "101%", "-1%", "1e-1%", "inf%", "NaN%", "1%%", "one%"] {
            assert_eq!(Budget::read(text), None, "{text}");
        }
    }
}
