//! From what loads cost to what an event costs: a weighted regression whose unknowns are not negative.
//!
//! Of every load it is known how many events of each kind a transaction has, and by how much each setting differs from the one
//! in which nothing is on. An unknown is what a level of a kind costs over the level it stands on. The noise of that base is
//! common to all settings of a load, so each load has a level of its own, which drops out. Loads weigh by how exactly they
//! were measured; what loads contradict each other by more than that widens all intervals alike (Birge's ratio).
//!
//! An interval is the range in which a price may lie before the squares say no (its profile), whatever the others are. It holds
//! also where kinds cannot be told apart: then it reaches from nothing to all they cost together. Such kinds share a figure.

use std::collections::{BTreeMap, BTreeSet};

use statrs::distribution::{ContinuousCDF, StudentsT};
use tare_budget::{Cost, Kind, Level};

use super::experiment::{groups, stands_on};
use super::nonnegative::{Solution, Squares};

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
    /// Kinds that cannot be told apart, and so have one figure; each in one of these, most of them alone.
    pub clusters: Vec<Vec<Kind>>,
    /// By how much more loads contradict prices than noise explains: 1 is not at all.
    pub contradiction: f64,
}

/// Too little was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{measured} differences were measured, and {unknown} prices are to be found: measure for longer (--minutes)"
)]
pub struct TooLittle {
    /// Differences.
    pub measured: usize,
    /// Unknowns.
    pub unknown: usize,
}

/// With how many observations' weight a load's noise is taken for that of all loads.
const BORROWED: f64 = 10.0;
/// A kind of which a transaction has fewer events, under every load, is not measured: nobody would see what they cost.
const SELDOM: f64 = 0.05;
/// The base is measured twice: it and its twin.
const BASES: f64 = 2.0;

/// Finds the prices of what `settings` keep.
///
/// # Errors
///
/// [`TooLittle`].
pub fn fit(settings: &[BTreeMap<Kind, Level>], loads: &[Load]) -> Result<Fit, TooLittle> {
    let apart: Vec<Vec<Kind>> = kinds(loads).into_iter().map(|kind| vec![kind]).collect();
    let noise = Noise::of(loads);
    let whole = Model::new(settings, loads, &noise, apart.clone());
    let (measured, unknown) = (whole.rows, whole.unknowns.len());
    if measured <= unknown + loads.len() {
        return Err(TooLittle { measured, unknown });
    }
    #[allow(clippy::cast_precision_loss)] // some hundreds
    let degrees = (measured - unknown - loads.len()) as f64;
    let best = whole.squares.solve();
    let contradiction = best.misfit / degrees;
    let contradiction = if noise.known { contradiction.max(1.0) } else { contradiction };
    let clusters = cluster(&whole, &best, contradiction, apart);
    let shared = Model::new(settings, loads, &noise, clusters.clone());
    let figures = shared.squares.solve();
    let growth = contradiction * quantile(degrees).powi(2);
    let mut prices: BTreeMap<Kind, BTreeMap<Level, Cost>> = BTreeMap::new();
    for (kind, level) in whole.levels() {
        let ns = shared.price(&figures, kind, level);
        let range = whole.squares.range(&best, &whole.chain(kind, level), growth);
        let (low, high) = range.unwrap_or((0.0, f64::INFINITY));
        if high.is_finite() {
            let cost = Cost { ns, low: low.min(ns), high: high.max(ns) };
            prices.entry(kind).or_default().insert(level, cost);
        }
    }
    Ok(Fit { prices, clusters, contradiction: contradiction.sqrt() })
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

/// How exactly each load was measured: the variance of one block's share.
struct Noise {
    variances: Vec<f64>,
    /// Whether blocks tell, or every load is only taken for as noisy as the others.
    known: bool,
}

impl Noise {
    #[allow(clippy::cast_precision_loss)] // some hundreds
    fn of(loads: &[Load]) -> Noise {
        let of_loads: Vec<(f64, f64)> = loads.iter().map(scatter).collect();
        let squares: f64 = of_loads.iter().map(|it| it.0).sum();
        let degrees: f64 = of_loads.iter().map(|it| it.1).sum();
        let known = degrees > 0.0 && squares > 0.0;
        let common = if known { squares / degrees } else { 1e-4 };
        let variance = |(squares, degrees): &(f64, f64)| (squares + BORROWED * common) / (degrees + BORROWED);
        Noise { variances: of_loads.iter().map(variance).collect(), known }
    }
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

/// A difference from the base, in nanoseconds.
struct Row {
    /// How many events each unknown is paid for.
    coefficients: Vec<f64>,
    measured: f64,
    weight: f64,
}

/// The regression, with kinds put together in clusters.
struct Model {
    clusters: Vec<Vec<Kind>>,
    /// What is unknown: the levels of each cluster.
    unknowns: Vec<(usize, Level)>,
    squares: Squares,
    /// Differences that were measured, the base's (which is 0) of each load among them.
    rows: usize,
    /// Weights of loads.
    weights: Vec<f64>,
    loads: Vec<Load>,
}

impl Model {
    fn new(
        settings: &[BTreeMap<Kind, Level>],
        loads: &[Load],
        noise: &Noise,
        clusters: Vec<Vec<Kind>>,
    ) -> Model {
        let mut unknowns = vec![];
        for (nth, cluster) in clusters.iter().enumerate() {
            let of = |setting: &BTreeMap<Kind, Level>| {
                cluster.iter().filter_map(|kind| setting.get(kind)).copied().collect::<Vec<_>>()
            };
            let levels: BTreeSet<Level> = settings.iter().flat_map(of).collect();
            unknowns.extend(levels.into_iter().map(|level| (nth, level)));
        }
        let squares = Squares::new(unknowns.len());
        let mut model =
            Model { clusters, unknowns, squares, rows: 0, weights: vec![], loads: loads.to_vec() };
        for (load, variance) in loads.iter().zip(&noise.variances) {
            model.add(settings, load, *variance);
        }
        model
    }

    /// Adds a load's differences, less their mean, by which its level of its own drops out.
    #[allow(clippy::cast_precision_loss)] // some hundreds
    fn add(&mut self, settings: &[BTreeMap<Kind, Level>], load: &Load, variance: f64) {
        let weight = |blocks: f64| blocks / (variance * load.charge.powi(2));
        let blocks = load.shares.iter().map(Vec::len).max().unwrap_or(0) as f64;
        let measured = settings.iter().zip(&load.shares).filter(|(_, shares)| !shares.is_empty());
        let of_setting = |(setting, shares): (&BTreeMap<Kind, Level>, &Vec<f64>)| Row {
            coefficients: self.coefficients(setting, load),
            measured: shares.iter().sum::<f64>() / shares.len() as f64 * load.charge,
            weight: weight(shares.len() as f64),
        };
        let nothing = vec![0.0; self.unknowns.len()];
        let base = Row { coefficients: nothing, measured: 0.0, weight: weight(BASES * blocks) };
        let rows: Vec<Row> = measured.map(of_setting).chain([base]).collect();
        let weights: f64 = rows.iter().map(|row| row.weight).sum();
        let mean =
            |of: &dyn Fn(&Row) -> f64| rows.iter().map(|row| row.weight * of(row)).sum::<f64>() / weights;
        let centre: Vec<f64> =
            (0..self.unknowns.len()).map(|i| mean(&|row: &Row| row.coefficients[i])).collect();
        let level = mean(&|row| row.measured);
        for row in &rows {
            let own: Vec<f64> = row.coefficients.iter().zip(&centre).map(|(own, mean)| own - mean).collect();
            self.squares.add(&own, row.measured - level, row.weight);
        }
        self.rows += rows.len();
        self.weights.push(weight(blocks));
    }

    /// How many events a transaction pays each unknown for.
    fn coefficients(&self, setting: &BTreeMap<Kind, Level>, load: &Load) -> Vec<f64> {
        let mut coefficients = vec![0.0; self.unknowns.len()];
        for (kind, level) in setting {
            let events = load.events.get(kind).copied().unwrap_or(0.0);
            self.chain(*kind, *level).into_iter().for_each(|i| coefficients[i] += events);
        }
        coefficients
    }

    /// The unknowns that a level's price is the sum of; none of a kind that is not known.
    fn chain(&self, kind: Kind, level: Level) -> Vec<usize> {
        let Some(cluster) = self.clusters.iter().position(|it| it.contains(&kind)) else { return vec![] };
        let own = self.unknowns.iter().filter(|it| it.0 == cluster);
        let levels: Vec<Level> = own.map(|it| it.1).collect();
        let mut chain = vec![];
        let mut next = Some(level);
        while let Some(level) = next {
            chain.extend(self.unknowns.iter().position(|it| *it == (cluster, level)));
            next = stands_on(kind, level, &levels);
        }
        chain
    }

    fn price(&self, solution: &Solution, kind: Kind, level: Level) -> f64 {
        self.chain(kind, level).into_iter().map(|i| solution.values[i]).sum()
    }

    /// Every kind and level.
    fn levels(&self) -> Vec<(Kind, Level)> {
        let of = |(cluster, level): &(usize, Level)| {
            self.clusters[*cluster].iter().map(|kind| (*kind, *level)).collect::<Vec<_>>()
        };
        self.unknowns.iter().flat_map(of).collect()
    }

    /// A kind's events over all loads, weighed as these are.
    fn product(&self, one: Kind, other: Kind) -> f64 {
        let events = |load: &Load, kind: Kind| load.events.get(&kind).copied().unwrap_or(0.0);
        let of = |(load, weight): (&Load, &f64)| weight * events(load, one) * events(load, other);
        self.loads.iter().zip(&self.weights).map(of).sum()
    }
}

/// Puts kinds together that cannot be told apart: of which the price would be less certain than what all of their group cost on
/// average, each with the one whose events go most with its own.
fn cluster(whole: &Model, best: &Solution, scale: f64, apart: Vec<Vec<Kind>>) -> Vec<Vec<Kind>> {
    let mut clusters = vec![];
    for group in groups() {
        let mut own: Vec<Vec<Kind>> = apart.iter().filter(|it| group.contains(&it[0])).cloned().collect();
        while own.len() > 1 {
            let Some(worst) = least_known(whole, best, scale, &own) else { break };
            let joined = own.swap_remove(worst);
            let alike = |other: &Vec<Kind>| {
                together(whole, &joined, other) / together(whole, other, other).sqrt().max(f64::MIN_POSITIVE)
            };
            let nearest = (0..own.len()).max_by(|a, b| alike(&own[*a]).total_cmp(&alike(&own[*b])));
            if let Some(nearest) = nearest {
                own[nearest].extend(joined);
                own[nearest].sort_unstable();
            }
        }
        clusters.extend(own);
    }
    clusters
}

fn together(whole: &Model, one: &[Kind], other: &[Kind]) -> f64 {
    one.iter().flat_map(|a| other.iter().map(move |b| whole.product(*a, *b))).sum()
}

/// The cluster whose price is least certain, if that is less certain than what an event of the group costs.
fn least_known(whole: &Model, best: &Solution, scale: f64, own: &[Vec<Kind>]) -> Option<usize> {
    let top = |kind: Kind| {
        let levels = whole.levels().into_iter().filter(|it| it.0 == kind).map(|it| it.1);
        levels.max().map_or(0.0, |level| whole.price(best, kind, level))
    };
    // What all of the group cost, over all of its events: loads by weight.
    let all: Vec<Kind> = own.iter().flatten().copied().collect();
    let cost: f64 = all
        .iter()
        .flat_map(|a| all.iter().map(move |b| (a, b)))
        .map(|(a, b)| top(*a) * whole.product(*a, *b))
        .sum();
    let average = cost / together(whole, &all, &all).max(f64::MIN_POSITIVE);
    let mut squares = Squares::new(own.len());
    squares.add_products(&|i, j| together(whole, &own[i], &own[j]));
    let certain = |i: usize| squares.error(i).map_or(f64::INFINITY, |error| error * scale.sqrt());
    let worst = (0..own.len()).max_by(|a, b| certain(*a).total_cmp(&certain(*b)))?;
    (certain(worst) > average).then_some(worst)
}
