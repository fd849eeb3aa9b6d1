//! Waits for data locks, derived from InnoDB's tables of transactions in `information_schema`.
//!
//! In MariaDB, all transactions that have changed nothing share the number 0, whether they hold shared locks,
//! wait for one or hold none. InnoDB reports their locks on one record, or on one table, as a single lock,
//! with a row for each that is in the way. The rules are those of `data_lock_waits` in tare's shape
//! `extended`; that view explains them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

/// InnoDB's data about a transaction.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct InnodbTransaction {
    /// Its number; 0 if it has changed nothing.
    pub(crate) number: String,
    /// Id of its connection; 0 without one.
    pub(crate) session: u64,
    /// Id of the lock it waits for.
    pub(crate) wanted: Option<String>,
    /// Number of record locks, including the one it waits for.
    pub(crate) records: u64,
    /// Number of table locks, including the one it waits for.
    pub(crate) tables: u64,
}

/// A row of `INNODB_LOCK_WAITS`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LockWaitRow {
    /// Id of the lock that is waited for.
    pub(crate) wanted: String,
    /// Number of the transaction in the way.
    pub(crate) holder: String,
    /// Id of its lock.
    pub(crate) held: String,
}

/// The owner of a lock in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RowLockHolder {
    /// A connection.
    Session(u64),
    /// A transaction without a connection.
    Nobody,
    /// InnoDB does not tell.
    Unknown,
}

/// A session that waits for another one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct InnodbLockWait {
    /// Id of the waiting connection.
    pub(crate) waiter: u64,
    /// Owner of the lock in the way.
    pub(crate) owner: RowLockHolder,
    /// Id of the lock that is waited for.
    pub(crate) wanted: String,
    /// Id of the lock in the way.
    pub(crate) held: String,
    /// Whether the owner itself waits under that id, so that InnoDB's data about the lock is about the one it
    /// waits for.
    pub(crate) wants_more: bool,
    /// Whether the owner holds nothing, and waits ahead.
    pub(crate) in_front: bool,
}

const NAMELESS: &str = "0";

/// Returns whether it is a record lock, whose id has transaction, space, page and record; a table lock's has
/// transaction and table.
fn is_of_record(lock: &str) -> bool {
    lock.matches(':').count() >= 3
}

impl InnodbTransaction {
    /// Returns the number of its locks of the same kind (record or table), without the one it waits for.
    fn has(&self, lock: &str) -> u64 {
        let record = is_of_record(lock);
        let waits = self.wanted.as_deref().is_some_and(|wanted| is_of_record(wanted) == record);
        let all = if record { self.records } else { self.tables };
        all.saturating_sub(u64::from(waits))
    }

    fn wants(&self, lock: &str) -> bool {
        self.wanted.as_deref() == Some(lock)
    }

    fn owner(&self) -> RowLockHolder {
        if self.session == 0 { RowLockHolder::Nobody } else { RowLockHolder::Session(self.session) }
    }
}

/// Returns, for each waiter, the holders of the lock, or those that wait ahead if nobody holds it.
/// `is_on_gap`: whether a lock is only on a gap.
pub(crate) fn found(
    transactions: &[InnodbTransaction],
    told: &[LockWaitRow],
    is_on_gap: impl Fn(&str) -> bool,
) -> Vec<InnodbLockWait> {
    let mut times: BTreeMap<(&str, &str, &str), u64> = BTreeMap::new();
    for row in told {
        *times.entry((&row.wanted, &row.holder, &row.held)).or_default() += 1;
    }
    let all = All::of(transactions);
    let mut found = BTreeSet::new();
    for ((wanted, holder, held), count) in &times {
        if *holder == NAMELESS {
            let behind = times.get(&(held, all.number_of(wanted), wanted)).copied().unwrap_or(0);
            let behind = if is_on_gap(wanted) { 0 } else { behind };
            found.extend(all.nameless(wanted, held, *count, behind));
        } else {
            found.extend(all.numbered(wanted, holder, held, *count));
        }
    }
    let held: BTreeSet<u64> = found.iter().filter(|it| !it.in_front).map(|it| it.waiter).collect();
    found.into_iter().filter(|it| !it.in_front || !held.contains(&it.waiter)).collect()
}

struct All<'t> {
    by_number: HashMap<&'t str, &'t InnodbTransaction>,
    nameless: Vec<&'t InnodbTransaction>,
    /// Waiting transactions by the id of the requested lock.
    queues: HashMap<&'t str, Vec<&'t InnodbTransaction>>,
}

impl<'t> All<'t> {
    fn of(transactions: &'t [InnodbTransaction]) -> All<'t> {
        let (nameless, numbered): (Vec<_>, Vec<_>) =
            transactions.iter().partition(|it| it.number == NAMELESS);
        let mut queues: HashMap<&str, Vec<&InnodbTransaction>> = HashMap::new();
        for transaction in transactions {
            if let Some(wanted) = &transaction.wanted {
                queues.entry(wanted).or_default().push(transaction);
            }
        }
        let by_number = numbered.into_iter().map(|it| (it.number.as_str(), it)).collect();
        All { by_number, nameless, queues }
    }

    fn queue(&self, wanted: &str) -> &[&'t InnodbTransaction] {
        self.queues.get(wanted).map_or(&[], Vec::as_slice)
    }

    fn number_of(&self, wanted: &str) -> &'t str {
        self.queue(wanted).first().map_or("", |waiter| &waiter.number)
    }

    /// Returns waits for a transaction with a number. If it waits under the lock's id, it also holds the lock
    /// if it is reported more often than there are waiters.
    fn numbered(&self, wanted: &str, holder: &str, held: &str, times: u64) -> Vec<InnodbLockWait> {
        let holder = self.by_number.get(holder);
        let wants_more = holder.is_some_and(|it| it.wants(held));
        let queue = self.queue(wanted);
        let in_front = wants_more && times <= queue.len() as u64;
        let owner = holder.map_or(RowLockHolder::Unknown, |it| it.owner());
        queue.iter().map(|waiter| pair(waiter, owner, wanted, held, wants_more, in_front)).collect()
    }

    /// Returns waits for transactions that share the number 0. `behind`: how often they are reported to wait
    /// for this very waiter.
    fn nameless(&self, wanted: &str, held: &str, times: u64, behind: u64) -> Vec<InnodbLockWait> {
        let (queue, others) = (self.queue(wanted), self.queue(held));
        let is_own = wanted == held;
        let in_front = match queue.len() as u64 {
            waiters if is_own => waiters * waiters.saturating_sub(1) / 2,
            _ => (others.len() as u64).saturating_sub(behind),
        };
        let granted = times.saturating_sub(in_front);
        let holders: Vec<&InnodbTransaction> =
            self.nameless.iter().copied().filter(|it| self.surely_holds(it, wanted, held, granted)).collect();
        let mut found = vec![];
        for waiter in queue {
            let not_itself = |it: &&&InnodbTransaction| it.session != waiter.session;
            let named: Vec<&&InnodbTransaction> = match granted {
                0 => Some(others.iter().filter(not_itself).collect()).filter(|it: &Vec<_>| it.len() == 1),
                _ => Some(holders.iter().filter(not_itself).collect()),
            }
            .unwrap_or_default();
            let one = |it: &&InnodbTransaction| {
                pair(waiter, it.owner(), wanted, held, it.wants(held), granted == 0)
            };
            found.extend(named.iter().map(|it| one(it)));
            if named.is_empty() {
                found.push(pair(waiter, RowLockHolder::Unknown, wanted, held, false, granted == 0));
            }
        }
        found
    }

    /// Returns whether one must hold a lock, because the others do not have enough locks to be in the way of
    /// all waiters. A waiter is not in its own way.
    fn surely_holds(&self, one: &InnodbTransaction, wanted: &str, held: &str, granted: u64) -> bool {
        let has = one.has(held);
        let queue = self.queue(wanted);
        let total: u64 = self.nameless.iter().map(|it| it.has(held)).sum();
        let of_others = queue.len() as u64 * (total - has);
        let own: u64 = match wanted == held {
            true => queue.iter().filter(|it| **it != one).map(|it| it.has(held)).sum(),
            false => 0,
        };
        has > 0 && granted > of_others.saturating_sub(own)
    }
}

fn pair(
    waiter: &InnodbTransaction,
    owner: RowLockHolder,
    wanted: &str,
    held: &str,
    wants_more: bool,
    in_front: bool,
) -> InnodbLockWait {
    InnodbLockWait {
        waiter: waiter.session,
        owner,
        wanted: wanted.to_owned(),
        held: held.to_owned(),
        wants_more,
        in_front,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transaction(number: &str, session: u64, wanted: &str, records: u64) -> InnodbTransaction {
        let wanted = Some(wanted.to_owned()).filter(|it| !it.is_empty());
        InnodbTransaction { number: number.into(), session, wanted, records, tables: 1 }
    }

    fn told(wanted: &str, held: &str) -> LockWaitRow {
        let holder = held.split(':').next().unwrap_or_default().to_owned();
        LockWaitRow { wanted: wanted.into(), holder, held: held.into() }
    }

    fn pairs(transactions: &[InnodbTransaction], rows: &[LockWaitRow]) -> Vec<(u64, RowLockHolder)> {
        found(transactions, rows, |_| false).iter().map(|it| (it.waiter, it.owner)).collect()
    }

    const HOLDS: RowLockHolder = RowLockHolder::Session(1);

    #[test]
    fn readers_of_two_rows_wait_for_their_holder_each_once() {
        let transactions = [
            transaction("0", 5, "0:8:3:3", 1),
            transaction("0", 4, "0:8:3:2", 1),
            transaction("0", 3, "", 0),
            transaction("0", 2, "", 0),
            transaction("23", 1, "", 2),
        ];
        let rows = [told("0:8:3:3", "23:8:3:3"), told("0:8:3:2", "23:8:3:2")];
        assert_eq!(pairs(&transactions, &rows), [(4, HOLDS), (5, HOLDS)]);
    }

    #[test]
    fn seven_readers_of_a_row_are_seven_waits() {
        let mut transactions = vec![transaction("23", 1, "", 1)];
        transactions.extend((2..9).map(|session| transaction("0", session, "0:8:3:2", 1)));
        let rows = vec![told("0:8:3:2", "23:8:3:2"); 7];
        assert_eq!(pairs(&transactions, &rows), (2..9).map(|it| (it, HOLDS)).collect::<Vec<_>>());
    }

    #[test]
    fn who_may_hold_it_is_named_only_if_no_other_can() {
        let writer = transaction("9", 4, "9:8:3:2", 1);
        let row = told("9:8:3:2", "0:8:3:2");
        let one = [transaction("0", 1, "", 5), transaction("0", 2, "", 0), writer.clone()];
        assert_eq!(pairs(&one, std::slice::from_ref(&row)), [(4, HOLDS)]);
        let two = [transaction("0", 1, "", 1), transaction("0", 2, "", 1), writer.clone()];
        assert_eq!(pairs(&two, std::slice::from_ref(&row)), [(4, RowLockHolder::Unknown)], "one of them");
        assert_eq!(
            pairs(&two, &[row.clone(), row.clone()]),
            [(4, HOLDS), (4, RowLockHolder::Session(2))],
            "both"
        );
        let three = [&two[..], &[transaction("0", 3, "", 1)]].concat();
        assert_eq!(pairs(&three, &[row.clone(), row]), [(4, RowLockHolder::Unknown)], "two of three");
    }

    #[test]
    fn who_waits_in_front_is_told_only_where_nobody_holds() {
        let transactions = [
            transaction("1", 1, "", 1),
            transaction("2", 2, "2:8:3:2", 1),
            transaction("3", 3, "3:8:3:2", 1),
        ];
        let queue = [told("2:8:3:2", "1:8:3:2"), told("3:8:3:2", "2:8:3:2"), told("3:8:3:2", "1:8:3:2")];
        assert_eq!(pairs(&transactions, &queue), [(2, HOLDS), (3, HOLDS)]);
        // A reader that could share it with the holder queues behind the writer.
        let transactions = [
            transaction("0", 1, "", 1),
            transaction("2", 2, "2:8:3:2", 1),
            transaction("0", 3, "0:8:3:2", 1),
            transaction("0", 4, "0:8:3:2", 1),
        ];
        let behind = vec![told("0:8:3:2", "2:8:3:2"); 2];
        let rows = [&[told("2:8:3:2", "0:8:3:2")], &behind[..]].concat();
        let expected = [(2, HOLDS), (3, RowLockHolder::Session(2)), (4, RowLockHolder::Session(2))];
        assert_eq!(pairs(&transactions, &rows), expected);
    }

    #[test]
    fn who_holds_a_lock_and_wants_a_stronger_one_holds_it() {
        let transactions = [
            transaction("0", 1, "", 1),
            transaction("2", 2, "2:8:3:2", 2),
            transaction("3", 3, "3:8:3:2", 1),
        ];
        let rows = [
            told("3:8:3:2", "2:8:3:2"),
            told("3:8:3:2", "0:8:3:2"),
            told("3:8:3:2", "2:8:3:2"),
            told("2:8:3:2", "0:8:3:2"),
        ];
        assert_eq!(pairs(&transactions, &rows), [(2, HOLDS), (3, HOLDS), (3, RowLockHolder::Session(2))]);
        assert!(found(&transactions, &rows, |_| false)[2].wants_more);
    }

    #[test]
    fn a_transaction_without_a_session_is_no_session() {
        let transactions = [transaction("1", 0, "", 1), transaction("0", 2, "0:8:3:2", 1)];
        assert_eq!(pairs(&transactions, &[told("0:8:3:2", "1:8:3:2")]), [(2, RowLockHolder::Nobody)]);
    }
}
