//! Who waits for whom, as a tree: below who has a lock, those that wait for it.

use std::collections::{BTreeSet, HashMap};

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

struct Tree<'a> {
    threads: HashMap<u64, &'a Thread>,
    /// Those that wait, by the thread they wait for.
    below: HashMap<u64, Vec<&'a Wait>>,
    rows: Vec<Row>,
    /// Threads that stand somewhere.
    seen: BTreeSet<u64>,
}

impl<'a> Tree<'a> {
    fn of(locks: &'a Locks) -> Tree<'a> {
        let mut below: HashMap<u64, Vec<&Wait>> = HashMap::new();
        for wait in &locks.waits {
            below.entry(wait.holding).or_default().push(wait);
        }
        let threads = locks.threads.iter().map(|thread| (thread.id, thread)).collect();
        Tree { threads, below, rows: vec![], seen: BTreeSet::new() }
    }

    fn rows(mut self) -> Vec<Row> {
        let holding: BTreeSet<u64> = self.below.keys().copied().collect();
        let waiting: BTreeSet<u64> = self.below.values().flatten().map(|wait| wait.waiting).collect();
        // First those that wait for nobody; what is left then waits in a circle.
        for root in holding.difference(&waiting).chain(&holding) {
            if self.seen.insert(*root) {
                self.push(*root, None, "", &mut vec![]);
            }
        }
        self.rows
    }

    /// Adds a thread and those below it. `line` is what stands before its children; `path` leads to it.
    fn push(&mut self, thread: u64, wait: Option<&Wait>, line: &str, path: &mut Vec<u64>) {
        self.seen.insert(thread);
        let before = line.to_owned();
        self.rows.push(self.row(thread, wait, &before, path));
        if path.contains(&thread) {
            return;
        }
        path.push(thread);
        let below = self.below.get(&thread).cloned().unwrap_or_default();
        let indent = before.replace('├', "│").replace(['└', '─'], "\u{a0}");
        for (at, wait) in below.iter().enumerate() {
            let branch = if at + 1 < below.len() { "├─" } else { "└─" };
            self.push(wait.waiting, Some(wait), &format!("{indent}{branch}"), path);
        }
        path.pop();
    }

    fn row(&self, thread: u64, wait: Option<&Wait>, before: &str, path: &[u64]) -> Row {
        let known = self.threads.get(&thread);
        let account = known.and_then(|it| it.account.as_deref()).unwrap_or_default();
        let circle = if path.contains(&thread) { " (in a circle)" } else { "" };
        let part = |of: fn(&Wait) -> &String| wait.map_or(Cell::Empty, |wait| Cell::Text(of(wait).clone()));
        let mut key: Vec<String> = vec![thread.to_string()];
        key.extend(path.iter().map(u64::to_string));
        Row {
            key,
            cells: vec![
                Cell::Text(format!("{before}{thread} {account}{circle}")),
                known.map_or(Cell::Empty, |it| threads::time(it)),
                part(|wait| &wait.object),
                part(|wait| &wait.wanted),
                part(|wait| &wait.held),
                Cell::Text(thread.to_string()),
                wait.map_or(Cell::Empty, |wait| Cell::Text(wait.holding.to_string())),
                statement(known.copied()),
            ],
        }
    }
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
