//! The choice that loses least: of all ways to set levels that cost no more than a limit, the one of least loss.
//!
//! It is exact, not greedy. Losses are small whole numbers, so for each loss the least cost that it can buy is kept, and
//! instruments are added one by one. Whether events are recorded is decided for a whole family, and changes what each of
//! its instruments costs: a family's front is made once for each way it can be recorded.

/// One level of an item.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// What is lost by it, over the highest level there is.
    pub loss: u32,
    /// What it costs, for each way its family can be recorded.
    pub costs: Vec<f64>,
}

/// What has one level of several.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// Its levels, the highest first.
    pub steps: Vec<Step>,
}

/// Items whose costs depend on how their family is recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// What is lost by each way to record, the fullest first. One, without loss, where there is no choice.
    pub recording: Vec<u32>,
    /// The items.
    pub items: Vec<Item>,
}

/// A level for everything: positions in `recording` and `steps`.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// For each group, how it is recorded.
    pub recording: Vec<usize>,
    /// For each group and item, its step.
    pub steps: Vec<Vec<usize>>,
    /// What is lost, all together.
    pub loss: u32,
    /// What it costs.
    pub cost: f64,
    /// Whether that is within the limit. If not, nothing is.
    pub fits: bool,
}

/// A limit, and what everything costs that counts against it.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// What there is to choose. Groups of several bounds are alike but for their costs.
    pub groups: Vec<Group>,
    /// What it may cost.
    pub limit: f64,
    /// Where nothing fits, what is not worth a loss.
    pub slack: f64,
}

/// Of several bounds: how often they are weighed anew in search of a choice that keeps all.
const WEIGHED: u32 = 12;
/// A loss, and the least cost it can buy so far.
#[derive(Clone, Copy, Debug)]
struct Point {
    loss: u32,
    cost: f64,
    /// The point of the stage before, and what was taken from there.
    parent: usize,
    pick: usize,
}

/// Points in the order of loss, each cheaper than those before.
type Front = Vec<Point>;

/// Losses are tried in this order: most often a small one will do, and there are few ways to have it.
const TRIED: [u32; 4] = [32, 256, 2048, u32::MAX];

const START: Point = Point { loss: 0, cost: 0.0, parent: 0, pick: 0 };

/// Finds it. Where nothing fits, it is the least loss that costs no more than the cheapest choice and `slack`.
#[must_use]
pub fn best(groups: &[Group], limit: f64, slack: f64) -> Choice {
    let mut choice = best_within(groups, limit, slack, TRIED[0]);
    for most in &TRIED[1..] {
        if choice.fits {
            break;
        }
        choice = best_within(groups, limit, slack, *most);
    }
    choice
}

/// What a choice costs.
#[must_use]
pub fn cost(groups: &[Group], choice: &Choice) -> f64 {
    let of_group = |(nth, group): (usize, &Group)| {
        let steps = group.items.iter().zip(&choice.steps[nth]);
        steps.map(|(item, step)| item.steps[*step].costs[choice.recording[nth]]).sum::<f64>()
    };
    groups.iter().enumerate().map(of_group).sum()
}

/// Finds the choice of least loss that keeps all bounds. Its cost is the first one's.
///
/// Of several bounds all are kept, but another choice may keep them, too, and lose a little less: the search goes over
/// bounds made of all, weighed by how much is spent of each. A choice that keeps such a bound best and keeps all is the
/// best there is; where no weights give one, limits are lowered by what was used too much.
#[must_use]
pub fn best_of(bounds: &[Bound]) -> Choice {
    match bounds {
        [] => best(&[], 0.0, 0.0),
        [one] => one.best(),
        [first, ..] => best_of_several(bounds).costing(first),
    }
}

fn best_of_several(bounds: &[Bound]) -> Choice {
    // One that cannot be kept is kept as well as it can be, and the others are kept all the same.
    let alone: Vec<Choice> = bounds.iter().map(Bound::best).collect();
    let reachable = |(bound, choice): (&Bound, &Choice)| Bound {
        limit: if choice.fits { bound.limit } else { choice.cost },
        ..bound.clone()
    };
    let reachable: Vec<Bound> = bounds.iter().zip(&alone).map(reachable).collect();
    let fits = alone.iter().all(|it| it.fits);
    let keeps_all = |choice: &Choice| reachable.iter().all(|it| it.used(choice) <= 1.0);
    let found = alone.into_iter().find(|it| keeps_all(it));
    let found = found.unwrap_or_else(|| by_weights(&reachable, keeps_all));
    Choice { fits: fits && keeps_all(&found), ..found }
}

/// Of choices that keep bounds made of all of them, the one of least loss that keeps all.
fn by_weights(bounds: &[Bound], keeps_all: impl Fn(&Choice) -> bool) -> Choice {
    let mut weights = vec![1.0; bounds.len()];
    let mut found: Option<Choice> = None;
    // No choice that keeps all loses less than one that keeps a bound made of all.
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
        // By less each time, so that weights come to rest.
        let step = 1.0 / f64::from(round + 2);
        let weigh =
            |(weight, it): (&mut f64, &Bound)| *weight *= it.used(&choice).clamp(0.1, 10.0).powf(step);
        weights.iter_mut().zip(bounds).for_each(weigh);
    }
    found.unwrap_or_else(|| {
        // The largest part of a limit for each thing: the cheapest choice by that may keep all where nothing else does.
        let largest = joined(bounds, |parts| parts.iter().copied().fold(0.0, f64::max));
        best(&largest.groups, largest.limit, 0.0)
    })
}

impl Bound {
    fn best(&self) -> Choice {
        best(&self.groups, self.limit, self.slack)
    }

    /// What a choice uses of it, as a part.
    fn used(&self, choice: &Choice) -> f64 {
        cost(&self.groups, choice) / self.least()
    }

    /// Its limit, more than nothing.
    fn least(&self) -> f64 {
        self.limit.max(1e-9)
    }
}

impl Choice {
    fn costing(self, bound: &Bound) -> Choice {
        Choice { cost: cost(&bound.groups, &self), ..self }
    }
}

fn weighed(weights: &[f64], parts: &[f64]) -> f64 {
    let all: f64 = weights.iter().sum();
    weights.iter().zip(parts).map(|(weight, part)| weight * part).sum::<f64>() / all
}

/// One bound made of several: `cost` makes one of the parts of their limits that something costs. The limit is 1.
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

/// Of all choices that lose no more than `most` beyond what is lost anyway.
fn best_within(groups: &[Group], limit: f64, slack: f64, most: u32) -> Choice {
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
    let of_group = |((group, front), pick): ((&Group, &GroupFront), usize)| front.choice(group, pick);
    let (recording, steps) = groups.iter().zip(&fronts).zip(picks).map(of_group).unzip();
    Choice { recording, steps, loss: last[end].loss, cost: last[end].cost, fits: within.is_some() }
}

impl Group {
    /// What is lost by it whatever is chosen.
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

/// All that a group can be had for.
struct GroupFront {
    /// Fronts after each item, for each way to record.
    stages: Vec<Vec<Front>>,
    /// The ends of all of them: `parent` is the place in the last front, `pick` the way to record.
    ends: Front,
}

impl GroupFront {
    fn of(group: &Group, most: u32) -> GroupFront {
        let ways = 0..group.recording.len();
        let stages: Vec<Vec<Front>> = ways.map(|way| GroupFront::recorded(group, way, most)).collect();
        let of_way = |(way, fronts): (usize, &Vec<Front>)| {
            let last = fronts[fronts.len() - 1].clone();
            last.into_iter()
                .enumerate()
                .map(move |(parent, point)| Point { parent, pick: way, ..point })
                .collect::<Vec<_>>()
        };
        let all = stages.iter().enumerate().flat_map(of_way).collect();
        GroupFront { stages, ends: undominated(all) }
    }

    fn recorded(group: &Group, way: usize, most: u32) -> Vec<Front> {
        let mut fronts = vec![vec![Point { loss: group.recording[way], ..START }]];
        let mut least = group.recording[way];
        for item in &group.items {
            if let [only] = &item.steps[..] {
                // There is nothing to choose: all points move, and none has to be remembered.
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

    fn choice(&self, group: &Group, pick: usize) -> (usize, Vec<usize>) {
        let end = self.ends[pick];
        let mut picks = walk_back(&self.stages[end.pick], end.parent).into_iter();
        let step = |item: &Item| if item.steps.len() == 1 { 0 } else { picks.next().unwrap_or(0) };
        (end.pick, group.items.iter().map(step).collect())
    }
}

/// Every point with every option, without those that lose more and cost no less than another, or lose more than `most`.
fn extend(front: &Front, options: &[(u32, f64)], most: u32) -> Front {
    let mut points = Vec::with_capacity(front.len() * options.len());
    for (parent, point) in front.iter().enumerate() {
        let within = options.iter().enumerate().filter(|(_, (loss, _))| point.loss + loss <= most);
        for (pick, (loss, cost)) in within {
            points.push(Point { loss: point.loss + loss, cost: point.cost + cost, parent, pick });
        }
    }
    undominated(points)
}

fn undominated(points: Vec<Point>) -> Front {
    let most = points.iter().map(|point| point.loss as usize).max().unwrap_or(0);
    let mut cheapest: Vec<Option<Point>> = vec![None; most + 1];
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

/// What was taken at each stage on the way to a point of the last.
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

    /// Every choice there is, one by one.
    fn by_trying(groups: &[Group], limit: f64) -> Option<u32> {
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

    fn random_groups(random: &mut fastrand::Rng) -> Vec<Group> {
        let group = |random: &mut fastrand::Rng| {
            let ways = random.usize(1..=3);
            let step = |random: &mut fastrand::Rng, nth: u32| Step {
                loss: nth * random.u32(1..20),
                costs: (0..ways).map(|_| f64::from(random.u32(0..1000))).collect(),
            };
            Group {
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
            let bound = |groups: &[Group], limit: u32| Bound {
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
        // Of four things or so; of many there are many ways to keep both.
        assert!(kept > 200 && missed * 50 <= kept, "{kept} found, {missed} missed");
        assert!(lost * 100 <= least * 102, "{lost} instead of {least}");
    }

    /// The least loss of all choices that keep both bounds, one by one.
    fn by_trying_two(bounds: &[Bound; 2]) -> Option<u32> {
        let mut totals = vec![(0, [0.0, 0.0])];
        for (one, other) in bounds[0].groups.iter().zip(&bounds[1].groups) {
            let mut of_group = vec![];
            for (way, loss) in one.recording.iter().enumerate() {
                let mut sums = vec![(*loss, [0.0, 0.0])];
                for (item, its_other) in one.items.iter().zip(&other.items) {
                    let steps: Vec<(&Step, &Step)> = item.steps.iter().zip(&its_other.steps).collect();
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
        let step = |loss, cost| Step { loss, costs: vec![cost] };
        let item = Item { steps: vec![step(0, 10.0), step(1, 4.0), step(5, 4.0)] };
        let groups = [Group { recording: vec![0], items: vec![item.clone(), item] }];
        let all = best(&groups, 20.0, 0.0);
        assert_eq!((all.loss, all.fits, &all.steps[0]), (0, true, &vec![0, 0]));
        let none = best(&groups, 1.0, 0.0);
        assert_eq!((none.loss, none.cost, none.fits), (2, 8.0, false));
        let nearly = best(&groups, 1.0, 7.0);
        assert_eq!((nearly.loss, nearly.cost, nearly.fits), (1, 14.0, false), "not for a little");
        assert!(best(&[], 0.0, 0.0).fits);
    }
}
