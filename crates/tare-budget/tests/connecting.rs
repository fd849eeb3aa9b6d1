//! What connections cost besides their events: in the account, and in what the governor decides.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use tare_budget::board::Switched;
use tare_budget::{
    Cost, CostAccount, Governor, GovernorRules, GovernorSample, InstrumentEvents, Kind, Level, Prices,
    StatementSumsRule, Switch,
};

/// A connection costs a microsecond with everything off, and 11 with everything on. Events cost nothing.
fn prices() -> Prices {
    let mut text =
        "[origin]\nprovider = \"tare\"\nserver = \"-\"\nmachine = \"-\"\nmeasured = true\nhow = \"-\"\n"
            .to_owned();
    text += "[connection]\noff = { ns = 1000, low = 500, high = 2000 }\non = { ns = 11000, low = 9000, high = 12000 }\n";
    for kind in Kind::ALL {
        writeln!(text, "[price.{kind}]\noff = {{ ns = 0, low = 0, high = 0 }}").expect("memory");
    }
    Prices::read(&text).expect("right")
}

fn entry(name: &str, level: Level, events: f64) -> InstrumentEvents {
    InstrumentEvents { name: name.to_owned(), kind: Kind::Mutex, level, recording: None, events }
}

#[test]
fn what_is_on_has_its_part_of_each_connection() {
    let account = |entries: &[InstrumentEvents], connected| {
        CostAccount::of(&prices(), entries.to_vec(), connected, 1e9, 0.0)
    };
    // One that every connection has events of is on, one is off, and one that is on a quarter of them has.
    let entries =
        [entry("a", Level::Sums, 200.0), entry("b", Level::Off, 100.0), entry("c", Level::Sums, 25.0)];
    let all = account(&entries, 100.0);
    let part = 1.25 / 2.25;
    assert!((all.connecting.ns - 100.0 * (1000.0 + 10_000.0 * part)).abs() < 1e-3, "{:?}", all.connecting);
    assert_eq!((all.total, all.connected), (all.connecting, 100.0));
    assert_eq!(account(&entries, 0.0).total, Cost::NOTHING, "nobody has connected");
    assert_eq!(account(&[], 100.0).connecting.ns, 100_000.0, "nothing is on");
}

/// A board of two instruments that are on, and what a thousand connections had of them.
fn decided(budget: f64) -> (Vec<(String, Level)>, f64, bool) {
    let names = [("statement/sql/select", Kind::Query), ("wait/synch/mutex/sql/LOCK_x", Kind::Mutex)];
    let switch = |(name, kind): (&str, Kind)| Switch {
        name: name.to_owned(),
        of: Switched::Instrument(kind),
        levels: vec![Level::Off, Level::Sums],
        present: Level::Sums,
        held: None,
    };
    let board = names.map(switch);
    let events: BTreeMap<String, f64> = names.map(|(name, _)| (name.to_owned(), 3000.0)).into();
    let look = GovernorSample {
        now: Duration::from_secs(5),
        cpu: 1e9,
        connected: 1000.0,
        statements: 3000.0,
        events,
        ..GovernorSample::default()
    };
    let decision = Governor::new(
        GovernorRules { budget, budget_p95: None, statements: StatementSumsRule::ByWorth },
        prices(),
    )
    .look(&board, &look);
    assert!(
        (decision.account.share().ns - 0.011).abs() < 1e-9,
        "a thousand times 11 microseconds of a second"
    );
    let moves = decision.moves.iter().map(|it| (it.switch.clone(), it.to)).collect();
    (moves, decision.predicted, decision.can_be_kept)
}

#[test]
fn the_governor_gives_up_what_makes_connections_dear() {
    let off = |name: &str| (name.to_owned(), Level::Off);
    assert_eq!(decided(0.02).0, [], "there is room");
    let (moves, predicted, can_be_kept) = decided(0.01);
    assert_eq!((moves, can_be_kept), (vec![off("wait/synch/mutex/sql/LOCK_x")], true));
    assert!((predicted - 0.006).abs() < 1e-9, "{predicted}");
    let (moves, predicted, can_be_kept) = decided(0.004);
    assert_eq!((moves.len(), can_be_kept), (2, true));
    assert!((predicted - 0.001).abs() < 1e-9, "{predicted}");
    assert!(!decided(0.0005).2, "connections cost as much with everything off");
}
