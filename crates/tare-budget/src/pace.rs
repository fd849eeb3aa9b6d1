//! Interval of a governor's samples: as short as a tenth of the budget allows.

use std::time::Duration;

/// Part of the budget that sampling the server may take.
pub const OWN_PART: f64 = 0.1;
/// Part of one processor below which a server is idle and has nothing to save.
pub const IDLE: f64 = 0.01;

/// Returns whether the CPU time used since the last sample pays for another one like it. Both are in
/// nanoseconds.
#[must_use]
pub fn is_paid(used: f64, budget: f64, own: f64) -> bool {
    used * budget * OWN_PART >= own
}

/// Returns whether a server that used so many nanoseconds of CPU time was idle.
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
