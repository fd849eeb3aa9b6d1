//! What connections may be slowed by has a budget of its own.

mod common;

use std::collections::BTreeMap;
use std::time::Duration;

use common::{Load, Server};
use tare_budget::board::{Why, left};
use tare_budget::{Governor, GovernorRules, Held, Level, PricedProvider, StatementSumsRule};

const PROVIDERS: [PricedProvider; 3] = [PricedProvider::Tare, PricedProvider::MariaDb, PricedProvider::MySql];
const SET: &str = "statement/sp/set";

fn governor(server: &Server, budget: f64, budget_p95: f64) -> Governor {
    server.governor_of(GovernorRules {
        budget,
        budget_p95: Some(budget_p95),
        statements: StatementSumsRule::ByWorth,
    })
}

/// A server that sorts, and one connection of it that runs a loop for a part of the time.
fn beside(server: &mut Server, governor: &mut Governor, part: f64) -> tare_budget::Decision {
    let (sorts, procedure) = (Load::sorts(), Load::procedure());
    let look = server.look_at(&[
        (2.0 * (1.0 - part), &sorts),
        (3.0 * (1.0 - part), &sorts),
        (5.0 * part, &procedure),
    ]);
    server.decide(governor, &look)
}

#[test]
fn a_loop_that_the_budget_of_all_hardly_sees_is_within_that_of_connections() {
    for provider in PROVIDERS {
        let mut server = Server::new(provider, &[&Load::sorts(), &Load::procedure()]);
        let mut governor = governor(&server, 0.2, 0.05);
        let first = beside(&mut server, &mut governor, 0.1);
        let slowed = first.slowed.expect("connections did something");
        assert!(first.account.share().ns < 0.2 && slowed.share > 0.1, "{provider:?} {first:?}");
        assert!(first.can_be_kept && slowed.predicted <= 0.05, "{provider:?} {slowed:?}");
        let is_slow =
            |why: Why| matches!(why, Why::Slow { share, budget: 0.05, .. } if share == slowed.share);
        assert!(!first.moves.is_empty() && first.moves.iter().all(|it| is_slow(it.why)), "{provider:?}");
        assert!(first.moves[0].why.to_string().starts_with("over budget-p95: "));
        // What the loop has no events of is none of its matter.
        assert!(first.moves.iter().all(|it| !it.switch.starts_with("wait/io/")), "{:?}", first.moves);
        for nth in 0..60 {
            let decision = beside(&mut server, &mut governor, 0.1);
            let share = decision.slowed.expect("they did").share;
            assert!(share <= 0.05, "{provider:?} look {nth}: {share}");
        }
    }
}

#[test]
fn what_a_twentieth_of_the_time_is_slowed_by_is_beyond_the_percentile() {
    let mut server = Server::new(PricedProvider::Tare, &[&Load::sorts(), &Load::procedure()]);
    let before = server.board.clone();
    let mut governor = governor(&server, 1.0, 0.05);
    let decision = beside(&mut server, &mut governor, 0.04);
    assert!(decision.slowed.expect("they did").share < 0.05, "{:?}", decision.slowed);
    assert_eq!((decision.moves.len(), server.board == before), (0, true));
}

#[test]
fn both_budgets_are_kept_and_no_more_is_lost_than_by_each_alone_together() {
    let worth = |budget: f64, budget_p95: f64| {
        let mut server =
            Server::new(PricedProvider::MySql, &[&Load::mysql_point_select(), &Load::procedure()]);
        let mut governor = governor(&server, budget, budget_p95);
        let (selects, procedure) = (Load::mysql_point_select(), Load::procedure());
        let step = |server: &mut Server, governor: &mut Governor| {
            let look = server.look_at(&[(4.0, &selects), (0.5, &procedure)]);
            server.decide(governor, &look)
        };
        step(&mut server, &mut governor);
        let second = step(&mut server, &mut governor);
        let slowed = second.slowed.expect("they did").share;
        assert!(second.account.share().ns <= budget && slowed <= budget_p95, "{second:?}");
        left(&server.board)
    };
    let all = worth(1.0, 1.0);
    let (of_budget, of_p95, of_both) = (worth(0.1, 1.0), worth(1.0, 0.1), worth(0.1, 0.1));
    assert!(of_budget < all && of_p95 < all);
    assert!(of_both <= of_budget.min(of_p95) && all - of_both <= (all - of_budget) + (all - of_p95));
}

#[test]
fn what_a_loop_took_comes_back_when_it_has_ended_and_nothing_flaps() {
    for provider in PROVIDERS {
        let mut server = Server::new(provider, &[&Load::sorts(), &Load::procedure()]);
        let highest = server.level(SET);
        let mut governor = governor(&server, 1.0, 0.05);
        let mut changes: BTreeMap<String, Vec<Duration>> = BTreeMap::new();
        for nth in 0..240 {
            // Half a minute of a loop, and half a minute without.
            let part = if nth / 6 % 2 == 0 { 0.1 } else { 0.0 };
            let decision = beside(&mut server, &mut governor, part);
            for it in decision.moves {
                changes.entry(it.switch).or_default().push(server.now);
            }
        }
        for (name, times) in &changes {
            let in_a_minute = |from: &Duration| {
                times.iter().filter(|it| *it >= from && **it - *from < Duration::from_secs(60)).count()
            };
            assert!(times.iter().all(|from| in_a_minute(from) <= 2), "{provider:?} {name}: {times:?}");
        }
        for _ in 0..600 {
            beside(&mut server, &mut governor, 0.0);
        }
        assert_eq!(server.level(SET), highest, "{provider:?}: it is forgotten after a while");
    }
}

#[test]
fn a_budget_of_connections_that_cannot_be_kept_is_said_to_be_so() {
    let mut server = Server::new(PricedProvider::MariaDb, &[&Load::sorts(), &Load::procedure()]);
    server.board.iter_mut().filter(|it| it.name == SET).for_each(|it| it.held = Some(Held::Person));
    let mut governor = governor(&server, 1.0, 0.01);
    let decision = beside(&mut server, &mut governor, 0.5);
    assert!(!decision.can_be_kept && decision.slowed.expect("they did").predicted > 0.01);
    assert_eq!(server.level("stage/sql/executing"), Level::Off);
}

#[test]
fn what_does_not_help_a_budget_that_cannot_be_kept_stays() {
    let mut server = Server::new(PricedProvider::Tare, &[&Load::sorts(), &Load::procedure()]);
    for it in server.board.iter_mut().filter(|it| it.name.starts_with("statement/sp/")) {
        it.held = Some(Held::Person);
    }
    let mut governor = governor(&server, 0.2, 0.05);
    let decision = beside(&mut server, &mut governor, 0.1);
    assert!(!decision.can_be_kept && !decision.moves.is_empty(), "{decision:?}");
    assert!(decision.moves.iter().all(|it| it.switch.starts_with("stage/")), "{:?}", decision.moves);
    // What the budget of all took comes back when there is room, whatever the other one does.
    let io = "wait/io/file/sql/io_cache";
    server.board.iter_mut().filter(|it| it.name == io).for_each(|it| it.present = Level::Off);
    for _ in 0..20 {
        beside(&mut server, &mut governor, 0.1);
    }
    assert_eq!(server.level(io), Level::Exact);
}

#[test]
fn a_look_that_knows_of_no_connection_brings_nothing_back() {
    let (sorts, procedure) = (Load::sorts(), Load::procedure());
    let mut server = Server::new(PricedProvider::Tare, &[&sorts, &procedure]);
    let mut governor = governor(&server, 0.2, 0.05);
    beside(&mut server, &mut governor, 0.1);
    let cut = server.level(SET);
    assert!(cut < Level::Lean);
    for nth in 0..40 {
        let mut look = server.look_at(&[(4.5, &sorts), (0.5, &procedure)]);
        look.connections.truncate(nth % 2);
        look.connections.iter_mut().for_each(|it| it.cpu = 1e6);
        let decision = server.decide(&mut governor, &look);
        assert_eq!((decision.slowed, decision.moves), (None, vec![]));
    }
    assert_eq!(server.level(SET), cut);
}

#[test]
fn what_was_cut_for_several_connections_in_one_look_stays_cut() {
    let mutex = "wait/synch/mutex/innodb/trx_mutex";
    let locks = Load { statements: 200.0, events: [(mutex.to_owned(), 30e6)].into() };
    let (sorts, procedure) = (Load::sorts(), Load::procedure());
    let mut server = Server::new(PricedProvider::Tare, &[&sorts, &procedure, &locks]);
    let mut governor = governor(&server, 1.0, 0.05);
    for nth in 0..60 {
        let look = server.look_at(&[(4.0, &sorts), (0.5, &procedure), (0.5, &locks)]);
        let slowed = server.decide(&mut governor, &look).slowed.expect("they did").share;
        assert!(nth == 0 || slowed <= 0.05, "look {nth}: {slowed}");
    }
}
