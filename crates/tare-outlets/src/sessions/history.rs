//! Rows of the history, in the order of time.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};

use super::words::{Word, Words};
use super::{Stretch, group, moment};
use crate::snapshot;
use crate::source::Row;

/// The columns of it that a [`History`] takes, in the order of [`Values`].
pub const COLUMNS: [&str; 16] = [
    "SAMPLE_TIME",
    "USECS_PER_ROW",
    "THREAD_ID",
    "PROCESSLIST_ID",
    "THREAD_NAME",
    "USER",
    "HOST",
    "SCHEMA_NAME",
    "DIGEST",
    "STATE",
    "WAIT_CLASS",
    "WAIT_EVENT",
    "OBJECT_SCHEMA",
    "OBJECT_NAME",
    "BLOCKING_THREAD_ID",
    "BLOCKING_PROCESSLIST_ID",
];

/// The longest time that a row stands for, in microseconds: the longest interval, and how late a sample may
/// be.
const LONGEST: u64 = 70_000_000;
/// Number of texts from which those that no row has any more are dropped.
const TEXTS: usize = 10_000;

/// The values of a row, by position in [`COLUMNS`].
pub trait Values {
    /// Returns a text; `None` for NULL.
    fn text(&self, at: usize) -> Option<Cow<'_, str>>;
    /// Returns a number; `None` for NULL.
    fn number(&self, at: usize) -> Option<u64>;
}

impl Values for Row {
    fn text(&self, at: usize) -> Option<Cow<'_, str>> {
        self.str(at)
    }

    fn number(&self, at: usize) -> Option<u64> {
        Row::number(self, at)
    }
}

/// A row of a snapshot's table, with the place of each of [`COLUMNS`] in it.
impl Values for (&[Option<usize>], &[snapshot::Value]) {
    fn text(&self, at: usize) -> Option<Cow<'_, str>> {
        self.1.get(self.0[at]?)?.text().map(Cow::Borrowed)
    }

    fn number(&self, at: usize) -> Option<u64> {
        self.1.get(self.0[at]?)?.count()
    }
}

/// What a session did at a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sample {
    /// Microseconds since 1970.
    pub(super) at: u64,
    /// Microseconds that it stands for.
    pub(super) us: u64,
    pub(super) group: usize,
    pub(super) thread: u64,
    pub(super) connection: Option<u64>,
    pub(super) thread_name: Word,
    pub(super) user: Word,
    pub(super) host: Word,
    pub(super) schema: Word,
    pub(super) digest: Word,
    pub(super) state: Word,
    pub(super) class: Word,
    pub(super) event: Word,
    pub(super) object: [Word; 2],
    /// Thread that it waited for, and that thread's connection.
    pub(super) blocker: Option<u64>,
    pub(super) blocking_connection: Option<u64>,
}

/// Rows of the active session history.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// In the order of time; a thread has one row at a time.
    pub(super) rows: Vec<Sample>,
    pub(super) words: Words,
    /// Texts of digests, by schema and digest.
    texts: HashMap<(Word, Word), Word>,
    /// Accounts of threads that may have no row, by THREAD_ID.
    accounts: HashMap<u64, String>,
    /// Number of the server's processors, if known.
    pub processors: Option<u64>,
}

impl History {
    /// Adds rows. A row that is there already is not added again, and neither is one without a time.
    pub fn extend<V: Values>(&mut self, rows: impl IntoIterator<Item = V>) {
        let mut filling = self.filling();
        rows.into_iter().for_each(|row| filling.add(&row));
    }

    /// Starts to add rows one by one.
    pub fn filling(&mut self) -> Filling<'_> {
        Filling { before: self.rows.len(), history: self }
    }

    /// Adds the rows of another history, and what else it knows.
    pub fn merge(&mut self, other: &History) {
        let before = self.rows.len();
        for row in &other.rows {
            let row = self.translated(row, other);
            self.rows.push(row);
        }
        self.settle(before);
        for ((schema, digest), text) in &other.texts {
            let [schema, digest, text] =
                [schema, digest, text].map(|it| self.words.word(other.words.text(*it)));
            self.texts.insert((schema, digest), text);
        }
        self.accounts.extend(other.accounts.iter().map(|(thread, account)| (*thread, account.clone())));
        self.processors = other.processors.or(self.processors);
    }

    /// Drops rows before `at`, in microseconds since 1970.
    pub fn forget_before(&mut self, at: u64) {
        let gone = self.rows.partition_point(|row| row.at < at);
        self.rows.drain(..gone);
        if gone > 0 && self.words.len() > TEXTS.max(self.rows.len()) {
            let mut slim = History::default();
            slim.merge(self);
            *self = slim;
        }
    }

    /// Remembers the text of a digest.
    pub fn name_digest(&mut self, schema: Option<&str>, digest: &str, text: &str) {
        let [schema, digest, text] = [schema, Some(digest), Some(text)].map(|it| self.words.word(it));
        self.texts.insert((schema, digest), text);
    }

    /// Remembers the account of a thread: one that holds a lock while it is idle has no row.
    pub fn name_thread(&mut self, thread: u64, account: String) {
        self.accounts.insert(thread, account);
    }

    /// Returns the account of a thread, if it has been named.
    pub(super) fn account_of(&self, thread: u64) -> Option<&str> {
        self.accounts.get(&thread).map(String::as_str)
    }

    /// Returns threads that others waited for, and that have no row and no name.
    #[must_use]
    pub fn unnamed_blockers(&self) -> Vec<u64> {
        let blockers: BTreeSet<u64> = self.rows.iter().filter_map(|row| row.blocker).collect();
        let active: HashSet<u64> = self.rows.iter().map(|row| row.thread).collect();
        let unnamed = |it: &u64| !active.contains(it) && !self.accounts.contains_key(it);
        blockers.into_iter().filter(unnamed).collect()
    }

    /// Returns schemas and digests of rows whose texts are not known.
    #[must_use]
    pub fn unnamed(&self) -> Vec<(Option<&str>, &str)> {
        let keys: BTreeSet<(Word, Word)> = self.rows.iter().map(|row| (row.schema, row.digest)).collect();
        let unnamed = keys.into_iter().filter(|key| !self.texts.contains_key(key));
        unnamed
            .filter_map(|(schema, digest)| Some((self.words.text(schema), self.words.text(digest)?)))
            .collect()
    }

    /// Returns the text of a digest, if it is known.
    #[must_use]
    pub fn text_of(&self, schema: Option<&str>, digest: &str) -> Option<&str> {
        let key = (self.words.find(schema)?, self.words.find(Some(digest))?);
        self.texts.get(&key).and_then(|text| self.words.text(*text))
    }

    /// Returns the time of all rows, from where the first of it begins to the last sample; `None` without
    /// rows.
    #[must_use]
    pub fn whole(&self) -> Option<Stretch> {
        let (first, last) = (self.rows.first()?, self.rows.last()?);
        // A later sample may stand for a longer time.
        let early = self.rows.iter().take_while(|row| row.at <= first.at.saturating_add(LONGEST));
        let from = early.map(|row| row.at.saturating_sub(row.us)).min()?;
        Some(Stretch { from, to: last.at + 1 })
    }

    /// Returns whether there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns the rows that have time in a stretch, each with that time. A row's time is the one before its
    /// sample: what of it lies outside the stretch is left out, and a sample soon after the stretch has some
    /// of it.
    pub(super) fn parts(&self, stretch: Stretch) -> impl Iterator<Item = (&Sample, Stretch)> {
        let reach = Stretch { to: stretch.to.saturating_add(LONGEST), ..stretch };
        let part =
            move |row: &Sample| Stretch { from: row.at.saturating_sub(row.us), to: row.at }.within(stretch);
        self.rows_of(reach).iter().map(move |row| (row, part(row))).filter(|(_, part)| part.length() > 0)
    }

    /// Returns the longest time that a row of the stretch stands for, in microseconds.
    #[must_use]
    pub fn interval(&self, stretch: Stretch) -> u64 {
        self.rows_of(stretch).iter().map(|row| row.us).max().unwrap_or(0)
    }

    /// Returns the rows with a SAMPLE_TIME in a stretch.
    fn rows_of(&self, stretch: Stretch) -> &[Sample] {
        let from = self.rows.partition_point(|row| row.at < stretch.from);
        let to = self.rows.partition_point(|row| row.at < stretch.to);
        &self.rows[from..to.max(from)]
    }

    fn push(&mut self, row: &impl Values) {
        let time = row.text(0);
        let Some(at) = time.as_deref().and_then(moment::microseconds) else { return };
        let class = row.text(10);
        let group = group(class.as_deref().unwrap_or_default());
        let class = self.words.word(class.as_deref());
        let mut word = |at: usize| self.words.word(row.text(at).as_deref());
        let sample = Sample {
            at,
            us: row.number(1).unwrap_or(0),
            group,
            thread: row.number(2).unwrap_or(0),
            connection: row.number(3),
            thread_name: word(4),
            user: word(5),
            host: word(6),
            schema: word(7),
            digest: word(8),
            state: word(9),
            class,
            event: word(11),
            object: [word(12), word(13)],
            blocker: row.number(14),
            blocking_connection: row.number(15),
        };
        self.rows.push(sample);
    }

    fn translated(&mut self, row: &Sample, of: &History) -> Sample {
        let mut word = |it: Word| self.words.word(of.words.text(it));
        Sample {
            thread_name: word(row.thread_name),
            user: word(row.user),
            host: word(row.host),
            schema: word(row.schema),
            digest: word(row.digest),
            state: word(row.state),
            class: word(row.class),
            event: word(row.event),
            object: row.object.map(&mut word),
            ..*row
        }
    }

    /// Sorts rows after some were added behind the first `before`, and drops those that are there twice.
    fn settle(&mut self, before: usize) {
        let from = before.saturating_sub(1);
        if self.rows[from..].is_sorted_by(|one, next| (one.at, one.thread) < (next.at, next.thread)) {
            return;
        }
        self.rows.sort_by_key(|row| (row.at, row.thread));
        self.rows.dedup_by_key(|row| (row.at, row.thread));
    }
}

/// A history to which rows are being added. They are in order when it is dropped.
pub struct Filling<'a> {
    history: &'a mut History,
    /// Number of rows before.
    before: usize,
}

impl Filling<'_> {
    /// Adds a row. One that is there already is not added again, and neither is one without a time.
    pub fn add(&mut self, row: &impl Values) {
        self.history.push(row);
    }
}

impl Drop for Filling<'_> {
    fn drop(&mut self) {
        self.history.settle(self.before);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::sessions::{microseconds, seconds};

    /// Makes a row: the second of 2026-01-02 03:00:00, thread, class, and other columns by name.
    pub(crate) fn row(second: u64, thread: u64, class: &str, others: &[(&str, &str)]) -> Row {
        let (hour, minute, second) = (3 + second / 3600, second / 60 % 60, second % 60);
        let time = format!("2026-01-02 {hour:02}:{minute:02}:{second:02}.000000");
        let thread = thread.to_string();
        let given = [
            ("SAMPLE_TIME", time.as_str()),
            ("USECS_PER_ROW", "1000000"),
            ("THREAD_ID", &thread),
            ("PROCESSLIST_ID", &thread),
            ("THREAD_NAME", "thread/sql/one_connection"),
            ("USER", "app"),
            ("HOST", "10.0.0.5"),
            ("STATE", if class == "CPU" { "ON CPU" } else { "WAITING" }),
            ("WAIT_CLASS", class),
        ];
        let value = |column: &&str| {
            let mut all = others.iter().chain(&given);
            all.find(|(name, _)| name == column).map(|(_, value)| *value).filter(|value| !value.is_empty())
        };
        Row::of(&COLUMNS.iter().map(value).collect::<Vec<_>>())
    }

    /// Makes the rows of an incident, as a picture for people: twelve minutes of a shop on two processors. In
    /// the sixth a batch locks rows that the shop sells, and an ALTER TABLE waits behind a forgotten
    /// transaction in the tenth.
    pub(crate) fn incident() -> History {
        const TEXTS: [(&str, &str); 5] = [
            ("d1", "SELECT `price` , `name` FROM `goods` WHERE `id` = ?"),
            ("d2", "UPDATE `stock` SET `reserved` = `reserved` + ? WHERE `id` = ?"),
            ("d3", "SELECT `id` FROM `stock` WHERE `reserved` > `available` FOR UPDATE"),
            ("d4", "ALTER TABLE `orders` ADD COLUMN `gift` INT"),
            ("d5", "SELECT * FROM `orders` WHERE `customer` = ?"),
        ];
        let of = |digest: &'static str| [("SCHEMA_NAME", "shop"), ("DIGEST", digest)];
        let row_lock = [
            ("WAIT_EVENT", "wait/lock/row/handler"),
            ("OBJECT_SCHEMA", "shop"),
            ("OBJECT_NAME", "stock"),
            ("BLOCKING_THREAD_ID", "61"),
            ("BLOCKING_PROCESSLIST_ID", "1046"),
        ];
        let metadata = |blocker: &'static str| {
            [
                ("WAIT_EVENT", "wait/lock/metadata/sql/mdl"),
                ("OBJECT_SCHEMA", "shop"),
                ("OBJECT_NAME", "orders"),
                ("BLOCKING_THREAD_ID", blocker),
                ("BLOCKING_PROCESSLIST_ID", blocker),
            ]
        };
        let file = ("WAIT_EVENT", "wait/io/file/innodb/innodb_data_file");
        let mut rows = vec![];
        for second in 0..720_u64 {
            let mut add =
                |thread, class, others: &[(&str, &str)]| rows.push(row(second, thread, class, others));
            // A load with some waves.
            let busy = 1 + (second / 47) % 3 / 2 + u64::from(second % 7 < 3);
            (0..busy).for_each(|at| add(10 + at, "CPU", &of("d1")));
            if second % 3 == 0 {
                add(20, "FILE IO", &[&of("d1")[..], &[file]].concat());
            }
            let waiting = if (330..450).contains(&second) { (second - 330) / 8 } else { 0 };
            (0..waiting.min(12))
                .for_each(|at| add(30 + at, "ROW LOCK", &[&of("d2")[..], &row_lock].concat()));
            if (325..450).contains(&second) {
                add(61, "CPU", &[&of("d3")[..], &[("USER", "batch"), ("PROCESSLIST_ID", "1046")]].concat());
            }
            if (560..640).contains(&second) {
                add(45, "METADATA LOCK", &[&of("d4")[..], &metadata("44"), &[("USER", "deploy")]].concat());
                let queue = (second - 560) / 9;
                (0..queue)
                    .for_each(|at| add(50 + at, "METADATA LOCK", &[&of("d5")[..], &metadata("45")].concat()));
            }
        }
        let mut history = History::default();
        history.extend(rows);
        TEXTS.iter().for_each(|(digest, text)| history.name_digest(Some("shop"), digest, text));
        history.processors = Some(2);
        history
    }

    #[test]
    fn rows_are_in_order_and_none_is_there_twice() {
        let mut history = History::default();
        assert!(history.whole().is_none() && history.is_empty());
        history.extend((0..10).map(|second| row(second, 7, "CPU", &[])));
        // Two snapshots overlap.
        let mut other = History::default();
        other.extend((5..15).flat_map(|second| [row(second, 7, "CPU", &[]), row(second, 3, "MUTEX", &[])]));
        other.name_digest(None, "d1", "SELECT ?");
        other.processors = Some(2);
        history.merge(&other);
        assert_eq!(history.len(), 15 + 10);
        assert!(history.rows.is_sorted_by_key(|row| (row.at, row.thread)));
        assert_eq!((history.text_of(None, "d1"), history.processors), (Some("SELECT ?"), Some(2)));
        assert_eq!(history.text_of(Some("d1"), "d1"), None);
        let whole = history.whole().expect("rows");
        assert_eq!(whole.from, microseconds("2026-01-02 02:59:59").expect("a time"));
        assert!((whole.seconds() - 15.0).abs() < 1e-5, "{}", seconds(whole.length()));
        history.forget_before(whole.to - 5_000_001);
        assert_eq!(history.len(), 10 + 2, "the row at that time stays");
        history.extend([Row::of(&[None; COLUMNS.len()])]);
        assert_eq!(history.len(), 12, "a row without a time is none");
    }

    #[test]
    fn texts_of_forgotten_rows_are_dropped() {
        let mut history = History::default();
        let names: Vec<String> = (0..=TEXTS as u64).map(|at| format!("#sql-{at}")).collect();
        history.extend(
            names.iter().zip(0..).map(|(name, at)| row(at / 10, at, "CPU", &[("OBJECT_NAME", name)])),
        );
        history.name_digest(Some("shop"), "d1", "SELECT ?");
        let end = history.whole().expect("rows").to;
        history.forget_before(end - 1);
        assert!(history.words.len() < 40, "{}", history.words.len());
        assert_eq!(history.text_of(Some("shop"), "d1"), Some("SELECT ?"));
        assert_eq!(history.words.text(history.rows[0].object[1]), Some("#sql-10000"));
    }
}
