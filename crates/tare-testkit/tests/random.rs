//! Random sessions leave the figures that the built-in leaves; `make test-random` compares thousands.

#![allow(clippy::unwrap_used)] // in a test a failure is a panic

use tare_testkit::random::Trial;
use tare_testkit::turn;

/// The same ones every time: a difference is the last change's.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=50;

#[test]
fn random_sessions_leave_the_figures_the_built_in_leaves() {
    let _turn = turn();
    let mut trial = Trial::new().unwrap();
    let differences: Vec<String> = SEEDS.filter_map(|seed| trial.compare(seed).unwrap()).collect();
    assert!(differences.is_empty(), "{} sessions differ:\n{}", differences.len(), differences.join("\n"));
}
