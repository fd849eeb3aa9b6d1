//! What costs a built-in and no summary table counts. Of metadata locks these have those that are waited for, but each that is
//! taken is made known. Of table I/O they have rows, but what costs is the waits in which rows are read.

use tare_budget::{Kind, Look, Provider, handler};

use super::settings::{Settings, Table};

const LOCKS: &str = "wait/lock/metadata/sql/mdl";
const TRANSACTIONS: &str = "transaction";

/// What is known of it from looks before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Uncounted {
    /// While transactions were counted last; before that it is believed that each statement is one.
    transactions_per_statement: f64,
}

impl Default for Uncounted {
    fn default() -> Uncounted {
        Uncounted { transactions_per_statement: 1.0 }
    }
}

impl Uncounted {
    /// Completes a look at a built-in; tare's prices are of what is counted. `calls`: of storage engines, if it is known how many
    /// there were.
    pub(super) fn complete(
        &mut self,
        look: &mut Look,
        calls: Option<f64>,
        provider: Provider,
        settings: &Settings,
    ) {
        if !provider.is_built_in() {
            return;
        }
        self.add_locks(look, settings);
        if let Some(calls) = calls {
            count_waits(look, calls);
        }
    }

    /// A transaction takes a metadata lock at least, and a statement outside of one is a transaction of its own.
    fn add_locks(&mut self, look: &mut Look, settings: &Settings) {
        let is_on = |name: &str| {
            settings.get(&(Table::Instruments, name.to_owned())).is_some_and(|setting| setting.enabled)
        };
        let transactions = look.events.get(TRANSACTIONS).copied().unwrap_or(0.0);
        if is_on(TRANSACTIONS) && look.statements > 0.0 {
            self.transactions_per_statement = transactions / look.statements;
        }
        if is_on(LOCKS) {
            *look.events.entry(LOCKS.to_owned()).or_default() +=
                self.transactions_per_statement * look.statements;
        }
    }
}

/// Waits instead of rows, of each connection as many a row as of all.
fn count_waits(look: &mut Look, calls: f64) {
    let is_table_io = |name: &str| Kind::of(name) == Some(Kind::TableIo);
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

    use tare_budget::Connection;

    use super::*;
    use crate::govern::settings::Setting;

    const ROWS: &str = "wait/io/table/sql/handler";

    #[test]
    fn a_transaction_makes_a_lock_counted_or_not_while_that_is_on() {
        let settings = |on: &[&str]| {
            let setting = |name: &str| Setting { enabled: on.contains(&name), timed: Some(true) };
            [LOCKS, TRANSACTIONS].map(|name| ((Table::Instruments, name.to_owned()), setting(name))).into()
        };
        let mut uncounted = Uncounted::default();
        let mut locks = |transactions: f64, on: &[&str]| {
            let events = BTreeMap::from([(TRANSACTIONS.to_owned(), transactions)]);
            let mut look = Look { events, statements: 100.0, ..Look::default() };
            uncounted.complete(&mut look, None, Provider::MySql, &settings(on));
            look.events.get(LOCKS).copied()
        };
        assert_eq!(locks(0.0, &[LOCKS]), Some(100.0), "each statement is one");
        assert_eq!(locks(20.0, &[LOCKS, TRANSACTIONS]), Some(20.0));
        assert_eq!(locks(0.0, &[LOCKS]), Some(20.0), "as it was");
        assert_eq!(locks(20.0, &[TRANSACTIONS]), None);
    }

    #[test]
    fn rows_that_one_call_reads_are_one_wait() {
        let waits = |rows: f64, calls| {
            let connection = Connection { cpu: 1.0, events: vec![(ROWS.into(), 50.0), ("idle".into(), 7.0)] };
            let events = [(ROWS, rows), ("idle", 9.0)].map(|(name, count)| (name.to_owned(), count));
            let mut look = Look { events: events.into(), connections: vec![connection], ..Look::default() };
            Uncounted::default().complete(&mut look, calls, Provider::MySql, &Settings::new());
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
