//! The rate at which statements are chosen, where they are sampled: it falls before anything else is given up, and rises when
//! everything else is back.
//!
//! What is sampled costs something in every statement, and more in one that is chosen. So with the rate a part of the cost goes
//! down, until no more than [`LEAST_RATE`] statements a second are chosen.

use std::time::Duration;

use crate::board::{Board, Switch, Switched, Why};
use crate::governor::REST;
use crate::kind::{Kind, Level};
use crate::price::Prices;

/// Statements a second that are chosen at least, unless fewer were asked for.
pub const LEAST_RATE: f64 = 10.0;
/// The rate changes by this part of itself or not at all.
const STEP: f64 = 0.25;
/// How often the part of statements that connections leave room for is halved in search of it.
const HALVED: u32 = 10;

/// How statements are sampled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// How many are chosen a second, at most.
    pub rate: f64,
    /// The rate that was asked for: it is never above.
    pub most: f64,
    /// The part that was chosen since the last look: 1 is every one.
    pub chosen: f64,
    /// Seconds since the last look.
    pub seconds: f64,
}

/// A change of the rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Resampled {
    /// Statements a second so far.
    pub from: f64,
    /// From now on.
    pub to: f64,
    /// The reason.
    pub why: Why,
}

impl Sampling {
    /// The rate below which it does not fall.
    fn least(&self) -> f64 {
        if LEAST_RATE <= self.most * (1.0 - STEP) { LEAST_RATE } else { self.most }
    }

    /// The part of so many statements that is chosen at a rate.
    fn part(&self, rate: f64, statements: f64) -> f64 {
        (rate * self.seconds / statements.max(1.0)).min(1.0)
    }

    /// The least part of so many statements. What a look has seen at the lowest rate is believed.
    pub(crate) fn least_part(&self, statements: f64) -> f64 {
        let part = self.part(self.least(), statements);
        if self.rate <= self.least() { part.max(self.chosen) } else { part }
    }

    /// The part that is chosen from now on.
    pub(crate) fn part_after(&self, resampled: Option<Resampled>, statements: f64) -> f64 {
        resampled.map_or(self.chosen, |it| self.part(it.to, statements))
    }

    /// The rate at which such a part of so many statements is chosen: between the least and the most.
    fn rate_of(&self, part: f64, statements: f64) -> f64 {
        let rate =
            if part >= 1.0 { self.most } else { part * statements / self.seconds.max(f64::MIN_POSITIVE) };
        rate.floor().clamp(self.least(), self.most)
    }

    /// A lower rate, by a step at least; `None`: it is the lowest.
    pub(crate) fn lowered(&self, part: f64, statements: f64) -> Option<f64> {
        let to = self.rate_of(part, statements).min((self.rate * (1.0 - STEP)).floor());
        // From what is left a step goes down once more.
        let to = if to * (1.0 - STEP) < self.least() { self.least() } else { to };
        (to < self.rate).then_some(to)
    }

    /// A higher rate; `None`: it would not be higher by a step.
    pub(crate) fn raised(&self, part: f64, statements: f64) -> Option<f64> {
        let to = self.rate_of(part, statements);
        (to >= self.rate * (1.0 + STEP)).then_some(to)
    }
}

/// Whether what an instrument costs goes with the part of statements that are chosen.
pub(crate) fn is_estimated(switch: &Switch, level: Level) -> Option<Kind> {
    match switch.of {
        Switched::Instrument(kind) if level == Level::Sampled && kind.unchosen() < Level::Lean => Some(kind),
        _ => None,
    }
}

/// Whether a board has an instrument that is sampled, or was.
pub(crate) fn may_be_any(board: &Board) -> bool {
    board.iter().any(|it| it.levels.iter().any(|level| is_estimated(it, *level).is_some()))
}

/// What all events cost more if every statement is chosen than if none is, at these levels.
pub(crate) fn varying(prices: &Prices, board: &Board, levels: &[Level], events: &[f64]) -> f64 {
    let [all, none] = [1.0, 0.0].map(|chosen| prices.choosing(chosen));
    let of = |((switch, level), events): ((&Switch, &Level), &f64)| {
        let kind = is_estimated(switch, *level)?;
        Some((all.cost(kind, *level).ns - none.cost(kind, *level).ns) * events)
    };
    board.iter().zip(levels).zip(events).filter_map(of).sum()
}

/// The largest part between two that keeps what grows with it within a limit; the least one, where none does.
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

/// Whether the rate may rise so long after it changed last.
pub(crate) fn has_rested(changed: Option<Duration>, now: Duration) -> bool {
    changed.is_none_or(|at| now.saturating_sub(at) >= REST)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(rate: f64, most: f64) -> Sampling {
        Sampling { rate, most, chosen: 0.1, seconds: 5.0 }
    }

    #[test]
    fn the_rate_falls_by_a_step_at_least_and_never_below_the_least() {
        // Of ten thousand statements a second.
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
