//! The time of a stretch, by what it went to.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

use super::history::Sample;
use super::words::Word;
use super::{GROUPS, History, Stretch, Times};

/// The time that sessions spent in a stretch, in microseconds. Each list begins with the most time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sums {
    /// The time of all rows.
    pub us: u64,
    /// By group, in the order of [`GROUPS`].
    pub times: Times,
    /// By wait class.
    pub classes: Vec<(String, u64)>,
    /// By statement.
    pub statements: Vec<Statement>,
    /// By what was waited for, `ON CPU` and `RUNNABLE` included.
    pub waits: Vec<Wait>,
    /// By blocking session, the time that others waited for it.
    pub blockers: Vec<Blocker>,
    /// By session.
    pub sessions: Vec<Session>,
}

/// The time of a statement.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// Default schema.
    pub schema: Option<String>,
    /// Digest; `None` for what has none.
    pub digest: Option<String>,
    /// Text of the digest, if it is known.
    pub text: Option<String>,
    /// Whether it is work of background threads.
    pub is_background: bool,
    /// Microseconds.
    pub us: u64,
    /// By group.
    pub times: Times,
    /// Number of sessions that ran it.
    pub sessions: usize,
}

/// The time of a wait.
#[derive(Clone, Debug, PartialEq)]
pub struct Wait {
    /// Wait class.
    pub class: String,
    /// Instrument, or the state where there is none.
    pub what: String,
    /// The object that was waited for most, and how many others there are.
    pub object: Option<(String, usize)>,
    /// Microseconds.
    pub us: u64,
    /// Number of sessions that waited.
    pub sessions: usize,
}

/// The time that sessions waited for another one.
#[derive(Clone, Debug, PartialEq)]
pub struct Blocker {
    /// Id of its thread.
    pub thread: u64,
    /// Id of its connection.
    pub connection: Option<u64>,
    /// Its account, if it was ever active itself, or is named otherwise.
    pub account: Option<String>,
    /// Wait class of those that waited for it.
    pub class: String,
    /// The object that was waited for most, and how many others there are.
    pub object: Option<(String, usize)>,
    /// The statement in which it was seen most in the stretch, as schema, digest, and text; `None`: it was
    /// idle.
    pub statement: Option<Digest>,
    /// Whether it was active at all in the stretch.
    pub was_active: bool,
    /// Microseconds that others waited.
    pub us: u64,
    /// Number of sessions that waited.
    pub waiting: usize,
}

/// The time of a session.
#[derive(Clone, Debug, PartialEq)]
pub struct Session {
    /// Id of its thread.
    pub thread: u64,
    /// Id of its connection; `None` in the background.
    pub connection: Option<u64>,
    /// Its account, or the name of a background thread.
    pub account: String,
    /// Microseconds.
    pub us: u64,
    /// By group.
    pub times: Times,
    /// The statement that took most of it.
    pub statement: Option<Digest>,
}

/// A statement by its digest.
#[derive(Clone, Debug, PartialEq)]
pub struct Digest {
    /// Default schema.
    pub schema: Option<String>,
    /// Digest.
    pub digest: String,
    /// Its text, if it is known.
    pub text: Option<String>,
}

/// Formats an account.
#[must_use]
pub fn account(user: Option<&str>, host: Option<&str>) -> Option<String> {
    user.map(|user| host.map_or_else(|| user.to_owned(), |host| format!("{user}@{host}")))
}

/// Rows that have something in common.
#[derive(Default)]
struct Group {
    us: u64,
    times: Times,
    threads: BTreeSet<u64>,
    /// Microseconds by object, and by statement.
    objects: HashMap<[Word; 2], u64>,
    statements: HashMap<(Word, Word), u64>,
    first: Option<Sample>,
}

impl Group {
    fn add(&mut self, row: &Sample) {
        self.us += row.us;
        self.times[row.group] += row.us;
        self.threads.insert(row.thread);
        if row.object[1] != Word::NONE {
            *self.objects.entry(row.object).or_default() += row.us;
        }
        if row.digest != Word::NONE {
            *self.statements.entry((row.schema, row.digest)).or_default() += row.us;
        }
        self.first.get_or_insert(*row);
    }
}

fn most<K: Ord + Copy>(of: &HashMap<K, u64>) -> Option<K> {
    of.iter().max_by_key(|(key, us)| (**us, Reverse(**key))).map(|(key, _)| *key)
}

impl History {
    /// Adds up the time of a stretch by group.
    #[must_use]
    pub fn times(&self, stretch: Stretch) -> Times {
        let mut times = [0; GROUPS.len()];
        self.parts(stretch).for_each(|(row, part)| times[row.group] += part.length());
        times
    }

    /// Adds up the time of a stretch.
    #[must_use]
    pub fn sums(&self, stretch: Stretch) -> Sums {
        let times = self.times(stretch);
        let classes = self.grouped(stretch, |row| Some(row.class));
        Sums {
            us: times.iter().sum(),
            times,
            classes: classes.iter().map(|(class, group, _)| (self.word(*class), group.us)).collect(),
            statements: self.statements(stretch),
            waits: self.waits(stretch),
            blockers: self.blockers(stretch),
            sessions: self.sessions(stretch),
        }
    }

    /// Returns the rows of a stretch by a key, the most time first. Each counts with its time in the stretch.
    fn grouped<K: Hash + Eq + Ord + Copy>(
        &self,
        stretch: Stretch,
        key: impl Fn(&Sample) -> Option<K>,
    ) -> Vec<(K, Group, Sample)> {
        let mut groups: HashMap<K, Group> = HashMap::new();
        for (row, part) in self.parts(stretch) {
            if let Some(key) = key(row) {
                groups.entry(key).or_default().add(&Sample { us: part.length(), ..*row });
            }
        }
        let mut groups: Vec<_> = groups
            .into_iter()
            .filter_map(|(key, mut group)| Some((key, group.first.take()?, group)))
            .collect();
        groups.sort_by_key(|(key, _, group)| (Reverse(group.us), *key));
        groups.into_iter().map(|(key, first, group)| (key, group, first)).collect()
    }

    fn statements(&self, stretch: Stretch) -> Vec<Statement> {
        // What has no digest is one line for clients, and one for the background.
        let key = |row: &Sample| match row.digest {
            Word::NONE => (Word::NONE, Word::NONE, row.connection.is_none()),
            digest => (row.schema, digest, false),
        };
        let statement = |((schema, digest, is_background), group, _): ((Word, Word, bool), Group, Sample)| {
            let found = self.digest((schema, digest));
            let (digest, text) = found.map(|it| (it.digest, it.text)).unzip();
            Statement {
                schema: self.words.text(schema).map(str::to_owned),
                digest,
                text: text.flatten(),
                is_background,
                us: group.us,
                times: group.times,
                sessions: group.threads.len(),
            }
        };
        self.grouped(stretch, |row| Some(key(row))).into_iter().map(statement).collect()
    }

    fn waits(&self, stretch: Stretch) -> Vec<Wait> {
        let key = |row: &Sample| (row.class, if row.event == Word::NONE { row.state } else { row.event });
        let wait = |((class, what), group, _): ((Word, Word), Group, Sample)| Wait {
            class: self.word(class),
            what: self.word(what),
            object: self.object(&group),
            us: group.us,
            sessions: group.threads.len(),
        };
        self.grouped(stretch, |row| Some(key(row))).into_iter().map(wait).collect()
    }

    fn blockers(&self, stretch: Stretch) -> Vec<Blocker> {
        let key = |row: &Sample| Some((row.blocker?, row.blocking_connection, row.class));
        let groups = self.grouped(stretch, key);
        let threads: BTreeSet<u64> = groups.iter().map(|((thread, ..), ..)| *thread).collect();
        let of_blockers = |row: &Sample| threads.contains(&row.thread).then_some(row.thread);
        let active: HashMap<u64, Group> = self
            .grouped(stretch, of_blockers)
            .into_iter()
            .map(|(thread, group, _)| (thread, group))
            .collect();
        // It may have been active at another time only.
        let mut names: HashMap<u64, &Sample> = HashMap::new();
        for row in self.rows.iter().filter(|row| threads.contains(&row.thread)) {
            names.insert(row.thread, row);
        }
        let blocker =
            |((thread, connection, class), group, _): ((u64, Option<u64>, Word), Group, Sample)| Blocker {
                thread,
                connection,
                account: match names.get(&thread) {
                    Some(row) => Some(self.name(row)),
                    None => self.account_of(thread).map(str::to_owned),
                },
                class: self.word(class),
                object: self.object(&group),
                statement: active.get(&thread).and_then(|it| self.digest(most(&it.statements)?)),
                was_active: active.contains_key(&thread),
                us: group.us,
                waiting: group.threads.len(),
            };
        groups.into_iter().map(blocker).collect()
    }

    fn sessions(&self, stretch: Stretch) -> Vec<Session> {
        let session = |(thread, group, first): (u64, Group, Sample)| Session {
            thread,
            connection: first.connection,
            account: self.name(&first),
            us: group.us,
            times: group.times,
            statement: most(&group.statements).and_then(|it| self.digest(it)),
        };
        self.grouped(stretch, |row| Some(row.thread)).into_iter().map(session).collect()
    }

    /// Returns the account of a row's session, or the name of its thread.
    fn name(&self, row: &Sample) -> String {
        let account = account(self.words.text(row.user), self.words.text(row.host));
        account.unwrap_or_else(|| self.word(row.thread_name))
    }

    fn digest(&self, (schema, digest): (Word, Word)) -> Option<Digest> {
        let digest = self.words.text(digest)?;
        let schema = self.words.text(schema);
        let text = self.text_of(schema, digest).map(str::to_owned);
        Some(Digest { schema: schema.map(str::to_owned), digest: digest.to_owned(), text })
    }

    fn object(&self, group: &Group) -> Option<(String, usize)> {
        let [schema, name] = most(&group.objects)?.map(|it| self.words.text(it));
        // The address of a client's socket: one that is a file has neither address nor port.
        let name = name.map(|name| if name == ":0" { "a Unix socket" } else { name });
        let parts: Vec<&str> = [schema, name].into_iter().flatten().collect();
        Some((parts.join("."), group.objects.len() - 1))
    }

    fn word(&self, word: Word) -> String {
        self.words.text(word).unwrap_or_default().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sessions::history::tests::row;

    const SECOND: u64 = 1_000_000;

    /// Ten seconds of a session on a processor, and two that wait for a third, which is idle but for its last
    /// second.
    fn history() -> History {
        let mut history = History::default();
        history.extend((1..=10).map(|at| row(at, 1, "CPU", &[("SCHEMA_NAME", "shop"), ("DIGEST", "d1")])));
        let waits = [
            ("WAIT_EVENT", "wait/lock/row/handler"),
            ("OBJECT_SCHEMA", "shop"),
            ("OBJECT_NAME", "stock"),
            ("DIGEST", "d2"),
            ("BLOCKING_THREAD_ID", "9"),
            ("BLOCKING_PROCESSLIST_ID", "19"),
        ];
        history.extend((1..=10).flat_map(|at| [2, 3].map(|thread| row(at, thread, "ROW LOCK", &waits))));
        let background =
            [("USER", ""), ("PROCESSLIST_ID", ""), ("THREAD_NAME", "thread/innodb/page_cleaner")];
        history.extend([row(5, 4, "FILE IO", &background)]);
        history.extend([row(40, 9, "CPU", &[("DIGEST", "d3"), ("USER", "batch")])]);
        history.name_digest(Some("shop"), "d1", "SELECT ?");
        history
    }

    fn ten(history: &History) -> Sums {
        let whole = history.whole().expect("rows");
        history.sums(Stretch { from: whole.from, to: whole.from + 11 * SECOND })
    }

    #[test]
    fn every_list_has_all_of_the_time() {
        let history = history();
        let sums = ten(&history);
        assert_eq!(sums.us, 31 * SECOND);
        let of = |list: Vec<u64>| list.iter().sum::<u64>();
        assert_eq!(of(sums.times.to_vec()), sums.us);
        assert_eq!(of(sums.classes.iter().map(|it| it.1).collect()), sums.us);
        assert_eq!(of(sums.statements.iter().map(|it| it.us).collect()), sums.us);
        assert_eq!(of(sums.waits.iter().map(|it| it.us).collect()), sums.us);
        assert_eq!(of(sums.sessions.iter().map(|it| it.us).collect()), sums.us);
        assert_eq!(sums.classes[0], ("ROW LOCK".to_owned(), 20 * SECOND));
        assert_eq!(history.sums(Stretch { from: 0, to: 1 }), Sums::default());
    }

    #[test]
    fn a_stretch_has_in_every_list_what_its_chart_has() {
        let mut history = crate::sessions::history::tests::incident();
        // A sample that came late, and one of a short interval.
        history.extend([
            row(760, 3, "SLEEP", &[("USECS_PER_ROW", "25000000")]),
            row(761, 3, "MUTEX", &[("USECS_PER_ROW", "10000")]),
        ]);
        let whole = history.whole().expect("rows");
        assert_eq!(history.sums(whole).us, history.rows.iter().map(|row| row.us).sum::<u64>());
        for (from, length) in [
            (0, whole.length()),
            (330_400_000, 60_700_001),
            (445_999_999, 2),
            (559_000_000, 300_000),
            (740_500_000, 1),
        ] {
            let stretch = Stretch { from: whole.from + from, to: whole.from + from + length };
            let sums = history.sums(stretch);
            let of_rows = |row: &Sample| {
                let (from, to) = ((row.at - row.us).max(stretch.from), row.at.min(stretch.to));
                to.saturating_sub(from)
            };
            assert_eq!(sums.us, history.rows.iter().map(of_rows).sum::<u64>(), "{from}");
            assert!(sums.us > 0, "{from}");
            assert_eq!(sums.statements.iter().map(|it| it.us).sum::<u64>(), sums.us, "{from}");
            assert_eq!(sums.waits.iter().map(|it| it.us).sum::<u64>(), sums.us, "{from}");
            assert_eq!(sums.sessions.iter().map(|it| it.us).sum::<u64>(), sums.us, "{from}");
            for each in [1 + length / 240, SECOND, 10 * SECOND] {
                let mut drawn: Times = Default::default();
                for column in history.columns(stretch, each) {
                    drawn.iter_mut().zip(column.times).for_each(|(sum, us)| *sum += us);
                }
                assert_eq!(drawn, sums.times, "{from}, columns of {each}");
            }
        }
    }

    #[test]
    fn the_most_time_comes_first_and_has_its_names() {
        let sums = ten(&history());
        let statements: Vec<(Option<&str>, Option<&str>, usize)> = sums
            .statements
            .iter()
            .map(|it| (it.digest.as_deref(), it.text.as_deref(), it.sessions))
            .collect();
        assert_eq!(statements, [(Some("d2"), None, 2), (Some("d1"), Some("SELECT ?"), 1), (None, None, 1)]);
        assert!(sums.statements[2].is_background);
        assert_eq!(sums.statements[1].times[0], 10 * SECOND);
        let wait = &sums.waits[0];
        assert_eq!((wait.class.as_str(), wait.what.as_str()), ("ROW LOCK", "wait/lock/row/handler"));
        assert_eq!((wait.object.clone(), wait.sessions), (Some(("shop.stock".to_owned(), 0)), 2));
        assert_eq!(sums.waits[1].what, "ON CPU");
        assert_eq!(sums.sessions[3].account, "thread/innodb/page_cleaner");
        assert_eq!(sums.sessions[0].statement.as_ref().expect("a statement").digest, "d1");
    }

    #[test]
    fn what_a_client_is_waited_for_on_has_a_name() {
        let mut history = History::default();
        let socket = |name| [("OBJECT_NAME", name)];
        history.extend([row(1, 1, "NETWORK", &socket(":0")), row(1, 2, "FILE IO", &socket("10.0.0.5:0"))]);
        let waits = history.sums(history.whole().expect("rows")).waits;
        let objects: Vec<String> = waits.into_iter().filter_map(|it| Some(it.object?.0)).collect();
        assert_eq!(objects, ["a Unix socket", "10.0.0.5:0"]);
    }

    #[test]
    fn a_blocker_without_a_row_has_the_account_of_its_thread() {
        let mut history = History::default();
        history.extend([row(1, 2, "ROW LOCK", &[("BLOCKING_THREAD_ID", "9")])]);
        let blocker = |history: &History| history.sums(history.whole().expect("a row")).blockers[0].clone();
        assert_eq!(blocker(&history).account, None);
        history.name_thread(9, "batch@10.0.0.5".to_owned());
        let mut merged = History::default();
        merged.merge(&history);
        assert_eq!(blocker(&merged).account.as_deref(), Some("batch@10.0.0.5"));
    }

    #[test]
    fn a_blocker_is_named_even_if_it_was_idle() {
        let history = history();
        let sums = ten(&history);
        assert_eq!(sums.blockers.len(), 1);
        let blocker = &sums.blockers[0];
        assert_eq!((blocker.thread, blocker.connection, blocker.waiting), (9, Some(19), 2));
        assert_eq!((blocker.account.as_deref(), blocker.us), (Some("batch@10.0.0.5"), 20 * SECOND));
        assert!(!blocker.was_active && blocker.statement.is_none());
        let later = history.sums(history.whole().expect("rows"));
        let blocker = &later.blockers[0];
        assert_eq!(blocker.statement.as_ref().expect("it was seen").digest, "d3");
        assert!(blocker.was_active);
    }
}
