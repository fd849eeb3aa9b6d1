//! Statements that begin in vain. A server begins each statement under an instrument `statement/abstract/%`
//! and learns later which one it is. So a statement whose instrument is off has paid for its beginning. If
//! the budget cannot be kept otherwise, and less than one statement in ten is counted, the abstract
//! instruments are switched off, too. Then no statement is seen, whatever is on, until there is room.

use super::decision::Decision;
use super::follow::{FEW, Follower};
use crate::board::{Board, Move, Switch, Switched, Why};
use crate::kind::{Kind, Level, is_beginning};
use crate::price::Prices;

/// Kinds of the statements that begin this way.
const KINDS: [Kind; 2] = [Kind::Query, Kind::Statement];

/// Returns whether no statement begins at all.
fn is_nothing_begun(board: &Board) -> bool {
    let mut beginnings = board.iter().filter(|it| is_beginning(&it.name)).peekable();
    beginnings.peek().is_some() && beginnings.all(|it| it.present == Level::Off)
}

/// Returns whether events of a kind are statements, and none begins.
pub(crate) fn is_unbegun(board: &Board, kind: Kind) -> bool {
    KINDS.contains(&kind) && is_nothing_begun(board)
}

/// Returns the costs that apply to a board: if no statement begins, a disabled one costs nothing.
pub(crate) fn prices(prices: Prices, board: &Board) -> Prices {
    if is_nothing_begun(board) { KINDS.into_iter().fold(prices, Prices::free_if_off) } else { prices }
}

/// Returns the cost of a statement that begins in vain, in nanoseconds. `counted` returns how many statements
/// an instrument would count: the average over both kinds is weighed by that.
pub(crate) fn cost(prices: &Prices, board: &Board, counted: impl Fn(&Switch) -> f64) -> f64 {
    let of_kind = |kind: Kind| {
        let are = |it: &&Switch| it.of == Switched::Instrument(kind) && !is_beginning(&it.name);
        (board.iter().filter(are).map(&counted).sum::<f64>(), prices.cost(kind, Level::Off).ns)
    };
    let [(queries, query), (others, other)] = KINDS.map(of_kind);
    let all = queries + others;
    if all > 0.0 { (queries * query + others * other) / all } else { query.max(other) }
}

/// Statements of clients, the cost of beginning all of them in vain, and the budget; both as shares.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vain {
    pub(crate) statements: f64,
    pub(crate) costs: f64,
    pub(crate) budget: f64,
    /// Whether the abstract instruments stay on as long as any statement is counted.
    pub(crate) is_kept: bool,
}

/// Returns the moves of the abstract instruments that follow from a decision. `counted` returns how many
/// statements an instrument would count.
pub(crate) fn moves(
    board: &Board,
    decision: &Decision,
    vain: Vain,
    counted: impl Fn(&Switch) -> f64,
) -> Vec<Move> {
    let Vain { statements, costs, budget, is_kept } = vain;
    let few = if is_kept { None } else { Some(statements * FEW) };
    let is_wanted = is_wanted(board, &decision.moves, few, counted);
    let beginning = Follower { is_off: is_nothing_begun(board), is_wanted, costs };
    let Some(why) = beginning.why(decision, budget) else { return vec![] };
    let moved = |it: &Switch| {
        let to = if matches!(why, Why::Room { .. }) { it.highest() } else { it.lowest() };
        (to != it.present).then(|| Move { switch: it.name.clone(), from: it.present, to, why })
    };
    let beginnings = board.iter().filter(|it| is_beginning(&it.name) && it.held.is_none());
    beginnings.filter_map(moved).collect()
}

/// Returns whether more than `few` statements are counted after the moves, or a person wants some. `None`:
/// any number is wanted.
fn is_wanted(board: &Board, moves: &[Move], few: Option<f64>, counted: impl Fn(&Switch) -> f64) -> bool {
    let is_left_on = |it: &&Switch| {
        let is_statement = matches!(it.of, Switched::Instrument(kind) if KINDS.contains(&kind));
        is_statement && !is_beginning(&it.name) && it.after(moves) > Level::Off
    };
    let left: Vec<&Switch> = board.iter().filter(is_left_on).collect();
    let counted = || left.iter().map(|it| counted(it)).sum::<f64>();
    left.iter().any(|it| it.held.is_some()) || few.map_or(!left.is_empty(), |few| counted() > few)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use super::*;
    use crate::board::Held;
    use crate::governor::{Governor, GovernorSample};
    use crate::governor::{GovernorRules, StatementSumsRule};

    const PACKET: &str = "statement/abstract/new_packet";
    const EXECUTE: &str = "statement/com/Execute";
    const SELECT: &str = "statement/sql/select";

    fn governor() -> Governor {
        let cost = |ns: f64| format!("{{ ns = {ns:?}, low = {ns:?}, high = {ns:?} }}");
        let price = |kind: Kind| {
            let (off, counts) = if kind == Kind::Statement { (300.0, 4000.0) } else { (0.0, 0.0) };
            format!("[price.{kind}]\noff = {}\ncounts = {}\n", cost(off), cost(counts))
        };
        let kinds = Kind::ALL.into_iter().filter(|kind| *kind != Kind::Query).map(price).collect::<String>();
        let origin = "[origin]\nprovider = 'mysql'\nserver = ''\nmachine = ''\nmeasured = false\nhow = ''\n";
        let text = format!("{origin}{kinds}");
        Governor::new(
            GovernorRules { budget: 0.01, budget_p95: None, statements: StatementSumsRule::ByWorth },
            Prices::read(&text).expect("prices"),
        )
    }

    fn board(held: Option<Held>) -> Vec<Switch> {
        let switch = |name: &str| Switch {
            name: name.to_owned(),
            of: Switched::Instrument(Kind::of(name).expect("a kind")),
            levels: vec![Level::Off, Level::Counts],
            present: Level::Counts,
            held: held.filter(|_| name == SELECT),
        };
        [PACKET, EXECUTE, SELECT].map(switch).into()
    }

    /// Returns a sample of 100,000 statements, all but one of them executions, in `cpu` nanoseconds of CPU
    /// time.
    fn look(seconds: u64, cpu: f64, board: &[Switch]) -> GovernorSample {
        let on = |name: &str| board.iter().any(|it| it.name == name && it.present > Level::Off);
        let begun = f64::from(u8::from(on(PACKET)));
        let mut events = BTreeMap::from([(SELECT.to_owned(), begun)]);
        events.insert(EXECUTE.to_owned(), if on(EXECUTE) { 99_999.0 * begun } else { 0.0 });
        GovernorSample {
            now: Duration::from_secs(seconds),
            cpu,
            statements: 1e5,
            events,
            ..GovernorSample::default()
        }
    }

    /// Samples every five seconds and applies the decisions. Returns what is off, and the last share.
    fn run(
        governor: &mut Governor,
        board: &mut [Switch],
        looks: std::ops::Range<u64>,
        cpu: f64,
    ) -> (Vec<String>, f64) {
        let mut share = 0.0;
        for nth in looks {
            let decision = governor.look(board, &look(nth * 5, cpu, board));
            share = decision.account.share().ns;
            for it in decision.moves {
                let switch = board.iter_mut().find(|of| of.name == it.switch).expect("on the board");
                switch.present = it.to;
            }
        }
        (board.iter().filter(|it| it.present == Level::Off).map(|it| it.name.clone()).collect(), share)
    }

    #[test]
    fn what_begins_statements_goes_where_nothing_else_keeps_the_budget_and_comes_back_with_room() {
        let (mut governor, mut board) = (governor(), board(None));
        // An execution takes 20 microseconds, of which a disabled one would cost 1.5%.
        let (off, share) = run(&mut governor, &mut board, 0..6, 2e9);
        assert_eq!(off, [PACKET, EXECUTE]);
        assert!(share < 0.0001, "nothing is begun: {share}");
        // An execution takes 100 microseconds: there is room for beginning statements, not for counting them.
        let (off, share) = run(&mut governor, &mut board, 6..24, 1e10);
        assert_eq!(off, [EXECUTE]);
        assert!((share - 0.003).abs() < 0.0002, "{share}");
    }

    #[test]
    fn a_statement_begun_in_vain_costs_what_one_of_the_load_does() {
        let (governor, board) = (governor(), board(None));
        let mut text = String::from("[price.query]\noff = { ns = 700, low = 700, high = 700 }\n");
        for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::Query) {
            let ns = governor.prices().cost(kind, Level::Off).ns;
            text += &format!("[price.{kind}]\noff = {{ ns = {ns:?}, low = 0, high = {ns:?} }}\n");
        }
        let origin = "[origin]\nprovider = 'tare'\nserver = ''\nmachine = ''\nmeasured = false\nhow = ''\n";
        let prices = Prices::read(&format!("{origin}{text}")).expect("prices");
        let of = |selects: f64, executions: f64| {
            let counted = |it: &Switch| if it.name == SELECT { selects } else { executions };
            cost(&prices, &board, counted)
        };
        assert_eq!([of(5.0, 0.0), of(0.0, 5.0), of(5.0, 15.0), of(0.0, 0.0)], [700.0, 300.0, 400.0, 700.0]);
    }

    #[test]
    fn what_a_person_wants_to_see_is_begun() {
        let (mut governor, mut board) = (governor(), board(Some(Held::Person)));
        let (off, share) = run(&mut governor, &mut board, 0..6, 2e9);
        assert_eq!(off, [EXECUTE]);
        assert!((share - 0.015).abs() < 0.001, "{share}");
    }

    #[test]
    fn what_is_within_the_budget_with_them_keeps_them() {
        let (mut governor, mut board) = (governor(), board(None));
        assert_eq!(run(&mut governor, &mut board, 0..6, 5e9).0, [EXECUTE]);
    }
}
