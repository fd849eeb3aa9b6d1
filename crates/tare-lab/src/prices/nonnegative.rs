//! Non-negative least squares by the active-set method of Lawson and Hanson (*Solving Least Squares
//! Problems*, 1974, chapter 23) on normal equations, and the profile range of a sum of unknowns.

/// A problem, as the weighted sums of products of its rows, which determine its solution.
#[derive(Clone, Debug)]
pub struct Squares {
    /// Products of unknowns with unknowns.
    gram: Vec<Vec<f64>>,
    /// Products of unknowns with measurements.
    moment: Vec<f64>,
    /// Sum of squares of the measurements.
    total: f64,
}

/// The solution of a least-squares problem in which no unknown may be negative.
#[derive(Clone, Debug, PartialEq)]
pub struct Solution {
    /// Values of the unknowns.
    pub values: Vec<f64>,
    /// Weighted residual sum of squares.
    pub misfit: f64,
}

/// An unknown of which less than this part remains, after the others explain it, counts as dependent on them.
const DEPENDENT: f64 = 1e-10;
/// Weight of a held sum relative to all measurements.
const HELD: f64 = 1e7;
/// Halvings of the range that contains an interval's end.
const HALVINGS: usize = 14;
/// Doublings after which a figure has no upper bound.
const DOUBLINGS: usize = 60;

impl Squares {
    /// Creates a problem with so many unknowns and no measurements.
    #[must_use]
    pub fn new(unknowns: usize) -> Squares {
        Squares { gram: vec![vec![0.0; unknowns]; unknowns], moment: vec![0.0; unknowns], total: 0.0 }
    }

    /// Adds a measurement: `coefficients` times the unknowns is `measured`.
    pub fn add(&mut self, coefficients: &[f64], measured: f64, weight: f64) {
        for (i, one) in coefficients.iter().enumerate().filter(|(_, one)| **one != 0.0) {
            for (cell, other) in self.gram[i].iter_mut().zip(coefficients) {
                *cell += weight * one * other;
            }
            self.moment[i] += weight * one * measured;
        }
        self.total += weight * measured * measured;
    }

    /// Adds the prior of an unknown; its standard deviation is `part` of its value.
    pub(super) fn believe(&mut self, unknown: usize, value: f64, part: f64) {
        let mut own = vec![0.0; self.moment.len()];
        own[unknown] = 1.0;
        self.add(&own, value, (part * value).powi(-2));
    }

    /// Returns the standard error of an unknown, with the others free; `None` where they explain it.
    pub(super) fn error(&self, unknown: usize) -> Option<f64> {
        let others: Vec<usize> = (0..self.moment.len()).filter(|i| *i != unknown).collect();
        let explained = Squares { moment: self.gram[unknown].clone(), ..self.clone() }.unbounded(&others).0;
        let by_others: f64 = explained.iter().zip(&self.gram[unknown]).map(|(a, b)| a * b).sum();
        let scale = self.gram[unknown][unknown];
        let left = scale - by_others;
        (left > DEPENDENT * scale).then(|| left.powf(-0.5))
    }

    /// Returns whether there are measurements of an unknown.
    #[must_use]
    pub fn knows(&self, unknown: usize) -> bool {
        self.gram[unknown][unknown] > 0.0
    }

    /// Returns the best fit. Among unknowns that cannot be told apart, one gets the whole.
    #[must_use]
    pub fn solve(&self) -> Solution {
        self.solve_from(&[])
    }

    /// Returns the best fit, starting with the unknowns whose `likely` value is positive.
    fn solve_from(&self, likely: &[f64]) -> Solution {
        let unknowns = self.moment.len();
        let mut values = vec![0.0; unknowns];
        let mut free: Vec<usize> =
            (0..unknowns).filter(|&i| likely.get(i).is_some_and(|it| *it > 0.0)).collect();
        let mut entering = None;
        // Each step reduces the misfit, so no set of free unknowns repeats; the bound is against rounding
        // errors.
        for _ in 0..8 * (unknowns + 1) {
            if let Some(next) = entering {
                free.push(next);
            }
            self.descend(&mut free, &mut values);
            entering = self.steepest(&values, &free);
            if entering.is_none() {
                break;
            }
        }
        let misfit = self.misfit(&values);
        Solution { values, misfit }
    }

    /// Moves to the best values of the free unknowns; those that would become negative are fixed at 0.
    fn descend(&self, free: &mut Vec<usize>, values: &mut [f64]) {
        while !free.is_empty() {
            let (wanted, kept) = self.unbounded(free);
            free.retain(|i| kept.contains(i));
            for (i, value) in values.iter_mut().enumerate() {
                if !free.contains(&i) {
                    *value = 0.0;
                }
            }
            let blocked = |i: &usize| wanted[*i] <= 0.0;
            if !free.iter().any(blocked) {
                free.iter().for_each(|&i| values[i] = wanted[i]);
                return;
            }
            let ratio = |i: &usize| values[*i] / (values[*i] - wanted[*i]).max(f64::MIN_POSITIVE);
            let step = free.iter().filter(|i| blocked(i)).map(ratio).fold(1.0, f64::min);
            free.iter().for_each(|&i| values[i] += step * (wanted[i] - values[i]));
            free.retain(|&i| wanted[i] > 0.0 || values[i] > 1e-12 * values[i].abs().max(wanted[i].abs()));
        }
        values.fill(0.0);
    }

    /// Returns the unknown, among those fixed at 0, whose growth would reduce the misfit fastest.
    fn steepest(&self, values: &[f64], free: &[usize]) -> Option<usize> {
        let slope = |i: usize| {
            let explained: f64 = self.gram[i].iter().zip(values).map(|(g, v)| g * v).sum();
            (self.moment[i] - explained) / self.gram[i][i].sqrt()
        };
        let enough = 1e-9 * self.total.sqrt();
        (0..values.len())
            .filter(|i| self.knows(*i) && !free.contains(i))
            .map(|i| (i, slope(i)))
            .filter(|(_, slope)| *slope > enough)
            .max_by(|a, b| a.1.total_cmp(&b.1))
            .map(|(i, _)| i)
    }

    /// Returns the best values of some unknowns, whatever their sign, by Cholesky decomposition, and which of
    /// them are determined: the others depend on those.
    fn unbounded(&self, free: &[usize]) -> (Vec<f64>, Vec<usize>) {
        let mut kept: Vec<usize> = vec![];
        let mut lower: Vec<Vec<f64>> = vec![];
        let mut halfway: Vec<f64> = vec![];
        for &i in free {
            let scale = self.gram[i][i];
            let mut row: Vec<f64> = vec![];
            for (place, &j) in kept.iter().enumerate() {
                let known: f64 = row.iter().zip(&lower[place]).map(|(a, b)| a * b).sum();
                row.push((self.gram[i][j] - known) / lower[place][place]);
            }
            let left = scale - row.iter().map(|it| it * it).sum::<f64>();
            if left <= DEPENDENT * scale {
                continue;
            }
            let known: f64 = row.iter().zip(&halfway).map(|(a, b)| a * b).sum();
            row.push(left.sqrt());
            halfway.push((self.moment[i] - known) / left.sqrt());
            lower.push(row);
            kept.push(i);
        }
        let mut values = vec![0.0; self.moment.len()];
        for place in (0..kept.len()).rev() {
            let known: f64 =
                (place + 1..kept.len()).map(|below| lower[below][place] * values[kept[below]]).sum();
            values[kept[place]] = (halfway[place] - known) / lower[place][place];
        }
        (values, kept)
    }

    fn misfit(&self, values: &[f64]) -> f64 {
        let product = |i: usize| self.gram[i].iter().zip(values).map(|(g, v)| g * v).sum::<f64>();
        let of = |i: usize| values[i] * (product(i) - 2.0 * self.moment[i]);
        (self.total + (0..values.len()).map(of).sum::<f64>()).max(0.0)
    }

    /// Returns the range in which the sum of `parts` may lie while the misfit grows by at most `growth` (the
    /// profile likelihood). `None` where it has no bound.
    #[must_use]
    pub fn range(&self, best: &Solution, parts: &[usize], growth: f64) -> Option<(f64, f64)> {
        let here: f64 = parts.iter().map(|&i| best.values[i]).sum();
        let mut likely = best.values.clone();
        let mut allows = |sum: f64| {
            let solution = self.held(parts, sum).solve_from(&likely);
            likely.clone_from(&solution.values);
            self.misfit(&solution.values) <= best.misfit + growth
        };
        let low = if here <= 0.0 || allows(0.0) { 0.0 } else { halve(0.0, here, &mut allows) };
        let steepest = parts.iter().map(|&i| self.gram[i][i]).fold(0.0, f64::max);
        if steepest <= 0.0 {
            return None;
        }
        let mut step = (growth / steepest).sqrt();
        let mut inside = here;
        for _ in 0..DOUBLINGS {
            if !allows(here + step) {
                return Some((low, halve(here + step, inside, &mut allows)));
            }
            (inside, step) = (here + step, step * 2.0);
        }
        None
    }

    /// Returns the problem with a sum of unknowns held at a value.
    fn held(&self, parts: &[usize], sum: f64) -> Squares {
        let heaviest = parts.iter().map(|&i| self.gram[i][i]).fold(0.0, f64::max);
        let mut held = self.clone();
        let mut coefficients = vec![0.0; self.moment.len()];
        parts.iter().for_each(|&i| coefficients[i] = 1.0);
        held.add(&coefficients, sum, heaviest * HELD);
        held
    }
}

/// Bisects between an allowed and a disallowed value; returns the outer bound.
fn halve(mut outside: f64, mut inside: f64, allows: &mut impl FnMut(f64) -> bool) -> f64 {
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(outside, inside);
        if allows(middle) { inside = middle } else { outside = middle }
    }
    outside
}

#[cfg(test)]
mod tests {
    use super::*;

    fn squares(rows: &[(&[f64], f64)]) -> Squares {
        let mut squares = Squares::new(rows[0].0.len());
        rows.iter().for_each(|(coefficients, measured)| squares.add(coefficients, *measured, 1.0));
        squares
    }

    fn close(a: f64, b: f64, within: f64) {
        assert!((a - b).abs() <= within, "{a} is not {b}");
    }

    #[test]
    fn what_is_exact_is_found() {
        let squares = squares(&[(&[1.0, 2.0], 8.0), (&[3.0, 1.0], 9.0), (&[1.0, 1.0], 5.0)]);
        let solution = squares.solve();
        close(solution.values[0], 2.0, 1e-9);
        close(solution.values[1], 3.0, 1e-9);
        close(solution.misfit, 0.0, 1e-9);
    }

    #[test]
    fn what_would_be_negative_is_nothing_and_the_others_make_the_best_of_it() {
        // Without the constraint: 3 and -1.
        let solution = squares(&[(&[1.0, 0.0], 3.0), (&[0.0, 1.0], -1.0), (&[1.0, 1.0], 2.0)]).solve();
        assert_eq!(solution.values[1], 0.0);
        close(solution.values[0], 2.5, 1e-9);
    }

    /// Compares with every set of free unknowns, on random problems.
    #[test]
    fn no_other_choice_fits_better() {
        let mut random = fastrand::Rng::with_seed(3);
        for _ in 0..300 {
            let mut problem = Squares::new(4);
            for _ in 0..6 {
                let row: Vec<f64> = (0..4).map(|_| random.f64()).collect();
                problem.add(&row, random.f64() * 4.0 - 1.5, random.f64() + 0.1);
            }
            let best = (0..16u32)
                .filter_map(|set| {
                    let free: Vec<usize> = (0..4).filter(|i| set >> i & 1 == 1).collect();
                    let (values, _) = problem.unbounded(&free);
                    values.iter().all(|v| *v >= 0.0).then(|| problem.misfit(&values))
                })
                .fold(f64::INFINITY, f64::min);
            let found = problem.solve();
            assert!(found.values.iter().all(|v| *v >= 0.0), "{found:?}");
            close(found.misfit, best, 1e-9);
            close(problem.solve_from(&[1.0, 1.0, 1.0, 1.0]).misfit, best, 1e-9);
        }
    }

    #[test]
    fn a_range_is_that_of_the_normal_distribution_where_nothing_bounds_it() {
        let squares = squares(&[(&[1.0, 0.0], 10.0), (&[0.0, 2.0], 20.0)]);
        let best = squares.solve();
        let (low, high) = squares.range(&best, &[0], 4.0).expect("bounded");
        close(low, 8.0, 1e-3);
        close(high, 12.0, 1e-3);
        let (low, high) = squares.range(&best, &[1], 4.0).expect("bounded");
        close(low, 9.0, 1e-3);
        close(high, 11.0, 1e-3);
        let (low, high) = squares.range(&best, &[0, 1], 4.0).expect("bounded");
        close(low, 20.0 - 5f64.sqrt(), 1e-3);
        close(high, 20.0 + 5f64.sqrt(), 1e-3);
    }

    #[test]
    fn what_cannot_be_told_apart_may_be_all_or_nothing() {
        let squares = squares(&[(&[1.0, 1.0], 10.0)]);
        let best = squares.solve();
        close(best.values.iter().sum::<f64>(), 10.0, 1e-9);
        for i in 0..2 {
            let (low, high) = squares.range(&best, &[i], 1.0).expect("their sum bounds both");
            close(low, 0.0, 1e-9);
            close(high, 11.0, 1e-3);
        }
        let mut unknown = Squares::new(1);
        unknown.add(&[0.0], 1.0, 1.0);
        assert_eq!(unknown.range(&unknown.solve(), &[0], 1.0), None);
    }
}
