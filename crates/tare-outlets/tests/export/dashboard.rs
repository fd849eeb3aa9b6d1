//! The dashboard shows only what the exporter gives.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use regex::Regex;
use serde_json::Value;
use tare_outlets::Address;
use tare_outlets::export::scrape::ServerScraper;

use crate::client::everything;
use crate::page::Page;
use crate::record::Record;

/// The expressions of a dashboard, wherever they stand in it.
fn expressions(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                match member {
                    Value::String(text) if name == "expr" || name == "query" => found.push(text.clone()),
                    member => expressions(member, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| expressions(item, found)),
        _ => {}
    }
}

#[test]
fn every_metric_of_the_dashboard_and_the_alerts_is_given() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/grafana/tare.json");
    let dashboard: Value =
        serde_json::from_str(&fs::read_to_string(path).expect("a dashboard")).expect("JSON");
    let mut found = vec![];
    expressions(&dashboard, &mut found);
    let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/grafana/tare.rules.yml");
    let rules = fs::read_to_string(rules).expect("the alerts");
    let of_rules = rules.lines().filter_map(|line| line.trim().strip_prefix("expr: "));
    found.extend(of_rules.map(str::to_owned));
    let metric = Regex::new(r"\b(?:mysql|tare|process)_[a-z0-9_]+").expect("a pattern");
    let asked: BTreeSet<&str> =
        found.iter().flat_map(|it| metric.find_iter(it)).map(|it| it.as_str()).collect();
    assert!(asked.len() > 15, "{asked:?}");
    let own = ServerScraper::new(Address::Socket("/no/such/socket".into()), everything());
    let own = own.look(&own.on(), std::time::Instant::now() + std::time::Duration::from_secs(60)).page();
    let pages = [Page::parse(&Record::read().page(&everything())), Page::parse(&own)];
    // Known of every scrape whose server is there.
    let mut given: BTreeSet<String> = [
        "mysql_exporter_collector_success",
        "mysql_exporter_collector_duration_seconds",
        "tare_export_rows_left_out",
    ]
    .map(str::to_owned)
    .into();
    given.extend(pages.iter().flat_map(|page| page.samples.iter()).map(|it| it.name.clone()));
    for name in asked {
        assert!(given.contains(name), "{name} is no metric of the exporter");
    }
}

#[test]
fn variables_of_the_dashboard_have_what_grafana_wants() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/grafana/tare.json");
    let dashboard: Value =
        serde_json::from_str(&fs::read_to_string(path).expect("a dashboard")).expect("JSON");
    for variable in dashboard["templating"]["list"].as_array().expect("variables") {
        let current = &variable["current"];
        assert!(!current["text"].is_null() && !current["value"].is_null(), "{variable}");
        assert!(variable["query"].is_string(), "{variable}");
    }
}

#[test]
fn panels_of_the_dashboard_do_not_overlap_and_have_numbers_of_their_own() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/grafana/tare.json");
    let dashboard: Value =
        serde_json::from_str(&fs::read_to_string(path).expect("a dashboard")).expect("JSON");
    let (mut ids, mut cells) = (BTreeSet::new(), BTreeSet::new());
    for panel in dashboard["panels"].as_array().expect("panels") {
        let title = panel["title"].as_str().expect("a title");
        assert!(ids.insert(panel["id"].as_u64().expect("a number")), "{title}");
        let at = |name: &str| panel["gridPos"][name].as_u64().expect("a place");
        assert!(at("x") + at("w") <= 24, "{title}");
        for cell in
            (at("x")..at("x") + at("w")).flat_map(|x| (at("y")..at("y") + at("h")).map(move |y| (x, y)))
        {
            assert!(cells.insert(cell), "{title} lies over another at {cell:?}");
        }
    }
}
