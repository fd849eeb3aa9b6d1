//! What a collector is, what it may be told, and what a scrape gives it to work with.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use regex::Regex;

use super::sample::Samples;
use crate::source::{Error, Part, Row, Source};

/// One of mysqld_exporter's collectors, or one of tare's own.
#[derive(Debug, PartialEq, Eq)]
pub struct Collector {
    /// As mysqld_exporter spells it: `perf_schema.eventswaits`.
    pub name: &'static str,
    /// A line for people.
    pub help: &'static str,
    /// Whether it is on unless it is said.
    pub on: bool,
    /// How many rows become samples unless it is said; `None` where the number of rows is the server's own affair and
    /// no user can make it grow.
    pub limit: Option<usize>,
}

/// Collectors that read the same tables: what they have in common is read once for all of them.
pub struct Group {
    /// Its collectors.
    pub collectors: &'static [&'static Collector],
    /// Reads what those of them need that are wanted, and adds their samples.
    pub read: fn(&mut Scrape<'_>) -> Result<(), Error>,
}

/// What the collectors are told.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether a collector runs, by name, where it is not as usual.
    pub switched: BTreeMap<&'static str, bool>,
    /// How many rows become samples, by the collector's name, where it is not as usual.
    pub limits: BTreeMap<&'static str, usize>,
    /// Statements' normalised text as a label.
    pub digest_text: bool,
    /// How many letters of it.
    pub digest_text_limit: usize,
    /// Digests that were not seen for so many seconds are left out.
    pub time_limit: u64,
    /// Schemas whose statements are left out, beside the server's own.
    pub exclude_schemas: Vec<String>,
    /// Which files.
    pub file_filter: Regex,
    /// What is cut off the front of a file's name.
    pub file_prefix: String,
    /// What is cut off the front of an instrument of memory.
    pub memory_prefix: String,
}

impl Default for Options {
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

impl Options {
    /// Whether this collector is on.
    #[must_use]
    pub fn has(&self, collector: &Collector) -> bool {
        self.switched.get(collector.name).copied().unwrap_or(collector.on)
    }

    /// How many rows become samples.
    pub(super) fn limit(&self, collector: &Collector) -> usize {
        let usual = collector.limit.unwrap_or(usize::MAX);
        self.limits.get(collector.name).copied().unwrap_or(usual)
    }
}

/// The tables of a server, or a record of them.
pub trait Tables {
    /// Gives the rows of a table as [`Source::each`] does.
    ///
    /// # Errors
    ///
    /// As [`Source::each`].
    fn each(
        &mut self,
        table: &str,
        columns: &[&str],
        filter: &str,
        take: &mut dyn FnMut(Row),
    ) -> Result<(), Error>;

    /// Gives what parts ask for of one moment, as [`Source::at_once`] does. A record cannot.
    ///
    /// # Errors
    ///
    /// As [`Source::at_once`].
    fn at_once(
        &mut self,
        _table: &str,
        _columns: &[&str],
        _parts: &[Part],
        _take: &mut dyn FnMut(usize, Row),
    ) -> Result<bool, Error> {
        Ok(false)
    }
}

impl Tables for Source {
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
        parts: &[Part],
        take: &mut dyn FnMut(usize, Row),
    ) -> Result<bool, Error> {
        Source::at_once(self, table, columns, parts, take)
    }
}

/// What a group works with while it reads.
pub struct Scrape<'a> {
    /// Where it reads.
    pub tables: &'a mut dyn Tables,
    /// What it was told.
    pub options: &'a Options,
    /// The collectors this scrape is for, by name.
    pub wanted: &'a [&'static str],
    /// The time, `YYYY-MM-DD hh:mm:ss` in UTC less [`Options::time_limit`].
    pub since: &'a str,
    /// What was found.
    pub samples: Samples,
    /// How many rows each collector left out because of its limit.
    pub left_out: BTreeMap<&'static str, u64>,
}

impl Scrape<'_> {
    /// Whether this scrape is for that collector.
    #[must_use]
    pub fn wants(&self, collector: &Collector) -> bool {
        self.wanted.contains(&collector.name)
    }

    /// The rows that are kept of a table: of those wanted, as many as the collector's limit allows, the highest rank
    /// first.
    ///
    /// # Errors
    ///
    /// As [`Source::each`].
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

    /// Room for as many as the collector's limit allows.
    #[must_use]
    pub fn room<T>(&self, collector: &Collector) -> Highest<T> {
        Highest::new(self.options.limit(collector))
    }

    /// What was kept; what was not is noted.
    pub fn kept<T>(&mut self, collector: &Collector, highest: Highest<T>) -> Vec<T> {
        let (kept, left_out) = highest.kept();
        if collector.limit.is_some() {
            self.left_out.insert(collector.name, left_out);
        }
        kept
    }
}

/// As many items as there is room for, those of the highest rank. Of equals the first ones stay.
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

    /// Takes an item, which is made only if there is room for its rank.
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

    /// What was kept, the highest rank first, and how many were not.
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
