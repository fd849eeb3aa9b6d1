//! From what loads cost to what an event costs: a weighted regression whose unknowns are not negative, and of which something is
//! believed beforehand.
//!
//! Of every load it is known how many events of each kind a transaction has, and by how much each setting differs from the one
//! in which nothing is on. An unknown is what a level of a kind costs over the level it stands on. The noise of that base is
//! common to all settings of a load, so each load has a level of its own, which drops out.
//!
//! Minutes of measuring tell what everything costs, and not what each of fifty steps does. So prices that are known already,
//! those that ship, are what is believed: times one factor for all and one for each level, which are measured first, each step
//! may be nothing or some times as much (`SPREAD`): a statement, for one, has to fetch lines that a loop finds at hand. What is
//! measured moves it as far as it is able to; where loads say nothing of a step, it stays. An event is not equally dear
//! everywhere, either, so that no load is believed more exactly than `UNEQUAL`.
//! What loads contradict each other by beyond all that widens every interval alike (Birge's ratio).
//!
//! An interval is the range in which a price may lie before the squares say no (its profile), whatever the others are.

use std::collections::{BTreeMap, BTreeSet};

use statrs::distribution::{ContinuousCDF, StudentsT};
use tare_budget::{Cost, Kind, Level, Prices};

use super::experiment::stands_on;
use super::nonnegative::Squares;

/// What was measured of a load.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// Its name.
    pub name: String,
    /// What a transaction takes with nothing on, in nanoseconds of the server's CPU time.
    pub charge: f64,
    /// How many events of each kind it has.
    pub events: BTreeMap<Kind, f64>,
    /// By how much more it takes in each setting, as a share, block by block.
    pub shares: Vec<Vec<f64>>,
}

/// What an event costs, over one that is off.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// Prices of all kinds that had events.
    pub prices: BTreeMap<Kind, BTreeMap<Level, Cost>>,
    /// How many times as much as the prices that were believed everything costs.
    pub factor: f64,
    /// By how much more loads contradict prices than noise explains, and what was believed: 1 is not at all.
    pub contradiction: f64,
}

/// Too little was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TooLittle {
    /// Noise shows in what is measured twice.
    #[error("the time was over before each setting was measured twice: measure for longer (--minutes)")]
    Once,
    /// Nothing costs more than noise.
    #[error(
        "what everything costs was not seen above the noise: measure for longer, or on a quieter machine (--minutes)"
    )]
    Noise,
}

/// With how many observations' weight a load's noise is taken for that of all loads.
const BORROWED: f64 = 10.0;
/// A kind of which a transaction has fewer events, under every load, is not measured: nobody would see what they cost.
const SELDOM: f64 = 0.05;
/// The base is measured twice: it and its twin.
const BASES: f64 = 2.0;
/// By what part of itself a step may differ from what was believed: the standard deviation.
const SPREAD: f64 = 1.5;
/// By what part of itself what a load costs may differ from the sum of its prices, likewise.
const UNEQUAL: f64 = 0.1;
/// A step is not believed to be less than this part of the price it is a part of.
const LEAST_STEP: f64 = 0.1;
/// Nor less than so many nanoseconds.
const LEAST: f64 = 0.001;
/// Standard errors above nothing at which a cost counts as seen.
const SEEN: f64 = 2.0;

/// Finds the prices of what `settings` keep, of which `believed` is known beforehand.
///
/// # Errors
///
/// [`TooLittle`].
pub fn fit(settings: &[BTreeMap<Kind, Level>], loads: &[Load], believed: &Prices) -> Result<Fit, TooLittle> {
    let noise = variances(loads).ok_or(TooLittle::Once)?;
    let steps = Steps::of(settings, loads, believed);
    let measured: Vec<Differences> = loads
        .iter()
        .zip(&noise)
        .map(|(load, noise)| Differences::of(settings, load, *noise, &steps))
        .collect();
    let factor = factor(&measured, &steps)?;
    let steps = steps.times_by_level(factor, &measured);
    let mut squares = Squares::new(steps.all.len());
    for of_load in &measured {
        of_load.add(&mut squares, |row| row.variance(1.0, &steps), |row| row.events.clone());
    }
    for (i, believed) in steps.believed.iter().enumerate() {
        squares.believe(i, *believed, SPREAD);
    }
    let best = squares.solve();
    // Each belief is a measurement of the unknown that comes with it; each load has a level of its own.
    let rows: usize = measured.iter().map(|of_load| of_load.rows.len() - 1).sum();
    #[allow(clippy::cast_precision_loss)] // some hundreds
    let degrees = rows as f64;
    let contradiction = (best.misfit / degrees).max(1.0);
    let growth = contradiction * quantile(degrees).powi(2);
    let mut prices: BTreeMap<Kind, BTreeMap<Level, Cost>> = BTreeMap::new();
    for (kind, level) in &steps.all {
        let chain = steps.chain(*kind, *level);
        let ns: f64 = chain.iter().map(|&i| best.values[i]).sum();
        let (low, high) = squares.range(&best, &chain, growth).unwrap_or((0.0, f64::MAX));
        let cost = Cost { ns, low: low.min(ns), high: high.max(ns) };
        prices.entry(*kind).or_default().insert(*level, cost);
    }
    Ok(Fit { prices, factor, contradiction: contradiction.sqrt() })
}

/// How many times as much everything costs as was believed.
fn factor(measured: &[Differences], steps: &Steps) -> Result<f64, TooLittle> {
    let (mut factor, mut error) = (0.0, f64::INFINITY);
    // Once by noise alone, and then with what loads may differ by, which depends on it.
    for _ in 0..3 {
        let mut squares = Squares::new(1);
        for of_load in measured {
            of_load.add(&mut squares, |row| row.variance(factor, steps), |row| vec![row.believed(steps)]);
        }
        factor = squares.solve().values[0];
        error = squares.error(0).unwrap_or(f64::INFINITY);
    }
    if factor > SEEN * error { Ok(factor) } else { Err(TooLittle::Noise) }
}

/// Kinds that had events to speak of.
fn kinds(loads: &[Load]) -> BTreeSet<Kind> {
    let of = |load: &Load| {
        load.events.iter().filter(|(_, n)| **n >= SELDOM).map(|(kind, _)| *kind).collect::<Vec<_>>()
    };
    loads.iter().flat_map(of).collect()
}

pub(super) fn quantile(degrees: f64) -> f64 {
    StudentsT::new(0.0, 1.0, degrees).map_or(f64::INFINITY, |it| it.inverse_cdf(0.975))
}

/// How exactly each load was measured: the variance of one block's share. `None` where nothing was measured twice.
fn variances(loads: &[Load]) -> Option<Vec<f64>> {
    let of_loads: Vec<(f64, f64)> = loads.iter().map(scatter).collect();
    let squares: f64 = of_loads.iter().map(|it| it.0).sum();
    let degrees: f64 = of_loads.iter().map(|it| it.1).sum();
    let common = squares / degrees;
    let variance = |(squares, degrees): &(f64, f64)| (squares + BORROWED * common) / (degrees + BORROWED);
    (squares > 0.0 && degrees > 0.0).then(|| of_loads.iter().map(variance).collect())
}

/// What blocks and settings do not explain of a load's shares: squares, and degrees of freedom.
#[allow(clippy::cast_precision_loss)] // some hundreds
fn scatter(load: &Load) -> (f64, f64) {
    let blocks = load.shares.iter().map(Vec::len).min().unwrap_or(0);
    let settings = load.shares.len();
    if blocks < 2 || settings < 2 {
        return (0.0, 0.0);
    }
    let mean = |values: &mut dyn Iterator<Item = f64>, n: usize| values.sum::<f64>() / n as f64;
    let of_setting: Vec<f64> =
        load.shares.iter().map(|own| mean(&mut own.iter().take(blocks).copied(), blocks)).collect();
    let of_block: Vec<f64> =
        (0..blocks).map(|b| mean(&mut load.shares.iter().map(|own| own[b]), settings)).collect();
    let all = mean(&mut of_setting.iter().copied(), settings);
    let left = |s: usize, b: usize| load.shares[s][b] - of_setting[s] - of_block[b] + all;
    let squares = (0..settings).flat_map(|s| (0..blocks).map(move |b| left(s, b).powi(2))).sum();
    (squares, ((settings - 1) * (blocks - 1)) as f64)
}

/// What is unknown.
struct Steps {
    /// Levels of kinds.
    all: Vec<(Kind, Level)>,
    /// What each was believed to cost over the level it stands on, in nanoseconds.
    believed: Vec<f64>,
}

impl Steps {
    fn of(settings: &[BTreeMap<Kind, Level>], loads: &[Load], believed: &Prices) -> Steps {
        let mut all = vec![];
        for kind in kinds(loads) {
            let levels: BTreeSet<Level> = settings.iter().filter_map(|it| it.get(&kind)).copied().collect();
            all.extend(levels.into_iter().map(|level| (kind, level)));
        }
        let mut steps = Steps { all, believed: vec![] };
        let over_off = |kind, level| believed.cost(kind, level).ns - believed.cost(kind, Level::Off).ns;
        let step = |(kind, level): &(Kind, Level)| {
            let whole = over_off(*kind, *level);
            let below = stands_on(*kind, *level, &steps.levels(*kind));
            let step = whole - below.map_or(0.0, |below| over_off(*kind, below));
            step.max(LEAST_STEP * whole).max(LEAST)
        };
        steps.believed = steps.all.iter().map(step).collect();
        steps
    }

    /// The same, as they are believed once all have been measured together: the steps of each level times a factor of that level,
    /// which is `factor`, give or take as much, until it is measured.
    fn times_by_level(self, factor: f64, measured: &[Differences]) -> Steps {
        let levels: Vec<Level> = BTreeSet::from_iter(self.all.iter().map(|it| it.1)).into_iter().collect();
        let place = |level: Level| levels.iter().position(|it| *it == level).unwrap_or(0);
        let mut squares = Squares::new(levels.len());
        for of_load in measured {
            of_load.add(
                &mut squares,
                |row| row.variance(factor, &self),
                |row| {
                    let mut by_level = vec![0.0; levels.len()];
                    for ((events, believed), (_, level)) in
                        row.events.iter().zip(&self.believed).zip(&self.all)
                    {
                        by_level[place(*level)] += events * believed;
                    }
                    by_level
                },
            );
        }
        (0..levels.len()).for_each(|i| squares.believe(i, factor, SPREAD));
        let factors = squares.solve().values;
        // One that came out as nothing is none: what is measured of its steps may still be something.
        let times = |(believed, (_, level)): (&f64, &(Kind, Level))| {
            believed * factors[place(*level)].max(LEAST_STEP * factor)
        };
        let believed = self.believed.iter().zip(&self.all).map(times).collect();
        Steps { believed, ..self }
    }

    fn levels(&self, kind: Kind) -> Vec<Level> {
        self.all.iter().filter(|it| it.0 == kind).map(|it| it.1).collect()
    }

    /// The steps that a level's price is the sum of; none of a kind that is not known.
    fn chain(&self, kind: Kind, level: Level) -> Vec<usize> {
        let levels = self.levels(kind);
        let mut chain = vec![];
        let mut next = Some(level);
        while let Some(level) = next {
            chain.extend(self.all.iter().position(|it| *it == (kind, level)));
            next = stands_on(kind, level, &levels);
        }
        chain
    }
}

/// A setting's difference from the base, of one transaction.
struct Row {
    /// How many events each step is paid for.
    events: Vec<f64>,
    /// Nanoseconds.
    measured: f64,
    /// The variance of that.
    noise: f64,
}

impl Row {
    /// What was believed to be the difference.
    fn believed(&self, steps: &Steps) -> f64 {
        self.events.iter().zip(&steps.believed).map(|(events, step)| events * step).sum()
    }

    /// How far it may lie from the sum of prices, as a variance.
    fn variance(&self, factor: f64, steps: &Steps) -> f64 {
        self.noise + (UNEQUAL * factor * self.believed(steps)).powi(2)
    }
}

/// What was measured of a load: a row each setting, and one for the base, which differs from itself by nothing.
struct Differences {
    rows: Vec<Row>,
}

impl Differences {
    #[allow(clippy::cast_precision_loss)] // some blocks
    fn of(settings: &[BTreeMap<Kind, Level>], load: &Load, variance: f64, steps: &Steps) -> Differences {
        let noise = |blocks: f64| variance * load.charge.powi(2) / blocks;
        let of_setting = |(setting, shares): (&BTreeMap<Kind, Level>, &Vec<f64>)| {
            let mut events = vec![0.0; steps.all.len()];
            for (kind, level) in setting {
                let count = load.events.get(kind).copied().unwrap_or(0.0);
                steps.chain(*kind, *level).into_iter().for_each(|i| events[i] += count);
            }
            let blocks = shares.len() as f64;
            Row { events, measured: shares.iter().sum::<f64>() / blocks * load.charge, noise: noise(blocks) }
        };
        let blocks = load.shares.iter().map(Vec::len).max().unwrap_or(0) as f64;
        let base = Row { events: vec![0.0; steps.all.len()], measured: 0.0, noise: noise(BASES * blocks) };
        let measured = settings.iter().zip(&load.shares).filter(|(_, shares)| !shares.is_empty());
        Differences { rows: measured.map(of_setting).chain([base]).collect() }
    }

    /// Adds all rows, less their mean, by which the load's level of its own drops out.
    fn add(
        &self,
        squares: &mut Squares,
        variance: impl Fn(&Row) -> f64,
        coefficients: impl Fn(&Row) -> Vec<f64>,
    ) {
        let weights: Vec<f64> = self.rows.iter().map(|row| 1.0 / variance(row)).collect();
        let all: f64 = weights.iter().sum();
        let own: Vec<Vec<f64>> = self.rows.iter().map(coefficients).collect();
        let mean = |of: &dyn Fn(usize) -> f64| {
            weights.iter().enumerate().map(|(nth, weight)| weight * of(nth)).sum::<f64>() / all
        };
        let centre: Vec<f64> =
            (0..own.first().map_or(0, Vec::len)).map(|i| mean(&|nth| own[nth][i])).collect();
        let level = mean(&|nth| self.rows[nth].measured);
        for (nth, row) in self.rows.iter().enumerate() {
            let own: Vec<f64> = own[nth].iter().zip(&centre).map(|(own, mean)| own - mean).collect();
            squares.add(&own, row.measured - level, weights[nth]);
        }
    }
}
