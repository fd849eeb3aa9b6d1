//! Comparison of slices with the base's, block by block.
//!
//! Two figures answer two questions. *Calm rounds*: the logarithm of the ratio to the base in the rounds of a
//! block that the machine disturbed least. It is precise for constant costs and leaves out bursts. *The mean
//! of all turns*: sum divided by sum, which leaves nothing out.
//!
//! The A/A control runs the base once more, so both together are the reference, with less noise. Calm rounds
//! are chosen with each of them separately: setting and reference must have the same weight in the choice.

use std::collections::BTreeMap;

use crate::results::record::{Measure, Slice};
use crate::results::schema;
use crate::statistics::signed_rank::centre;
use crate::statistics::{mean, median};
use schemars::JsonSchema;
use serde::Serialize;

/// One in so many rounds of a block counts as calm.
const CALM: usize = 4;
/// The fewest rounds to compare by. A slice with fewer turns is compared by its sums.
const LEAST_TURNS: usize = 3;

/// Difference from the base in one block.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[schemars(transform = schema::figures_may_be_missing)]
pub struct BlockCost {
    /// Number of the block.
    pub block: u32,
    /// Start of its slice, in seconds since the study began.
    pub at: f64,
    /// The setting's charge divided by the base's, minus 1.
    pub share: f64,
}

/// A figure by which two slices are compared.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ComparedMetric {
    /// Charge per transaction.
    Charge(Measure),
    /// Transactions per second.
    Throughput,
}

/// The numbers of a setting's process and its base's; `None` for one that a study cannot restart.
type Processes = (Option<u32>, Option<u32>);

/// A setting's slices, each with those it is compared with.
#[derive(Debug)]
pub(crate) struct Comparison<'a> {
    pairs: Vec<SlicePair<'a>>,
}

/// A slice, the base's slice of the same block, and that of the A/A control, where it adds information about
/// the base.
#[derive(Clone, Copy, Debug)]
struct SlicePair<'a> {
    own: &'a Slice,
    base: &'a Slice,
    control: Option<&'a Slice>,
}

impl<'a> Comparison<'a> {
    /// Pairs slices, given in any order; those whose block has no base are left out.
    pub(crate) fn of(own: &[&'a Slice], base: &[&'a Slice], control: &[&'a Slice]) -> Comparison<'a> {
        let by_block =
            |slices: &[&'a Slice]| slices.iter().map(|s| (s.block, *s)).collect::<BTreeMap<u32, &Slice>>();
        let (base, control) = (by_block(base), by_block(control));
        let pair = |own: &&'a Slice| {
            let base = base.get(&own.block)?;
            let control = control.get(&own.block).copied();
            // A control in a process of its own would add its bias where the two others have none.
            let control = control.filter(|t| own.process != base.process || t.process == base.process);
            Some(SlicePair { own, base, control })
        };
        let mut pairs: Vec<SlicePair<'_>> = own.iter().filter_map(pair).collect();
        pairs.sort_by_key(|p| p.own.block);
        Comparison { pairs }
    }

    /// Returns whether blocks share processes, so that several make one observation.
    pub(crate) fn is_of_processes(&self) -> bool {
        self.pairs.iter().any(|p| p.processes().is_some())
    }

    /// Returns each block's difference in its calm rounds.
    pub(crate) fn blocks(&self, measure: Measure) -> Vec<BlockCost> {
        let cost = |pair: &SlicePair<'_>| BlockCost {
            block: pair.own.block,
            at: pair.own.at,
            share: pair.calm(ComparedMetric::Charge(measure)).exp_m1(),
        };
        self.pairs.iter().map(cost).collect()
    }

    /// Returns logarithms of ratios in calm rounds, one per independent observation. Ratios that are not
    /// finite (no transactions) are left out.
    pub(crate) fn calm(&self, figure: ComparedMetric) -> Vec<f64> {
        let ratios =
            self.pairs.iter().map(|pair| (pair, pair.calm(figure))).filter(|(_, ratio)| ratio.is_finite());
        observations(ratios).iter().map(|of_one| centre(of_one)).collect()
    }

    /// Returns the relative differences of the mean of all turns, one per independent observation. Their mean
    /// is the ratio of all charges to all charges of the reference, minus 1; the mean of logarithms would not
    /// be the cost that is paid. Each differs from it by its part in the ratio's error (the linearised ratio:
    /// Cochran, *Sampling Techniques*, 3rd ed., chapter 6).
    pub(crate) fn mean(&self, measure: Measure) -> Vec<f64> {
        let charges = self.pairs.iter().map(|pair| (pair, pair.mean_charges(measure)));
        let charges = charges.filter(|(_, (own, reference))| (own + reference).is_finite());
        let of_one = |charges: &Vec<(f64, f64)>| {
            let side = |side: fn(&(f64, f64)) -> f64| mean(&charges.iter().map(side).collect::<Vec<_>>());
            (side(|c| c.0), side(|c| c.1))
        };
        let charges: Vec<(f64, f64)> = observations(charges).iter().map(of_one).collect();
        let reference = mean(&charges.iter().map(|c| c.1).collect::<Vec<_>>());
        let ratio = mean(&charges.iter().map(|c| c.0).collect::<Vec<_>>()) / reference;
        charges.iter().map(|(own, base)| ratio - 1.0 + (own - ratio * base) / reference).collect()
    }

    /// Returns the differences in the server's resident memory in bytes, one per independent observation.
    /// Blocks without two processes of the study's own are left out: shared memory belongs to no single
    /// setting, and that of an older process has a history.
    #[allow(clippy::cast_precision_loss)] // memory is far below 2^53 bytes
    pub(crate) fn memory(&self) -> Vec<f64> {
        let resident = |slice: &Slice| Some(slice.resident_bytes as f64).filter(|bytes| *bytes > 0.0);
        let apart = self.pairs.iter().filter(|pair| matches!(pair.processes(), Some((Some(_), Some(_)))));
        let more = apart.filter_map(|pair| Some((pair, resident(pair.own)? - resident(pair.base)?)));
        observations(more).iter().map(|of_one| mean(of_one)).collect()
    }
}

/// Groups figures of blocks by their two processes; others are groups of one.
fn observations<'p, T: Copy>(figures: impl Iterator<Item = (&'p SlicePair<'p>, T)>) -> Vec<Vec<T>> {
    let mut of_processes: BTreeMap<Processes, Vec<T>> = BTreeMap::new();
    let mut all = vec![];
    for (pair, figure) in figures {
        match pair.processes() {
            Some(processes) => of_processes.entry(processes).or_default().push(figure),
            None => all.push(vec![figure]),
        }
    }
    all.extend(of_processes.into_values());
    all
}

impl SlicePair<'_> {
    fn calm(&self, figure: ComparedMetric) -> f64 {
        let measure = match figure {
            ComparedMetric::Charge(measure) => measure,
            ComparedMetric::Throughput => return -self.calm(ComparedMetric::Charge(Measure::Time)),
        };
        let ratio = |reference: &Slice| calm_ratio(self.own, reference, measure);
        self.control
            .map_or_else(|| ratio(self.base), |control| f64::midpoint(ratio(self.base), ratio(control)))
    }

    /// Returns the mean charges of the setting and of the reference.
    fn mean_charges(&self, measure: Measure) -> (f64, f64) {
        let base = self.base.mean_charge(measure);
        let reference =
            self.control.map_or(base, |control| f64::midpoint(base, control.mean_charge(measure)));
        (self.own.mean_charge(measure), reference)
    }

    /// Returns the two processes that measured it; `None` when it was one, or when a study can restart
    /// neither.
    fn processes(&self) -> Option<Processes> {
        Some((self.own.process, self.base.process)).filter(|(own, base)| own != base)
    }
}

/// Returns the logarithm of the ratio of two slices' charges: the median over calm rounds, or of their sums
/// where they did not take turns.
fn calm_ratio(own: &Slice, reference: &Slice, measure: Measure) -> f64 {
    by_turns(own, reference, measure)
        .unwrap_or_else(|| (own.charged(measure) / reference.charged(measure)).ln())
}

/// Returns the median over the calm rounds: those in which the charges of setting and base together were
/// lowest. Background work of the machine makes some rounds much more expensive. Both count equally in the
/// choice, so it favours neither.
fn by_turns(own: &Slice, base: &Slice, measure: Measure) -> Option<f64> {
    let rounds = own.turns.iter().zip(&base.turns);
    let charges = rounds.map(|(own, base)| (own.charged(measure).ln(), base.charged(measure).ln()));
    let mut charges: Vec<(f64, f64)> = charges.filter(|(own, base)| (own + base).is_finite()).collect();
    charges.sort_by(|one, other| (one.0 + one.1).total_cmp(&(other.0 + other.1)));
    let calm = charges.get(..LEAST_TURNS.max(charges.len() / CALM))?;
    Some(median(&calm.iter().map(|(own, base)| own - base).collect::<Vec<_>>()))
}
