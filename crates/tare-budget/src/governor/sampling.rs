//! Rate at which statements are chosen, where they are sampled. It falls before anything else is given up,
//! and rises when everything else is back.
//!
//! Sampled events cost something in every statement, and more in a chosen one. So a part of the cost falls
//! with the rate, until no more than [`LEAST_RATE`] statements per second are chosen.

use std::time::Duration;

use super::rules::REST;
use crate::board::{Board, Switch, Switched, Why};
use crate::kind::{Kind, Level};
use crate::price::Prices;

/// Minimum number of chosen statements per second, unless fewer were requested.
pub const LEAST_RATE: f64 = 10.0;
/// Smallest relative change of the rate.
const STEP: f64 = 0.25;
/// Number of bisection steps in the search for the part of statements that connections leave room for.
const HALVED: u32 = 10;

/// State of statement sampling.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SampleChance {
    /// Maximum number of chosen statements per second.
    pub rate: f64,
    /// The rate that was requested, which `rate` never exceeds.
    pub most: f64,
    /// Part of statements that was chosen since the last sample: 1 means every one.
    pub chosen: f64,
    /// Seconds since the last sample.
    pub seconds: f64,
}

/// A change of the rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Resampled {
    /// Statements per second before.
    pub from: f64,
    /// Statements per second after.
    pub to: f64,
    /// Reason of the change.
    pub why: Why,
}

impl SampleChance {
    /// Returns the lowest rate.
    fn least(&self) -> f64 {
        if LEAST_RATE <= self.most * (1.0 - STEP) { LEAST_RATE } else { self.most }
    }

    /// Returns the part of `statements` that is chosen at a rate.
    fn part(&self, rate: f64, statements: f64) -> f64 {
        (rate * self.seconds / statements.max(1.0)).min(1.0)
    }

    /// Returns the lowest part of `statements`. At the lowest rate the part seen in the last sample counts,
    /// if higher.
    pub(crate) fn least_part(&self, statements: f64) -> f64 {
        let part = self.part(self.least(), statements);
        if self.rate <= self.least() { part.max(self.chosen) } else { part }
    }

    /// Returns the part that is chosen after a change, or now.
    pub(crate) fn part_after(&self, resampled: Option<Resampled>, statements: f64) -> f64 {
        resampled.map_or(self.chosen, |it| self.part(it.to, statements))
    }

    /// Returns the rate at which this part of `statements` is chosen, between the lowest and the requested
    /// rate.
    fn rate_of(&self, part: f64, statements: f64) -> f64 {
        let rate =
            if part >= 1.0 { self.most } else { part * statements / self.seconds.max(f64::MIN_POSITIVE) };
        rate.floor().clamp(self.least(), self.most)
    }

    /// Returns a rate lower by at least a step; `None`: it is the lowest.
    pub(crate) fn lowered(&self, part: f64, statements: f64) -> Option<f64> {
        let to = self.rate_of(part, statements).min((self.rate * (1.0 - STEP)).floor());
        // If no further step is possible from there, go to the lowest rate.
        let to = if to * (1.0 - STEP) < self.least() { self.least() } else { to };
        (to < self.rate).then_some(to)
    }

    /// Returns a rate higher by at least a step; `None`: the part does not allow it.
    pub(crate) fn raised(&self, part: f64, statements: f64) -> Option<f64> {
        let to = self.rate_of(part, statements);
        (to >= self.rate * (1.0 + STEP)).then_some(to)
    }
}

/// Returns the instrument's kind if its cost at this level depends on the part of chosen statements.
pub(crate) fn is_estimated(switch: &Switch, level: Level) -> Option<Kind> {
    match switch.of {
        Switched::Instrument(kind) if level == Level::Sampled && kind.unchosen() < Level::Lean => Some(kind),
        _ => None,
    }
}

/// Returns whether a board has an instrument that is or was sampled.
pub(crate) fn may_be_any(board: &Board) -> bool {
    board.iter().any(|it| it.levels.iter().any(|level| is_estimated(it, *level).is_some()))
}

/// Returns the extra cost of all events at these levels if every statement is chosen instead of none.
pub(crate) fn varying(prices: &Prices, board: &Board, levels: &[Level], events: &[f64]) -> f64 {
    let [all, none] = [1.0, 0.0].map(|chosen| prices.choosing(chosen));
    let of = |((switch, level), events): ((&Switch, &Level), &f64)| {
        let kind = is_estimated(switch, *level)?;
        Some((all.cost(kind, *level).ns - none.cost(kind, *level).ns) * events)
    };
    board.iter().zip(levels).zip(events).filter_map(of).sum()
}

/// Returns the largest part between two for which the increasing function `of` is within a limit, by
/// bisection. If there is none, returns the least one.
pub(crate) fn largest_within(least: f64, most: f64, limit: f64, of: impl Fn(f64) -> f64) -> f64 {
    if of(most) <= limit {
        return most;
    }
    let (mut least, mut most) = (least, most);
    for _ in 0..HALVED {
        let middle = f64::midpoint(least, most);
        *(if of(middle) <= limit { &mut least } else { &mut most }) = middle;
    }
    least
}

/// Returns whether the rate may rise, given the time of its last change.
pub(crate) fn has_rested(changed: Option<Duration>, now: Duration) -> bool {
    changed.is_none_or(|at| now.saturating_sub(at) >= REST)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(rate: f64, most: f64) -> SampleChance {
        SampleChance { rate, most, chosen: 0.1, seconds: 5.0 }
    }

    #[test]
    fn the_rate_falls_by_a_step_at_least_and_never_below_the_least() {
        // At 10,000 statements per second.
        let statements = 50_000.0;
        assert_eq!(at(1000.0, 1000.0).lowered(0.01, statements), Some(100.0));
        assert_eq!(at(1000.0, 1000.0).lowered(0.099, statements), Some(750.0), "990 is no step");
        assert_eq!(at(1000.0, 1000.0).lowered(0.0, statements), Some(LEAST_RATE));
        assert_eq!(at(1000.0, 1000.0).lowered(0.0012, statements), Some(LEAST_RATE), "12 leaves no step");
        assert_eq!(at(LEAST_RATE, 1000.0).lowered(0.0, statements), None);
        assert_eq!(at(5.0, 5.0).lowered(0.0, statements), None, "so few were asked for");
        assert_eq!(at(12.0, 12.0).lowered(0.0, statements), None, "there is no step between");
    }

    #[test]
    fn the_rate_rises_by_a_step_and_never_above_what_was_asked_for() {
        let statements = 50_000.0;
        assert_eq!(at(100.0, 1000.0).raised(0.05, statements), Some(500.0));
        assert_eq!(at(100.0, 1000.0).raised(0.012, statements), None, "120 is no step");
        assert_eq!(at(100.0, 1000.0).raised(0.5, statements), Some(1000.0));
        assert_eq!(at(1000.0, 1000.0).raised(1.0, statements), None);
        assert_eq!(at(100.0, 1000.0).raised(1.0, 50.0), Some(1000.0), "there is room for all");
    }

    #[test]
    fn below_the_lowest_rate_every_statement_is_chosen() {
        assert_eq!(at(1000.0, 1000.0).least_part(50.0), 1.0);
        assert_eq!(at(1000.0, 1000.0).least_part(50_000.0), 0.001);
        assert_eq!(at(LEAST_RATE, 1000.0).least_part(50_000.0), 0.1, "that is what was seen");
    }

    #[test]
    fn the_largest_part_within_a_limit_is_found() {
        let found = |limit| largest_within(0.1, 1.0, limit, |part| part * 2.0);
        assert_eq!(found(2.0), 1.0);
        assert!((found(1.0) - 0.5).abs() < 0.001 && found(1.0) <= 0.5);
        assert!((found(0.1) - 0.1).abs() < 0.001, "none is within it");
    }
}
