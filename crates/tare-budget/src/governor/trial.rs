//! Trials: once an hour something that is off is counted again for one sample, because its events may have
//! become fewer unseen. At most one a minute, and only where it would matter.

use std::time::Duration;

use super::{asleep, begun};
use crate::board::{Board, Move, Why};
use crate::kind::{Kind, Level};

/// Time for which an observation is believed.
const BELIEVED: Duration = Duration::from_secs(3600);
/// Part of the budget below which a cost is not worth a trial.
const NEGLIGIBLE: f64 = 0.01;

/// A possible trial.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LevelTrial<'a> {
    /// Name of the instrument.
    pub(crate) switch: &'a str,
    pub(crate) kind: Kind,
    /// Level during the trial.
    pub(crate) to: Level,
    /// Time since its events were last seen.
    pub(crate) ago: Duration,
    /// Cost as a share, if there are as many events as then.
    pub(crate) costs: f64,
}

/// Returns whether something last seen so long ago is due for a trial.
pub(crate) fn is_due(ago: Duration) -> bool {
    ago >= BELIEVED
}

/// Returns whether events of a kind are counted once an instrument is on.
fn is_possible(board: &Board, kind: Kind) -> bool {
    !asleep::is_asleep(board, kind) && !begun::is_unbegun(board, kind)
}

/// Returns the trial to make among these, which are due: the one last seen longest ago, then the most
/// expensive.
pub(crate) fn of<'a>(
    board: &Board,
    trials: impl Iterator<Item = LevelTrial<'a>>,
    budget: f64,
) -> Option<Move> {
    let matters = |it: &LevelTrial<'_>| it.costs > NEGLIGIBLE * budget && is_possible(board, it.kind);
    let oldest = trials.filter(matters).max_by(|a, b| a.ago.cmp(&b.ago).then(a.costs.total_cmp(&b.costs)));
    let LevelTrial { switch, to, ago, costs, .. } = oldest?;
    Some(Move { switch: switch.to_owned(), from: Level::Off, to, why: Why::Tried { ago, costs } })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::{Switch, Switched};

    const HOUR: u64 = 3600;

    fn tried(trials: &[(&'static str, u64, f64)]) -> Option<String> {
        let trial = |(switch, ago, costs): &(&'static str, u64, f64)| LevelTrial {
            switch,
            kind: Kind::Stage,
            to: Level::Counts,
            ago: Duration::from_secs(*ago),
            costs: *costs,
        };
        of(&[], trials.iter().map(trial).filter(|it| is_due(it.ago)), 0.02).map(|it| it.switch)
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
        let possible = |of: Kind, needs: (&str, Switched), present: Level| {
            let it = ("it", Switched::Instrument(of), Level::Off);
            is_possible(&board(&[it, (needs.0, needs.1, present)]), of)
        };
        let stage = Kind::Stage;
        let rest = ("stage, all others", Switched::Rest(Kind::Stage));
        assert!(possible(stage, rest, Level::Counts) && !possible(stage, rest, Level::Off));
        let query = Kind::Query;
        let beginning = ("statement/abstract/Query", Switched::Instrument(Kind::Statement));
        assert!(possible(query, beginning, Level::Counts) && !possible(query, beginning, Level::Off));
        assert!(possible(stage, beginning, Level::Off), "a stage needs no statement");
    }
}
