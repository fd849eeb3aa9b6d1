//! Histograms: how many events took how long. The buckets are MySQL's: the first one ends at 10 microseconds,
//! and 50 of them span a factor of ten. For some instruments the first fifty-one are merged into one
//! ([`Lowest`]).

use std::sync::LazyLock;

/// Number of buckets.
pub const BUCKETS: usize = 450;
/// Upper bound of the lowest bucket, in picoseconds.
const BASE_PS: f64 = 1e7;
/// Ratio of the bounds of two adjacent buckets: the fiftieth root of ten.
const FACTOR: f64 = 1.047_128_548_050_899_6;

/// Returns the lower bounds of all buckets in picoseconds, and `u64::MAX` after the last. Computed as MySQL
/// does: by repeated multiplication, truncated to integers.
pub(crate) fn bounds_ps() -> &'static [u64; BUCKETS + 1] {
    static BOUNDS: LazyLock<[u64; BUCKETS + 1]> = LazyLock::new(|| {
        let (mut bounds, mut bound) = ([0; BUCKETS + 1], BASE_PS);
        for word in &mut bounds[1..BUCKETS] {
            *word = bound as u64;
            bound *= FACTOR;
        }
        bounds[BUCKETS] = u64::MAX;
        bounds
    });
    &BOUNDS
}

/// Upper bound of a histogram's lowest bucket. All other buckets are the same everywhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Lowest {
    /// 10 microseconds.
    #[default]
    Usual,
    /// 100 microseconds, for stages, sockets and idle connections. Every statement has some of these that
    /// take 10 to 100 microseconds. Counting them by bucket would be more than half of the cost of all
    /// histograms.
    Wide,
}

impl Lowest {
    /// Both variants, indexed by their number.
    pub(crate) const ALL: [Lowest; 2] = [Lowest::Usual, Lowest::Wide];

    /// Returns the number of the bucket after the lowest one.
    pub(crate) const fn next(self) -> u16 {
        match self {
            Lowest::Usual => 1,
            Lowest::Wide => 51,
        }
    }
}

/// Number of timed events by duration.
///
/// # Examples
///
/// ```
/// use tare_engine::histogram::Histogram;
///
/// // 95 events in the lowest bucket, 5 in the third one.
/// let histogram = Histogram::new([(0, 95), (2, 5)]);
/// assert_eq!(histogram.total(), 100);
/// assert_eq!(histogram.quantile_ps(950), 10_000_000, "10 microseconds");
/// assert_eq!(histogram.filled().count(), 2);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    lowest: Lowest,
    /// Non-empty buckets, lowest first.
    counts: Vec<(u16, u64)>,
    /// Sum of all buckets.
    total: u64,
}

/// One bucket of a histogram: a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HistogramBucket {
    /// BUCKET_NUMBER.
    pub number: u32,
    /// BUCKET_TIMER_LOW: inclusive lower bound.
    pub low_ps: u64,
    /// BUCKET_TIMER_HIGH: exclusive upper bound.
    pub high_ps: u64,
    /// COUNT_BUCKET.
    pub count: u64,
    /// COUNT_BUCKET_AND_LOWER.
    pub and_lower: u64,
    /// BUCKET_QUANTILE: share of all events that are in this bucket or a lower one.
    pub quantile: f64,
}

impl Histogram {
    /// Creates a histogram from (bucket, count) pairs in ascending order.
    pub fn new(counts: impl IntoIterator<Item = (u16, u64)>) -> Histogram {
        let counts: Vec<(u16, u64)> = counts.into_iter().filter(|(_, count)| *count != 0).collect();
        Histogram { total: counts.iter().map(|(_, count)| count).sum(), counts, ..Histogram::default() }
    }

    /// Creates an empty histogram.
    pub fn empty(lowest: Lowest) -> Histogram {
        Histogram { lowest, ..Histogram::default() }
    }

    /// Empties the histogram for refilling: [`Histogram::add_lower`] follows, highest bucket first, then
    /// [`Histogram::end`].
    pub(crate) fn begin(&mut self) {
        self.counts.clear();
        self.total = 0;
    }

    /// Adds a bucket below those already added.
    pub(crate) fn add_lower(&mut self, bucket: u16, count: u64) {
        if count != 0 {
            self.counts.push((bucket, count));
            self.total += count;
        }
    }

    /// Completes a refill: puts the buckets in ascending order.
    pub(crate) fn end(&mut self) {
        self.counts.reverse();
    }

    /// Returns the number of events in all buckets.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns every bucket, also empty ones.
    pub fn all(&self) -> impl Iterator<Item = HistogramBucket> {
        let mut filled = self.counts.iter().peekable();
        let numbers = std::iter::once(0).chain(self.lowest.next()..BUCKETS as u16);
        self.rows(numbers.map(move |number| {
            let here = filled.next_if(|(filled, _)| *filled == number);
            (number, here.map_or(0, |(_, count)| *count))
        }))
    }

    /// Returns the non-empty buckets.
    pub fn filled(&self) -> impl Iterator<Item = HistogramBucket> {
        self.rows(self.counts.iter().copied())
    }

    #[expect(clippy::cast_precision_loss, reason = "a part of all, to six digits")]
    fn rows(&self, counts: impl Iterator<Item = (u16, u64)>) -> impl Iterator<Item = HistogramBucket> {
        let (total, bounds, mut and_lower) = (self.total(), bounds_ps(), 0);
        counts.map(move |(number, count)| {
            and_lower += count;
            HistogramBucket {
                number: number.into(),
                low_ps: bounds[usize::from(number)],
                high_ps: self.end_ps(number),
                count,
                and_lower,
                quantile: if total == 0 { 0.0 } else { and_lower as f64 / total as f64 },
            }
        })
    }

    /// Returns the upper bound, in picoseconds, of the bucket in which `per_mille` thousandths of all events
    /// are reached. 0 for an empty histogram; `u64::MAX` for the last bucket, which has no bound.
    #[must_use]
    pub fn quantile_ps(&self, per_mille: u16) -> u64 {
        let (thousands, rest, per_mille) = (self.total / 1000, self.total % 1000, u64::from(per_mille));
        // A plain product of the two would need 128 bits.
        let wanted = thousands * per_mille + (rest * per_mille).div_ceil(1000);
        let mut and_lower = 0;
        let reached = self.counts.iter().find(|(_, count)| {
            and_lower += count;
            and_lower >= wanted
        });
        reached.map_or(0, |(number, _)| self.end_ps(*number))
    }

    /// Returns the upper bound of a bucket, in picoseconds.
    fn end_ps(&self, bucket: u16) -> u64 {
        let next = if bucket == 0 { self.lowest.next() } else { bucket + 1 };
        bounds_ps()[usize::from(next)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_those_that_mysql_shows() {
        // Taken from events_statements_histogram_global of MySQL 9.7.4.
        let shown = [
            (0, 0),
            (1, 10_000_000),
            (2, 10_471_285),
            (3, 10_964_781),
            (4, 11_481_536),
            (448, 8_709_635_899_561_102),
            (449, 9_120_108_393_559_408),
            (450, u64::MAX),
        ];
        for (bucket, low) in shown {
            assert_eq!(bounds_ps()[bucket], low, "{bucket}");
        }
        assert!(bounds_ps().is_sorted());
    }

    #[test]
    fn rows_add_up_and_quantiles_are_upper_bounds() {
        let histogram = Histogram::new([(0, 94), (1, 0), (2, 5), (449, 1)]);
        assert_eq!(histogram.total(), 100);
        let filled: Vec<_> = histogram.filled().map(|it| (it.number, it.count, it.and_lower)).collect();
        assert_eq!(filled, [(0, 94, 94), (2, 5, 99), (449, 1, 100)]);
        let all: Vec<HistogramBucket> = histogram.all().collect();
        assert_eq!(all.len(), BUCKETS);
        assert_eq!(all.iter().map(|it| it.count).sum::<u64>(), 100);
        assert_eq!((all[1].count, all[1].and_lower, all[1].quantile), (0, 94, 0.94));
        assert_eq!((all[2].low_ps, all[2].high_ps), (10_471_285, 10_964_781));
        assert_eq!(histogram.quantile_ps(940), 10_000_000);
        assert_eq!(histogram.quantile_ps(950), 10_964_781);
        assert_eq!(histogram.quantile_ps(990), 10_964_781);
        assert_eq!(histogram.quantile_ps(999), u64::MAX);
    }

    #[test]
    fn a_wide_lowest_bucket_ends_where_the_next_one_begins() {
        let histogram = Histogram { lowest: Lowest::Wide, ..Histogram::new([(0, 95), (51, 5)]) };
        let all: Vec<HistogramBucket> = histogram.all().collect();
        assert_eq!(all.len(), BUCKETS - 50);
        assert!(all.windows(2).all(|pair| pair[0].high_ps == pair[1].low_ps));
        assert_eq!((all[0].number, all[1].number, all[1].and_lower), (0, 51, 100));
        assert_eq!(all[0].high_ps, 100_000_000);
        assert_eq!(
            (histogram.quantile_ps(950), histogram.quantile_ps(990)),
            (all[0].high_ps, all[1].high_ps)
        );
    }

    #[test]
    fn of_nothing_every_quantile_is_zero() {
        let nothing = Histogram::default();
        assert_eq!((nothing.total(), nothing.quantile_ps(950), nothing.filled().count()), (0, 0, 0));
        assert!(nothing.all().all(|bucket| bucket.quantile == 0.0));
    }
}
