//! What is left on is worth no less than what a greedy choice by hand leaves, on recorded accounts.

mod common;

use common::{Load, Server};
use tare_budget::board::{Switched, left};
use tare_budget::governor::CUT_TO;
use tare_budget::{Kind, Level, PricedProvider, Switch, worth};

/// How a kind's events are recorded.
fn recording(board: &[Switch], kind: Kind) -> Option<Level> {
    let of = |it: &&Switch| matches!(it.of, Switched::Recording(family) if Some(family) == kind.family());
    board.iter().find(of).map(|it| it.present)
}

/// What one of the board's instruments costs with a load, by hand.
fn cost_of(server: &Server, switch: &Switch, recording: Option<Level>, load: &Load) -> f64 {
    let Switched::Instrument(kind) = switch.of else { return 0.0 };
    let price = |level| server.prices.cost(kind, level).ns;
    let of_one = match (switch.present, recording) {
        (Level::Sums, Some(recording)) => price(recording),
        // Counted, and recorded without its time.
        (Level::Counts, Some(recording)) if recording > Level::Sums => {
            price(Level::Counts) + price(recording) - price(Level::Sums)
        }
        (level, _) => price(level),
    };
    of_one * load.events.get(&switch.name).copied().unwrap_or(0.0) / 1e9
}

fn cost(server: &Server, board: &[Switch], load: &Load) -> f64 {
    let ways = Kind::ALL.map(|kind| (kind, recording(board, kind)));
    let way = |switch: &Switch| match switch.of {
        Switched::Instrument(kind) => ways.iter().find(|(it, _)| *it == kind).and_then(|(_, way)| *way),
        Switched::Recording(_) | Switched::Rest(_) => None,
    };
    board.iter().map(|switch| cost_of(server, switch, way(switch), load)).sum()
}

/// What is saved by giving one of the board's switches another level.
fn saves(server: &Server, board: &mut [Switch], at: usize, level: Level, load: &Load) -> f64 {
    let present = board[at].present;
    let of = |board: &[Switch]| match board[at].of {
        Switched::Instrument(kind) => cost_of(server, &board[at], recording(board, kind), load),
        Switched::Recording(_) | Switched::Rest(_) => cost(server, board, load),
    };
    let before = of(board);
    board[at].present = level;
    let after = of(board);
    board[at].present = present;
    before - after
}

fn worth_of(switch: &Switch, level: Level) -> u32 {
    match switch.of {
        Switched::Instrument(kind) => worth::of_instrument(kind, level),
        Switched::Recording(family) => worth::of_recording(family, level),
        Switched::Rest(_) => 0,
    }
}

/// By hand: the step down that saves most for what it loses, again and again, until it fits.
fn by_density(server: &Server, load: &Load, limit: f64) -> Vec<Switch> {
    let mut board = server.board.clone();
    while cost(server, &board, load) > limit {
        let mut found: Option<(f64, usize, Level)> = None;
        for at in 0..board.len() {
            let present = board[at].present;
            for level in board[at].levels.clone().into_iter().filter(|it| *it < present) {
                let loss = worth_of(&board[at], present) - worth_of(&board[at], level);
                let saves = saves(server, &mut board, at, level, load);
                let density = saves / f64::from(loss.max(1));
                if saves > 0.0 && found.is_none_or(|(best, ..)| density > best) {
                    found = Some((density, at, level));
                }
            }
        }
        let Some((_, at, level)) = found else { break };
        board[at].present = level;
    }
    board
}

/// By hand: what is worth least goes off first, until it fits.
fn by_order(server: &Server, load: &Load, limit: f64) -> Vec<Switch> {
    let mut board = server.board.clone();
    let mut order: Vec<usize> = (0..board.len()).collect();
    order.sort_by_key(|at| worth_of(&board[*at], board[*at].present));
    for at in order {
        if cost(server, &board, load) <= limit {
            break;
        }
        board[at].present = board[at].levels[0];
    }
    board
}

#[test]
fn what_is_left_is_worth_no_less_than_by_a_greedy_choice() {
    let cases = [
        (PricedProvider::MySql, Load::mysql_point_select()),
        (PricedProvider::MySql, Load::mysql_read_only()),
        (PricedProvider::MariaDb, Load::mariadb_point_select()),
        (PricedProvider::MariaDb, Load::mariadb_read_only()),
        (PricedProvider::Tare, Load::mariadb_point_select()),
        (PricedProvider::Tare, Load::mariadb_read_only()),
    ];
    let mut better = 0;
    for (provider, load) in &cases {
        for budget in [0.005, 0.01, 0.02, 0.03, 0.05, 0.1] {
            let mut server = Server::new(*provider, &[load]);
            let limit = budget * CUT_TO;
            let greedy = [by_density(&server, load, limit), by_order(&server, load, limit)];
            let mut governor = server.governor(budget);
            let decision = server.step(&mut governor, &[load]);
            let share = cost(&server, &server.board, load);
            assert!((decision.predicted - share).abs() < 1e-4, "{} is not {share}", decision.predicted);
            for other in greedy {
                if cost(&server, &other, load) > limit {
                    // It cannot be kept: hardly anything may cost less than what was done.
                    assert!(share <= cost(&server, &other, load) + budget * 0.07, "{provider:?} {budget}");
                    continue;
                }
                assert!(share <= limit * 1.001, "{provider:?} {budget}: {share}");
                assert!(left(&server.board) >= left(&other), "{provider:?} {budget}");
                better += usize::from(left(&server.board) > left(&other));
            }
        }
    }
    assert!(better > 10, "it is better than both choices by hand in some cases: {better}");
}

#[test]
fn what_is_worth_more_stays_longer() {
    let load = Load::mysql_point_select();
    let mut server = Server::new(PricedProvider::MySql, &[&load]);
    let mut governor = server.governor(0.1);
    server.step(&mut governor, &[&load]);
    assert_eq!(server.level("statement/sql/select"), Level::Sums);
    assert_eq!(server.level("wait/synch/mutex/innodb/trx_mutex"), Level::Off);
}
