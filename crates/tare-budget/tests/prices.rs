//! Price files: those that ship, and what is said of one that is wrong.

use tare_budget::account::distance;
use tare_budget::{Cost, Kind, Level, PriceError, PricedProvider, Prices};

const HEAD: &str =
    "[origin]\nprovider = \"mysql\"\nserver = \"s\"\nmachine = \"m\"\nmeasured = true\nhow = \"h\"\n";

/// A file with a price for every kind, and something else for one of them.
fn file(kind: Kind, text: &str) -> String {
    let of = |it: Kind| match it == kind {
        true => format!("[price.{it}]\n{text}\n"),
        false => format!("[price.{it}]\nsums = {{ ns = 2, low = 1, high = 3 }}\n"),
    };
    format!("{HEAD}{}", Kind::ALL.map(of).concat())
}

#[test]
fn those_that_ship_are_whole_and_say_what_they_are() {
    for provider in [PricedProvider::Tare, PricedProvider::MariaDb, PricedProvider::MySql] {
        let prices = Prices::shipped(provider).expect("it can be read");
        assert_eq!(prices.origin.provider, provider);
        for kind in Kind::ALL {
            let costs = Level::ALL.map(|level| prices.cost(kind, level));
            assert!(costs.iter().all(|it| it.low <= it.ns && it.ns <= it.high));
            assert!(costs[0].ns < costs[6].ns || kind == Kind::Error, "{provider:?} {kind}: off is cheapest");
            // What is not measured has a wide interval.
            assert!(prices.origin.measured || costs[6].high >= 2.0 * costs[6].ns);
        }
    }
}

#[test]
fn a_level_without_a_price_takes_the_next_higher_or_else_the_highest() {
    let text =
        file(Kind::Mutex, "counts = { ns = 5, low = 4, high = 6 }\nexact = { ns = 9, low = 8, high = 10 }");
    let prices = Prices::read(&text).expect("right");
    let ns = Level::ALL.map(|level| prices.cost(Kind::Mutex, level).ns);
    assert_eq!(ns, [5.0, 5.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0]);
    assert_eq!(prices.cost(Kind::Stage, Level::Exact), Cost { ns: 2.0, low: 1.0, high: 3.0 });
}

/// By the part of statements that are chosen, from what is kept of one that is not to what is kept of one
/// that is.
#[test]
fn what_is_sampled_costs_what_follows_from_the_other_levels() {
    let prices = Prices::shipped(PricedProvider::Tare).expect("it can be read");
    let at = |kind, level, weight: f64| prices.choosing(1.0 / weight).cost(kind, level).ns;
    for kind in Kind::ALL {
        let [unchosen, lean] = [kind.unchosen(), Level::Lean].map(|level| prices.cost(kind, level).ns);
        for weight in [1.0, 16.0, 64.0, 1e6] {
            let wanted = unchosen + (lean - unchosen) / weight;
            assert!((at(kind, Level::Sampled, weight) - wanted).abs() < 1e-9, "{kind} at {weight}");
            assert_eq!(at(kind, Level::Lean, weight), lean, "{kind}: that of others does not go by it");
        }
    }
    let stage = |level| at(Kind::Stage, level, 1e9);
    assert!((stage(Level::Sampled) - stage(Level::Off)).abs() < 1e-6);
    let rows = |level| at(Kind::TableIo, level, 1e9);
    assert!((rows(Level::Sampled) - rows(Level::Counts)).abs() < 1e-6, "every one is counted");
    assert_eq!(at(Kind::FileIo, Level::Sampled, 1e9), at(Kind::FileIo, Level::Lean, 1.0), "and recorded");
    let own = "sampled = { ns = 1, low = 1, high = 1 }";
    let error = Prices::read(&file(Kind::Mutex, own)).expect_err("no such price").to_string();
    assert!(error.contains("price.mutex.sampled: no such level"), "{error}");
}

#[test]
fn what_is_wrong_is_named_with_line_and_key() {
    let says = |text: &str| Prices::read(text).expect_err("wrong").to_string();
    let line = file(Kind::Mutex, "").matches('\n').count();
    let bad = |row: &str| says(&file(Kind::Mutex, row));
    let at = |key: &str| format!("line {line}, price.mutex.{key}: ");
    assert!(bad("loud = { ns = 1, low = 1, high = 1 }").starts_with(&at("loud")));
    assert!(bad("loud = { ns = 1, low = 1, high = 1 }").contains("off, counts, sums"));
    assert!(bad("sums = { ns = -1, low = -1, high = 1 }").starts_with(&at("sums")));
    assert!(bad("sums = { ns = 1, low = 2, high = 3 }").contains("low <= ns <= high"));
    assert!(bad("sums = { ns = nan, low = 1, high = 3 }").contains("0 or more"));
    let shape = bad("sums = { ns = 1, low = 1 }");
    assert!(shape.starts_with(&format!("line {line}: ")) && shape.contains("high"), "{shape}");
    let shape = bad("sums = { ns = 1, low = 1, high = 2, wide = 3 }");
    assert!(shape.starts_with(&format!("line {line}: ")) && shape.contains("wide"), "{shape}");
    assert!(says("[origin\n").starts_with("line 1: "));
    let kind = says(&file(Kind::Mutex, "").replace("[price.idle]", "[price.idleness]"));
    assert!(kind.contains("price.idleness: no such kind; there are query, statement"), "{kind}");
    let missing = Prices::read(&file(Kind::Mutex, ""));
    assert_eq!(missing, Err(PriceError::Missing { kind: "mutex" }));
}

#[test]
fn a_query_without_a_price_costs_what_a_statement_does() {
    let of = |text: &str| {
        let prices = Prices::read(text).expect("right");
        [Kind::Query, Kind::Statement].map(|kind| prices.cost(kind, Level::Sums).ns)
    };
    let without =
        format!("{HEAD}{}", file(Kind::Query, "").split_once("[price.query]\n").expect("it is there").1);
    assert_eq!(of(&without), [2.0, 2.0]);
    assert_eq!(of(&file(Kind::Query, "sums = { ns = 12, low = 11, high = 13 }")), [12.0, 2.0]);
}

/// A price of 2 ns for every kind at a distance of 100 ns, which goes with the root of the distance.
fn with_distance(more: &str) -> String {
    let distance = format!("[distance]\nns = 100\npower = 0.5\n{more}\n[price.statement]");
    file(Kind::Mutex, "sums = { ns = 2, low = 1, high = 3 }").replace("[price.statement]", &distance)
}

#[test]
fn prices_go_with_the_distance_between_events() {
    let prices = Prices::read(&with_distance("least = 0.5\nmost = 3")).expect("right");
    let ns = |distance: f64| prices.at_distance(distance).cost(Kind::Stage, Level::Sums).ns;
    assert_eq!([100.0, 400.0, 1e9, 1.0, 0.0, f64::NAN].map(ns), [2.0, 4.0, 6.0, 1.0, 2.0, 2.0]);
    // Allocations are no events of their own: 10 events in 4 microseconds.
    let events = [(Kind::Stage, 10.0), (Kind::Memory, 1_000.0)];
    assert_eq!(distance(events.into_iter(), 4_000.0), 400.0);
    let plain = Prices::read(&file(Kind::Mutex, "sums = { ns = 2, low = 1, high = 3 }")).expect("right");
    assert_eq!(plain.at_distance(1e9), plain, "without the section they stay");
}

/// A price of 2 ns for every kind, and of connections.
fn with_connection(more: &str) -> Result<Prices, PriceError> {
    let section = format!("[connection]\n{more}\n[price.statement]");
    let text = file(Kind::Mutex, "sums = { ns = 2, low = 1, high = 3 }");
    Prices::read(&text.replace("[price.statement]", &section))
}

#[test]
fn connections_have_a_price_where_the_file_says_one() {
    let prices = with_connection(
        "off = { ns = 1000, low = 900, high = 1200 }\non = { ns = 5000, low = 4000, high = 6000 }",
    );
    let connection = prices.expect("right").connection;
    assert_eq!(connection.at(0.0).ns, 1000.0);
    assert_eq!(connection.at(1.0), Cost { ns: 5000.0, low: 4000.0, high: 6000.0 });
    assert_eq!(connection.at(0.5).ns, 3000.0);
    let plain = Prices::read(&file(Kind::Mutex, "sums = { ns = 2, low = 1, high = 3 }")).expect("right");
    assert_eq!(plain.connection.at(1.0), Cost::NOTHING);
    let says = |more: &str| with_connection(more).expect_err("wrong").to_string();
    let (dear, cheap) = ("{ ns = 9, low = 9, high = 9 }", "{ ns = 1, low = 1, high = 1 }");
    assert!(says(&format!("off = {dear}\non = {cheap}")).contains("connection: off <= on does not hold"));
    assert!(
        says(&format!("off = {cheap}\non = {{ ns = 1, low = 2, high = 3 }}")).contains("low <= ns <= high")
    );
    assert!(says(&format!("off = {cheap}")).contains("on"));
}

#[test]
fn a_wrong_distance_is_named() {
    let says = |more: &str| Prices::read(&with_distance(more)).expect_err("wrong").to_string();
    assert!(says("least = 2\nmost = 1").contains("distance: least <= most does not hold"));
    assert!(says("least = 0\nmost = 1").contains("distance: ns, power, least and most are numbers above 0"));
    assert!(says("least = 1").contains("most"));
}

#[test]
fn prices_go_with_how_long_work_takes_where_the_file_says_how_long_it_took() {
    let plain = file(Kind::Mutex, "sums = { ns = 2, low = 1, high = 3 }");
    let with = |ns: &str| Prices::read(&plain.replacen("[price.", &format!("[work]\nns = {ns}\n[price."), 1));
    let prices = with("100").expect("right");
    let ns = |work: f64| prices.on_machine(Some(work)).cost(Kind::Stage, Level::Sums).ns;
    assert_eq!([100.0, 150.0, 50.0, 1e9, 1.0, 0.0, f64::NAN].map(ns), [2.0, 3.0, 1.0, 8.0, 0.5, 2.0, 2.0]);
    assert_eq!(prices.on_machine(None), prices);
    let error = with("0").expect_err("wrong").to_string();
    assert!(error.contains("work: ns is a number above 0"), "{error}");
}
