//! The choice of levels: among all ways to set levels whose cost stays within a limit, the one with the least
//! loss.
//!
//! The result is exact, not greedy. Losses are small integers, so the lowest cost for each loss is kept while
//! items are added one by one (a knapsack by dynamic programming). Whether events are recorded is decided per
//! family and changes the cost of each of its instruments. So a family's front is made once for each way it
//! can be recorded.

/// One level of an item.
#[derive(Clone, Debug, PartialEq)]
pub struct LevelStep {
    /// Loss compared with the item's highest level.
    pub loss: u32,
    /// Cost for each way its family can be recorded.
    pub costs: Vec<f64>,
}

/// Something that takes one of several levels.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// Levels, the highest first.
    pub steps: Vec<LevelStep>,
}

/// Items whose costs depend on how their family is recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct ItemGroup {
    /// Loss of each way to record, the fullest first. A single 0 where there is no choice.
    pub recording: Vec<u32>,
    /// The items.
    pub items: Vec<Item>,
}

/// A level for everything, as positions in `recording` and `steps`.
#[derive(Clone, Debug, PartialEq)]
pub struct LevelChoice {
    /// The way of recording of each group.
    pub recording: Vec<usize>,
    /// The step of each item, by group.
    pub steps: Vec<Vec<usize>>,
    /// Total loss.
    pub loss: u32,
    /// Total cost.
    pub cost: f64,
    /// Whether the cost is within the limit. If not, no choice is.
    pub fits: bool,
}

/// A limit, and the costs that count against it.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// The groups to choose from. Groups of several bounds differ in their costs only.
    pub groups: Vec<ItemGroup>,
    /// Maximum cost.
    pub limit: f64,
    /// Where nothing fits, a saving that is too small to be worth a loss.
    pub slack: f64,
}

/// Maximum number of rounds in the search for a choice that keeps several bounds.
const WEIGHED: u32 = 12;
/// A loss, and the lowest cost known for it.
#[derive(Clone, Copy, Debug)]
struct CostPoint {
    loss: u32,
    cost: f64,
    /// Index of the point in the previous stage, and the option taken from there.
    parent: usize,
    pick: usize,
}

/// Points in ascending order of loss and descending order of cost.
type Front = Vec<CostPoint>;

/// Limits of loss to try in this order. A small one mostly suffices, and there are few choices within it.
const TRIED: [u32; 4] = [32, 256, 2048, u32::MAX];

const START: CostPoint = CostPoint { loss: 0, cost: 0.0, parent: 0, pick: 0 };

/// Finds the choice of least loss within the limit. If nothing fits, finds the least loss that costs at most
/// `slack` more than the cheapest choice.
#[must_use]
pub fn best(groups: &[ItemGroup], limit: f64, slack: f64) -> LevelChoice {
    let mut choice = best_within(groups, limit, slack, TRIED[0]);
    for most in &TRIED[1..] {
        if choice.fits {
            break;
        }
        choice = best_within(groups, limit, slack, *most);
    }
    choice
}

/// Returns the cost of a choice.
#[must_use]
pub fn cost(groups: &[ItemGroup], choice: &LevelChoice) -> f64 {
    let of_group = |(nth, group): (usize, &ItemGroup)| {
        let steps = group.items.iter().zip(&choice.steps[nth]);
        steps.map(|(item, step)| item.steps[*step].costs[choice.recording[nth]]).sum::<f64>()
    };
    groups.iter().enumerate().map(of_group).sum()
}

/// Finds the choice of least loss that keeps all bounds. Its `cost` is that of the first bound.
///
/// For several bounds the result keeps all of them, but another choice may do so and lose slightly less. The
/// search joins the bounds into one, weighed by how much is used of each. A choice that is optimal for a
/// joined bound and keeps all is the best there is. Where no weights lead to one, limits are lowered by what
/// was exceeded.
#[must_use]
pub fn best_of(bounds: &[Bound]) -> LevelChoice {
    match bounds {
        [] => best(&[], 0.0, 0.0),
        [one] => one.best(),
        [first, ..] => best_of_several(bounds).costing(first),
    }
}

fn best_of_several(bounds: &[Bound]) -> LevelChoice {
    // A bound that cannot be kept is kept as well as possible, and the others are kept all the same.
    let alone: Vec<LevelChoice> = bounds.iter().map(Bound::best).collect();
    let reachable = |(bound, choice): (&Bound, &LevelChoice)| Bound {
        limit: if choice.fits { bound.limit } else { choice.cost },
        ..bound.clone()
    };
    let reachable: Vec<Bound> = bounds.iter().zip(&alone).map(reachable).collect();
    let fits = alone.iter().all(|it| it.fits);
    let keeps_all = |choice: &LevelChoice| reachable.iter().all(|it| it.used(choice) <= 1.0);
    let found = alone.into_iter().find(|it| keeps_all(it));
    let found = found.unwrap_or_else(|| by_weights(&reachable, keeps_all));
    LevelChoice { fits: fits && keeps_all(&found), ..found }
}

/// Returns a choice that keeps all bounds, searching over joined bounds with changing weights.
fn by_weights(bounds: &[Bound], keeps_all: impl Fn(&LevelChoice) -> bool) -> LevelChoice {
    let mut weights = vec![1.0; bounds.len()];
    let mut found: Option<LevelChoice> = None;
    // No choice that keeps all bounds loses less than one that keeps a joined bound.
    let mut least_loss = 0;
    for round in 0..WEIGHED {
        let bound = joined(bounds, |parts| weighed(&weights, parts));
        let choice = bound.best();
        if keeps_all(&choice) {
            return choice;
        }
        least_loss = least_loss.max(choice.loss);
        let most = bounds.iter().map(|it| it.used(&choice)).fold(1.0, f64::max);
        let lowered = best(&bound.groups, 1.0 / most, 0.0);
        let is_less = found.as_ref().is_none_or(|found| lowered.loss < found.loss);
        if is_less && keeps_all(&lowered) {
            found = Some(lowered);
        }
        if found.as_ref().is_some_and(|found| found.loss <= least_loss) {
            break;
        }
        // The steps get smaller, so that weights converge.
        let step = 1.0 / f64::from(round + 2);
        let weigh =
            |(weight, it): (&mut f64, &Bound)| *weight *= it.used(&choice).clamp(0.1, 10.0).powf(step);
        weights.iter_mut().zip(bounds).for_each(weigh);
    }
    found.unwrap_or_else(|| {
        // Join by the largest part of a limit: the cheapest choice by that may keep all bounds where nothing
        // else does.
        let largest = joined(bounds, |parts| parts.iter().copied().fold(0.0, f64::max));
        best(&largest.groups, largest.limit, 0.0)
    })
}

impl Bound {
    fn best(&self) -> LevelChoice {
        best(&self.groups, self.limit, self.slack)
    }

    /// Returns the part of the limit that a choice uses.
    fn used(&self, choice: &LevelChoice) -> f64 {
        cost(&self.groups, choice) / self.least()
    }

    /// Returns the limit, but more than 0.
    fn least(&self) -> f64 {
        self.limit.max(1e-9)
    }
}

impl LevelChoice {
    fn costing(self, bound: &Bound) -> LevelChoice {
        LevelChoice { cost: cost(&bound.groups, &self), ..self }
    }
}

fn weighed(weights: &[f64], parts: &[f64]) -> f64 {
    let all: f64 = weights.iter().sum();
    weights.iter().zip(parts).map(|(weight, part)| weight * part).sum::<f64>() / all
}

/// Joins several bounds into one with limit 1. `cost` combines an item's parts of all limits into one number.
fn joined(bounds: &[Bound], cost: impl Fn(&[f64]) -> f64) -> Bound {
    let [first, ..] = bounds else { return Bound { groups: vec![], limit: 1.0, slack: 0.0 } };
    let slack: Vec<f64> = bounds.iter().map(|it| it.slack / it.least()).collect();
    let mut joined = Bound { groups: first.groups.clone(), limit: 1.0, slack: cost(&slack) };
    let mut parts = vec![0.0; bounds.len()];
    for (nth, group) in joined.groups.iter_mut().enumerate() {
        for (at, item) in group.items.iter_mut().enumerate() {
            for (level, step) in item.steps.iter_mut().enumerate() {
                for (way, own) in step.costs.iter_mut().enumerate() {
                    for (part, it) in parts.iter_mut().zip(bounds) {
                        *part = it.groups[nth].items[at].steps[level].costs[way] / it.least();
                    }
                    *own = cost(&parts);
                }
            }
        }
    }
    joined
}

/// Returns the best choice among those that lose at most `most` more than is lost in any case.
fn best_within(groups: &[ItemGroup], limit: f64, slack: f64, most: u32) -> LevelChoice {
    let fronts: Vec<GroupFront> = groups.iter().map(|group| GroupFront::of(group, most)).collect();
    let mut stages: Vec<Front> = vec![vec![START]];
    let mut least = 0;
    for (group, front) in groups.iter().zip(&fronts) {
        least += group.least_loss();
        let options: Vec<(u32, f64)> = front.ends.iter().map(|end| (end.loss, end.cost)).collect();
        stages.push(extend(&stages[stages.len() - 1], &options, least.saturating_add(most)));
    }
    let last = &stages[stages.len() - 1];
    let first_within = |limit: f64| last.iter().position(|point| point.cost <= limit);
    let within = first_within(limit);
    let end = within.or_else(|| first_within(last[last.len() - 1].cost + slack)).unwrap_or(0);
    let picks = walk_back(&stages, end);
    let of_group = |((group, front), pick): ((&ItemGroup, &GroupFront), usize)| front.choice(group, pick);
    let (recording, steps) = groups.iter().zip(&fronts).zip(picks).map(of_group).unzip();
    LevelChoice { recording, steps, loss: last[end].loss, cost: last[end].cost, fits: within.is_some() }
}

impl ItemGroup {
    /// Returns the group's loss if the least is chosen everywhere.
    fn least_loss(&self) -> u32 {
        let recording = self.recording.iter().min().copied().unwrap_or(0);
        recording + self.items.iter().map(Item::least_loss).sum::<u32>()
    }
}

impl Item {
    fn least_loss(&self) -> u32 {
        self.steps.iter().map(|step| step.loss).min().unwrap_or(0)
    }
}

/// The front of a group.
struct GroupFront {
    /// Fronts after each item, for each way to record.
    stages: Vec<Vec<Front>>,
    /// The last fronts of all ways: `parent` is the index in the last front, `pick` the way to record.
    ends: Front,
}

impl GroupFront {
    fn of(group: &ItemGroup, most: u32) -> GroupFront {
        let ways = 0..group.recording.len();
        let stages: Vec<Vec<Front>> = ways.map(|way| GroupFront::recorded(group, way, most)).collect();
        let of_way = |(way, fronts): (usize, &Vec<Front>)| {
            let last = fronts[fronts.len() - 1].clone();
            last.into_iter()
                .enumerate()
                .map(move |(parent, point)| CostPoint { parent, pick: way, ..point })
                .collect::<Vec<_>>()
        };
        let all = stages.iter().enumerate().flat_map(of_way).collect();
        GroupFront { stages, ends: undominated(all) }
    }

    fn recorded(group: &ItemGroup, way: usize, most: u32) -> Vec<Front> {
        let mut fronts = vec![vec![CostPoint { loss: group.recording[way], ..START }]];
        let mut least = group.recording[way];
        for item in &group.items {
            if let [only] = &item.steps[..] {
                // There is nothing to choose: all points move, and nothing has to be remembered.
                least += only.loss;
                for point in fronts.iter_mut().last().into_iter().flatten() {
                    point.loss += only.loss;
                    point.cost += only.costs[way];
                }
                continue;
            }
            let options: Vec<(u32, f64)> =
                item.steps.iter().map(|step| (step.loss, step.costs[way])).collect();
            least += item.least_loss();
            fronts.push(extend(&fronts[fronts.len() - 1], &options, least.saturating_add(most)));
        }
        fronts
    }

    fn choice(&self, group: &ItemGroup, pick: usize) -> (usize, Vec<usize>) {
        let end = self.ends[pick];
        let mut picks = walk_back(&self.stages[end.pick], end.parent).into_iter();
        let step = |item: &Item| if item.steps.len() == 1 { 0 } else { picks.next().unwrap_or(0) };
        (end.pick, group.items.iter().map(step).collect())
    }
}

/// Combines every point with every option. Drops points that lose more than `most`, or lose more than another
/// and cost no less.
fn extend(front: &Front, options: &[(u32, f64)], most: u32) -> Front {
    let mut points = Vec::with_capacity(front.len() * options.len());
    for (parent, point) in front.iter().enumerate() {
        let within = options.iter().enumerate().filter(|(_, (loss, _))| point.loss + loss <= most);
        for (pick, (loss, cost)) in within {
            points.push(CostPoint { loss: point.loss + loss, cost: point.cost + cost, parent, pick });
        }
    }
    undominated(points)
}

fn undominated(points: Vec<CostPoint>) -> Front {
    let most = points.iter().map(|point| point.loss as usize).max().unwrap_or(0);
    let mut cheapest: Vec<Option<CostPoint>> = vec![None; most + 1];
    for point in points {
        let known = &mut cheapest[point.loss as usize];
        if known.is_none_or(|known| point.cost < known.cost) {
            *known = Some(point);
        }
    }
    let mut least = f64::INFINITY;
    let mut cheaper = cheapest.into_iter().flatten().collect::<Vec<_>>();
    cheaper.retain(|point| {
        let is_cheaper = point.cost < least;
        least = least.min(point.cost);
        is_cheaper
    });
    cheaper
}

/// Returns the options taken at each stage on the way to a point of the last stage.
fn walk_back(stages: &[Front], mut at: usize) -> Vec<usize> {
    let mut picks = vec![];
    for stage in stages.iter().skip(1).rev() {
        picks.push(stage[at].pick);
        at = stage[at].parent;
    }
    picks.reverse();
    picks
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Finds the least loss within the limit by trying every choice.
    fn by_trying(groups: &[ItemGroup], limit: f64) -> Option<u32> {
        let mut totals = vec![(0, 0.0)];
        for group in groups {
            let mut of_group = vec![];
            for (way, loss) in group.recording.iter().enumerate() {
                let mut sums = vec![(*loss, 0.0)];
                for item in &group.items {
                    let all = sums.iter().flat_map(|(loss, cost)| {
                        item.steps.iter().map(move |step| (loss + step.loss, cost + step.costs[way]))
                    });
                    sums = all.collect();
                }
                of_group.extend(sums);
            }
            totals = totals
                .iter()
                .flat_map(|(a, b): &(u32, f64)| of_group.iter().map(move |(c, d)| (a + c, b + d)))
                .collect();
        }
        totals.into_iter().filter(|(_, cost)| *cost <= limit).map(|(loss, _)| loss).min()
    }

    fn random_groups(random: &mut fastrand::Rng) -> Vec<ItemGroup> {
        let group = |random: &mut fastrand::Rng| {
            let ways = random.usize(1..=3);
            let step = |random: &mut fastrand::Rng, nth: u32| LevelStep {
                loss: nth * random.u32(1..20),
                costs: (0..ways).map(|_| f64::from(random.u32(0..1000))).collect(),
            };
            ItemGroup {
                recording: (0..ways).map(|way| u32::try_from(way).unwrap() * random.u32(1..9)).collect(),
                items: (0..random.usize(0..5))
                    .map(|_| {
                        let steps = if random.bool() { 0..3 } else { 2..3 };
                        Item { steps: steps.map(|nth| step(random, nth)).collect() }
                    })
                    .collect(),
            }
        };
        (0..random.usize(1..3)).map(|_| group(random)).collect()
    }

    #[test]
    fn no_other_choice_within_the_limit_loses_less() {
        let mut random = fastrand::Rng::with_seed(16);
        for _ in 0..500 {
            let groups = random_groups(&mut random);
            let limit = f64::from(random.u32(0..4000));
            let found = best(&groups, limit, 0.0);
            assert_eq!(found.fits.then_some(found.loss), by_trying(&groups, limit), "{groups:?} {limit}");
            let mut sum = (0, 0.0);
            for (at, group) in groups.iter().enumerate() {
                let way = found.recording[at];
                sum.0 += group.recording[way];
                for (item, step) in group.items.iter().zip(&found.steps[at]) {
                    sum.0 += item.steps[*step].loss;
                    sum.1 += item.steps[*step].costs[way];
                }
            }
            assert_eq!((found.loss, found.cost), sum, "the choice is what it says it is");
        }
    }

    #[test]
    fn two_limits_are_kept_and_hardly_more_is_lost_than_must_be() {
        let mut random = fastrand::Rng::with_seed(17);
        let (mut kept, mut missed, mut lost, mut least) = (0, 0, 0, 0);
        for _ in 0..1000 {
            let groups = random_groups(&mut random);
            let mut others = groups.clone();
            for step in others.iter_mut().flat_map(|it| &mut it.items).flat_map(|it| &mut it.steps) {
                step.costs.iter_mut().for_each(|cost| *cost = f64::from(random.u32(0..1000)));
            }
            let bound = |groups: &[ItemGroup], limit: u32| Bound {
                groups: groups.to_vec(),
                limit: f64::from(limit),
                slack: 0.0,
            };
            let bounds = [bound(&groups, random.u32(0..4000)), bound(&others, random.u32(0..4000))];
            let found = best_of(&bounds);
            let all = by_trying_two(&bounds);
            if all.is_none() {
                assert!(!found.fits);
            }
            if found.fits {
                for it in &bounds {
                    assert!(cost(&it.groups, &found) <= it.limit, "{bounds:?}");
                }
                kept += 1;
                lost += found.loss;
                least += all.unwrap();
                assert!(found.loss >= all.unwrap());
                assert_eq!(found.cost, cost(&groups, &found));
            } else {
                missed += u32::from(all.is_some());
            }
        }
        // There are only about four items here; with many items many choices keep both bounds.
        assert!(kept > 200 && missed * 50 <= kept, "{kept} found, {missed} missed");
        assert!(lost * 100 <= least * 102, "{lost} instead of {least}");
    }

    /// Finds the least loss that keeps both bounds by trying every choice.
    fn by_trying_two(bounds: &[Bound; 2]) -> Option<u32> {
        let mut totals = vec![(0, [0.0, 0.0])];
        for (one, other) in bounds[0].groups.iter().zip(&bounds[1].groups) {
            let mut of_group = vec![];
            for (way, loss) in one.recording.iter().enumerate() {
                let mut sums = vec![(*loss, [0.0, 0.0])];
                for (item, its_other) in one.items.iter().zip(&other.items) {
                    let steps: Vec<(&LevelStep, &LevelStep)> =
                        item.steps.iter().zip(&its_other.steps).collect();
                    let with = |(loss, [a, b]): &(u32, [f64; 2])| {
                        let (loss, a, b) = (*loss, *a, *b);
                        let more = steps.iter().map(move |(it, other)| {
                            (loss + it.loss, [a + it.costs[way], b + other.costs[way]])
                        });
                        more.collect::<Vec<_>>()
                    };
                    sums = sums.iter().flat_map(with).collect();
                }
                of_group.extend(sums);
            }
            let with = |(loss, [a, b]): &(u32, [f64; 2])| {
                of_group.iter().map(|(more, [c, d])| (loss + more, [a + c, b + d])).collect::<Vec<_>>()
            };
            totals = totals.iter().flat_map(with).collect();
        }
        let keeps = |costs: &[f64; 2]| costs[0] <= bounds[0].limit && costs[1] <= bounds[1].limit;
        totals.into_iter().filter(|(_, costs)| keeps(costs)).map(|(loss, _)| loss).min()
    }

    #[test]
    fn nothing_is_lost_where_all_fits_and_the_least_is_spent_where_nothing_does() {
        let step = |loss, cost| LevelStep { loss, costs: vec![cost] };
        let item = Item { steps: vec![step(0, 10.0), step(1, 4.0), step(5, 4.0)] };
        let groups = [ItemGroup { recording: vec![0], items: vec![item.clone(), item] }];
        let all = best(&groups, 20.0, 0.0);
        assert_eq!((all.loss, all.fits, &all.steps[0]), (0, true, &vec![0, 0]));
        let none = best(&groups, 1.0, 0.0);
        assert_eq!((none.loss, none.cost, none.fits), (2, 8.0, false));
        let nearly = best(&groups, 1.0, 7.0);
        assert_eq!((nearly.loss, nearly.cost, nearly.fits), (1, 14.0, false), "not for a little");
        assert!(best(&[], 0.0, 0.0).fits);
    }
}
