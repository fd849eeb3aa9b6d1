//! Slices compared with the base's, block by block.
//!
//! Two figures, for two questions. *Calm rounds*: the logarithm of the ratio to the base, in those rounds of a block in which
//! the machine added least; what costs all the time is found exactly, what comes in bursts is left out. *The mean of all
//! turns*: sums over sums, from which nothing is left out.
//!
//! The twin is the base once more, so both together are the reference, whose noise is the less. Calm rounds are chosen with
//! each of them by itself: setting and reference must count alike in the choice.

use std::collections::BTreeMap;

use crate::analysis::BlockCost;
use crate::record::{Measure, Slice};
use crate::signed_rank::centre;
use crate::statistics::{mean, median};

/// Of a block's rounds, one in so many is calm enough to be compared by.
const CALM: usize = 4;
/// Turns of a slice without which its sums say more, and the fewest rounds to compare by.
const LEAST_TURNS: usize = 3;

/// What two slices are compared by.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Figure {
    /// What a transaction is charged with.
    Charge(Measure),
    /// Transactions per second.
    Throughput,
}

/// A setting's process and its base's; one that is not ours to start anew has no number.
type Processes = (Option<u32>, Option<u32>);

/// A setting's slices with those they are compared with.
#[derive(Debug)]
pub(crate) struct Comparison<'a> {
    pairs: Vec<Pair<'a>>,
}

/// A slice, the base's of the same block, and the twin's, where it tells more of the base.
#[derive(Clone, Copy, Debug)]
struct Pair<'a> {
    own: &'a Slice,
    base: &'a Slice,
    twin: Option<&'a Slice>,
}

impl<'a> Comparison<'a> {
    /// Of slices of any order; those whose block has no base are left out.
    pub(crate) fn of(own: &[&'a Slice], base: &[&'a Slice], twin: &[&'a Slice]) -> Comparison<'a> {
        let by_block =
            |slices: &[&'a Slice]| slices.iter().map(|s| (s.block, *s)).collect::<BTreeMap<u32, &Slice>>();
        let (base, twin) = (by_block(base), by_block(twin));
        let pair = |own: &&'a Slice| {
            let base = base.get(&own.block)?;
            let twin = twin.get(&own.block).copied();
            // A twin in a process of its own would bring its bias where the two others have none.
            let twin = twin.filter(|t| own.process != base.process || t.process == base.process);
            Some(Pair { own, base, twin })
        };
        let mut pairs: Vec<Pair<'_>> = own.iter().filter_map(pair).collect();
        pairs.sort_by_key(|p| p.own.block);
        Comparison { pairs }
    }

    /// Whether blocks share processes, so that several make one observation.
    pub(crate) fn is_of_processes(&self) -> bool {
        self.pairs.iter().any(|p| p.processes().is_some())
    }

    /// How each block differs in its calm rounds.
    pub(crate) fn blocks(&self, measure: Measure) -> Vec<BlockCost> {
        let cost = |pair: &Pair<'_>| BlockCost {
            block: pair.own.block,
            at: pair.own.at,
            share: pair.calm(Figure::Charge(measure)).exp_m1(),
        };
        self.pairs.iter().map(cost).collect()
    }

    /// Logarithms of ratios in calm rounds, one per independent observation. What is not finite (nothing done) says nothing.
    pub(crate) fn calm(&self, figure: Figure) -> Vec<f64> {
        let ratios =
            self.pairs.iter().map(|pair| (pair, pair.calm(figure))).filter(|(_, ratio)| ratio.is_finite());
        observations(ratios).iter().map(|of_one| centre(of_one)).collect()
    }

    /// Shares by which the mean of all turns differs, one per independent observation. Their mean is the ratio of all charges
    /// to all of the reference's, less one: of logarithms it would not be what is paid. Each differs from it by its part in
    /// the ratio's error (the linearised ratio: Cochran, *Sampling Techniques*, 3rd ed., chapter 6).
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

    /// Bytes by which the server's resident memory differs, one per independent observation. Where both are one process its
    /// memory is nobody's alone, and one that was there before the study holds what came before.
    #[allow(clippy::cast_precision_loss)] // memory is far below 2^53 bytes
    pub(crate) fn memory(&self) -> Vec<f64> {
        let resident = |slice: &Slice| Some(slice.resident_bytes as f64).filter(|bytes| *bytes > 0.0);
        let apart = self.pairs.iter().filter(|pair| matches!(pair.processes(), Some((Some(_), Some(_)))));
        let more = apart.filter_map(|pair| Some((pair, resident(pair.own)? - resident(pair.base)?)));
        observations(more).iter().map(|of_one| mean(of_one)).collect()
    }
}

/// Figures of blocks, put together where they are of the same two processes.
fn observations<'p, T: Copy>(figures: impl Iterator<Item = (&'p Pair<'p>, T)>) -> Vec<Vec<T>> {
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

impl Pair<'_> {
    fn calm(&self, figure: Figure) -> f64 {
        let measure = match figure {
            Figure::Charge(measure) => measure,
            Figure::Throughput => return -self.calm(Figure::Charge(Measure::Time)),
        };
        let ratio = |reference: &Slice| calm_ratio(self.own, reference, measure);
        self.twin.map_or_else(|| ratio(self.base), |twin| f64::midpoint(ratio(self.base), ratio(twin)))
    }

    /// The setting's and the reference's.
    fn mean_charges(&self, measure: Measure) -> (f64, f64) {
        let base = self.base.mean_charge(measure);
        let reference = self.twin.map_or(base, |twin| f64::midpoint(base, twin.mean_charge(measure)));
        (self.own.mean_charge(measure), reference)
    }

    /// The two processes that measured it; `None` when it was one, or when neither is ours to start anew.
    fn processes(&self) -> Option<Processes> {
        Some((self.own.process, self.base.process)).filter(|(own, base)| own != base)
    }
}

/// The logarithm of the ratio of two slices' charges: of those in turns the median over their calm rounds, else of their sums.
fn calm_ratio(own: &Slice, reference: &Slice, measure: Measure) -> f64 {
    by_turns(own, reference, measure)
        .unwrap_or_else(|| (own.charged(measure) / reference.charged(measure)).ln())
}

/// The median over the calm rounds: those in which setting and base together were charged least. The machine takes turns
/// at its own pace, and what it does beside costs some of them much more; both count alike in the choice, so that it
/// favours neither.
fn by_turns(own: &Slice, base: &Slice, measure: Measure) -> Option<f64> {
    let rounds = own.turns.iter().zip(&base.turns);
    let charges = rounds.map(|(own, base)| (own.charged(measure).ln(), base.charged(measure).ln()));
    let mut charges: Vec<(f64, f64)> = charges.filter(|(own, base)| (own + base).is_finite()).collect();
    charges.sort_by(|one, other| (one.0 + one.1).total_cmp(&(other.0 + other.1)));
    let calm = charges.get(..LEAST_TURNS.max(charges.len() / CALM))?;
    Some(median(&calm.iter().map(|(own, base)| own - base).collect::<Vec<_>>()))
}
