//! Differences from the base.

use schemars::JsonSchema;
use serde::Serialize;

use crate::results::record::Header;
use crate::results::schema;

/// Half-width of a cost's interval, as a share of the cost, that is enough when it exceeds the study's
/// precision.
const RELATIVE_PRECISION: f64 = 0.05;

/// A relative difference from the base: 0.01 is 1% more.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(transform = schema::figures_may_be_missing)]
pub struct Difference {
    /// The estimate.
    pub share: f64,
    /// 95% confidence interval, lower end and upper; `None` while there are too few observations.
    pub interval: Option<(f64, f64)>,
}

/// A difference from the base in the figure's own unit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(transform = schema::figures_may_be_missing)]
pub struct Amount {
    /// The estimate.
    pub value: f64,
    /// 95% confidence interval, lower end and upper; `None` while there are too few observations.
    pub interval: Option<(f64, f64)>,
}

impl Difference {
    /// Returns half the width of the interval.
    pub fn plus_minus(&self) -> Option<f64> {
        self.interval.map(|(low, high)| (high - low) / 2.0)
    }

    /// Returns whether the whole interval is on one side of 0.
    pub(super) fn is_significant(&self) -> bool {
        self.interval.is_some_and(|(low, high)| low > 0.0 || high < 0.0)
    }

    /// Returns whether the whole interval is closer to 0 than the margin.
    pub(super) fn is_within(&self, margin: f64) -> bool {
        self.interval.is_some_and(|(low, high)| low > -margin && high < margin)
    }

    /// Returns whether the two intervals do not overlap, so that both cannot be the same cost.
    pub(super) fn contradicts(&self, other: &Difference) -> bool {
        let both = self.interval.zip(other.interval);
        both.is_some_and(|((low, high), (other_low, other_high))| high < other_low || other_high < low)
    }

    /// Returns whether its interval is as narrow as the study asks.
    pub(super) fn is_precise(&self, header: &Header) -> bool {
        let enough = header.precision.max(RELATIVE_PRECISION * self.share.abs());
        self.plus_minus().is_some_and(|plus_minus| plus_minus <= enough)
    }
}
