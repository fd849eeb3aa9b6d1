//! Prices that are known, measurements made up from them with noise like the lab's, and what the regression
//! makes of these: whether its intervals hold the truth.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use tare_budget::{Cost, Kind, Level, PricedProvider, Prices};
use tare_lab::prices::experiment::{self, PriceSetting};
use tare_lab::prices::{Fit, LoadMeasurements, TooLittle, fit};

/// A load's name, nanoseconds of a transaction, and its events.
type Made = (&'static str, f64, &'static [(Kind, f64)]);

/// Loads that are roughly realistic.
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

/// By what everything is dearer than was believed.
const DEARER: f64 = 2.0;

/// What an event costs at each level, over one that is off: what was believed, twice, and each step of that
/// more or less by up to 70%.
fn truth(provider: PricedProvider, kind: Kind, level: Level) -> f64 {
    let believed = believed(provider);
    let over_off = |level| believed.cost(kind, level).ns - believed.cost(kind, Level::Off).ns;
    let lock = matches!(kind, Kind::Mutex | Kind::RwLock);
    let below = match level {
        Level::Off => return 0.0,
        // Memory is only counted.
        _ if !kind.is_timed() => Level::Off,
        Level::Counts => Level::Off,
        Level::Lean if lock => Level::Counts,
        Level::Sums => Level::Counts,
        Level::Current | Level::History | Level::Sampled | Level::Lean => Level::Sums,
        Level::Exact if provider == PricedProvider::Tare => Level::Lean,
        Level::Exact => Level::History,
    };
    // Queries, which these loads have none of, come before the first.
    let number = (kind as u64).wrapping_sub(Kind::Statement as u64);
    let priced = Level::priced().position(|it| it == level).map_or(0, |at| at as u64);
    let chance = fastrand::Rng::with_seed(number << 8 | priced).f64();
    let step = DEARER * (over_off(level) - over_off(below)).max(0.0) * (0.3 + 1.4 * chance);
    truth(provider, kind, below) + step
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

/// Measurements of known prices. All settings of a block are compared with the same base and its A/A control.
fn measured(
    provider: PricedProvider,
    settings: &[PriceSetting],
    noise: Noise,
    random: &mut fastrand::Rng,
) -> Vec<LoadMeasurements> {
    let mut loads = vec![];
    for (name, charge, events) in LOADS {
        let events: BTreeMap<Kind, f64> = events.iter().copied().collect();
        let mut shares = vec![vec![]; settings.len()];
        for _ in 0..noise.blocks {
            let base = f64::midpoint(noise.draw(random), noise.draw(random));
            for (setting, shares) in settings.iter().zip(&mut shares) {
                let of = |(kind, level): (&Kind, &Level)| {
                    truth(provider, *kind, *level) * events.get(kind).copied().unwrap_or(0.0)
                };
                let cost: f64 = setting.levels.iter().map(of).sum();
                shares.push(cost / charge + noise.draw(random) - base);
            }
        }
        loads.push(LoadMeasurements { name: name.to_owned(), charge, events, shares });
    }
    loads
}

fn believed(provider: PricedProvider) -> &'static Prices {
    static ALL: [OnceLock<Prices>; 3] = [const { OnceLock::new() }; 3];
    // Not those that ship, which change with what was measured last.
    let text = match provider {
        PricedProvider::Tare => include_str!("../../tare-budget/tests/prices/tare.toml"),
        PricedProvider::MariaDb => include_str!("../../tare-budget/tests/prices/mariadb.toml"),
        PricedProvider::MySql => include_str!("../../tare-budget/tests/prices/mysql.toml"),
    };
    ALL[provider as usize].get_or_init(|| Prices::read(text).expect("it can be read"))
}

/// What the regression makes of loads.
fn found(
    provider: PricedProvider,
    settings: &[PriceSetting],
    loads: &[LoadMeasurements],
) -> Result<Fit, TooLittle> {
    let levels: Vec<_> = settings.iter().map(|it| it.levels.clone()).collect();
    fit(&levels, loads, believed(provider))
}

fn fitted(provider: PricedProvider, noise: Noise, seed: u64) -> Fit {
    let settings = experiment::settings(provider);
    let loads = measured(provider, &settings, noise, &mut fastrand::Rng::with_seed(seed));
    found(provider, &settings, &loads).expect("enough was measured")
}

fn prices(fit: &Fit) -> impl Iterator<Item = (Kind, Level, Cost)> {
    fit.prices.iter().flat_map(|(kind, levels)| levels.iter().map(|(level, cost)| (*kind, *level, *cost)))
}

/// What prices say of a setting under a load, in nanoseconds, and what is true.
fn said(provider: PricedProvider, fit: &Fit, setting: &PriceSetting, load: &LoadMeasurements) -> (f64, f64) {
    let of = |(kind, level): (&Kind, &Level)| {
        let events = load.events.get(kind).copied().unwrap_or(0.0);
        let price = fit.prices.get(kind).map_or(0.0, |levels| levels[level].ns);
        (events * price, events * truth(provider, *kind, *level))
    };
    setting.levels.iter().map(of).fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
}

const QUIET: Noise = Noise { share: 0.002, blocks: 3, wild: false };

#[test]
fn what_loads_cost_is_found_whatever_was_believed() {
    for provider in [PricedProvider::Tare, PricedProvider::MySql] {
        let settings = experiment::settings(provider);
        let loads = measured(provider, &settings, QUIET, &mut fastrand::Rng::with_seed(1));
        let fit = found(provider, &settings, &loads).expect("enough was measured");
        for load in &loads {
            for setting in &settings {
                let (said, truth) = said(provider, &fit, setting, load);
                let off = (said - truth).abs() / load.charge;
                let near = off < 0.004 || (said - truth).abs() < 0.15 * truth;
                assert!(near, "{} of {}: {said}, not {truth}", setting.name, load.name);
            }
        }
    }
}

#[test]
fn intervals_hold_the_truth_as_often_as_they_say() {
    for (noise, least) in [
        (Noise { share: 0.003, blocks: 3, wild: false }, 0.94),
        (Noise { share: 0.02, blocks: 2, wild: false }, 0.94),
        (Noise { share: 0.005, blocks: 3, wild: true }, 0.94),
    ] {
        let (mut held, mut all) = (0usize, 0usize);
        for (seed, provider) in (0..4).zip([PricedProvider::Tare, PricedProvider::MySql].into_iter().cycle())
        {
            for (kind, level, cost) in prices(&fitted(provider, noise, seed)) {
                assert!(cost.low <= cost.ns && cost.ns <= cost.high, "{kind} {level}: {cost:?}");
                let truth = truth(provider, kind, level);
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
        let fit = fitted(PricedProvider::MariaDb, Noise { share, blocks: 3, wild: false }, 5);
        let mutex = fit.prices[&Kind::Mutex][&Level::Exact];
        mutex.high - mutex.low
    };
    assert!(width(0.0005) < 0.8 * width(0.02), "{} and {}", width(0.0005), width(0.02));
}

/// Kinds that no load tells apart have their sum as it was measured, each its part of it as it was believed.
#[test]
fn what_cannot_be_told_apart_is_as_it_was_believed() {
    let provider = PricedProvider::MySql;
    let settings = experiment::settings(provider);
    let mut loads = measured(provider, &settings, QUIET, &mut fastrand::Rng::with_seed(2));
    // Wherever there is idleness, there are twice as many events of sockets.
    for load in &mut loads {
        let (old, charge) = (load.events.clone(), load.charge);
        load.events.insert(Kind::Idle, old[&Kind::Socket] / 2.0);
        let more = load.events[&Kind::Idle] - old.get(&Kind::Idle).copied().unwrap_or(0.0);
        for (setting, shares) in settings.iter().zip(&mut load.shares) {
            let level = setting.levels.get(&Kind::Idle).copied().unwrap_or(Level::Off);
            shares.iter_mut().for_each(|it| *it += more * truth(provider, Kind::Idle, level) / charge);
        }
    }
    let fit = found(provider, &settings, &loads).expect("enough");
    let (idle, socket) = (fit.prices[&Kind::Idle][&Level::Exact], fit.prices[&Kind::Socket][&Level::Exact]);
    let ratio = idle.ns / socket.ns;
    assert!((0.4..1.6).contains(&ratio), "believed to be alike: {idle:?} and {socket:?}");
    assert!(idle.low < 0.7 * idle.ns && idle.high > 1.3 * idle.ns, "nobody knows: {idle:?}");
}

#[test]
fn a_kind_without_events_has_no_price_and_too_little_is_refused() {
    let provider = PricedProvider::MySql;
    let settings = experiment::settings(provider);
    let fit = |loads: &[LoadMeasurements]| found(provider, &settings, loads);
    let loads = measured(provider, &settings, QUIET, &mut fastrand::Rng::with_seed(2));
    let all = fit(&loads).expect("enough");
    assert!(!all.prices.contains_key(&Kind::Error) && all.prices.contains_key(&Kind::Condition));
    let mut seldom = loads.clone();
    for load in &mut seldom {
        load.events.insert(Kind::Condition, 0.001);
    }
    assert!(!fit(&seldom).expect("enough").prices.contains_key(&Kind::Condition));
    let once = measured(provider, &settings, Noise { blocks: 1, ..QUIET }, &mut fastrand::Rng::with_seed(2));
    assert_eq!(fit(&once), Err(TooLittle::Once));
    let noisy = Noise { share: 3.0, ..QUIET };
    let noisy = measured(provider, &settings, noisy, &mut fastrand::Rng::with_seed(2));
    assert_eq!(fit(&noisy), Err(TooLittle::Noise));
    assert!(TooLittle::Noise.to_string().contains("--for"));
}
