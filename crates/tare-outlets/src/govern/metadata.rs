//! Metadata locks, which no table counts: a built-in has an event of one that is waited for. What costs is that every one is made
//! known to it, waited for or not.

use std::collections::BTreeMap;

use super::settings::{Settings, Table};

const LOCKS: &str = "wait/lock/metadata/sql/mdl";
const TRANSACTIONS: &str = "transaction";

/// How many are made: a transaction takes one at least, and a statement outside of one is a transaction of its own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Made {
    /// While transactions were counted last; before that it is believed that each statement is one.
    per_statement: f64,
}

impl Default for Made {
    fn default() -> Made {
        Made { per_statement: 1.0 }
    }
}

impl Made {
    /// Adds those that were made to the events of a look, if their instrument is on.
    pub(super) fn count(&mut self, events: &mut BTreeMap<String, f64>, statements: f64, settings: &Settings) {
        let is_on = |name: &str| {
            settings.get(&(Table::Instruments, name.to_owned())).is_some_and(|setting| setting.enabled)
        };
        let transactions = events.get(TRANSACTIONS).copied().unwrap_or(0.0);
        if is_on(TRANSACTIONS) && statements > 0.0 {
            self.per_statement = transactions / statements;
        }
        if is_on(LOCKS) {
            *events.entry(LOCKS.to_owned()).or_default() += self.per_statement * statements;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::govern::settings::Setting;

    #[test]
    fn a_transaction_makes_a_lock_counted_or_not_while_that_is_on() {
        let settings = |on: &[&str]| {
            let setting = |name: &str| Setting { enabled: on.contains(&name), timed: Some(true) };
            [LOCKS, TRANSACTIONS].map(|name| ((Table::Instruments, name.to_owned()), setting(name))).into()
        };
        let mut made = Made::default();
        let mut locks = |transactions: f64, on: &[&str]| {
            let mut events = BTreeMap::from([(TRANSACTIONS.to_owned(), transactions)]);
            made.count(&mut events, 100.0, &settings(on));
            events.get(LOCKS).copied()
        };
        assert_eq!(locks(0.0, &[LOCKS]), Some(100.0), "each statement is one");
        assert_eq!(locks(20.0, &[LOCKS, TRANSACTIONS]), Some(20.0));
        assert_eq!(locks(0.0, &[LOCKS]), Some(20.0), "as it was");
        assert_eq!(locks(20.0, &[TRANSACTIONS]), None);
    }
}
