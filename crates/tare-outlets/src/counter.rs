//! Counters of the Performance Schema: they only grow, until they are reset or overflow.

/// Returns whether a counter was reset: it is less than before. A fall by half of its range or more is an
/// overflow, as in sums of time after 213 days.
pub(crate) fn was_emptied(then: u64, now: u64) -> bool {
    now < then && then - now < 1 << 63
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_went_on_over_its_end_was_not_emptied() {
        assert!(was_emptied(10, 9) && was_emptied(1 << 62, 0));
        assert!(!was_emptied(9, 9) && !was_emptied(9, 10));
        assert!(!was_emptied(u64::MAX - 9, 40));
    }
}
