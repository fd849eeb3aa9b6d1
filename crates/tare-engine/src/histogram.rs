//! Histograms: how many events took how long. Buckets are MySQL's: the first one ends at 10 microseconds, and 50 of them
//! are a factor of ten. Of some instruments the first fifty-one are one ([`Lowest`]).

use std::sync::LazyLock;

/// Buckets of a histogram.
pub const BUCKETS: usize = 450;
/// Where the lowest bucket ends, picoseconds.
const BASE_PS: f64 = 1e7;
/// By how much the bound of a bucket exceeds that of the one before: the fiftieth root of ten.
const FACTOR: f64 = 1.047_128_548_050_899_6;

/// The lower bounds of all buckets in picoseconds, and no bound behind the last one. As MySQL has them: multiplied one by
/// one, and cut to whole numbers.
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

/// How far the lowest bucket of a histogram reaches. The next one begins where it does everywhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Lowest {
    /// To 10 microseconds.
    #[default]
    Usual,
    /// To 100 microseconds: of stages, sockets and idle connections. Every statement has some of these that take between the
    /// two, whatever it does; to count them bucket by bucket would be more than half of what all histograms cost.
    Wide,
}

impl Lowest {
    /// Both, by number.
    pub(crate) const ALL: [Lowest; 2] = [Lowest::Usual, Lowest::Wide];

    /// The number of the next bucket.
    pub(crate) const fn next(self) -> u16 {
        match self {
            Lowest::Usual => 1,
            Lowest::Wide => 51,
        }
    }
}

/// How many timed events took how long.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    lowest: Lowest,
    /// Buckets that hold something, lowest first.
    counts: Vec<(u16, u64)>,
    /// What they hold together.
    total: u64,
}

/// One bucket of a histogram: a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bucket {
    /// BUCKET_NUMBER.
    pub number: u32,
    /// BUCKET_TIMER_LOW: events of this bucket took at least so long.
    pub low_ps: u64,
    /// BUCKET_TIMER_HIGH: they took less than this.
    pub high_ps: u64,
    /// COUNT_BUCKET.
    pub count: u64,
    /// COUNT_BUCKET_AND_LOWER.
    pub and_lower: u64,
    /// BUCKET_QUANTILE: which part of all events is in this bucket and the lower ones.
    pub quantile: f64,
}

impl Histogram {
    /// Of buckets in their order, with what is in them.
    pub fn new(counts: impl IntoIterator<Item = (u16, u64)>) -> Histogram {
        let counts: Vec<(u16, u64)> = counts.into_iter().filter(|(_, count)| *count != 0).collect();
        Histogram { total: counts.iter().map(|(_, count)| count).sum(), counts, ..Histogram::default() }
    }

    /// Holds nothing.
    pub fn empty(lowest: Lowest) -> Histogram {
        Histogram { lowest, ..Histogram::default() }
    }

    /// Holds nothing any more: buckets follow, the highest first, and then [`Histogram::end`].
    pub(crate) fn begin(&mut self) {
        self.counts.clear();
        self.total = 0;
    }

    /// Adds a bucket below those that are there.
    pub(crate) fn add_lower(&mut self, bucket: u16, count: u64) {
        if count != 0 {
            self.counts.push((bucket, count));
            self.total += count;
        }
    }

    /// It has all its buckets.
    pub(crate) fn end(&mut self) {
        self.counts.reverse();
    }

    /// Events in all buckets.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Every bucket.
    pub fn all(&self) -> impl Iterator<Item = Bucket> {
        let mut filled = self.counts.iter().peekable();
        let numbers = std::iter::once(0).chain(self.lowest.next()..BUCKETS as u16);
        self.rows(numbers.map(move |number| {
            let here = filled.next_if(|(filled, _)| *filled == number);
            (number, here.map_or(0, |(_, count)| *count))
        }))
    }

    /// Every bucket that holds something.
    pub fn filled(&self) -> impl Iterator<Item = Bucket> {
        self.rows(self.counts.iter().copied())
    }

    #[expect(clippy::cast_precision_loss, reason = "a part of all, to six digits")]
    fn rows(&self, counts: impl Iterator<Item = (u16, u64)>) -> impl Iterator<Item = Bucket> {
        let (total, bounds, mut and_lower) = (self.total(), bounds_ps(), 0);
        counts.map(move |(number, count)| {
            and_lower += count;
            Bucket {
                number: number.into(),
                low_ps: bounds[usize::from(number)],
                high_ps: self.end_ps(number),
                count,
                and_lower,
                quantile: if total == 0 { 0.0 } else { and_lower as f64 / total as f64 },
            }
        })
    }

    /// The upper bound, in picoseconds, of the bucket in which so many thousandths of all events are reached; 0 where there
    /// are none. What lasted longer than the last bound has none: that is the greatest number.
    #[must_use]
    pub fn quantile_ps(&self, per_mille: u16) -> u64 {
        let (thousands, rest, per_mille) = (self.total / 1000, self.total % 1000, u64::from(per_mille));
        // The product of both would take 128 bits.
        let wanted = thousands * per_mille + (rest * per_mille).div_ceil(1000);
        let mut and_lower = 0;
        let reached = self.counts.iter().find(|(_, count)| {
            and_lower += count;
            and_lower >= wanted
        });
        reached.map_or(0, |(number, _)| self.end_ps(*number))
    }

    /// Where a bucket ends, picoseconds.
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
        // From events_statements_histogram_global of MySQL 9.7.4.
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
        let all: Vec<Bucket> = histogram.all().collect();
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
        let all: Vec<Bucket> = histogram.all().collect();
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
