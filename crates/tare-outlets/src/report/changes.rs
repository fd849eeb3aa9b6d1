//! The growth of a table's counters between two snapshots.
//!
//! Counters only grow, except after a restart of the server, a TRUNCATE, or when a row is reused (digests,
//! tables, files). These are detected by the server's start, by FIRST_SEEN, by a sum or a maximum that fell,
//! and by a minimum that rose. What was reset counts from zero, so no figure is negative, and the report
//! names the table.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use humantime::parse_rfc3339;

use crate::counter;
use crate::snapshot::{Snapshot, SnapshotTable, Value};

/// Tolerance for start times, which the server gives in whole seconds.
const ROUNDING: Duration = Duration::from_secs(1);

/// Two snapshots.
pub(super) struct SnapshotPair<'a> {
    pub(super) first: &'a Snapshot,
    pub(super) last: &'a Snapshot,
    /// Seconds between them.
    pub(super) seconds: f64,
    /// Whether the server was restarted in between.
    pub(super) restarted: bool,
    /// Start of the server, if it was restarted.
    started: Option<SystemTime>,
    /// Tables that were reset, with the rows that show it, and tables that one of the snapshots lacks.
    notices: RefCell<Vec<String>>,
}

/// The values of the columns that identify a row.
pub(super) type RowKeyValues = Vec<Option<String>>;

/// The changes of a table.
pub(super) struct Changes<'a> {
    table: &'a SnapshotTable,
    pub(super) rows: Vec<RowChange<'a>>,
    /// Seconds that the figures cover; `None` if unknown.
    pub(super) seconds: Option<f64>,
}

/// The changes of a row.
pub(super) struct RowChange<'a> {
    pub(super) key: RowKeyValues,
    /// Growth of each counter, in the order of the request.
    pub(super) by: Vec<u64>,
    /// Present value of each counter.
    pub(super) now: Vec<u64>,
    /// Whether it was reset in between.
    pub(super) anew: bool,
    pub(super) row: &'a [Value],
}

impl RowChange<'_> {
    /// Returns a part of its key, empty if it is NULL.
    pub(super) fn name(&self, part: usize) -> &str {
        self.key[part].as_deref().unwrap_or_default()
    }
}

impl Changes<'_> {
    /// Returns the growth of a counter in all rows.
    pub(super) fn sum(&self, counter: usize) -> u64 {
        self.rows.iter().map(|row| row.by[counter]).fold(0, u64::saturating_add)
    }

    /// Returns a row's present value.
    pub(super) fn value<'r>(&self, change: &RowChange<'r>, column: &str) -> Option<&'r Value> {
        self.table.place(column).map(|place| &change.row[place])
    }
}

/// A row of one of the snapshots.
struct Now<'a> {
    sums: Vec<u64>,
    first_seen: Option<&'a str>,
    most: Option<u64>,
    least: Option<u64>,
    row: &'a [Value],
}

impl Now<'_> {
    fn is_active(&self) -> bool {
        self.sums.iter().any(|sum| *sum > 0)
    }

    /// Returns whether it was reset since `earlier`.
    fn began_anew_since(&self, earlier: &Now<'_>) -> bool {
        let fell = self.sums.iter().zip(&earlier.sums).any(|(now, then)| counter::was_emptied(*then, *now));
        let first = self.first_seen.is_some() && self.first_seen != earlier.first_seen;
        let most = matches!((self.most, earlier.most), (Some(now), Some(then)) if now < then);
        let least = matches!((self.least, earlier.least), (Some(now), Some(then)) if then > 0 && now > then);
        fell || first || most || least
    }
}

impl<'a> SnapshotPair<'a> {
    /// Compares two snapshots, the earlier one first.
    pub(super) fn new(first: &'a Snapshot, last: &'a Snapshot) -> Result<Self, String> {
        let taken = |snapshot: &Snapshot| {
            snapshot.taken_at().ok_or_else(|| format!("no time: {:?}", snapshot.header.taken_at))
        };
        let (begin, end) = (taken(first)?, taken(last)?);
        let between = end.duration_since(begin).ok().filter(|between| !between.is_zero());
        let seconds = between.map(|between| between.as_secs_f64()).ok_or_else(|| {
            let (first, last) = (&first.header.taken_at, &last.header.taken_at);
            format!("the earlier snapshot comes first; the first was taken at {first}, the second at {last}")
        })?;
        let started_of =
            |it: &Snapshot| it.header.started_at.as_deref().and_then(|at| parse_rfc3339(at).ok());
        let started = started_of(last);
        // A server that restarts within that second starts later than before.
        let before = started_of(first).unwrap_or(begin);
        let restarted = started.is_some_and(|started| started > before + ROUNDING);
        let notices = RefCell::default();
        Ok(SnapshotPair { first, last, seconds, restarted, started, notices })
    }

    /// Returns warnings about the snapshots.
    pub(super) fn warnings(&self) -> Vec<String> {
        let mut warnings = vec![];
        let (first, last) = (&self.first.header, &self.last.header);
        if first.address != last.address {
            warnings.push(format!(
                "The snapshots were taken of {} and of {}. Of two servers no figure below means anything.",
                first.address, last.address
            ));
        }
        if first.version != last.version {
            warnings.push(format!("The server's version was {}, and is {}.", first.version, last.version));
        }
        if self.restarted {
            let at = last.started_at.as_deref().unwrap_or_default();
            warnings.push(format!(
                "The server was started anew in between, at {at}: all figures are since then."
            ));
        }
        warnings.extend(self.notices.borrow().iter().cloned());
        let unread = self.last.tables.values().filter_map(|table| Some((table, table.tail.error.as_ref()?)));
        warnings.extend(
            unread
                .filter(|(table, _)| super::WANTED.contains(&table.head.table.as_str()))
                .map(|(table, why)| format!("{} could not be read: {why}", table.head.table)),
        );
        warnings
    }

    /// Returns a table of both snapshots.
    pub(super) fn tables(&self, name: &str) -> Option<(&'a SnapshotTable, &'a SnapshotTable)> {
        Some((self.first.table(name)?, self.last.table(name)?))
    }

    /// Returns the growth of a table's counters by `key`. Rows that share a key are merged. `None` if a
    /// snapshot lacks the table.
    pub(super) fn changes(&self, name: &str, key: &[&str], counters: &[&str]) -> Option<Changes<'a>> {
        let (first, last) = self.tables(name)?;
        let (then, now) = (rows(first, key, counters), rows(last, key, counters));
        let anew = self.restarted || self.was_reset(name, &then, &now);
        let rows = now.into_iter().map(|(key, now)| {
            let then = then.get(&key).filter(|then| !anew && !now.began_anew_since(then));
            let base = |counter: usize| then.map_or(0, |then| then.sums[counter]);
            let by =
                now.sums.iter().enumerate().map(|(counter, sum)| sum.wrapping_sub(base(counter))).collect();
            RowChange { key, by, anew: then.is_none(), now: now.sums, row: now.row }
        });
        let rows = rows.collect();
        let seconds = if anew && !self.restarted { None } else { Some(self.seconds_of(first, last)) };
        Some(Changes { table: last, rows, seconds })
    }

    /// Returns the seconds between the two readings of a table, or since the server's start.
    pub(super) fn seconds_of(&self, first: &SnapshotTable, last: &SnapshotTable) -> f64 {
        let begin = if self.restarted { self.started } else { first.read_at() };
        let between = begin.zip(last.read_at()).and_then(|(begin, end)| end.duration_since(begin).ok());
        between.map_or(self.seconds, |between| between.as_secs_f64())
    }

    /// Returns whether a whole table was reset by TRUNCATE, and notes that. A single reset row may be reused,
    /// several are not.
    fn was_reset(
        &self,
        name: &str,
        then: &BTreeMap<RowKeyValues, Now<'_>>,
        now: &BTreeMap<RowKeyValues, Now<'_>>,
    ) -> bool {
        let active: Vec<(&Now<'_>, Option<&Now<'_>>)> =
            then.iter().filter(|(_, row)| row.is_active()).map(|(key, row)| (row, now.get(key))).collect();
        let there = active.iter().filter_map(|(then, now)| Some((then, (*now)?)));
        let (mut there_rows, mut anew, mut zeroed) = (0_usize, 0_usize, 0_usize);
        for (then, now) in there {
            there_rows += 1;
            anew += usize::from(now.began_anew_since(then));
            zeroed += usize::from(!now.is_active());
        }
        let gone = active.len() - there_rows;
        // Rows named by the server always exist.
        let fixed = name.ends_with("_by_event_name") || name.ends_with("_by_error");
        let reset = (fixed && zeroed > 0)
            || (anew > 0 && 2 * anew >= there_rows && (anew > 1 || fixed))
            || (there_rows == 0 && gone > 1);
        if reset && fixed && !self.restarted {
            self.notice(format!(
                "{name} was reset between the snapshots (TRUNCATE). Its figures count from then, and have no rates."
            ));
        } else if anew > 0 && !self.restarted {
            self.notice(format!(
                "{name}: {anew} of {there_rows} rows were reset between the snapshots, by TRUNCATE or because the object was \
                 created again. Their figures count from then."
            ));
        }
        reset
    }

    fn notice(&self, notice: String) {
        let mut notices = self.notices.borrow_mut();
        if !notices.contains(&notice) {
            notices.push(notice);
        }
    }
}

/// Returns the rows of a table by key, with their counters.
fn rows<'a>(table: &'a SnapshotTable, key: &[&str], counters: &[&str]) -> BTreeMap<RowKeyValues, Now<'a>> {
    let key: Vec<Option<usize>> = key.iter().map(|column| table.place(column)).collect();
    let counters: Vec<Option<usize>> = counters.iter().map(|column| table.place(column)).collect();
    let (first_seen, most, least) =
        (table.place("FIRST_SEEN"), table.place("MAX_TIMER_WAIT"), table.place("MIN_TIMER_WAIT"));
    let mut rows: BTreeMap<RowKeyValues, Now<'a>> = BTreeMap::new();
    for row in &table.rows {
        let at = |place: Option<usize>| place.map(|place| &row[place]);
        let sums = counters.iter().map(|place| at(*place).and_then(Value::count).unwrap_or(0)).collect();
        let now = Now {
            sums,
            first_seen: at(first_seen).and_then(Value::text),
            most: at(most).and_then(Value::count),
            least: at(least).and_then(Value::count),
            row,
        };
        let key = key.iter().map(|place| at(*place).and_then(word)).collect();
        match rows.entry(key) {
            std::collections::btree_map::Entry::Vacant(vacant) => {
                vacant.insert(now);
            }
            std::collections::btree_map::Entry::Occupied(mut known) => {
                let known = known.get_mut();
                known.sums.iter_mut().zip(now.sums).for_each(|(sum, more)| *sum = sum.wrapping_add(more));
                // Merged rows have no single start, minimum or maximum.
                (known.first_seen, known.most, known.least) = (None, None, None);
            }
        }
    }
    rows
}

/// Returns a value as part of a key.
pub(super) fn word(value: &Value) -> Option<String> {
    match value {
        Value::Text(text) => Some(text.clone()),
        Value::Unsigned(number) => Some(number.to_string()),
        Value::Signed(number) => Some(number.to_string()),
        Value::Real(number) => Some(number.to_string()),
        Value::Null | Value::Binary(_) => None,
    }
}
