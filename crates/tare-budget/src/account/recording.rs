//! Recording of a family's events: in the built-in its consumers decide this for all its instruments.

use std::collections::BTreeMap;

use crate::board::{Board, Switch, Switched};
use crate::kind::{HistoryFamily, Kind, Level};
use crate::price::{Cost, Prices};

/// The recording level of each family.
pub(crate) struct FamilyLevels(BTreeMap<HistoryFamily, Level>);

impl FamilyLevels {
    pub(crate) fn of(board: &Board, levels: &[Level]) -> FamilyLevels {
        let of = |(switch, level): (&Switch, &Level)| match switch.of {
            Switched::Recording(family) => Some((family, *level)),
            Switched::Instrument(_) | Switched::Rest(_) => None,
        };
        FamilyLevels(board.iter().zip(levels).filter_map(of).collect())
    }

    /// Returns the recording level of a kind's events; `None`: the level of each instrument decides.
    pub(crate) fn of_kind(&self, kind: Kind) -> Option<Level> {
        kind.family().and_then(|family| self.0.get(&family)).copied()
    }
}

/// Returns the level that an instrument's events effectively have: timed events are recorded like their
/// family.
pub(crate) fn effective(level: Level, recording: Option<Level>) -> Level {
    match recording {
        Some(recording) if level >= Level::Sums => recording.max(Level::Sums),
        _ => level,
    }
}

/// Returns the cost of an event. Events that are only counted are recorded like their family, too, without a
/// time.
pub(crate) fn cost(prices: &Prices, kind: Kind, level: Level, recording: Option<Level>) -> Cost {
    let own = prices.cost(kind, effective(level, recording));
    match recording {
        Some(recording) if level == Level::Counts && recording > Level::Sums => {
            own.plus(prices.cost(kind, recording).less(prices.cost(kind, Level::Sums)))
        }
        _ => own,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_only_counted_is_recorded_as_its_family_is() {
        let prices = Prices::read(include_str!("../../tests/prices/mysql.toml")).expect("prices");
        let of = |level, recording| cost(&prices, Kind::Stage, level, recording).ns;
        let [counts, sums, exact] = [Level::Counts, Level::Sums, Level::Exact].map(|level| of(level, None));
        assert!(counts < sums && sums < exact);
        assert_eq!(of(Level::Counts, Some(Level::Off)), counts);
        assert!((of(Level::Counts, Some(Level::Exact)) - (counts + exact - sums)).abs() < 1e-9);
        assert_eq!(of(Level::Sums, Some(Level::Exact)), exact);
        assert_eq!(of(Level::Off, Some(Level::Exact)), of(Level::Off, None));
    }
}
