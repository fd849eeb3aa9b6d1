//! Spending of the error over looks.

/// Share of studies in which an interval of any look may miss the truth.
const ERROR: f64 = 0.05;
/// Exponent of the spending function: at the share t of all values, t to this power of the error is spent.
const LATENESS: f64 = 2.0;

/// How the error is spent over looks, in simulated sequences.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spending {
    /// Number of planned looks.
    pub(crate) most: usize,
    /// The look at which all is spent.
    pub(crate) last: usize,
    /// Number of simulated sequences.
    pub(crate) courses: usize,
}

impl Spending {
    /// Returns how many of the sequences may have been outside after so many looks.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // small counts
    pub(crate) fn outside(self, seen: usize) -> usize {
        let share = if seen == self.last { 1.0 } else { (seen as f64 / self.most as f64).powf(LATENESS) };
        (ERROR * share * self.courses as f64) as usize
    }
}
