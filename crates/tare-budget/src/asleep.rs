//! Kinds of which nothing is left on. While an instrument of a kind is on, the server asks at each of the kind's events whether it is
//! that one's; while none is, it asks nothing. So where the budget cannot be kept otherwise, and not one event in ten of a kind
//! is still counted, the kind's other instruments go, too, with events or without. Then none of its events is seen, until there is
//! room. Of stages the server does not even tell then, and so the last of them go as well, for which alone it would.

use crate::board::{Board, Move, Switch, Switched, Why};
use crate::follow::{FEW, Follower};
use crate::governor::Decision;
use crate::kind::{Kind, Level};
use crate::plan::Course;
use crate::price::Prices;

/// The kind whose events a server does not even tell of while it sleeps.
const UNTOLD: Kind = Kind::Stage;

/// What an event of a kind costs, in nanoseconds, for the question whether it is one of those that are on. Weighed, 2026-11-27: of a
/// point select and of oltp_read_only, everything off one by one against level off.
const ASKED_NS: f64 = 5.0;

/// Whether a kind can sleep: of its instruments some have no events, and no event of another kind needs them.
#[must_use]
pub fn may_sleep(kind: Kind) -> bool {
    use Kind::{Condition, FileIo, Mutex, RwLock, Socket, Stage};
    matches!(kind, Stage | Socket | FileIo | Condition | RwLock | Mutex)
}

/// Whether a kind sleeps.
pub(crate) fn is_asleep(board: &Board, kind: Kind) -> bool {
    board.iter().any(|it| it.of == Switched::Rest(kind) && it.present == Level::Off)
}

/// The prices of a board: where stages sleep and none is on, one that is off costs nothing. What is raised may wake them, and
/// is not to count on it.
pub(crate) fn prices(prices: &Prices, board: &Board, course: Course) -> Prices {
    let mut of_kind = board.iter().filter(|it| it.of == Switched::Instrument(UNTOLD));
    match course {
        Course::Cut if is_asleep(board, UNTOLD) && of_kind.all(|it| it.present == Level::Off) => {
            prices.clone().free_if_off(UNTOLD)
        }
        Course::Cut | Course::Raise => prices.clone(),
    }
}

/// What an event of a kind that sleeps costs more once it is awake, though off itself.
fn awake_ns(prices: &Prices, kind: Kind) -> f64 {
    ASKED_NS + if kind == UNTOLD { prices.cost(kind, Level::Off).ns } else { 0.0 }
}

/// What follows from a decision for whole kinds. `counted`: how many events an instrument would have in so much CPU time, in
/// nanoseconds.
pub(crate) fn moves(
    prices: &Prices,
    board: &Board,
    decision: &Decision,
    (budget, cpu): (f64, f64),
    counted: impl Fn(&Switch) -> f64,
) -> Vec<Move> {
    let moved = |rest: &Switch| {
        let Switched::Rest(kind) = rest.of else { return vec![] };
        let (all, left) = events(board, kind, &decision.moves, &counted);
        let is_off = rest.present == Level::Off;
        let is_wanted = rest.held.is_some() || left > all * FEW;
        let costs = all * awake_ns(prices, kind) / cpu;
        if kind == UNTOLD && is_off && !is_wanted && decision.predicted > budget {
            let share = decision.account.share().ns;
            return last_told(board, &decision.moves, Why::Over { share, budget, saves: costs });
        }
        let why = Follower { is_off, is_wanted, costs }.why(decision, budget);
        let to = if is_off { rest.highest() } else { Level::Off };
        // Of a kind without events nothing is saved.
        let why = why.filter(|_| is_off || all > 0.0);
        why.map(|why| Move { switch: rest.name.clone(), from: rest.present, to, why }).into_iter().collect()
    };
    board.iter().flat_map(moved).collect()
}

/// Stages that are still on where the others sleep go, too: for them alone the server tells of all.
fn last_told(board: &Board, moves: &[Move], why: Why) -> Vec<Move> {
    let is_moved = |it: &Switch| moves.iter().any(|done| done.switch == it.name);
    let is_last = |it: &&Switch| {
        let is_stage = it.of == Switched::Instrument(UNTOLD);
        is_stage && it.present > Level::Off && it.held.is_none() && !is_moved(it)
    };
    let off = |it: &Switch| Move { switch: it.name.clone(), from: it.present, to: Level::Off, why };
    board.iter().filter(is_last).map(off).collect()
}

/// Events of a kind, and those of them that are still counted once the moves are done.
fn events(board: &Board, kind: Kind, moves: &[Move], counted: impl Fn(&Switch) -> f64) -> (f64, f64) {
    let of_kind = board.iter().filter(|it| it.of == Switched::Instrument(kind));
    of_kind.fold((0.0, 0.0), |(all, left), it| {
        let events = counted(it);
        (all + events, if it.after(moves) > Level::Off { left + events } else { left })
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fmt::Write;
    use std::time::Duration;

    use super::*;
    use crate::board::Held;
    use crate::governor::{Governor, Look};
    use crate::rules::{Rules, Statements};

    const STAGE: &str = "stage/sql/init";
    const SMALL: &str = "stage/sql/Preparing";
    const RARE: &str = "stage/sql/Creating table";
    const REST: &str = "stage, all others";
    const SELECT: &str = "statement/sql/select";

    /// A stage costs a microsecond, off or on a statement two.
    fn governor() -> Governor {
        governor_of(0, 2000)
    }

    /// Likewise, and a stage that is off costs so much, a statement so much.
    fn governor_of(stage: u32, statement: u32) -> Governor {
        let mut text =
            "[origin]\nprovider = 'tare'\nserver = ''\nmachine = ''\nmeasured = false\nhow = ''\n".to_owned();
        for kind in Kind::ALL {
            let (off, counts) = match kind {
                Kind::Stage => (stage, 1000),
                Kind::Query => (statement, statement),
                _ => (0, 0),
            };
            let cost = |ns| format!("{{ ns = {ns}, low = {ns}, high = {ns} }}");
            writeln!(text, "[price.{kind}]\noff = {}\ncounts = {}", cost(off), cost(counts))
                .expect("a string");
        }
        Governor::new(
            Rules { budget: 0.01, budget_p95: None, statements: Statements::ByWorth },
            Prices::read(&text).expect("prices"),
        )
    }

    fn board(held: Option<Held>) -> Vec<Switch> {
        let switch = |(name, of): (&str, Switched)| Switch {
            name: name.to_owned(),
            of,
            levels: vec![Level::Off, Level::Counts],
            present: Level::Counts,
            held: held.filter(|_| name == REST),
        };
        let instrument = |name| (name, Switched::Instrument(Kind::of(name).expect("a kind")));
        [instrument(STAGE), instrument(RARE), instrument(SELECT), (REST, Switched::Rest(Kind::Stage))]
            .map(switch)
            .into()
    }

    /// Looks every five seconds at a hundred thousand stages and as many statements as said, and carries out what is decided. What is
    /// off in the end; of what sleeps as a whole, alone that.
    fn run(
        governor: &mut Governor,
        board: &mut [Switch],
        looks: std::ops::Range<u64>,
        statements: f64,
    ) -> Vec<String> {
        look_on(governor, board, looks, statements);
        let mut off: Vec<String> =
            board.iter().filter(|it| it.present == Level::Off).map(|it| it.name.clone()).collect();
        if off.iter().any(|it| it == REST) {
            off.retain(|it| it != RARE);
        }
        off
    }

    /// As [`run`]: how many moves there were, and the last share.
    fn look_on(
        governor: &mut Governor,
        board: &mut [Switch],
        looks: std::ops::Range<u64>,
        statements: f64,
    ) -> (usize, f64) {
        let mut seen = (0, 0.0);
        for nth in looks {
            let now =
                |name: &str| board.iter().find(|it| it.name == name).map_or(Level::Off, |it| it.present);
            let is_on = |name: &str| f64::from(u8::from(now(name) > Level::Off));
            let events = [(STAGE, 1e5), (SMALL, 5e3), (RARE, 3.0), (SELECT, statements)];
            let events: BTreeMap<String, f64> =
                events.map(|(name, count)| (name.to_owned(), count * is_on(name))).into();
            let look =
                Look { now: Duration::from_secs(nth * 5), cpu: 5e9, statements, events, ..Look::default() };
            let decision = governor.look(board, &look);
            seen = (seen.0 + decision.moves.len(), decision.account.share().ns);
            for it in decision.moves {
                let goes = |of: &&mut Switch| of.name == it.switch || it.switch == REST && of.name == RARE;
                board.iter_mut().filter(goes).for_each(|switch| switch.present = it.to);
            }
        }
        seen
    }

    #[test]
    fn a_kind_of_which_hardly_anything_is_left_sleeps_where_the_budget_cannot_be_kept_and_wakes_with_room() {
        let (mut governor, mut board) = (governor(), board(None));
        // Statements cost 2% whatever is done.
        assert_eq!(run(&mut governor, &mut board, 0..6, 5e4), [STAGE, REST]);
        // They cost nothing to speak of. Stages would be 2%, to ask for each is a hundredth of a percent.
        assert_eq!(run(&mut governor, &mut board, 6..24, 1.0), [STAGE]);
    }

    #[test]
    fn stages_that_sleep_cost_nothing_and_do_not_wake_for_that() {
        // Told, they cost a percent and a half, though off.
        let (mut governor, mut board) = (governor_of(750, 0), board(None));
        assert_eq!(run(&mut governor, &mut board, 0..6, 1.0), [STAGE, REST]);
        assert_eq!(look_on(&mut governor, &mut board, 6..60, 1.0), (0, 0.0));
    }

    #[test]
    fn the_last_stage_goes_that_alone_keeps_the_others_told() {
        let (mut governor, mut board) = (governor_of(750, 0), board(None));
        let small = Switch { name: SMALL.to_owned(), ..board[0].clone() };
        board.push(small);
        // What it costs more than off is too little to be given up for itself.
        assert_eq!(run(&mut governor, &mut board, 0..1, 1.0), [STAGE, REST]);
        assert_eq!(run(&mut governor, &mut board, 1..6, 1.0), [STAGE, REST, SMALL]);
        assert_eq!(look_on(&mut governor, &mut board, 6..60, 1.0), (0, 0.0));
    }

    #[test]
    fn within_the_budget_none_sleeps() {
        let (mut governor, mut board) = (governor(), board(None));
        assert_eq!(run(&mut governor, &mut board, 0..6, 1.0), [STAGE]);
    }

    #[test]
    fn where_a_person_wants_some_of_it_a_kind_stays_awake_and_wakes() {
        let (mut governor, mut held) = (governor(), board(Some(Held::Person)));
        assert_eq!(run(&mut governor, &mut held, 0..6, 5e4), [STAGE]);
        held[3].present = Level::Off;
        assert_eq!(run(&mut governor, &mut held, 20..26, 5e4), [STAGE]);
    }
}
