//! Estimation of prices from the costs of loads: a weighted non-negative regression with a prior.
//!
//! For every load, the events of each kind per transaction and the difference of each setting from the one
//! with everything off are known. An unknown is the step in price from one level of a kind to the next. The
//! noise of the base is common to all settings of a load, so each load has an offset, which drops out.
//!
//! Minutes of measuring show the cost of everything, but not of each of fifty steps. So known prices, those
//! that ship, are the prior: times one factor for all and one for each level, which are estimated first, each
//! step may be zero or several times as large (`SPREAD`). A statement, for instance, misses caches that a
//! loop hits. The measurements move a step as far as they can; without data it stays. Events do not cost the
//! same everywhere either, so no load is trusted more precisely than `UNEQUAL`. Contradictions between loads
//! beyond all that widen every interval alike (Birge's ratio).
//!
//! An interval is the profile of the squares: the range of a price that they do not reject, whatever the
//! others are.

use std::collections::{BTreeMap, BTreeSet};

use statrs::distribution::{ContinuousCDF, StudentsT};
use tare_budget::{Cost, Kind, Level, Prices};

use super::experiment::stands_on;
use super::nonnegative::Squares;

/// The measurements of a load.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadMeasurements {
    /// Name of the load.
    pub name: String,
    /// Cost of a transaction with everything off, in nanoseconds of the server's CPU time.
    pub charge: f64,
    /// Events of each kind per transaction.
    pub events: BTreeMap<Kind, f64>,
    /// Relative cost in each setting, block by block.
    pub shares: Vec<Vec<f64>>,
}

/// Prices of events, relative to disabled ones.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// Prices of all kinds that had events.
    pub prices: BTreeMap<Kind, BTreeMap<Level, Cost>>,
    /// Ratio of the overall cost to the believed prices.
    pub factor: f64,
    /// Contradiction between loads, prices and the prior beyond noise; 1 is none.
    pub contradiction: f64,
}

/// Why prices cannot be estimated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TooLittle {
    /// No load was measured twice, so noise is unknown.
    #[error("the time was over before each setting was measured twice: measure for longer (--for)")]
    Once,
    /// No cost exceeds the noise.
    #[error(
        "what everything costs was not seen above the noise: measure for longer, or on a quieter machine (--for)"
    )]
    Noise,
}

/// Weight, in observations, of the common noise of all loads in a load's noise.
const BORROWED: f64 = 10.0;
/// Events per transaction below which a kind is not measured, if no load has more.
const SELDOM: f64 = 0.05;
/// Number of measurements of the base: it and its A/A control.
const BASES: f64 = 2.0;
/// Prior standard deviation of a step, relative to its believed size.
const SPREAD: f64 = 1.5;
/// Standard deviation of a load's cost, relative to the sum of its prices.
const UNEQUAL: f64 = 0.1;
/// Smallest believed step, relative to the price that it is part of.
const LEAST_STEP: f64 = 0.1;
/// Smallest believed step, in nanoseconds.
const LEAST: f64 = 0.001;
/// Standard errors above 0 from which a cost counts as detected.
const SEEN: f64 = 2.0;

/// Estimates the prices of the kinds and levels in `settings`, with `believed` as the prior.
///
/// # Errors
///
/// [`TooLittle`].
pub fn fit(
    settings: &[BTreeMap<Kind, Level>],
    loads: &[LoadMeasurements],
    believed: &Prices,
) -> Result<Fit, TooLittle> {
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
    // Each prior is a measurement of its own unknown; each load has an offset.
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

/// Estimates the ratio of the overall cost to the believed one.
fn factor(measured: &[Differences], steps: &Steps) -> Result<f64, TooLittle> {
    let (mut factor, mut error) = (0.0, f64::INFINITY);
    // First with noise alone, then with the differences between loads, which depend on the result.
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

/// Returns the kinds that have enough events.
fn kinds(loads: &[LoadMeasurements]) -> BTreeSet<Kind> {
    let of = |load: &LoadMeasurements| {
        load.events.iter().filter(|(_, n)| **n >= SELDOM).map(|(kind, _)| *kind).collect::<Vec<_>>()
    };
    loads.iter().flat_map(of).collect()
}

pub(super) fn quantile(degrees: f64) -> f64 {
    StudentsT::new(0.0, 1.0, degrees).map_or(f64::INFINITY, |it| it.inverse_cdf(0.975))
}

/// Returns the variance of one block's share for each load. `None` if nothing was measured twice.
fn variances(loads: &[LoadMeasurements]) -> Option<Vec<f64>> {
    let of_loads: Vec<(f64, f64)> = loads.iter().map(scatter).collect();
    let squares: f64 = of_loads.iter().map(|it| it.0).sum();
    let degrees: f64 = of_loads.iter().map(|it| it.1).sum();
    let common = squares / degrees;
    let variance = |(squares, degrees): &(f64, f64)| (squares + BORROWED * common) / (degrees + BORROWED);
    (squares > 0.0 && degrees > 0.0).then(|| of_loads.iter().map(variance).collect())
}

/// Returns the residual sum of squares and the degrees of freedom of a load's shares, without effects of
/// blocks and settings.
#[allow(clippy::cast_precision_loss)] // some hundreds
fn scatter(load: &LoadMeasurements) -> (f64, f64) {
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

/// The unknowns.
struct Steps {
    /// The level of a kind for each step.
    all: Vec<(Kind, Level)>,
    /// Believed size of each step, in nanoseconds.
    believed: Vec<f64>,
}

impl Steps {
    fn of(settings: &[BTreeMap<Kind, Level>], loads: &[LoadMeasurements], believed: &Prices) -> Steps {
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

    /// Scales the believed steps of each level by a factor, estimated from all measurements with the prior
    /// `factor`.
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
        // A level that came out as 0 keeps a small prior, as its steps may still be positive.
        let times = |(believed, (_, level)): (&f64, &(Kind, Level))| {
            believed * factors[place(*level)].max(LEAST_STEP * factor)
        };
        let believed = self.believed.iter().zip(&self.all).map(times).collect();
        Steps { believed, ..self }
    }

    fn levels(&self, kind: Kind) -> Vec<Level> {
        self.all.iter().filter(|it| it.0 == kind).map(|it| it.1).collect()
    }

    /// Returns the steps whose sum is a level's price; empty for an unknown kind.
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

/// A setting's difference from the base, per transaction.
struct FitEquation {
    /// Number of events that pay each step.
    events: Vec<f64>,
    /// The difference in nanoseconds.
    measured: f64,
    /// Variance of the difference.
    noise: f64,
}

impl FitEquation {
    /// Returns the believed difference.
    fn believed(&self, steps: &Steps) -> f64 {
        self.events.iter().zip(&steps.believed).map(|(events, step)| events * step).sum()
    }

    /// Returns the variance of its distance from the sum of prices.
    fn variance(&self, factor: f64, steps: &Steps) -> f64 {
        self.noise + (UNEQUAL * factor * self.believed(steps)).powi(2)
    }
}

/// The measurements of a load: a row per setting, and one of zeros for the base.
struct Differences {
    rows: Vec<FitEquation>,
}

impl Differences {
    #[allow(clippy::cast_precision_loss)] // some blocks
    fn of(
        settings: &[BTreeMap<Kind, Level>],
        load: &LoadMeasurements,
        variance: f64,
        steps: &Steps,
    ) -> Differences {
        let noise = |blocks: f64| variance * load.charge.powi(2) / blocks;
        let of_setting = |(setting, shares): (&BTreeMap<Kind, Level>, &Vec<f64>)| {
            let mut events = vec![0.0; steps.all.len()];
            for (kind, level) in setting {
                let count = load.events.get(kind).copied().unwrap_or(0.0);
                steps.chain(*kind, *level).into_iter().for_each(|i| events[i] += count);
            }
            let blocks = shares.len() as f64;
            FitEquation {
                events,
                measured: shares.iter().sum::<f64>() / blocks * load.charge,
                noise: noise(blocks),
            }
        };
        let blocks = load.shares.iter().map(Vec::len).max().unwrap_or(0) as f64;
        let base =
            FitEquation { events: vec![0.0; steps.all.len()], measured: 0.0, noise: noise(BASES * blocks) };
        let measured = settings.iter().zip(&load.shares).filter(|(_, shares)| !shares.is_empty());
        Differences { rows: measured.map(of_setting).chain([base]).collect() }
    }

    /// Adds all rows minus their mean, which removes the load's offset.
    fn add(
        &self,
        squares: &mut Squares,
        variance: impl Fn(&FitEquation) -> f64,
        coefficients: impl Fn(&FitEquation) -> Vec<f64>,
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
