//! Waits for locks as a tree: waiters stand below the holder of the lock.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::threads;
use crate::top::look::{Holder, Locks, Thread, Wait};
use crate::top::page::{Block, Cell, Column, Row, Sheet};

pub(super) const COLUMNS: [Column; 9] = [
    Column::text("who", "WHO", 26, 0),
    Column::figure("time_ps", "TIME", 7, 0),
    Column::text("object", "WAITS FOR", 24, 0),
    Column::text("wanted", "WANTED", 18, 2),
    Column::text("held", "IN THE WAY", 18, 3),
    Column::figure("connection", "CONN", 6, 9),
    Column::figure("waits_for_connection", "BEHIND", 6, 8),
    Column::figure("thread", "THREAD", 6, 9),
    Column { width: 20, ..Column::rest("statement", "STATEMENT") },
];

/// Most holders for which the way to end them is shown.
const ENDS: usize = 3;

pub(super) fn blocks(locks: &Locks) -> Vec<Block> {
    let tree = Tree::of(locks);
    let ends: Vec<Block> = tree.ends().into_iter().map(Block::Text).collect();
    let sheet = Sheet::new("locks", &COLUMNS, tree.rows());
    let nobody = match locks.partial {
        true => "Nobody waits for a lock that can be seen from here.",
        false => "Nobody waits for a lock.",
    };
    let note = sheet.rows.is_empty().then(|| Block::Text(nobody.into()));
    ends.into_iter().chain(note).chain([Block::Sheet(sheet)]).collect()
}

/// Deepest indentation, as deeper rows would have no room for the account.
const DEEPEST: usize = 5;

struct Tree<'a> {
    threads: HashMap<u64, &'a Thread>,
    partial: bool,
    order: Order,
    /// Waiters below each holder, in the reported order.
    below: BTreeMap<Holder, Vec<&'a Wait>>,
    rows: Vec<Row>,
    /// Threads that are in the tree already, with those below them.
    seen: BTreeSet<Holder>,
}

impl<'a> Tree<'a> {
    fn of(locks: &'a Locks) -> Tree<'a> {
        let order = Order::of(&locks.waits);
        let mut below: BTreeMap<Holder, Vec<&Wait>> = BTreeMap::new();
        let mut pairs = BTreeSet::new();
        for wait in &locks.waits {
            if pairs.insert((wait.waiting, wait.holding)) && order.is_next(wait) {
                below.entry(wait.holding).or_default().push(wait);
            }
        }
        let threads = locks.threads.iter().map(|thread| (thread.id, thread)).collect();
        let partial = locks.partial;
        Tree { threads, partial, order, below, rows: vec![], seen: BTreeSet::new() }
    }

    /// Returns the holders that do not wait, and those that do.
    fn roots(&self) -> (Vec<Holder>, Vec<Holder>) {
        let holding: Vec<Holder> = self.below.keys().copied().collect();
        holding.iter().partition(|it| !self.order.waits(**it))
    }

    /// Returns how to end the holders that do not wait, those with the most waiters first. If some waits are
    /// unknown, only idle ones: a running statement may itself wait.
    fn ends(&self) -> Vec<String> {
        let end = |root: &Holder| {
            let known = self.known(*root).filter(|it| !(self.partial && it.is_busy()))?;
            let connection = known.connection?;
            let behind = self.order.in_turn.values().filter(|ahead| ahead.contains(root)).count();
            let account = known.account.as_deref().unwrap_or("it");
            let them = if behind == 1 { "1 that waits".into() } else { format!("{behind} that wait") };
            Some((behind, format!("KILL {connection} ends {account}, in the way of {them}")))
        };
        let mut ends: Vec<(usize, String)> = self.roots().0.iter().filter_map(end).collect();
        ends.sort_by_key(|(behind, _)| std::cmp::Reverse(*behind));
        ends.into_iter().take(ENDS).map(|(_, text)| text).collect()
    }

    fn known(&self, who: Holder) -> Option<&'a Thread> {
        match who {
            Holder::Thread(thread) => self.threads.get(&thread).copied(),
            Holder::Nobody | Holder::Unknown => None,
        }
    }

    fn rows(mut self) -> Vec<Row> {
        // First those that do not wait; the remaining ones are in a cycle, or below one.
        let (roots, waiting) = self.roots();
        let circles = waiting.into_iter().filter(|it| self.order.is_behind(*it, *it)).collect();
        for root in [roots, circles].concat() {
            if !self.seen.contains(&root) {
                self.push(root, None, "", &mut vec![]);
            }
        }
        self.rows
    }

    /// Adds a thread and, at its first occurrence, those below it, so that there are no more rows than pairs
    /// and roots. `line` is the prefix; `path` leads to it.
    fn push(&mut self, who: Holder, wait: Option<&Wait>, line: &str, path: &mut Vec<Holder>) {
        self.rows.push(self.row(who, wait, line, path));
        if !self.seen.insert(who) {
            return;
        }
        path.push(who);
        let below = self.below.get(&who).cloned().unwrap_or_default();
        let indent = indent(line, path.len());
        for (at, wait) in below.iter().enumerate() {
            let branch = if at + 1 < below.len() { "├─" } else { "└─" };
            self.push(Holder::Thread(wait.waiting), Some(wait), &format!("{indent}{branch}"), path);
        }
        path.pop();
    }

    fn row(&self, who: Holder, wait: Option<&Wait>, line: &str, path: &[Holder]) -> Row {
        let known = self.known(who);
        let again = match self.below.contains_key(&who) && self.seen.contains(&who) {
            true if path.contains(&who) => " (in a circle)",
            true => " (see above)",
            false => "",
        };
        let part = |of: fn(&Wait) -> &String| match wait.map(of) {
            Some(text) if !text.is_empty() => Cell::Text(text.clone()),
            _ => Cell::Empty,
        };
        let above = wait.map(|wait| wait.holding);
        let number = |who: Holder| match who {
            Holder::Thread(thread) => thread.to_string(),
            Holder::Nobody => "nobody".into(),
            Holder::Unknown => "unknown".into(),
        };
        let connection = |who: Holder| self.known(who).and_then(|it| it.connection).map(|it| it.to_string());
        let thread = match who {
            Holder::Thread(thread) => Cell::Text(thread.to_string()),
            Holder::Nobody | Holder::Unknown => Cell::Empty,
        };
        Row {
            key: vec![number(who), above.map_or_else(String::new, number)],
            cells: vec![
                Cell::Text(format!("{line}{}{again}", self.name(who))),
                known.map_or(Cell::Empty, threads::time),
                part(|wait| &wait.object),
                part(|wait| &wait.wanted),
                part(|wait| &wait.held),
                Cell::text(connection(who).as_deref()),
                Cell::text(above.and_then(connection).as_deref()),
                thread,
                Cell::Text(statement(who, known)),
            ],
        }
    }

    /// Returns the connection id, for KILL, and the account; or the thread id without a connection.
    fn name(&self, who: Holder) -> String {
        let Holder::Thread(thread) = who else {
            return if who == Holder::Nobody { "– no session" } else { "? not told" }.to_owned();
        };
        match self.known(who).map(|known| (known.connection, known.account.as_deref().unwrap_or_default())) {
            Some((Some(connection), account)) => format!("{connection} {account}"),
            _ => format!("thread {thread}"),
        }
    }
}

/// Returns the prefix of the rows below a row, from that row's prefix; `depth` is theirs.
fn indent(line: &str, depth: usize) -> String {
    let mut indent = line.replace('├', "│").replace(['└', '─'], "\u{a0}");
    if depth > DEEPEST {
        // Deeper rows use the same column.
        indent.truncate(indent.char_indices().rev().nth(1).map_or(0, |(at, _)| at));
    }
    indent
}

/// Whom each thread waits for, directly and indirectly.
struct Order {
    ahead: HashMap<Holder, BTreeSet<Holder>>,
    in_turn: HashMap<Holder, BTreeSet<Holder>>,
}

impl Order {
    fn of(waits: &[Wait]) -> Order {
        let mut ahead: HashMap<Holder, BTreeSet<Holder>> = HashMap::new();
        for wait in waits {
            ahead.entry(Holder::Thread(wait.waiting)).or_default().insert(wait.holding);
        }
        let in_turn = ahead.keys().map(|who| (*who, reached(*who, &ahead))).collect();
        Order { ahead, in_turn }
    }

    fn waits(&self, who: Holder) -> bool {
        self.ahead.contains_key(&who)
    }

    /// Returns whether one waits for another, directly or indirectly.
    fn is_behind(&self, who: Holder, other: Holder) -> bool {
        self.in_turn.get(&who).is_some_and(|ahead| ahead.contains(&other))
    }

    /// Returns whether nobody stands between the two: in a queue, each waiter is next only to the last one
    /// ahead of it. Within a cycle nobody is between others.
    fn is_next(&self, wait: &Wait) -> bool {
        let waiting = Holder::Thread(wait.waiting);
        let between = |other: &Holder| {
            self.is_behind(*other, wait.holding)
                && !self.is_behind(wait.holding, *other)
                && !self.is_behind(*other, waiting)
        };
        !self.ahead.get(&waiting).is_some_and(|ahead| ahead.iter().any(between))
    }
}

/// Returns whom one waits for, directly or indirectly.
fn reached(who: Holder, ahead: &HashMap<Holder, BTreeSet<Holder>>) -> BTreeSet<Holder> {
    let mut reached = BTreeSet::new();
    let mut next = vec![who];
    while let Some(who) = next.pop() {
        let new = ahead.get(&who).into_iter().flatten().filter(|it| reached.insert(**it));
        next.extend(new);
    }
    reached
}

/// Returns what a thread does, or did last: an idle transaction keeps its locks. A background thread has no
/// statement, so it is named.
fn statement(who: Holder, thread: Option<&Thread>) -> String {
    let thread = match (who, thread) {
        (Holder::Nobody, _) => return "(a transaction without a session: see XA RECOVER)".into(),
        (Holder::Unknown, _) => return "(InnoDB does not say which session has it)".into(),
        (Holder::Thread(_), None) => return "(gone)".into(),
        (Holder::Thread(_), Some(thread)) => thread,
    };
    let text = thread.statement.as_deref().unwrap_or_default();
    if thread.is_busy() {
        return text.to_owned();
    }
    if thread.connection.is_none() {
        return format!("(background thread {})", thread.name.trim_start_matches("thread/"));
    }
    let idle = thread.seconds.map_or_else(String::new, |seconds| format!(" {seconds} s"));
    let last = if text.is_empty() { String::new() } else { format!(", last: {text}") };
    format!("(idle{idle}{last})")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn locks(pairs: impl IntoIterator<Item = (u64, u64)>) -> Locks {
        let wait = |(waiting, holding)| Wait {
            waiting,
            holding: Holder::Thread(holding),
            object: "bank.account PRIMARY (7)".into(),
            wanted: "X".into(),
            held: "X".into(),
        };
        let waits: Vec<Wait> = pairs.into_iter().map(wait).collect();
        let ids: BTreeSet<u64> =
            waits.iter().map(|it| it.waiting).chain(waits.iter().filter_map(held_by)).collect();
        // Connections have the ids of their threads, so that rows are easy to read.
        let thread = |id: u64| Thread { id, connection: Some(id), ..Thread::default() };
        Locks { waits, threads: ids.into_iter().map(thread).collect(), partial: false }
    }

    fn held_by(wait: &Wait) -> Option<u64> {
        match wait.holding {
            Holder::Thread(thread) => Some(thread),
            Holder::Nobody | Holder::Unknown => None,
        }
    }

    /// Returns each row's first column.
    fn who(pairs: impl IntoIterator<Item = (u64, u64)>) -> Vec<String> {
        let text = |row: Row| match &row.cells[0] {
            Cell::Text(text) => text.replace('\u{a0}', " ").trim_end().to_owned(),
            other => panic!("{other:?}"),
        };
        Tree::of(&locks(pairs)).rows().into_iter().map(text).collect()
    }

    #[test]
    fn a_queue_for_one_row_has_a_row_for_each_waiter() {
        // InnoDB reports everybody who came before.
        let pairs: Vec<(u64, u64)> =
            (2..=26).flat_map(|waiting| (1..waiting).map(move |it| (waiting, it))).collect();
        assert_eq!(pairs.len(), 325);
        let locks = locks(pairs);
        let rows = Tree::of(&locks).rows();
        let behind: Vec<[String; 2]> =
            rows.iter().map(|row| [row.key[0].clone(), row.key[1].clone()]).collect();
        let queue = (2..=26).map(|it: u64| [it.to_string(), (it - 1).to_string()]);
        assert_eq!(behind, [["1".to_owned(), String::new()]].into_iter().chain(queue).collect::<Vec<_>>());
        let width = COLUMNS[0].width;
        let is_told = |row: &Row| matches!(&row.cells[0], Cell::Text(who) if who.chars().count() <= width);
        assert!(rows.iter().all(is_told), "everybody has room for a name");
    }

    #[test]
    fn there_are_no_more_rows_than_pairs_and_roots() {
        // Two readers, one writer, two readers: each waits for everybody in the layers before.
        let layer = |thread: u64| thread / 3 * 2 + u64::from(thread % 3 == 2);
        let pairs: Vec<(u64, u64)> = (0..30)
            .flat_map(|waiting| (0..waiting).map(move |it| (waiting, it)))
            .filter(|(waiting, holding)| layer(*waiting) > layer(*holding))
            .collect();
        let rows = who(pairs.iter().copied());
        assert!(rows.len() <= pairs.len() + 2, "{rows:#?}");
        assert_eq!(rows[..5], ["0", "└─2", "  ├─3", "  │ └─5", "  │   ├─6"]);
        assert_eq!(rows.last().map(String::as_str), Some("└─2  (see above)"));
    }

    #[test]
    fn whoever_is_in_the_way_of_somebody_is_told() {
        assert_eq!(who([(3, 1), (3, 2), (4, 3), (4, 1)]), ["1", "└─3", "  └─4", "2", "└─3  (see above)"]);
        // Two wait for each other, and both for a third; a fourth waits for one of them.
        let circle = who([(2, 3), (3, 2), (2, 1), (3, 1), (4, 2), (4, 1)]);
        assert_eq!(circle[..3], ["1", "├─2", "│ ├─3"]);
        assert_eq!(circle[3..], ["│ │ └─2  (in a circle)", "│ └─4", "└─3  (see above)"]);
    }

    #[test]
    fn who_runs_nothing_is_told_by_what_it_did_last_or_by_its_name() {
        let told = |thread: &Thread| statement(Holder::Thread(thread.id), Some(thread));
        let name = "thread/innodb/srv_purge_thread".to_owned();
        let purge = Thread { id: 9, name, ..Thread::default() };
        assert_eq!(told(&purge), "(background thread innodb/srv_purge_thread)");
        let mut idle = Thread { id: 2, connection: Some(1), seconds: Some(35), ..Thread::default() };
        assert_eq!(told(&idle), "(idle 35 s)");
        idle.statement = Some("DO 1".into());
        assert_eq!(told(&idle), "(idle 35 s, last: DO 1)");
        idle.command = Some("Query".into());
        assert_eq!(told(&idle), "DO 1");
    }

    #[test]
    fn connections_are_named_and_how_to_end_those_in_the_way() {
        let mut locks = locks([(2, 1), (3, 1), (4, 3), (6, 5)]);
        for thread in &mut locks.threads {
            thread.connection = Some(thread.id + 1000);
            thread.account = Some("root@localhost".into());
        }
        let tree = Tree::of(&locks);
        let ends = [
            "KILL 1001 ends root@localhost, in the way of 3 that wait",
            "KILL 1005 ends root@localhost, in the way of 1 that waits",
        ];
        assert_eq!(tree.ends(), ends);
        let rows = tree.rows();
        assert_eq!(rows[0].cells[0], Cell::Text("1001 root@localhost".into()));
        assert_eq!(rows[0].key[0], "1", "Enter looks into the thread");
        assert_eq!(rows[1].cells[6], Cell::Text("1001".into()), "behind whom");
    }

    #[test]
    fn whoever_may_wait_itself_is_not_to_be_ended() {
        let mut locks = locks([(2, 1), (4, 3)]);
        let commands = ["Sleep", "Query", "Query", "Query"];
        for (thread, command) in locks.threads.iter_mut().zip(commands) {
            thread.command = Some(command.into());
        }
        assert_eq!(Tree::of(&locks).ends().len(), 2);
        locks.partial = true;
        assert_eq!(Tree::of(&locks).ends(), ["KILL 1 ends it, in the way of 1 that waits"]);
    }

    #[test]
    fn who_is_not_told_is_nobody_to_kill() {
        let mut locks = locks([(2, 1), (3, 1)]);
        locks.waits[0].holding = Holder::Unknown;
        locks.waits[1].holding = Holder::Nobody;
        let tree = Tree::of(&locks);
        assert!(tree.ends().is_empty());
        let rows = tree.rows();
        let who: Vec<&Cell> = rows.iter().map(|row| &row.cells[0]).collect();
        let text = |text: &str| Cell::Text(text.into());
        assert_eq!(who, [&text("– no session"), &text("└─3 "), &text("? not told"), &text("└─2 ")]);
    }

    #[test]
    fn a_pair_that_waits_for_several_locks_stands_once() {
        assert_eq!(who([(2, 1), (2, 1)]), ["1", "└─2"]);
    }
}
