//! Locks on data, as MySQL shows them: views over InnoDB's tables, and over threads and statements.

#[macro_use]
mod name;
#[macro_use]
mod event;
#[macro_use]
mod wait;

use crate::framework::view::{ViewColumn, ViewDef, expressed, expressed_or_null};
use crate::table::SqlType::{BigIntUnsigned, VarChar};

const ENGINE: ViewColumn = expressed("ENGINE", VarChar(32), "Always INNODB.", "'INNODB'");
const NOWHERE: &str = "Always 0: InnoDB does not report it.";
const LOCK_ID: &str = "InnoDB's number of the lock. If the transaction has no number, the number of the connection \
     is appended; if the transaction waits for a stronger lock with the same number, :held is.";
const HOLDING_EVENT: &str =
    "Statement that took the lock; NULL if several statements of the transaction may have taken it.";

/// The table `data_locks`.
pub static DATA_LOCKS: ViewDef = ViewDef::new(
    "data_locks",
    "The locks on data that transactions wait for, and the locks that block them. InnoDB reports no other locks. It \
     does not report either the address of a lock, or whether a lock on a record includes the gap before it \
     (REC_NOT_GAP, INSERT_INTENTION).",
    &[&[
        ENGINE,
        expressed("ENGINE_LOCK_ID", VarChar(128), LOCK_ID, "`e`.`id`"),
        expressed_or_null(
            "ENGINE_TRANSACTION_ID",
            BigIntUnsigned,
            "InnoDB's number of the transaction; NULL if it has none, because it has changed nothing.",
            "nullif(`e`.`trx`,0)",
        ),
        expressed_or_null(
            "THREAD_ID",
            BigIntUnsigned,
            "Thread that holds the lock or waits for it; NULL if InnoDB does not report it, or the transaction \
     belongs to no thread.",
            "`e`.`thread`",
        ),
        expressed_or_null(
            "EVENT_ID",
            BigIntUnsigned,
            "Statement that waits for the lock or took it; NULL if several statements of the transaction may have \
     taken it.",
            concat!("if(`e`.`waits`,", running_event!("`e`.`thread`"), ",", holding_event!(), ")"),
        ),
        expressed_or_null("OBJECT_SCHEMA", VarChar(64), "Schema of the table.", "`e`.`schema`"),
        expressed_or_null(
            "OBJECT_NAME",
            VarChar(64),
            "Name of the table, without the name of the partition.",
            "`e`.`table`",
        ),
        expressed_or_null(
            "PARTITION_NAME",
            VarChar(64),
            "The partition; NULL without one.",
            "`e`.`partition`",
        ),
        expressed_or_null(
            "SUBPARTITION_NAME",
            VarChar(64),
            "The subpartition; NULL without one.",
            "`e`.`subpartition`",
        ),
        expressed_or_null(
            "INDEX_NAME",
            VarChar(64),
            "Index of the record; NULL for a lock on a table.",
            "`e`.`lock_index`",
        ),
        expressed("OBJECT_INSTANCE_BEGIN", BigIntUnsigned, NOWHERE, "0"),
        expressed(
            "LOCK_TYPE",
            VarChar(32),
            "RECORD or TABLE.",
            "if(`e`.`lock_type` = 'TABLE','TABLE','RECORD')",
        ),
        expressed(
            "LOCK_MODE",
            VarChar(32),
            "How it is locked, such as X or S,GAP; empty for a lock whose transaction waits for a stronger one.",
            "if(`e`.`same`,'',ifnull(cast(`e`.`lock_mode` as char(32) charset utf8mb3),''))",
        ),
        expressed("LOCK_STATUS", VarChar(32), "WAITING or GRANTED.", "if(`e`.`waits`,'WAITING','GRANTED')"),
        expressed_or_null("LOCK_DATA", VarChar(8192), "The record's key.", "`e`.`lock_data`"),
    ]],
    concat!(
        "(SELECT DISTINCT `o`.`id` AS `id`,`o`.`trx` AS `trx`,`o`.`waits` AS `waits`,`o`.`same` AS `same`,\
         `o`.`serial` AS `serial`,`h`.`THREAD_ID` AS `thread`,`l`.`lock_mode` AS `lock_mode`,\
         `l`.`lock_type` AS `lock_type`,`l`.`lock_index` AS `lock_index`,`l`.`lock_data` AS `lock_data`,",
        schema!(),
        " AS `schema`,",
        table!(),
        " AS `table`,",
        partition!(),
        " AS `partition`,",
        subpartition!(),
        " AS `subpartition`,if(`o`.`waits`,NULL,",
        first_use!("`h`.`THREAD_ID`", "`o`.`same`"),
        ") AS `first` FROM (SELECT `w`.`session` AS `session`,`w`.`trx` AS `trx`,`w`.`wanted` AS `lock`,\
         if(`w`.`trx` = 0,concat(`w`.`wanted`,':',`w`.`session`),`w`.`wanted`) AS `id`,1 AS `waits`,0 AS `same`,\
         0 AS `serial` FROM ",
        waiters!(),
        " `w` UNION SELECT `w`.`holder`,`w`.`holder_trx`,`w`.`held`,`w`.`held_id`,0,`w`.`same`,`w`.`serial` FROM ",
        waits!(),
        " `w` WHERE `w`.`rung` = 1) `o` JOIN ",
        named_locks!(),
        " `l` ON `l`.`lock_id` = `o`.`lock` \
         LEFT JOIN `performance_schema`.`threads` `h` ON `h`.`PROCESSLIST_ID` = `o`.`session`) `e`"
    ),
);

/// The table `data_lock_waits`.
pub static DATA_LOCK_WAITS: ViewDef = ViewDef::new(
    "data_lock_waits",
    "Which transaction waits for which other one: a row for each transaction that holds the lock it waits for, or, \
     if none holds it, for each that waits ahead of it in the queue. For transactions that have changed nothing \
     InnoDB reports that some hold a lock, but not always which: then BLOCKING_THREAD_ID is NULL. It does not report \
     the addresses of locks.",
    &[&[
        ENGINE,
        expressed("REQUESTING_ENGINE_LOCK_ID", VarChar(128), LOCK_ID, "`e`.`wanted_id`"),
        expressed_or_null(
            "REQUESTING_ENGINE_TRANSACTION_ID",
            BigIntUnsigned,
            "The transaction that waits; NULL if it has no number.",
            "nullif(`e`.`waiter_trx`,0)",
        ),
        expressed_or_null("REQUESTING_THREAD_ID", BigIntUnsigned, "Thread that waits.", "`e`.`waiter`"),
        expressed_or_null(
            "REQUESTING_EVENT_ID",
            BigIntUnsigned,
            "Statement that waits.",
            running_event!("`e`.`waiter`"),
        ),
        expressed("REQUESTING_OBJECT_INSTANCE_BEGIN", BigIntUnsigned, NOWHERE, "0"),
        expressed("BLOCKING_ENGINE_LOCK_ID", VarChar(128), LOCK_ID, "`e`.`held_id`"),
        expressed_or_null(
            "BLOCKING_ENGINE_TRANSACTION_ID",
            BigIntUnsigned,
            "The transaction that holds it; NULL if it has no number.",
            "nullif(`e`.`holder_trx`,0)",
        ),
        expressed_or_null(
            "BLOCKING_THREAD_ID",
            BigIntUnsigned,
            "Thread that holds it; NULL if InnoDB does not report it, or the transaction belongs to no thread.",
            "`e`.`thread`",
        ),
        expressed_or_null(
            "BLOCKING_EVENT_ID",
            BigIntUnsigned,
            HOLDING_EVENT,
            concat!("if(`e`.`rung` = 1,", holding_event!(), ",", running_event!("`e`.`thread`"), ")"),
        ),
        expressed("BLOCKING_OBJECT_INSTANCE_BEGIN", BigIntUnsigned, NOWHERE, "0"),
    ]],
    concat!(
        "(SELECT DISTINCT `w`.`wanted_id` AS `wanted_id`,`w`.`waiter_trx` AS `waiter_trx`,`hr`.`THREAD_ID` AS `waiter`,\
         `w`.`held_id` AS `held_id`,`w`.`holder_trx` AS `holder_trx`,`hb`.`THREAD_ID` AS `thread`,\
         `w`.`rung` AS `rung`,`w`.`serial` AS `serial`,if(`w`.`rung` = 1,",
        first_use!("`hb`.`THREAD_ID`", "`w`.`same`"),
        ",NULL) AS `first` FROM ",
        waits!(),
        " `w` LEFT JOIN ",
        named_locks!(),
        " `l` ON `l`.`lock_id` = `w`.`held` \
         LEFT JOIN `performance_schema`.`threads` `hr` ON `hr`.`PROCESSLIST_ID` = `w`.`waiter` \
         LEFT JOIN `performance_schema`.`threads` `hb` ON `hb`.`PROCESSLIST_ID` = `w`.`holder`) `e`"
    ),
);

#[cfg(test)]
mod tests;
