//! The interface of a collector: its options, and what a scrape provides.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use regex::Regex;

use super::sample::Samples;
use crate::source::{Error, QueryPart, Row, Source};

/// A collector of mysqld_exporter, or one of tare's own.
#[derive(Debug, PartialEq, Eq)]
pub struct Collector {
    /// Name as mysqld_exporter spells it: `perf_schema.eventswaits`.
    pub name: &'static str,
    /// Description in a line.
    pub help: &'static str,
    /// Whether it is on by default.
    pub on: bool,
    /// Number of rows that become samples by default; `None` where the server determines the number of rows
    /// and users cannot increase it.
    pub limit: Option<usize>,
}

/// Collectors that read the same tables, whose common rows are read once.
pub struct CollectorGroup {
    /// The collectors of the group.
    pub collectors: &'static [&'static Collector],
    /// Reads what its wanted collectors need, and adds their samples.
    pub read: fn(&mut Scrape<'_>) -> Result<(), Error>,
}

/// The options of all collectors.
#[derive(Clone, Debug)]
pub struct CollectorOptions {
    /// Collectors, by name, that are switched differently from their default.
    pub switched: BTreeMap<&'static str, bool>,
    /// Limits of rows, by the collector's name, that differ from the default.
    pub limits: BTreeMap<&'static str, usize>,
    /// Whether the normalised text of statements is a label.
    pub digest_text: bool,
    /// Most characters of that text.
    pub digest_text_limit: usize,
    /// Seconds after which a digest that has not been seen is left out.
    pub time_limit: u64,
    /// Schemas whose statements are left out, besides the server's own.
    pub exclude_schemas: Vec<String>,
    /// Pattern of the files to include.
    pub file_filter: Regex,
    /// Prefix to strip from the names of files.
    pub file_prefix: String,
    /// Prefix to strip from the instruments of memory.
    pub memory_prefix: String,
}

impl Default for CollectorOptions {
    fn default() -> Self {
        Self {
            switched: BTreeMap::new(),
            limits: BTreeMap::new(),
            digest_text: false,
            digest_text_limit: 120,
            time_limit: 86_400,
            exclude_schemas: vec![],
            file_filter: Regex::new(".*").expect("a pattern"),
            file_prefix: "/var/lib/mysql/".to_owned(),
            memory_prefix: "memory/".to_owned(),
        }
    }
}

impl CollectorOptions {
    /// Returns whether this collector is on.
    #[must_use]
    pub fn has(&self, collector: &Collector) -> bool {
        self.switched.get(collector.name).copied().unwrap_or(collector.on)
    }

    /// Returns the number of rows that become samples.
    pub(super) fn limit(&self, collector: &Collector) -> usize {
        let usual = collector.limit.unwrap_or(usize::MAX);
        self.limits.get(collector.name).copied().unwrap_or(usual)
    }
}

/// The tables of a server, or a recording of them.
pub trait TableSource {
    /// Passes the rows of a table to `take`, as [`Source::each`] does.
    ///
    /// # Errors
    ///
    /// Those of [`Source::each`].
    fn each(
        &mut self,
        table: &str,
        columns: &[&str],
        filter: &str,
        take: &mut dyn FnMut(Row),
    ) -> Result<(), Error>;

    /// Passes the rows of several parts at one point in time, as [`Source::at_once`] does. Returns false if
    /// that is not possible, as with a recording.
    ///
    /// # Errors
    ///
    /// Those of [`Source::at_once`].
    fn at_once(
        &mut self,
        _table: &str,
        _columns: &[&str],
        _parts: &[QueryPart],
        _take: &mut dyn FnMut(usize, Row),
    ) -> Result<bool, Error> {
        Ok(false)
    }
}

impl TableSource for Source {
    fn each(
        &mut self,
        table: &str,
        columns: &[&str],
        filter: &str,
        take: &mut dyn FnMut(Row),
    ) -> Result<(), Error> {
        Source::each(self, table, columns, filter, take)
    }

    fn at_once(
        &mut self,
        table: &str,
        columns: &[&str],
        parts: &[QueryPart],
        take: &mut dyn FnMut(usize, Row),
    ) -> Result<bool, Error> {
        Source::at_once(self, table, columns, parts, take)
    }
}

/// The state of a group while it reads.
pub struct Scrape<'a> {
    /// The tables to read.
    pub tables: &'a mut dyn TableSource,
    /// The collectors' options.
    pub options: &'a CollectorOptions,
    /// Names of the collectors of this scrape.
    pub wanted: &'a [&'static str],
    /// The time before [`CollectorOptions::time_limit`], `YYYY-MM-DD hh:mm:ss` in UTC.
    pub since: &'a str,
    /// The samples so far.
    pub samples: Samples,
    /// Number of rows that each collector left out because of its limit.
    pub left_out: BTreeMap<&'static str, u64>,
}

impl Scrape<'_> {
    /// Returns whether this scrape is for that collector.
    #[must_use]
    pub fn wants(&self, collector: &Collector) -> bool {
        self.wanted.contains(&collector.name)
    }

    /// Reads a table and returns the rows with the highest rank among those to keep, within the collector's
    /// limit.
    ///
    /// # Errors
    ///
    /// Those of [`Source::each`].
    pub fn highest(
        &mut self,
        collector: &Collector,
        (table, columns): (&str, &[&str]),
        keep: impl Fn(&Row) -> bool,
        rank: impl Fn(&Row) -> u128,
    ) -> Result<Vec<Row>, Error> {
        let mut highest = Highest::new(self.options.limit(collector));
        self.tables.each(table, columns, "", &mut |row| {
            if keep(&row) {
                highest.take(rank(&row), || row);
            }
        })?;
        Ok(self.kept(collector, highest))
    }

    /// Returns an empty list with the collector's limit.
    #[must_use]
    pub fn room<T>(&self, collector: &Collector) -> Highest<T> {
        Highest::new(self.options.limit(collector))
    }

    /// Returns the kept items, and counts those left out.
    pub fn kept<T>(&mut self, collector: &Collector, highest: Highest<T>) -> Vec<T> {
        let (kept, left_out) = highest.kept();
        if collector.limit.is_some() {
            self.left_out.insert(collector.name, left_out);
        }
        kept
    }
}

/// The items of the highest rank, up to a limit. Of equal ranks the first ones stay.
pub struct Highest<T> {
    room: usize,
    items: BinaryHeap<Reverse<Ranked<T>>>,
    count: u64,
    left_out: u64,
}

struct Ranked<T> {
    rank: (u128, Reverse<u64>),
    item: T,
}

impl<T> PartialEq for Ranked<T> {
    fn eq(&self, other: &Self) -> bool {
        self.rank == other.rank
    }
}

impl<T> Eq for Ranked<T> {}

impl<T> PartialOrd for Ranked<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Ranked<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.rank.cmp(&other.rank)
    }
}

impl<T> Highest<T> {
    fn new(room: usize) -> Self {
        Self { room, items: BinaryHeap::new(), count: 0, left_out: 0 }
    }

    /// Adds an item, which is only made if its rank is high enough.
    pub fn take(&mut self, rank: u128, item: impl FnOnce() -> T) {
        let rank = (rank, Reverse(self.count));
        self.count += 1;
        if self.items.len() >= self.room {
            self.left_out += 1;
            match self.items.peek() {
                Some(Reverse(lowest)) if lowest.rank < rank => self.items.pop(),
                _ => return,
            };
        }
        self.items.push(Reverse(Ranked { rank, item: item() }));
    }

    /// Returns the kept items, the highest rank first, and the number of the others.
    #[must_use]
    pub fn kept(self) -> (Vec<T>, u64) {
        let items = self.items.into_sorted_vec().into_iter();
        (items.map(|Reverse(ranked)| ranked.item).collect(), self.left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_stay_and_the_others_are_counted() {
        let mut highest = Highest::new(3);
        for (name, rank) in [("a", 5), ("b", 1), ("c", 5), ("d", 9), ("e", 0), ("f", 5)] {
            highest.take(rank, || name);
        }
        assert_eq!(highest.kept(), (vec!["d", "a", "c"], 3));
        let mut none = Highest::new(0);
        none.take(1, || "a");
        assert_eq!(none.kept(), (vec![], 1));
    }
}
