//! The governor moves as the load moves, and does not flap.

mod common;

use std::collections::BTreeMap;
use std::time::Duration;

use common::{Load, Server};
use tare_budget::board::Why;
use tare_budget::{Cost, Governor, Held, Level, PricedProvider, Prices, Switch};

/// The most changes of one switch within a minute.
fn most_in_a_minute(changes: &BTreeMap<String, Vec<Duration>>) -> usize {
    let in_minute = |times: &Vec<Duration>| {
        let after =
            |from: &Duration| times.iter().filter(|it| **it >= *from && **it - *from < MINUTE).count();
        times.iter().map(after).max().unwrap_or(0)
    };
    changes.values().map(in_minute).max().unwrap_or(0)
}

const MINUTE: Duration = Duration::from_secs(60);

/// What happened.
#[derive(Debug, Default)]
struct LoadCourse {
    /// For each phase, the looks over the budget that saw nothing of another phase.
    over: Vec<usize>,
    cuts: usize,
    raises: usize,
    /// Whether it was said that the budget can be kept, always.
    can_be_kept: bool,
}

/// Two loads, 30 seconds each, by turns; asserts on changes.
fn alternate(provider: PricedProvider, loads: [&Load; 2], budget: f64, every: usize) -> LoadCourse {
    let mut server = Server::new(provider, &loads);
    let mut governor = server.governor(budget);
    let seconds: Vec<&Load> = (0..1200).map(|second| loads[second / 30 % 2]).collect();
    let mut course = LoadCourse { over: vec![0; 40], can_be_kept: true, ..LoadCourse::default() };
    let mut changes: BTreeMap<String, Vec<Duration>> = BTreeMap::new();
    for (nth, look) in seconds.chunks_exact(every).enumerate() {
        let decision = server.step(&mut governor, look);
        let (first, last) = (nth * every / 30, ((nth + 1) * every - 1) / 30);
        if first == last && decision.account.share().ns > budget {
            course.over[first] += 1;
        }
        course.can_be_kept &= decision.can_be_kept;
        for it in &decision.moves {
            *(if it.to < it.from { &mut course.cuts } else { &mut course.raises }) += 1;
            changes.entry(it.switch.clone()).or_default().push(server.now);
        }
    }
    let most = most_in_a_minute(&changes);
    assert!(most <= 2, "{most} changes of one instrument in a minute");
    course
}

#[test]
fn one_look_after_a_change_of_load_the_budget_is_kept() {
    let cases = [
        (PricedProvider::MySql, Load::mysql_point_select()),
        (PricedProvider::MariaDb, Load::mariadb_point_select()),
        (PricedProvider::Tare, Load::mariadb_point_select()),
    ];
    let mut kept = 0;
    for (provider, selects) in &cases {
        for budget in [0.02, 0.03, 0.05] {
            for every in [5, 7] {
                let course = alternate(*provider, [selects, &Load::sorts()], budget, every);
                let name = format!("{provider:?} {budget} every {every} s: {course:?}");
                if course.can_be_kept {
                    kept += 1;
                    assert!(course.over.iter().all(|looks| *looks <= 1), "{name}");
                    assert!(course.cuts > 0 && course.raises > 0, "{name}");
                }
            }
        }
    }
    assert!(kept >= 12, "only {kept} of 18 can be kept");
}

/// What is off costs all the same, and nobody sees its events any more.
#[test]
fn a_budget_is_kept_for_hours() {
    let cases = [
        (PricedProvider::MySql, Load::mysql_point_select()),
        (PricedProvider::MySql, Load::mysql_read_only()),
        (PricedProvider::MariaDb, Load::mariadb_point_select()),
        (PricedProvider::MariaDb, Load::mariadb_read_only()),
    ];
    for (provider, load) in cases {
        // All that is off costs two thirds of it.
        let budget = 1.5 * Server::new(provider, &[&load]).switched_off().cost_off(&load);
        let mut server = Server::new(provider, &[&load]);
        let mut governor = server.governor(budget);
        let (mut shares, mut is_trial, mut trials) = (vec![], false, 0);
        for nth in 0..3 * 360 {
            let seen = server.clone();
            let decision = server.step(&mut governor, &[&load; 5]);
            let on = decision.account.shares.iter().filter(|it| it.entry.level > Level::Off);
            let on = on.fold(Cost::NOTHING, |sum, it| sum.plus(it.cost));
            let share = decision.account.share_of(on).ns + seen.cost_off(&load);
            assert!(nth == 0 || is_trial || share <= budget, "{provider:?}: {share} of {budget} at {nth}");
            is_trial = decision.moves.iter().any(|it| matches!(it.why, Why::Tried { .. }));
            trials += usize::from(is_trial);
            shares.push(share);
        }
        let mean = shares.iter().skip(1).sum::<f64>() / (shares.len() - 1) as f64;
        assert!(trials > 0 && mean <= budget, "{provider:?}: {trials} trials, {mean} of {budget}");
    }
}

/// Of what is off nobody sees that it has become rarer, until it is tried.
#[test]
fn what_has_become_rare_comes_back_after_an_hour() {
    let often = Load::mysql_point_select();
    let is_rare = |name: &str| name.starts_with("wait/synch/mutex/");
    let mut rarely = often.clone();
    rarely.events.iter_mut().filter(|(name, _)| is_rare(name)).for_each(|(_, count)| *count /= 1000.0);
    let mut server = Server::new(PricedProvider::MySql, &[&often]);
    let mut governor = server.governor(0.03);
    let off = |server: &Server| {
        let is_off = |it: &&Switch| is_rare(&it.name) && it.present == Level::Off;
        server.board.iter().filter(is_off).count()
    };
    (0..12).for_each(|_| drop(server.step(&mut governor, &[&often; 5])));
    let before = off(&server);
    (0..2 * 720).for_each(|_| drop(server.step(&mut governor, &[&rarely; 5])));
    assert_eq!((before, off(&server)), (6, 0));
}

#[test]
fn what_a_load_leaves_room_for_comes_back_under_it() {
    let (selects, sorts) = (Load::mysql_point_select(), Load::sorts());
    let mut server = Server::new(PricedProvider::MySql, &[&selects, &sorts]);
    let mut governor = server.governor(0.03);
    let mutex = "wait/synch/mutex/innodb/trx_mutex";
    server.step(&mut governor, &[&selects; 5]);
    assert_eq!(server.level(mutex), Level::Off, "the dearest of the least worth");
    assert_eq!(server.level("statement/sql/select"), Level::Sums);
    for _ in 0..20 {
        server.step(&mut governor, &[&sorts; 5]);
    }
    assert_eq!(server.level(mutex), Level::Sums);
    server.step(&mut governor, &[&selects; 5]);
    assert_eq!(server.level(mutex), Level::Off);
}

#[test]
fn a_load_that_trembles_moves_nothing_after_the_first_minutes() {
    let mut random = fastrand::Rng::with_seed(1);
    let steady = Load::mysql_read_only();
    let mut server = Server::new(PricedProvider::MySql, &[&steady]);
    let mut governor = server.governor(0.05);
    let mut late = vec![];
    for nth in 0..100 {
        let mut trembling = steady.clone();
        trembling.events.values_mut().for_each(|count| *count *= 0.9 + 0.2 * random.f64());
        let decision = server.step(&mut governor, &[&trembling; 5]);
        if nth >= 24 {
            late.extend(decision.moves);
        }
    }
    assert_eq!(late, [], "moves after two minutes");
}

#[test]
fn what_a_person_has_set_stays_and_is_named_when_the_budget_cannot_be_kept() {
    let load = Load::mysql_point_select();
    let mut server = Server::new(PricedProvider::MySql, &[&load]);
    for it in server.board.iter_mut().filter(|it| it.name.starts_with("wait/synch/mutex/")) {
        it.held = Some(Held::Person);
    }
    let mut governor = server.governor(0.02);
    let decision = server.step(&mut governor, &[&load; 5]);
    assert!(decision.moves.iter().all(|it| !it.switch.starts_with("wait/synch/mutex/")));
    assert!(!decision.can_be_kept);
    let held = tare_budget::account::held_cost(&server.board, &decision.account, Held::Person);
    assert!(decision.account.share_of(held).ns > 0.02);
}

#[test]
fn nothing_is_decided_about_a_server_that_did_nothing() {
    let load = Load::sorts();
    let mut server = Server::new(PricedProvider::MySql, &[&load]);
    let mut governor: Governor = server.governor(0.01);
    let before: Vec<Switch> = server.board.clone();
    let decision = server.step(&mut governor, &[]);
    assert_eq!((decision.moves.len(), server.board == before), (0, true));
}

/// What is off has no events. It still says how far apart those of the load are, however long it has been
/// off.
#[test]
fn prices_stay_while_the_load_stays() {
    let steady = Load::mariadb_point_select();
    let mut server = Server::new(PricedProvider::Tare, &[&steady]);
    let prices = Prices::shipped(PricedProvider::Tare).expect("it can be read");
    assert!(prices.distance.is_some());
    server.prices = prices.clone();
    let mut governor = server.governor(0.03);
    let mut factor = |server: &mut Server| {
        let account = server.step(&mut governor, &[&steady; 5]).account;
        let it = account.shares.first().expect("something costs");
        it.cost.ns / it.entry.events / prices.cost(it.entry.kind, it.entry.level).ns
    };
    let first = factor(&mut server);
    for _ in 0..720 {
        let now = factor(&mut server);
        assert!((now / first - 1.0).abs() < 0.01, "{now} after {:?}, {first} at first", server.now);
    }
    assert!(server.board.iter().any(|it| it.present == Level::Off), "{:?}", server.board);
}
