//! Kinds that sleep: kinds of which no instrument is on. While any instrument of a kind is on, the server
//! checks at each event of the kind whether it belongs to that instrument. While none is on, it checks
//! nothing. If the budget cannot be kept otherwise, and less than one event in ten of a kind is still
//! counted, the rest of the kind is switched off, too, whether it has events or not. Then none of the kind's
//! events is seen, until there is room. Stages are then not even reported by the server. So the last
//! stages that are on are switched off as well.

use super::cause::Direction;
use super::decision::Decision;
use super::follow::{FEW, Follower};
use crate::board::{Board, Move, Switch, Switched, Why};
use crate::kind::{Kind, Level};
use crate::price::Prices;

/// The kind that the server does not report at all while it sleeps.
const UNREPORTED: Kind = Kind::Stage;

/// Cost of the check whether an event's instrument is on, in nanoseconds. Measured on 2026-11-27 with a point
/// select and with oltp_read_only: everything off one by one against level off.
const ASKED_NS: f64 = 5.0;

/// Returns whether a kind can sleep: some of its instruments have no events, and no event of another kind
/// needs them.
#[must_use]
pub fn may_sleep(kind: Kind) -> bool {
    use Kind::{Condition, FileIo, Mutex, RwLock, Socket, Stage};
    matches!(kind, Stage | Socket | FileIo | Condition | RwLock | Mutex)
}

/// Returns whether a kind sleeps.
pub(crate) fn is_asleep(board: &Board, kind: Kind) -> bool {
    board.iter().any(|it| it.of == Switched::Rest(kind) && it.present == Level::Off)
}

/// Returns the costs that apply to a board. While stages sleep and none is on, a disabled one costs nothing.
/// Raising a level may wake them, so it must not count on that.
pub(crate) fn prices(prices: &Prices, board: &Board, course: Direction) -> Prices {
    let mut of_kind = board.iter().filter(|it| it.of == Switched::Instrument(UNREPORTED));
    match course {
        Direction::Cut if is_asleep(board, UNREPORTED) && of_kind.all(|it| it.present == Level::Off) => {
            prices.clone().free_if_off(UNREPORTED)
        }
        Direction::Cut | Direction::Raise => prices.clone(),
    }
}

/// Returns the extra cost of an event, in nanoseconds, when its kind is awake but its instrument is off.
fn awake_ns(prices: &Prices, kind: Kind) -> f64 {
    ASKED_NS + if kind == UNREPORTED { prices.cost(kind, Level::Off).ns } else { 0.0 }
}

/// Returns the moves for whole kinds that follow from a decision. `counted` returns how many events an
/// instrument would have in `cpu` nanoseconds of CPU time.
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
        if kind == UNREPORTED && is_off && !is_wanted && decision.predicted > budget {
            let share = decision.account.share().ns;
            return last_told(board, &decision.moves, Why::Over { share, budget, saves: costs });
        }
        let why = Follower { is_off, is_wanted, costs }.why(decision, budget);
        let to = if is_off { rest.highest() } else { Level::Off };
        // A kind without events saves nothing.
        let why = why.filter(|_| is_off || all > 0.0);
        why.map(|why| Move { switch: rest.name.clone(), from: rest.present, to, why }).into_iter().collect()
    };
    board.iter().flat_map(moved).collect()
}

/// Switches off the stages that are still on while all others sleep: for them alone the server reports every
/// stage.
fn last_told(board: &Board, moves: &[Move], why: Why) -> Vec<Move> {
    let is_moved = |it: &Switch| moves.iter().any(|done| done.switch == it.name);
    let is_last = |it: &&Switch| {
        let is_stage = it.of == Switched::Instrument(UNREPORTED);
        is_stage && it.present > Level::Off && it.held.is_none() && !is_moved(it)
    };
    let off = |it: &Switch| Move { switch: it.name.clone(), from: it.present, to: Level::Off, why };
    board.iter().filter(is_last).map(off).collect()
}

/// Returns the number of events of a kind, and how many of them are still counted after the moves.
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
    use crate::governor::{Governor, GovernorSample};
    use crate::governor::{GovernorRules, StatementSumsRule};

    const STAGE: &str = "stage/sql/init";
    const SMALL: &str = "stage/sql/Preparing";
    const RARE: &str = "stage/sql/Creating table";
    const REST: &str = "stage, all others";
    const SELECT: &str = "statement/sql/select";

    /// Creates a governor for which a stage costs a microsecond if on and nothing if off, and a statement two
    /// microseconds in both cases.
    fn governor() -> Governor {
        governor_of(0, 2000)
    }

    /// Creates a governor for which a stage that is off and a statement cost so many nanoseconds.
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
            GovernorRules { budget: 0.01, budget_p95: None, statements: StatementSumsRule::ByWorth },
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

    /// Samples every five seconds 100,000 stages and `statements` statements, and applies the decisions.
    /// Returns what is off in the end; for a kind that sleeps, only the switch of its rest.
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

    /// Samples and decides like [`run`]. Returns the number of moves and the last share.
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
            let look = GovernorSample {
                now: Duration::from_secs(nth * 5),
                cpu: 5e9,
                statements,
                events,
                ..GovernorSample::default()
            };
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
        // Statements cost next to nothing. Stages would cost 2%, the check for each a hundredth of a percent.
        assert_eq!(run(&mut governor, &mut board, 6..24, 1.0), [STAGE]);
    }

    #[test]
    fn stages_that_sleep_cost_nothing_and_do_not_wake_for_that() {
        // If reported, they cost 1.5% although off.
        let (mut governor, mut board) = (governor_of(750, 0), board(None));
        assert_eq!(run(&mut governor, &mut board, 0..6, 1.0), [STAGE, REST]);
        assert_eq!(look_on(&mut governor, &mut board, 6..60, 1.0), (0, 0.0));
    }

    #[test]
    fn the_last_stage_goes_that_alone_keeps_the_others_told() {
        let (mut governor, mut board) = (governor_of(750, 0), board(None));
        let small = Switch { name: SMALL.to_owned(), ..board[0].clone() };
        board.push(small);
        // Its own cost above that of a disabled one is too small to be worth a move.
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
