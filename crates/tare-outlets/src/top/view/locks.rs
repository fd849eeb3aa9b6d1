//! Who waits for whom, as a tree: below who has a lock, those that wait for it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::threads;
use crate::top::look::{Locks, Thread, Wait};
use crate::top::page::{Block, Cell, Column, Row, Sheet};

pub(super) const COLUMNS: [Column; 8] = [
    Column::text("who", "WHO", 26, 0),
    Column::figure("time_ps", "TIME", 7, 0),
    Column::text("object", "WAITS FOR", 24, 0),
    Column::text("wanted", "WANTED", 18, 2),
    Column::text("held", "IN THE WAY", 18, 3),
    Column::figure("thread", "THREAD", 6, 8),
    Column::figure("waits_for_thread", "BEHIND", 6, 9),
    Column { width: 20, ..Column::rest("statement", "STATEMENT") },
];

pub(super) fn blocks(locks: &Locks) -> Vec<Block> {
    let sheet = Sheet::new("locks", &COLUMNS, Tree::of(locks).rows());
    let note = sheet.rows.is_empty().then(|| Block::Text("Nobody waits for a lock.".into()));
    note.into_iter().chain([Block::Sheet(sheet)]).collect()
}

/// How far to the right rows stand at most: further down there would be no room for who it is.
const DEEPEST: usize = 5;

struct Tree<'a> {
    threads: HashMap<u64, &'a Thread>,
    order: Order,
    /// Those that stand below a thread, in the order they were told in.
    below: BTreeMap<u64, Vec<&'a Wait>>,
    rows: Vec<Row>,
    /// Threads that stand somewhere, with those below them.
    seen: BTreeSet<u64>,
}

impl<'a> Tree<'a> {
    fn of(locks: &'a Locks) -> Tree<'a> {
        let order = Order::of(&locks.waits);
        let mut below: BTreeMap<u64, Vec<&Wait>> = BTreeMap::new();
        let mut pairs = BTreeSet::new();
        for wait in &locks.waits {
            if pairs.insert((wait.waiting, wait.holding)) && order.is_next(wait) {
                below.entry(wait.holding).or_default().push(wait);
            }
        }
        let threads = locks.threads.iter().map(|thread| (thread.id, thread)).collect();
        Tree { threads, order, below, rows: vec![], seen: BTreeSet::new() }
    }

    fn rows(mut self) -> Vec<Row> {
        let holding: Vec<u64> = self.below.keys().copied().collect();
        // First those that wait for nobody; whoever is left waits in a circle, or below one.
        let (waiting, roots): (Vec<u64>, Vec<u64>) = holding.iter().partition(|it| self.order.waits(**it));
        let circles = waiting.into_iter().filter(|it| self.order.is_behind(*it, *it)).collect();
        for root in [roots, circles].concat() {
            if !self.seen.contains(&root) {
                self.push(root, None, "", &mut vec![]);
            }
        }
        self.rows
    }

    /// Adds a thread and, where it stands for the first time, those below it: so there are no more rows than pairs and
    /// roots. `line` is what stands before it; `path` leads to it.
    fn push(&mut self, thread: u64, wait: Option<&Wait>, line: &str, path: &mut Vec<u64>) {
        self.rows.push(self.row(thread, wait, line, path));
        if !self.seen.insert(thread) {
            return;
        }
        path.push(thread);
        let below = self.below.get(&thread).cloned().unwrap_or_default();
        let indent = indent(line, path.len());
        for (at, wait) in below.iter().enumerate() {
            let branch = if at + 1 < below.len() { "├─" } else { "└─" };
            self.push(wait.waiting, Some(wait), &format!("{indent}{branch}"), path);
        }
        path.pop();
    }

    fn row(&self, thread: u64, wait: Option<&Wait>, line: &str, path: &[u64]) -> Row {
        let known = self.threads.get(&thread);
        let account = known.and_then(|it| it.account.as_deref()).unwrap_or_default();
        let again = match self.below.contains_key(&thread) && self.seen.contains(&thread) {
            true if path.contains(&thread) => " (in a circle)",
            true => " (see above)",
            false => "",
        };
        let part = |of: fn(&Wait) -> &String| wait.map_or(Cell::Empty, |wait| Cell::Text(of(wait).clone()));
        let above = wait.map(|wait| wait.holding.to_string());
        Row {
            key: vec![thread.to_string(), above.clone().unwrap_or_default()],
            cells: vec![
                Cell::Text(format!("{line}{thread} {account}{again}")),
                known.map_or(Cell::Empty, |it| threads::time(it)),
                part(|wait| &wait.object),
                part(|wait| &wait.wanted),
                part(|wait| &wait.held),
                Cell::Text(thread.to_string()),
                Cell::text(above.as_deref()),
                statement(known.copied()),
            ],
        }
    }
}

/// What stands before those below a row, from what stands before it; `depth` is theirs.
fn indent(line: &str, depth: usize) -> String {
    let mut indent = line.replace('├', "│").replace(['└', '─'], "\u{a0}");
    if depth > DEEPEST {
        // They stand below it all the same, in the same column.
        indent.truncate(indent.char_indices().rev().nth(1).map_or(0, |(at, _)| at));
    }
    indent
}

/// Whom each thread waits for, and whom in turn.
struct Order {
    ahead: HashMap<u64, BTreeSet<u64>>,
    in_turn: HashMap<u64, BTreeSet<u64>>,
}

impl Order {
    fn of(waits: &[Wait]) -> Order {
        let mut ahead: HashMap<u64, BTreeSet<u64>> = HashMap::new();
        for wait in waits {
            ahead.entry(wait.waiting).or_default().insert(wait.holding);
        }
        let in_turn = ahead.keys().map(|thread| (*thread, reached(*thread, &ahead))).collect();
        Order { ahead, in_turn }
    }

    fn waits(&self, thread: u64) -> bool {
        self.ahead.contains_key(&thread)
    }

    /// Whether a thread waits for another one, perhaps in turn.
    fn is_behind(&self, thread: u64, other: u64) -> bool {
        self.in_turn.get(&thread).is_some_and(|ahead| ahead.contains(&other))
    }

    /// Whether nobody stands between the two: of a queue each waiter is next to the last one in front of it only. Of those in
    /// a circle nobody is between others.
    fn is_next(&self, wait: &Wait) -> bool {
        let between = |other: &u64| {
            self.is_behind(*other, wait.holding)
                && !self.is_behind(wait.holding, *other)
                && !self.is_behind(*other, wait.waiting)
        };
        !self.ahead.get(&wait.waiting).is_some_and(|ahead| ahead.iter().any(between))
    }
}

/// Whom a thread waits for in turn.
fn reached(thread: u64, ahead: &HashMap<u64, BTreeSet<u64>>) -> BTreeSet<u64> {
    let mut reached = BTreeSet::new();
    let mut next = vec![thread];
    while let Some(thread) = next.pop() {
        let new = ahead.get(&thread).into_iter().flatten().filter(|it| reached.insert(**it));
        next.extend(new);
    }
    reached
}

/// What a thread does, or did last: who sleeps within a transaction keeps its locks.
fn statement(thread: Option<&Thread>) -> Cell {
    let Some(thread) = thread else { return Cell::Text("(gone)".into()) };
    let text = thread.statement.as_deref().unwrap_or_default();
    if thread.is_busy() {
        return Cell::Text(text.to_owned());
    }
    let idle = thread.seconds.map_or_else(String::new, |seconds| format!(" {seconds} s"));
    Cell::Text(format!("(idle{idle}, last: {text})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn locks(pairs: impl IntoIterator<Item = (u64, u64)>) -> Locks {
        let wait = |(waiting, holding)| Wait {
            waiting,
            holding,
            object: "bank.account PRIMARY (7)".into(),
            wanted: "X".into(),
            held: "X".into(),
        };
        Locks { waits: pairs.into_iter().map(wait).collect(), threads: vec![] }
    }

    /// Each row's first column.
    fn who(pairs: impl IntoIterator<Item = (u64, u64)>) -> Vec<String> {
        let text = |row: Row| match &row.cells[0] {
            Cell::Text(text) => text.replace('\u{a0}', " ").trim_end().to_owned(),
            other => panic!("{other:?}"),
        };
        Tree::of(&locks(pairs)).rows().into_iter().map(text).collect()
    }

    #[test]
    fn a_queue_for_one_row_has_a_row_for_each_waiter() {
        // InnoDB names everybody who came before.
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
        // Two that read, one that writes, two that read: each waits for everybody in the layers before.
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
    fn a_pair_that_waits_for_several_locks_stands_once() {
        assert_eq!(who([(2, 1), (2, 1)]), ["1", "└─2"]);
    }
}
