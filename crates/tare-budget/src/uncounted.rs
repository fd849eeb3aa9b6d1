//! Costs that no summary table counts. Tables count waits for metadata locks, but every lock that is taken is
//! reported. Tables count rows of table I/O, but the cost is that of the waits in which rows are read.

use crate::board::Board;
use crate::governor::GovernorSample;
use crate::kind::{Kind, Level, handler};

/// The instrument of metadata locks.
const LOCKS: &str = "wait/lock/metadata/sql/mdl";
const TRANSACTIONS: &str = "transaction";

/// Status variables that add up to writing statements. Each of these takes one more metadata lock, against a
/// global lock, and so does a transaction with writes when it commits.
pub const WRITES: [&str; 9] = [
    "Com_insert",
    "Com_insert_select",
    "Com_replace",
    "Com_replace_select",
    "Com_update",
    "Com_update_multi",
    "Com_delete",
    "Com_delete_multi",
    "Com_load",
];

/// Work of the server between two samples according to its status variables; `None`: unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Done {
    /// Number of calls of storage engines that begin to read or that write a row, by the status variables
    /// [`handler::BEGINNINGS`].
    pub calls: Option<f64>,
    /// Number of statements that write, by the status variables [`WRITES`].
    pub writes: Option<f64>,
}

/// Returns whether an instrument has costs without events.
#[must_use]
pub fn is_uncounted(name: &str) -> bool {
    name == LOCKS
}

/// Estimates from earlier samples of what is not counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Uncounted {
    /// Value when transactions were last counted. Before that, every statement is assumed to be one.
    transactions_per_statement: f64,
}

impl Default for Uncounted {
    fn default() -> Uncounted {
        Uncounted { transactions_per_statement: 1.0 }
    }
}

impl Uncounted {
    /// Adds to a sample what is on the board and not counted.
    pub fn complete(&mut self, look: &mut GovernorSample, board: &Board, done: Done) {
        let is_on = |name: &str| board.iter().any(|it| it.name == name && it.present > Level::Off);
        self.add_locks(look, is_on, done.writes.unwrap_or(0.0));
        if let Some(calls) = done.calls {
            count_table_waits(look, calls);
        }
    }

    /// Adds metadata locks. A transaction takes at least one, and a statement outside of one is a transaction
    /// of its own. Locks of each connection are known while transactions are counted; each connection is
    /// assumed to write as much as the average.
    fn add_locks(&mut self, look: &mut GovernorSample, is_on: impl Fn(&str) -> bool, writes: f64) {
        let transactions = look.events.get(TRANSACTIONS).copied().unwrap_or(0.0);
        if is_on(TRANSACTIONS) && look.statements > 0.0 {
            self.transactions_per_statement = transactions / look.statements;
        }
        if !is_on(LOCKS) {
            return;
        }
        let transactions = self.transactions_per_statement * look.statements;
        let taken = transactions + writes + writes.min(transactions);
        *look.events.entry(LOCKS.to_owned()).or_default() += taken;
        let each = if transactions > 0.0 { taken / transactions } else { 1.0 };
        for connection in &mut look.connections {
            let made = connection.events.iter().find(|(name, _)| name == TRANSACTIONS).map(|(_, made)| *made);
            connection.events.extend(made.map(|made| (LOCKS.into(), made * each)));
        }
    }
}

/// Returns whether an instrument is that of waits for rows.
#[must_use]
pub fn is_table_io(name: &str) -> bool {
    Kind::of(name) == Some(Kind::TableIo)
}

/// Replaces rows of table I/O by waits, given the calls of storage engines. The waits per row of each
/// connection are those of all.
pub fn count_table_waits(look: &mut GovernorSample, calls: f64) {
    let rows: f64 = look.events.iter().filter(|(name, _)| is_table_io(name)).map(|(_, rows)| rows).sum();
    let waits_per_row = if rows > 0.0 { handler::waits(rows, calls) / rows } else { 1.0 };
    for (_, count) in look.events.iter_mut().filter(|(name, _)| is_table_io(name)) {
        *count *= waits_per_row;
    }
    for connection in &mut look.connections {
        for (_, count) in connection.events.iter_mut().filter(|(name, _)| is_table_io(name)) {
            *count *= waits_per_row;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::board::{Switch, Switched};
    use crate::connection::ConnectionEvents;

    const ROWS: &str = "wait/io/table/sql/handler";

    fn board(on: &[&str]) -> Vec<Switch> {
        let switch = |name: &str| Switch {
            name: name.to_owned(),
            of: Switched::Instrument(Kind::of(name).expect("a kind")),
            levels: vec![Level::Off, Level::Counts],
            present: if on.contains(&name) { Level::Counts } else { Level::Off },
            held: None,
        };
        [LOCKS, TRANSACTIONS].map(switch).into()
    }

    #[test]
    fn a_transaction_makes_a_lock_counted_or_not_while_that_is_on() {
        let mut uncounted = Uncounted::default();
        let mut locks = |transactions: f64, on: &[&str]| {
            let events = BTreeMap::from([(TRANSACTIONS.to_owned(), transactions)]);
            let mut look = GovernorSample { events, statements: 100.0, ..GovernorSample::default() };
            uncounted.complete(&mut look, &board(on), Done::default());
            look.events.get(LOCKS).copied()
        };
        assert_eq!(locks(0.0, &[LOCKS]), Some(100.0), "each statement is one");
        assert_eq!(locks(20.0, &[LOCKS, TRANSACTIONS]), Some(20.0));
        assert_eq!(locks(0.0, &[LOCKS]), Some(20.0), "as it was");
        assert_eq!(locks(20.0, &[TRANSACTIONS]), None);
    }

    #[test]
    fn of_each_connection_its_own_transactions_make_locks() {
        let of = |events: &[(&'static str, f64)]| {
            let events = events.iter().map(|(name, count)| ((*name).into(), *count)).collect();
            ConnectionEvents { cpu: 1.0, events }
        };
        let connections = vec![of(&[(TRANSACTIONS, 7.0)]), of(&[("idle", 3.0)])];
        let mut look = GovernorSample { connections, ..GovernorSample::default() };
        Uncounted::default().complete(&mut look, &board(&[LOCKS, TRANSACTIONS]), Done::default());
        assert_eq!(look.connections, [of(&[(TRANSACTIONS, 7.0), (LOCKS, 7.0)]), of(&[("idle", 3.0)])]);
    }

    #[test]
    fn a_statement_that_writes_takes_a_lock_more_and_so_does_the_commit_after_it() {
        let locks = |transactions: f64, writes: f64| {
            let events = BTreeMap::from([(TRANSACTIONS.to_owned(), transactions)]);
            let connection = ConnectionEvents { cpu: 1.0, events: vec![(TRANSACTIONS.into(), 2.0)] };
            let mut look = GovernorSample {
                events,
                statements: 100.0,
                connections: vec![connection],
                ..GovernorSample::default()
            };
            let done = Done { writes: Some(writes), ..Done::default() };
            Uncounted::default().complete(&mut look, &board(&[LOCKS, TRANSACTIONS]), done);
            (look.events[LOCKS], look.connections[0].events[1].1)
        };
        assert_eq!(locks(10.0, 50.0), (70.0, 14.0), "ten transactions, of five such statements each");
        assert_eq!(locks(100.0, 4.0), (108.0, 2.16), "of four transactions one");
        assert_eq!(locks(100.0, 0.0), (100.0, 2.0));
    }

    #[test]
    fn rows_that_one_call_reads_are_one_wait() {
        let waits = |rows: f64, calls| {
            let connection =
                ConnectionEvents { cpu: 1.0, events: vec![(ROWS.into(), 50.0), ("idle".into(), 7.0)] };
            let events = [(ROWS, rows), ("idle", 9.0)].map(|(name, count)| (name.to_owned(), count));
            let mut look = GovernorSample {
                events: events.into(),
                connections: vec![connection],
                ..GovernorSample::default()
            };
            Uncounted::default().complete(&mut look, &[], Done { calls, ..Done::default() });
            let of_connection = &look.connections[0].events;
            assert_eq!((look.events["idle"], of_connection[1].1), (9.0, 7.0));
            (look.events[ROWS], of_connection[0].1)
        };
        assert_eq!(waits(1000.0, Some(10.0)), (10.0, 0.5));
        assert_eq!(waits(10.0, Some(15.0)), (10.0, 50.0), "some were of temporary tables");
        assert_eq!(waits(0.0, Some(15.0)), (0.0, 50.0));
        assert_eq!(waits(1000.0, None), (1000.0, 50.0), "not known");
    }
}
