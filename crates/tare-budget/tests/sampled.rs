//! A server that samples: the rate falls before any level does, statements are counted whatever the budget,
//! and what is sampled stays visible.

mod common;

use std::time::Duration;

use common::{Load, Server};
use tare_budget::board::Switched;
use tare_budget::sampling::LEAST_RATE;
use tare_budget::{
    Decision, GovernorRules, GovernorSample, Kind, Level, Move, PricedProvider, Resampled, SampleChance,
    StatementSumsRule, Switch,
};

const MOST: f64 = 1000.0;

/// A server at level sampled, and the rate it has.
struct Sampled {
    server: Server,
    rate: f64,
    governor: tare_budget::Governor,
    /// Changes of the rate, and when.
    changes: Vec<(Duration, Resampled)>,
}

impl Sampled {
    fn new(loads: &[&Load], rules: GovernorRules) -> Sampled {
        let mut server = Server::new(PricedProvider::Tare, loads);
        for it in &mut server.board {
            it.levels.retain(|level| *level < Level::Lean);
            if !matches!(it.of, Switched::Instrument(Kind::Memory | Kind::Error)) {
                it.levels.push(Level::Sampled);
            }
            it.present = *it.levels.last().expect("it is there");
        }
        let governor = server.governor_of(rules);
        Sampled { server, rate: MOST, governor, changes: vec![] }
    }

    /// Five seconds of a load, of which the server's processors are busy this part.
    fn step(&mut self, load: &Load, busy: f64) -> Decision {
        let mut look = self.server.look(&[load; 5]);
        look.cpu *= busy;
        look.statements *= busy;
        look.events.values_mut().for_each(|events| *events *= busy);
        let chosen = (self.rate * 5.0 / look.statements).min(1.0);
        look.sampling = Some(SampleChance { rate: self.rate, most: MOST, chosen, seconds: 5.0 });
        self.decide(&look)
    }

    fn decide(&mut self, look: &GovernorSample) -> Decision {
        let decision = self.server.decide(&mut self.governor, look);
        if let Some(it) = decision.resampled {
            assert_eq!(it.from, self.rate);
            assert!((LEAST_RATE..=MOST).contains(&it.to), "{it:?}");
            assert!((it.to / it.from - 1.0).abs() >= 0.25, "a step is a quarter: {it:?}");
            self.changes.push((look.now, it));
            self.rate = it.to;
        }
        decision
    }

    fn cut(&self) -> Vec<&Switch> {
        self.server.board.iter().filter(|it| it.levels.last() != Some(&it.present)).collect()
    }

    /// Statements, transactions and errors are counted and timed.
    fn assert_statements_are_seen(&self) {
        for it in &self.server.board {
            if let Switched::Instrument(Kind::Query | Kind::Statement | Kind::Transaction | Kind::Error) =
                it.of
            {
                assert!(it.present >= Level::Sums.min(it.highest_of()), "{it:?}");
            }
        }
    }
}

trait HighestRates {
    fn highest_of(&self) -> Level;
}

impl HighestRates for Switch {
    fn highest_of(&self) -> Level {
        *self.levels.last().expect("it is there")
    }
}

fn kept(budget: f64) -> GovernorRules {
    GovernorRules { budget, budget_p95: None, statements: StatementSumsRule::Kept }
}

fn loads() -> [Load; 4] {
    [Load::mariadb_point_select(), Load::mariadb_read_only(), Load::procedure(), Load::sorts()]
}

#[test]
fn with_room_for_what_is_always_counted_only_the_rate_falls() {
    // What is always counted costs 4% of a point select by these prices, and everything 10%.
    let load = Load::mariadb_point_select();
    let mut server = Sampled::new(&[&load], kept(0.07));
    let first = server.step(&load, 0.01);
    assert!(first.account.share().ns > 0.07, "every statement is chosen: {:?}", first.account.share());
    assert!(first.resampled.is_some() && first.moves.is_empty() && first.can_be_kept, "{first:?}");
    for _ in 0..40 {
        let next = server.step(&load, 0.01);
        assert!(next.account.share().ns <= 0.07 && next.moves.is_empty(), "{next:?}");
    }
    assert!(server.cut().is_empty());
}

#[test]
fn under_a_heavy_load_the_rate_has_room_and_stays() {
    let load = Load::mariadb_read_only();
    let mut server = Sampled::new(&[&load], kept(0.10));
    for _ in 0..40 {
        let next = server.step(&load, 32.0);
        assert!(next.resampled.is_none() && next.moves.is_empty(), "{next:?}");
    }
}

#[test]
fn at_one_percent_under_a_heavy_load_every_statement_is_counted_and_stages_and_waits_are_seen() {
    for load in [Load::mariadb_point_select(), Load::mariadb_read_only()] {
        let mut server = Sampled::new(&[&load], kept(0.01));
        let mut last = server.step(&load, 2.0);
        for _ in 0..40 {
            last = server.step(&load, 2.0);
            server.assert_statements_are_seen();
        }
        assert_eq!(server.rate, LEAST_RATE);
        assert!(!last.can_be_kept && last.predicted > 0.01, "that is what is always counted: {last:?}");
        assert!((last.predicted - last.account.share().ns).abs() < 1e-4, "it is as it was said");
        let seen = |kind: Kind| {
            let of = |it: &&Switch| it.of == Switched::Instrument(kind);
            server.server.board.iter().filter(of).all(|it| it.present == Level::Sampled)
        };
        for kind in [Kind::Stage, Kind::Socket, Kind::Idle, Kind::Mutex, Kind::RwLock, Kind::TableLock] {
            assert!(seen(kind), "{kind}: {:?}", server.cut());
        }
    }
}

/// While there are few statements every one is chosen at the lowest rate, and what that costs is given up.
#[test]
fn what_was_given_up_under_few_statements_is_seen_again_under_many() {
    let load = Load::mariadb_point_select();
    let mut server = Sampled::new(&[&load], kept(0.01));
    (0..10).for_each(|_| drop(server.step(&load, 0.0001)));
    let is_off = |it: &&Switch| it.of == Switched::Instrument(Kind::Stage) && it.present == Level::Off;
    assert!(server.server.board.iter().any(|it| is_off(&it)));
    (0..20).for_each(|_| drop(server.step(&load, 2.0)));
    assert!(!server.server.board.iter().any(|it| is_off(&it)), "{:?}", server.cut());
    let before = server.server.board.clone();
    (0..40).for_each(|_| drop(server.step(&load, 2.0)));
    assert_eq!(before, server.server.board, "nothing flaps");
}

#[test]
fn levels_move_only_at_the_lowest_rate_and_come_back_before_it_rises() {
    for load in &loads() {
        for budget in [0.005, 0.01, 0.02, 0.05, 0.1] {
            for busy in [0.02, 0.5, 16.0] {
                let mut server = Sampled::new(&[load], kept(budget));
                let name = format!("{budget} of {busy}");
                for _ in 0..60 {
                    let decision = server.step(load, busy);
                    server.assert_statements_are_seen();
                    let is_lowered = |it: &&Move| it.to < it.from;
                    if decision.moves.iter().any(|it| is_lowered(&it)) {
                        assert_eq!(server.rate, LEAST_RATE, "{name}: {decision:?}");
                    }
                }
                let raised = server.changes.iter().filter(|(_, it)| it.to > it.from);
                assert!(raised.count() <= 1, "{name}: nothing flaps: {:?}", server.changes);
            }
        }
    }
}

#[test]
fn the_rate_rises_again_when_there_is_room_and_once_a_minute_at_most() {
    let (few, many) = (Load::mariadb_point_select(), Load::sorts());
    let mut server = Sampled::new(&[&few, &many], kept(0.07));
    server.step(&few, 0.01);
    let low = server.rate;
    assert!(low < MOST);
    // The same at a hundred times the load: what is little for a thousand statements is less for a hundred
    // thousand.
    (0..30).for_each(|_| drop(server.step(&few, 1.0)));
    assert_eq!(server.rate, MOST, "{:?}", server.changes);
    for pair in server.changes.windows(2) {
        let is_raised = pair[1].1.to > pair[1].1.from;
        assert!(!is_raised || pair[1].0 - pair[0].0 >= Duration::from_secs(60), "{:?}", server.changes);
    }
}

#[test]
fn connections_that_are_slowed_lower_the_rate_too() {
    let (loop_, scan) = (Load::procedure(), Load::sorts());
    let rules = GovernorRules { budget: 1e9, budget_p95: Some(0.2), statements: StatementSumsRule::Kept };
    let mut server = Sampled::new(&[&loop_, &scan], rules);
    let decide = |server: &mut Sampled| {
        let mut look = server.server.look_at(&[(1.0, &loop_), (1.0, &scan)]);
        // Thousands of statements a second, so that the least rate chooses few.
        look.statements = 50_000.0;
        let chosen = (server.rate * 5.0 / look.statements).min(1.0);
        look.sampling = Some(SampleChance { rate: server.rate, most: MOST * 10.0, chosen, seconds: 5.0 });
        server.rate = look.sampling.expect("it is there").rate;
        let decision = server.governor.look(&server.server.board, &look);
        server.rate = decision.resampled.map_or(server.rate, |it| it.to);
        decision
    };
    server.rate = MOST * 10.0;
    let first = decide(&mut server);
    assert!(first.slowed.expect("a budget").share > 0.2, "{first:?}");
    assert!(first.resampled.is_some() && first.moves.is_empty(), "{first:?}");
    let next = decide(&mut server);
    assert!(next.slowed.expect("a budget").share <= 0.2 && next.moves.is_empty(), "{next:?}");
}

#[test]
fn strict_rules_give_up_statements_by_worth() {
    let load = Load::mariadb_point_select();
    let mut server =
        Sampled::new(&[&load], GovernorRules { statements: StatementSumsRule::ByWorth, ..kept(0.01) });
    (0..10).for_each(|_| drop(server.step(&load, 2.0)));
    let is_off = |it: &&Switch| it.name.starts_with("statement/") && it.present == Level::Off;
    assert!(server.server.board.iter().any(|it| is_off(&it)));
}

/// A built-in cannot be sampled: what its budget leaves no room for goes, statements last.
#[test]
fn beside_a_built_in_statements_go_last() {
    let loads = [
        (PricedProvider::MySql, Load::mysql_point_select()),
        (PricedProvider::MariaDb, Load::mariadb_point_select()),
        (PricedProvider::MariaDb, Load::mariadb_read_only()),
    ];
    let (mut given_up, mut stayed) = (0, 0);
    for (provider, load) in &loads {
        for budget in [0.005, 0.02, 0.05, 0.1, 0.2, 0.4] {
            let mut server = Server::new(*provider, &[load]);
            let rules = |statements| GovernorRules { budget, budget_p95: None, statements };
            let decision =
                server.clone().step(&mut server.governor_of(rules(StatementSumsRule::Kept)), &[load; 5]);
            let mut governor = server.governor_of(rules(StatementSumsRule::Last));
            server.step(&mut governor, &[load; 5]);
            let is_kept = |it: &Switch| {
                let is =
                    matches!(it.of, Switched::Instrument(Kind::Query | Kind::Statement | Kind::Transaction));
                !is || it.present >= Level::Sums
            };
            let are_kept = server.board.iter().all(is_kept);
            assert!(are_kept || decision.predicted > budget * 0.9, "{provider:?} {budget}: they need not go");
            *(if are_kept { &mut stayed } else { &mut given_up }) += 1;
        }
    }
    assert!(given_up > 0 && stayed > 0, "{given_up} {stayed}");
}

#[test]
fn a_load_that_trembles_leaves_the_rate_alone_after_the_first_minutes() {
    let mut random = fastrand::Rng::with_seed(1);
    for budget in [0.05, 0.07, 0.09] {
        let steady = Load::mariadb_point_select();
        let mut server = Sampled::new(&[&steady], kept(budget));
        for _ in 0..100 {
            let mut trembling = steady.clone();
            trembling.events.values_mut().for_each(|count| *count *= 0.9 + 0.2 * random.f64());
            let decision = server.step(&trembling, 0.01);
            assert!(decision.moves.is_empty(), "{decision:?}");
        }
        let late = server.changes.iter().filter(|(at, _)| *at > Duration::from_secs(120));
        assert_eq!(late.count(), 0, "{budget}: {:?}", server.changes);
        assert!(!server.changes.is_empty() && server.rate < MOST, "{budget}");
    }
}

/// Few statements and many, by turns: what can be kept is kept from the second look on.
#[test]
fn one_look_after_a_change_of_load_the_budget_is_kept() {
    let load = Load::mariadb_point_select();
    for budget in [0.06, 0.08] {
        let mut server = Sampled::new(&[&load], kept(budget));
        for nth in 0..240 {
            let busy = if nth / 12 % 2 == 0 { 0.01 } else { 1.0 };
            let decision = server.step(&load, busy);
            assert!(decision.can_be_kept && decision.moves.is_empty(), "{budget} at {nth}: {decision:?}");
            let share = decision.account.share().ns;
            assert!(nth % 12 == 0 || share <= budget, "{budget} at {nth}: {share}");
        }
        let changes: Vec<f64> = server.changes.iter().map(|(_, it)| it.to).collect();
        assert!(changes.len() <= 40, "{changes:?}");
    }
}
