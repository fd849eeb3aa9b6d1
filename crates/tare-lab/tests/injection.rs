//! Costs of known size, injected into recorded turns of servers that were all alike: does the analysis that
//! ships find them?
//!
//! The turns are real (`make lab-record`): neighbours, the scheduler and the clock are in them as they come.
//! What is injected is exact, so that a study of hundreds of studies is cheap. `make lab-calibrate` does the
//! same with costs that are real, too.

use tare_lab::analysis::{Analysis, Difference, SettingAnalysis, Verdict};
use tare_lab::record::{Cell, FORMAT, Header, Latency, Machine, Measure, Record, SettingFacts, Slice, Turn};

const TURNS: &str = include_str!("injection/turns.txt");
/// Blocks of a study, of those recorded.
const BLOCKS: usize = 24;
/// Studies of each kind and size.
const STUDIES: usize = 40;
/// Of so many studies 2 are expected to miss the truth; more than this many in one of 300 seeds, and the seed
/// is fixed.
const MOST_MISSED: usize = 6;

/// Blocks of a study of few, their turns, and studies of each kind, size and machine: as in `make
/// lab-calibrate`.
const FEW_BLOCKS: usize = 9;
const FEW_TURNS: usize = 8;
const FEW_STUDIES: usize = 100;
/// Of 800 studies of a kind 40 are expected at most, and more than this many in one of 300 seeds.
const FEW_MISSED: usize = 57;

/// How a cost comes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// In every turn.
    Constant,
    /// In some turns, so many of all, as much more there.
    Bursts(f64),
    /// All at once, when a second of load has passed.
    Second,
    /// After the turn.
    Delayed,
    /// From nothing to double, over the study.
    Drifting,
    /// Of mean zero: as often less as more.
    Noise,
}

const KINDS: [Kind; 5] = [Kind::Constant, Kind::Bursts(0.2), Kind::Second, Kind::Delayed, Kind::Drifting];
const SIZES: [f64; 4] = [0.0, 0.01, 0.03, 0.06];

/// Blocks of slices of turns; the slices of a block are of settings that are all alike.
fn recorded() -> Vec<Vec<Vec<Turn>>> {
    let mut blocks: Vec<Vec<Vec<Turn>>> = vec![];
    for line in TURNS.lines() {
        let (block, turns) = line.split_once(' ').expect("a block and its turns");
        let place: usize = block.parse().expect("a number");
        blocks.resize(blocks.len().max(place + 1), vec![]);
        blocks[place].push(turns.split(' ').map(turn).collect());
    }
    blocks
}

/// The same turns in blocks of few.
fn short(recorded: &[Vec<Vec<Turn>>]) -> Vec<Vec<Vec<Turn>>> {
    let cut = |block: &Vec<Vec<Turn>>| {
        let rounds = block.iter().map(Vec::len).min().unwrap_or(0);
        let part =
            |n: usize| block.iter().map(|turns| turns[n * FEW_TURNS..][..FEW_TURNS].to_vec()).collect();
        (0..rounds / FEW_TURNS).map(part).collect::<Vec<Vec<Vec<Turn>>>>()
    };
    recorded.iter().flat_map(cut).collect()
}

#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // small counts
fn turn(text: &str) -> Turn {
    let figures: Vec<f64> = text.split(',').map(|figure| figure.parse().expect("a number")).collect();
    let [cpu, after, seconds, queries] = figures[..] else { panic!("four figures: {text}") };
    Turn { cpu: cpu / 1e9, after: after / 1e9, seconds: seconds / 1e6, queries: queries as u64 }
}

/// Adds a cost to a block's turns.
fn inject(
    turns: &mut [Turn],
    kind: Kind,
    size: f64,
    block: f64,
    owed: &mut Owed,
    random: &mut fastrand::Rng,
) {
    for turn in turns {
        match kind {
            Kind::Constant => turn.cpu *= 1.0 + size,
            Kind::Bursts(share) => {
                if random.f64() < share {
                    turn.cpu *= 1.0 + size / share;
                }
            }
            Kind::Second => {
                owed.cpu += turn.cpu * size;
                owed.seconds += turn.seconds;
                if owed.seconds >= 1.0 {
                    turn.cpu += owed.cpu;
                    *owed = Owed::default();
                }
            }
            Kind::Delayed => turn.after += turn.cpu * size,
            Kind::Drifting => turn.cpu *= 1.0 + 2.0 * size * block,
            Kind::Noise => turn.cpu *= 1.0 + if random.bool() { size } else { -size },
        }
    }
}

/// What comes at once after a second.
#[derive(Default)]
struct Owed {
    cpu: f64,
    seconds: f64,
}

/// What a neighbour does to the turns of a round, whosever they are.
fn disturb(round: &mut [&mut Turn], random: &mut fastrand::Rng) {
    for turn in round {
        turn.cpu *= 1.0 + random.f64();
    }
}

/// A study of so many of the recorded blocks, of which each slice becomes somebody's by chance, and its true
/// cost.
#[allow(clippy::cast_precision_loss)] // few
fn study(
    recorded: &[Vec<Vec<Turn>>],
    blocks: usize,
    (kind, size): (Kind, f64),
    neighbour: bool,
    random: &mut fastrand::Rng,
) -> (SettingAnalysis, f64) {
    let mut order: Vec<usize> = (0..recorded.len()).collect();
    random.shuffle(&mut order);
    let mut records = vec![Record::Header(Box::new(header(blocks)))];
    let (mut owed, mut natural, mut charged) = (Owed::default(), 0.0, 0.0);
    for (number, place) in (0..).zip(&order[..blocks]) {
        let mut slices = recorded[*place].clone();
        random.shuffle(&mut slices);
        if neighbour {
            for round in 0..slices.iter().map(Vec::len).min().unwrap_or(0) {
                if random.f64() < 0.3 {
                    disturb(
                        &mut slices.iter_mut().map(|turns| &mut turns[round]).collect::<Vec<_>>(),
                        random,
                    );
                }
            }
        }
        for (name, turns) in ["none", "none again", "costly"].iter().zip(slices) {
            let mut slice = slice(name, number, turns);
            if *name == "costly" {
                natural += slice.mean_charge(Measure::Cpu);
                inject(
                    &mut slice.turns,
                    kind,
                    size,
                    (f64::from(number) + 0.5) / blocks as f64,
                    &mut owed,
                    random,
                );
                charged += slice.mean_charge(Measure::Cpu);
            }
            records.push(Record::Slice(Box::new(slice)));
        }
    }
    let analysis = Analysis::of(&records).expect("a header");
    (analysis.cells[0].setting("costly").expect("it was measured").clone(), charged / natural - 1.0)
}

fn header(blocks: usize) -> Header {
    let setting = |name: &str, control| SettingFacts {
        name: name.into(),
        meaning: String::new(),
        server: "s".into(),
        made_by: vec![],
        base: "none".into(),
        control,
    };
    let header = serde_json::json!({
        "format": FORMAT, "tare": "0", "started": "", "study": "injection", "question": "", "quick": false, "seed": 1,
        "slice_seconds": 1.0, "precision": 0.005, "margin": 0.01, "most_blocks": blocks, "blocks_per_start": blocks,
        "definition": "", "machine": Machine::default(), "servers": [], "cells": [cell()],
        "settings": [setting("none", false), setting("none again", true), setting("costly", false)],
    });
    serde_json::from_value(header).expect("a header of this format")
}

fn cell() -> Cell {
    Cell { workload: "recorded".into(), users: 2, percent: None }
}

fn slice(setting: &str, block: u32, turns: Vec<Turn>) -> Slice {
    let sum = |figure: fn(&Turn) -> f64| turns.iter().map(figure).sum::<f64>();
    let queries = turns.iter().map(|turn| turn.queries).sum::<u64>();
    Slice {
        cell: cell(),
        setting: setting.into(),
        block,
        turn: 0,
        process: None,
        at: f64::from(block),
        seconds: sum(|turn| turn.seconds),
        rate: None,
        transactions: queries / 16,
        queries,
        errors: 0,
        cpu_user: sum(|turn| turn.cpu),
        cpu_system: 0.0,
        cpu_sidecars: 0.0,
        cpu_beside: 0.0,
        resident_sidecars: 0,
        resident_bytes: 0,
        context_switches: 0,
        logged_bytes: 0,
        steal: 0.0,
        load: 0.0,
        latency: Latency::default(),
        per_second: vec![],
        scrapes: vec![],
        figures: [].into(),
        turns,
    }
}

fn covers(difference: Option<Difference>, truth: f64) -> bool {
    let interval = difference.and_then(|d| d.interval).expect("an interval");
    (interval.0..=interval.1).contains(&truth)
}

fn costs(setting: &SettingAnalysis) -> bool {
    matches!(setting.verdict, Some(Verdict::Costs { .. }))
}

fn bursty(setting: &SettingAnalysis) -> bool {
    matches!(setting.verdict, Some(Verdict::Costs { bursty: true, .. }))
}

#[test]
fn the_truth_is_covered_whatever_the_kind_and_nothing_is_called_a_cost() {
    let recorded = recorded();
    let mut random = fastrand::Rng::with_seed(17);
    for neighbour in [false, true] {
        for kind in KINDS {
            for size in SIZES {
                let (mut missed, mut missed_calm, mut alarms, mut seen) = (0, 0, 0, 0);
                for _ in 0..STUDIES {
                    let (found, truth) = study(&recorded, BLOCKS, (kind, size), neighbour, &mut random);
                    missed += usize::from(!covers(found.mean, truth));
                    missed_calm += usize::from(!covers(found.cost, truth));
                    alarms += usize::from(size == 0.0 && costs(&found));
                    seen += usize::from(bursty(&found));
                }
                println!(
                    "{kind:?} {size} neighbour {neighbour}: mean misses {missed}, calm {missed_calm}, alarms {alarms}, bursty {seen} of {STUDIES}"
                );
                assert!(
                    missed <= MOST_MISSED,
                    "the mean misses {missed} of {STUDIES}: {kind:?} {size} {neighbour}"
                );
                assert!(
                    alarms <= MOST_MISSED,
                    "{alarms} of {STUDIES} are called a cost: {kind:?} {neighbour}"
                );
                if kind == Kind::Constant {
                    assert!(
                        missed_calm <= MOST_MISSED,
                        "calm rounds miss {missed_calm} of {STUDIES}: {size} {neighbour}"
                    );
                }
            }
        }
    }
}

/// Intervals of few blocks are wide. They hold all the same, and no verdict claims more than is true.
#[test]
fn few_blocks_of_few_turns_mislead_nobody() {
    let recorded = short(&recorded());
    let mut random = fastrand::Rng::with_seed(31);
    for kind in KINDS {
        let (mut missed, mut missed_calm, mut claims, mut untrue) = (0, 0, 0, 0);
        for (size, neighbour) in SIZES.iter().flat_map(|size| [(*size, false), (*size, true)]) {
            for _ in 0..FEW_STUDIES {
                let (found, truth) = study(&recorded, FEW_BLOCKS, (kind, size), neighbour, &mut random);
                missed += usize::from(!covers(found.mean, truth));
                missed_calm += usize::from(!covers(found.cost, truth));
                claims += usize::from(costs(&found));
                untrue += usize::from(costs(&found) && claims_too_much(&found, truth));
            }
        }
        println!(
            "{kind:?}: mean misses {missed}, calm {missed_calm}, of {claims} claims {untrue} are not true"
        );
        assert!(missed <= FEW_MISSED, "{kind:?}: the mean misses {missed}");
        assert!(untrue <= FEW_MISSED, "{kind:?}: {untrue} verdicts claim too much");
        if matches!(kind, Kind::Constant | Kind::Drifting) {
            assert!(missed_calm <= FEW_MISSED, "{kind:?}: calm rounds miss {missed_calm}");
        }
    }
}

/// Whether a verdict says that more is paid, or saved, than is.
fn claims_too_much(setting: &SettingAnalysis, truth: f64) -> bool {
    let interval = setting.told().and_then(|d| d.interval);
    interval.is_some_and(|(low, high)| low > truth || high < 0.0)
}

/// What calm rounds said of these: 5.0, 0.0, 2.6 and -2.0.
#[test]
fn what_calm_rounds_miss_the_mean_finds() {
    let recorded = recorded();
    let mut random = fastrand::Rng::with_seed(23);
    let cases = [
        (Kind::Constant, 0.05, 0.05),
        (Kind::Bursts(0.2), 0.06, 0.06),
        (Kind::Bursts(0.75), 0.06, 0.06),
        (Kind::Noise, 0.03, 0.0),
    ];
    for (kind, size, meant) in cases {
        let (found, truth) = study(&recorded, recorded.len(), (kind, size), false, &mut random);
        let (calm, mean) = (found.cost.expect("a figure"), found.mean.expect("a figure"));
        println!("{kind:?} {size}: truth {truth:.4}, calm {calm:?}, mean {mean:?}, {:?}", found.verdict);
        assert!((truth - meant).abs() < 0.01, "{truth}");
        assert!(covers(found.mean, truth), "{kind:?}: {truth} is not in {mean:?}");
        match kind {
            Kind::Constant => {
                assert!(covers(found.cost, truth) && costs(&found) && !bursty(&found), "{found:?}")
            }
            Kind::Bursts(share) if share < 0.5 => {
                assert!(bursty(&found) && !covers(found.cost, truth), "{found:?}")
            }
            Kind::Noise => assert!(!costs(&found), "{found:?}"),
            _ => assert!(costs(&found), "{found:?}"),
        }
    }
}
