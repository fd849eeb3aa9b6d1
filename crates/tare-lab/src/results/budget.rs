//! A budget: the highest cost that settings may have.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tare_page::unit::chosen;

/// The highest cost that a setting may have, as a share of its base: 0.03 is 3%.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Budget(f64);

impl Budget {
    /// Returns the budget as a share of the base.
    ///
    /// # Examples
    ///
    /// ```
    /// use tare_lab::budget::Budget;
    ///
    /// let budget: Budget = "3%".parse()?;
    /// assert_eq!(budget.share(), 0.03);
    /// assert!("0.03".parse::<Budget>().is_err()); // a percentage, so that nobody mistakes one for the other
    /// # Ok::<(), String>(())
    /// ```
    pub fn share(self) -> f64 {
        self.0
    }
}

impl FromStr for Budget {
    type Err = String;

    fn from_str(text: &str) -> Result<Budget, String> {
        let percent = text.strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
        percent
            .filter(|percent| (0.0..=1000.0).contains(percent))
            .map(|percent| Budget(percent / 100.0))
            .ok_or_else(|| "a percentage from 0% to 1000% is allowed, such as 3% or 0.5%".into())
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&chosen(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_a_percentage() {
        for (text, shown) in [("3%", "3%"), ("0.50%", "0.5%"), ("7%", "7%"), ("0%", "0%"), ("100 %", "100%")]
        {
            assert_eq!(text.parse::<Budget>().expect("a budget").to_string(), shown);
        }
        for text in ["3", "0.03", "-1%", "%", "three%", "NaN%", "inf%"] {
            assert!(text.parse::<Budget>().expect_err("refused").contains("such as 3%"), "{text}");
        }
    }
}
