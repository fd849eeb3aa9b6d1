//! What a connection costs besides its events, of four blocks of a study as `tare lab price tare` makes it.

use std::fmt::Write;

use tare_budget::{Kind, PricedProvider, Prices};
use tare_lab::prices::experiment::everything;
use tare_lab::prices::{Missing, check, connecting, file};
use tare_lab::record::Record;

/// The study's records: servers without a Performance Schema, with nothing on, with everything on.
fn recorded() -> Vec<Record> {
    let lines = include_str!("connecting/three_minutes.jsonl").lines();
    lines.map(|line| serde_json::from_str(line).expect("a record")).collect()
}

/// An event of any kind costs so much at any level.
fn prices(ns: f64) -> String {
    let mut text =
        "[origin]\nprovider = \"tare\"\nserver = \"-\"\nmachine = \"-\"\nmeasured = true\nhow = \"-\"\n"
            .to_owned();
    for kind in Kind::ALL {
        writeln!(text, "[price.{kind}]\nexact = {{ ns = {ns}, low = {ns}, high = {ns} }}").expect("memory");
    }
    text
}

fn read(text: &str) -> Prices {
    Prices::read(text).expect("right")
}

#[test]
fn a_connection_costs_what_its_events_do_not() {
    let (records, everything) = (recorded(), everything(PricedProvider::Tare));
    let of = |ns: f64| connecting(&records, &everything, &read(&prices(ns))).expect("enough");
    let (free, dear) = (of(0.0), of(100.0));
    assert!((12e3..22e3).contains(&free.off.ns) && (30e3..42e3).contains(&free.on.ns), "{free:?}");
    for cost in [free.off, free.on] {
        assert!(cost.low < cost.ns && cost.ns < cost.high && cost.high < 2.0 * cost.ns, "{cost:?}");
    }
    // A connection had 71.6 events.
    for (free, dear) in [(free.off, dear.off), (free.on, dear.on)] {
        assert!((7_100.0..7_200.0).contains(&(free.ns - dear.ns)), "{free:?}, {dear:?}");
    }
    let nothing_left = of(10_000.0);
    assert_eq!((nothing_left.off.ns, nothing_left.on.ns), (0.0, 0.0), "no price is below nothing");
}

#[test]
fn what_was_found_is_what_a_check_says() {
    let (records, everything) = (recorded(), everything(PricedProvider::Tare));
    let mut text = prices(100.0);
    let found = connecting(&records, &everything, &read(&text)).expect("enough");
    text += &file::connection(&found);
    let prices = read(&text);
    assert!((prices.connection.on.ns - found.on.ns).abs() < 0.1, "{:?}, {found:?}", prices.connection);
    let checked = check(&records, &everything, &prices).expect("enough");
    let [checked] = &*checked else { panic!("{checked:?}") };
    let (predicted, measured) = (checked.predicted.ns, checked.measured.share);
    assert!((predicted / measured - 1.0).abs() < 0.1, "{predicted} said, {measured} measured");
}

#[test]
fn without_counts_nothing_is_known() {
    let records: Vec<Record> = recorded().into_iter().filter(|it| !matches!(it, Record::Effort(_))).collect();
    let found = connecting(&records, &everything(PricedProvider::Tare), &read(&prices(1.0)));
    assert_eq!(found, Err(Missing::Events { load: "events_connect".into() }));
    assert_eq!(connecting(&[], &everything(PricedProvider::Tare), &read(&prices(1.0))), Err(Missing::Starts));
}
