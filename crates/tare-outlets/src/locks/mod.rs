//! Waits for locks, as the server tells of them: who waits for whom.

pub(crate) mod innodb;
pub(crate) mod metadata;

use std::collections::HashMap;

use crate::source::Row;
use innodb::{InnodbTransaction, LockWaitRow};

/// The holder of a lock that another waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Holder {
    /// A thread.
    Thread(u64),
    /// A transaction without a session, such as a prepared one whose connection has ended.
    Nobody,
    /// InnoDB does not tell which.
    Unknown,
}

/// A wait for a lock, and the lock in its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Id of the waiting thread.
    pub waiting: u64,
    /// Holder of the lock in its way.
    pub holding: Holder,
    /// Object of the lock.
    pub object: String,
    /// Requested mode.
    pub wanted: String,
    /// Mode of the lock in the way, which may itself be waited for.
    pub held: String,
}

/// Rows of transactions that have locks, of waits, and of locks; the first column tells them apart.
pub(crate) const INNODB: &str = "SELECT 't', `trx_id`, `trx_mysql_thread_id`, `trx_requested_lock_id`, `trx_rows_locked`, \
     `trx_tables_locked` FROM `information_schema`.`INNODB_TRX` WHERE `trx_lock_structs` > 0 \
     UNION ALL SELECT 'w', `requested_lock_id`, `blocking_trx_id`, `blocking_lock_id`, NULL, NULL \
     FROM `information_schema`.`INNODB_LOCK_WAITS` \
     UNION ALL SELECT 'l', `lock_id`, `lock_table`, `lock_index`, `lock_data`, `lock_mode` \
     FROM `information_schema`.`INNODB_LOCKS`";

/// Takes a table's name of InnoDB's tables apart: "`schema`.`table`", perhaps with a partition.
pub(crate) fn schema_and_table(name: &str) -> Option<(String, String)> {
    let (schema, rest) = name.strip_prefix('`')?.split_once("`.`")?;
    let table = rest.split_once('`').map_or(rest, |(table, _)| table);
    Some((schema.to_owned(), table.to_owned()))
}

/// The content of InnoDB's tables.
#[derive(Debug, Default)]
pub(crate) struct InnoDb {
    pub(crate) transactions: Vec<InnodbTransaction>,
    pub(crate) waits: Vec<LockWaitRow>,
    pub(crate) locks: HashMap<String, LockDescription>,
}

impl InnoDb {
    /// Takes [`INNODB`]'s rows apart.
    pub(crate) fn of(rows: &[Row]) -> InnoDb {
        let mut told = InnoDb::default();
        for row in rows {
            let text = |at| row.text(at).unwrap_or_default();
            match row.str(0).as_deref() {
                Some("t") => told.transactions.push(InnodbTransaction {
                    number: text(1),
                    session: row.count(2),
                    wanted: row.text(3),
                    records: row.count(4),
                    tables: row.count(5),
                }),
                Some("w") => told.waits.push(LockWaitRow { wanted: text(1), holder: text(2), held: text(3) }),
                _ => {
                    let table = text(2);
                    let object = named(&table.replace('`', ""), row.text(3), row.text(4));
                    let lock =
                        LockDescription { object, mode: text(5), granted: true, table, index: row.text(3) };
                    told.locks.insert(text(1), lock);
                }
            }
        }
        told
    }
}

/// The object and mode of a lock.
#[derive(Clone, Debug, Default)]
pub(crate) struct LockDescription {
    pub(crate) object: String,
    pub(crate) mode: String,
    pub(crate) granted: bool,
    /// Name of the table as InnoDB's tables have it, and the index; empty elsewhere.
    pub(crate) table: String,
    pub(crate) index: Option<String>,
}

/// Returns the name of a locked table with its index and record.
pub(crate) fn named(table: &str, index: Option<String>, record: Option<String>) -> String {
    let mut name = table.to_owned();
    if let Some(index) = index {
        name.push_str(&format!(" {index}"));
    }
    if let Some(record) = record {
        name.push_str(&format!(" ({record})"));
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_innodbs_has_a_schema() {
        for (name, expected) in [
            ("`shop`.`orders`", Some(("shop", "orders"))),
            ("`shop`.`orders` /* Partition `p0` */", Some(("shop", "orders"))),
            ("orders", None),
        ] {
            let expected = expected.map(|(schema, table)| (schema.to_owned(), table.to_owned()));
            assert_eq!(schema_and_table(name), expected, "{name}");
        }
    }
}
