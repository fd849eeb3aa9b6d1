//! How often a governor looks: as often as a tenth of the budget pays for.

use std::time::Duration;

/// Looking may take this part of the budget.
pub const OWN_PART: f64 = 0.1;
/// A server that used less than this part of a processor has nothing to save.
pub const IDLE: f64 = 0.01;

/// Whether the CPU time used since the last look pays for one like it. Both are nanoseconds.
#[must_use]
pub fn is_paid(used: f64, budget: f64, own: f64) -> bool {
    used * budget * OWN_PART >= own
}

/// Whether a server that used so many nanoseconds meanwhile was idle.
#[must_use]
pub fn is_idle(used: f64, elapsed: Duration) -> bool {
    used < IDLE * 1e9 * elapsed.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_takes_a_tenth_of_the_budget_at_most() {
        assert!(is_paid(1e9, 0.01, 1e6));
        assert!(!is_paid(0.9e9, 0.01, 1e6));
        assert!(is_paid(0.0, 0.01, 0.0), "what costs nothing");
    }

    #[test]
    fn a_hundredth_of_a_processor_is_idle() {
        assert!(is_idle(9e6, Duration::from_secs(1)));
        assert!(!is_idle(11e6, Duration::from_secs(1)));
    }
}
