//! Trials: what is off is counted again for a look, once an hour, as its events may have become fewer and nobody sees them. One a
//! minute, and only what would matter.

use std::time::Duration;

use crate::asleep;
use crate::begun;
use crate::board::{Board, Move, Switch, Why};
use crate::kind::Level;

/// For so long what was seen is believed.
const BELIEVED: Duration = Duration::from_secs(3600);
/// What costs less than this part of the budget is not tried.
const NEGLIGIBLE: f64 = 0.01;

/// Something that may be tried.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trial<'a> {
    /// The instrument.
    pub(crate) switch: &'a str,
    /// The level it gets.
    pub(crate) to: Level,
    /// How long ago it was seen last.
    pub(crate) ago: Duration,
    /// What it costs, as a share, if its events are as they were.
    pub(crate) costs: f64,
}

/// Whether its events are counted once it is on.
pub(crate) fn is_possible(board: &Board, switch: &Switch) -> bool {
    !asleep::is_asleep(board, switch) && !begun::is_in_vain(board, switch)
}

/// The one of these that is tried: what was seen longest ago, and of such the dearest.
pub(crate) fn of<'a>(trials: impl Iterator<Item = Trial<'a>>, budget: f64) -> Option<Move> {
    let due = trials.filter(|it| it.ago >= BELIEVED && it.costs > NEGLIGIBLE * budget);
    let oldest = due.max_by(|a, b| a.ago.cmp(&b.ago).then(a.costs.total_cmp(&b.costs)));
    let Trial { switch, to, ago, costs } = oldest?;
    Some(Move { switch: switch.to_owned(), from: Level::Off, to, why: Why::Tried { ago, costs } })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::Switched;
    use crate::kind::Kind;

    const HOUR: u64 = 3600;

    fn tried(trials: &[(&'static str, u64, f64)]) -> Option<String> {
        let trial = |(switch, ago, costs): &(&'static str, u64, f64)| Trial {
            switch,
            to: Level::Counts,
            ago: Duration::from_secs(*ago),
            costs: *costs,
        };
        of(trials.iter().map(trial), 0.02).map(|it| it.switch)
    }

    #[test]
    fn what_was_not_seen_for_longest_is_tried_if_it_would_matter() {
        assert_eq!(tried(&[("a", HOUR - 1, 0.01)]), None);
        assert_eq!(tried(&[("a", 9 * HOUR, 0.0001), ("b", HOUR, 0.001)]).as_deref(), Some("b"));
        let both = [("a", HOUR, 0.01), ("b", HOUR, 0.02), ("c", HOUR, 0.001)];
        assert_eq!(tried(&both).as_deref(), Some("b"), "the dearest");
        assert_eq!(tried(&[("a", HOUR, 0.01), ("b", HOUR + 5, 0.001)]).as_deref(), Some("b"));
    }

    fn board(names: &[(&str, Switched, Level)]) -> Vec<Switch> {
        let switch = |(name, of, present): &(&str, Switched, Level)| Switch {
            name: (*name).to_owned(),
            of: *of,
            levels: vec![Level::Off, Level::Counts],
            present: *present,
            held: None,
        };
        names.iter().map(switch).collect()
    }

    #[test]
    fn what_would_have_no_events_is_not_tried() {
        let possible = |of: Switched, needs: (&str, Switched), present: Level| {
            let board = board(&[("it", of, Level::Off), (needs.0, needs.1, present)]);
            is_possible(&board, &board[0])
        };
        let stage = Switched::Instrument(Kind::Stage);
        let rest = ("stage, all others", Switched::Rest(Kind::Stage));
        assert!(possible(stage, rest, Level::Counts) && !possible(stage, rest, Level::Off));
        let query = Switched::Instrument(Kind::Query);
        let beginning = ("statement/abstract/Query", Switched::Instrument(Kind::Statement));
        assert!(possible(query, beginning, Level::Counts) && !possible(query, beginning, Level::Off));
        assert!(possible(stage, beginning, Level::Off), "a stage needs no statement");
    }
}
