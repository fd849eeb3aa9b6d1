//! Prices that are known, measurements made up from them with noise like the lab's, and what the regression makes of these:
//! whether its intervals hold the truth.

use std::collections::BTreeMap;

use tare_budget::{Cost, Kind, Level, Provider};
use tare_lab::prices::experiment::{self, Setting};
use tare_lab::prices::{Fit, Load, fit};

/// A load's name, nanoseconds of a transaction, and its events.
type Made = (&'static str, f64, &'static [(Kind, f64)]);

/// As loads are, roughly.
const LOADS: [Made; 8] = [
    (
        "point",
        9_000.0,
        &[
            (Kind::Mutex, 9.0),
            (Kind::RwLock, 6.0),
            (Kind::TableIo, 1.0),
            (Kind::MetadataLock, 1.0),
            (Kind::TableLock, 2.0),
            (Kind::Socket, 2.0),
            (Kind::Idle, 1.0),
            (Kind::Stage, 22.0),
            (Kind::Statement, 1.0),
            (Kind::Transaction, 1.0),
            (Kind::Memory, 12.0),
        ],
    ),
    (
        "ranges",
        40_000.0,
        &[
            (Kind::Mutex, 12.0),
            (Kind::RwLock, 30.0),
            (Kind::TableIo, 100.0),
            (Kind::MetadataLock, 1.0),
            (Kind::TableLock, 2.0),
            (Kind::Socket, 3.0),
            (Kind::Idle, 1.0),
            (Kind::Stage, 22.0),
            (Kind::Statement, 1.0),
            (Kind::Transaction, 1.0),
            (Kind::Memory, 14.0),
        ],
    ),
    (
        "writes",
        120_000.0,
        &[
            (Kind::Mutex, 260.0),
            (Kind::RwLock, 120.0),
            (Kind::Condition, 3.0),
            (Kind::TableIo, 8.0),
            (Kind::FileIo, 6.0),
            (Kind::MetadataLock, 7.0),
            (Kind::TableLock, 8.0),
            (Kind::Socket, 12.0),
            (Kind::Idle, 6.0),
            (Kind::Stage, 130.0),
            (Kind::Statement, 6.0),
            (Kind::Transaction, 1.0),
            (Kind::Memory, 60.0),
        ],
    ),
    (
        "connect",
        60_000.0,
        &[
            (Kind::Mutex, 90.0),
            (Kind::RwLock, 12.0),
            (Kind::Condition, 1.0),
            (Kind::Socket, 12.0),
            (Kind::Idle, 2.0),
            (Kind::Stage, 12.0),
            (Kind::Statement, 2.0),
            (Kind::Memory, 240.0),
        ],
    ),
    (
        "temporary",
        150_000.0,
        &[
            (Kind::Mutex, 25.0),
            (Kind::RwLock, 20.0),
            (Kind::TableIo, 440.0),
            (Kind::MetadataLock, 1.0),
            (Kind::TableLock, 2.0),
            (Kind::Socket, 2.0),
            (Kind::Idle, 1.0),
            (Kind::Stage, 30.0),
            (Kind::Statement, 1.0),
            (Kind::Transaction, 1.0),
            (Kind::Memory, 90.0),
        ],
    ),
    (
        "sort",
        120_000.0,
        &[
            (Kind::Mutex, 22.0),
            (Kind::RwLock, 14.0),
            (Kind::TableIo, 200.0),
            (Kind::FileIo, 2.0),
            (Kind::MetadataLock, 1.0),
            (Kind::TableLock, 2.0),
            (Kind::Socket, 4.0),
            (Kind::Idle, 1.0),
            (Kind::Stage, 26.0),
            (Kind::Statement, 1.0),
            (Kind::Transaction, 1.0),
            (Kind::Memory, 30.0),
        ],
    ),
    (
        "procedure",
        400_000.0,
        &[
            (Kind::Mutex, 300.0),
            (Kind::RwLock, 320.0),
            (Kind::TableIo, 50.0),
            (Kind::MetadataLock, 52.0),
            (Kind::TableLock, 100.0),
            (Kind::Socket, 2.0),
            (Kind::Idle, 1.0),
            (Kind::Stage, 900.0),
            (Kind::Statement, 1.0),
            (Kind::Program, 450.0),
            (Kind::Transaction, 50.0),
            (Kind::Memory, 200.0),
        ],
    ),
    (
        "tables",
        60_000.0,
        &[
            (Kind::Mutex, 60.0),
            (Kind::RwLock, 22.0),
            (Kind::TableIo, 1.0),
            (Kind::FileIo, 4.0),
            (Kind::MetadataLock, 2.0),
            (Kind::TableLock, 2.0),
            (Kind::Socket, 2.0),
            (Kind::Idle, 1.0),
            (Kind::Stage, 26.0),
            (Kind::Statement, 1.0),
            (Kind::Transaction, 1.0),
            (Kind::Memory, 40.0),
        ],
    ),
];

/// What an event costs at each level, over one that is off.
fn truth(kind: Kind, level: Level) -> f64 {
    let exact = match kind {
        Kind::Statement => 600.0,
        Kind::Program => 300.0,
        Kind::Transaction => 150.0,
        Kind::TableIo => 5.0,
        Kind::Memory => 8.0,
        Kind::Stage => 30.0,
        Kind::Mutex | Kind::RwLock => 25.0,
        _ => 45.0,
    };
    let part = match level {
        Level::Off => 0.0,
        Level::Counts => 0.3,
        Level::Sums => 0.55,
        Level::Current => 0.65,
        Level::History => 0.8,
        Level::Lean => 0.7,
        Level::Exact => 1.0,
    };
    // Memory is only counted.
    if kind.is_timed() { exact * part } else { exact }
}

/// How noise is: as wide, and in how many blocks.
#[derive(Clone, Copy)]
struct Noise {
    /// A block's, as a share of a transaction.
    share: f64,
    blocks: usize,
    /// One in ten is five times as far off.
    wild: bool,
}

/// A number of the normal distribution (Box and Muller).
fn normal(random: &mut fastrand::Rng) -> f64 {
    let (one, other) = (random.f64().max(f64::MIN_POSITIVE), random.f64());
    (-2.0 * one.ln()).sqrt() * (std::f64::consts::TAU * other).cos()
}

impl Noise {
    fn draw(self, random: &mut fastrand::Rng) -> f64 {
        let far = if self.wild && random.u32(..10) == 0 { 5.0 } else { 1.0 };
        self.share * far * normal(random)
    }
}

/// Measurements of known prices. All settings of a block are compared with the same base and its twin.
fn measured(settings: &[Setting], noise: Noise, random: &mut fastrand::Rng) -> Vec<Load> {
    let mut loads = vec![];
    for (name, charge, events) in LOADS {
        let events: BTreeMap<Kind, f64> = events.iter().copied().collect();
        let mut shares = vec![vec![]; settings.len()];
        for _ in 0..noise.blocks {
            let base = f64::midpoint(noise.draw(random), noise.draw(random));
            for (setting, shares) in settings.iter().zip(&mut shares) {
                let of = |(kind, level): (&Kind, &Level)| {
                    truth(*kind, *level) * events.get(kind).copied().unwrap_or(0.0)
                };
                let cost: f64 = setting.levels.iter().map(of).sum();
                shares.push(cost / charge + noise.draw(random) - base);
            }
        }
        loads.push(Load { name: name.to_owned(), charge, events, shares });
    }
    loads
}

fn fitted(provider: Provider, noise: Noise, seed: u64) -> Fit {
    let settings = experiment::settings(provider);
    let loads = measured(&settings, noise, &mut fastrand::Rng::with_seed(seed));
    let levels: Vec<_> = settings.into_iter().map(|it| it.levels).collect();
    fit(&levels, &loads).expect("enough was measured")
}

fn prices(fit: &Fit) -> impl Iterator<Item = (Kind, Level, Cost)> {
    fit.prices.iter().flat_map(|(kind, levels)| levels.iter().map(|(level, cost)| (*kind, *level, *cost)))
}

#[test]
fn without_noise_prices_are_found_and_kinds_are_told_apart() {
    for provider in [Provider::Tare, Provider::MySql] {
        let fit = fitted(provider, Noise { share: 1e-7, blocks: 3, wild: false }, 1);
        assert!(fit.clusters.iter().all(|it| it.len() == 1), "{:?}", fit.clusters);
        for (kind, level, cost) in prices(&fit) {
            let truth = truth(kind, level);
            assert!((cost.ns - truth).abs() < 0.01 * truth, "{kind} {level}: {cost:?}, not {truth}");
        }
    }
}

#[test]
fn intervals_hold_the_truth_as_often_as_they_say() {
    for (noise, least) in [
        (Noise { share: 0.003, blocks: 3, wild: false }, 0.94),
        (Noise { share: 0.02, blocks: 2, wild: false }, 0.94),
        (Noise { share: 0.005, blocks: 3, wild: true }, 0.92),
        (Noise { share: 0.01, blocks: 1, wild: false }, 0.92),
    ] {
        let (mut held, mut all) = (0usize, 0usize);
        for seed in 0..4 {
            for (kind, level, cost) in prices(&fitted(Provider::Tare, noise, seed)) {
                assert!(cost.low <= cost.ns && cost.ns <= cost.high, "{kind} {level}: {cost:?}");
                let truth = truth(kind, level);
                held += usize::from(cost.low <= truth && truth <= cost.high);
                all += 1;
            }
        }
        #[allow(clippy::cast_precision_loss)] // some hundreds
        let share = held as f64 / all as f64;
        eprintln!("noise of {}, {} blocks: {held} of {all}", noise.share, noise.blocks);
        assert!(share >= least, "{} of noise, {} blocks: {held} of {all}", noise.share, noise.blocks);
    }
}

#[test]
fn intervals_narrow_as_noise_does() {
    let width = |share| {
        let fit = fitted(Provider::MariaDb, Noise { share, blocks: 3, wild: false }, 5);
        let mutex = fit.prices[&Kind::Mutex][&Level::Exact];
        mutex.high - mutex.low
    };
    assert!(width(0.0005) < width(0.005) / 3.0, "{} and {}", width(0.0005), width(0.005));
}

#[test]
fn what_cannot_be_told_apart_shares_a_figure_and_its_interval_says_so() {
    let settings = experiment::settings(Provider::MySql);
    let noise = Noise { share: 0.002, blocks: 3, wild: false };
    let mut loads = measured(&settings, noise, &mut fastrand::Rng::with_seed(2));
    // Wherever there is idleness, there are twice as many events of sockets.
    for load in &mut loads {
        let (old, charge) = (load.events.clone(), load.charge);
        load.events.insert(Kind::Idle, old[&Kind::Socket] / 2.0);
        let more = load.events[&Kind::Idle] - old.get(&Kind::Idle).copied().unwrap_or(0.0);
        for (setting, shares) in settings.iter().zip(&mut load.shares) {
            let level = setting.levels.get(&Kind::Idle).copied().unwrap_or(Level::Off);
            shares.iter_mut().for_each(|it| *it += more * truth(Kind::Idle, level) / charge);
        }
    }
    let levels: Vec<_> = settings.into_iter().map(|it| it.levels).collect();
    let fit = fit(&levels, &loads).expect("enough");
    let together = fit.clusters.iter().find(|it| it.contains(&Kind::Idle)).expect("it has one");
    assert!(together.contains(&Kind::Socket), "{:?}", fit.clusters);
    let (idle, socket) = (fit.prices[&Kind::Idle][&Level::Exact], fit.prices[&Kind::Socket][&Level::Exact]);
    assert_eq!(idle.ns, socket.ns);
    assert!(idle.low == 0.0 && idle.high > 2.0 * idle.ns, "all of it may be the socket's: {idle:?}");
    assert!(idle.high.is_finite());
}

#[test]
fn a_kind_without_events_has_no_price_and_too_little_is_refused() {
    let settings = experiment::settings(Provider::MySql);
    let noise = Noise { share: 0.002, blocks: 2, wild: false };
    let loads = measured(&settings, noise, &mut fastrand::Rng::with_seed(2));
    let levels: Vec<_> = settings.into_iter().map(|it| it.levels).collect();
    let found = fit(&levels, &loads).expect("enough");
    assert!(!found.prices.contains_key(&Kind::Error) && found.prices.contains_key(&Kind::Condition));
    let mut seldom = loads.clone();
    for load in &mut seldom {
        load.events.insert(Kind::Condition, 0.001);
    }
    assert!(!fit(&levels, &seldom).expect("enough").prices.contains_key(&Kind::Condition));
    let error = fit(&levels, &loads[..2]).expect_err("too little").to_string();
    assert!(error.contains("--minutes"), "{error}");
}
