//! SQL that finds which session waits for which. InnoDB shows transactions by numbers that many of them
//! share.
//!
//! A transaction that has changed nothing has the number 0, and so have all others like it: those that hold
//! shared locks, those that wait for one, those that read by a snapshot and hold none. InnoDB shows two locks
//! of one number on one record, or on one table, as one, and repeats a wait for each lock that is in the way.
//!
//! - The *waiter* is known: `INNODB_TRX` has the lock that each session waits for.
//! - The *holder* is known for a transaction with a number. If it waits itself under the lock's number, it
//!   also holds the lock if the wait is shown more often than there are sessions that wait.
//! - For the number 0 a session is named only if the others could not hold as many locks as are in the way:
//!   they have no more than `trx_rows_locked`, or `trx_tables_locked`. Else nobody is named.
//! - A session that waits in front of a waiter is shown only if nobody holds what the waiter waits for. An
//!   example is a reader that queues behind a writer: the writer has to get its turn, or give up, first.
//!
//! InnoDB's three tables are consistent if they are read within 0.1 s. The parts are derived tables that the
//! server cannot merge (DISTINCT, GROUP BY), so that it finds their rows by keys.

/// Whether a lock's number is that of a record lock: `transaction:space:page:record`. A table lock's is
/// `transaction:table`.
macro_rules! of_record {
    ($lock:literal) => {
        concat!("ifnull(", $lock, " LIKE '%:%:%',0)")
    };
}

/// Number of record locks a transaction has, without the one it waits for.
macro_rules! records_held {
    () => {
        concat!("(cast(`trx_rows_locked` AS SIGNED) - ", of_record!("`trx_requested_lock_id`"), ")")
    };
}

/// Number of table locks a transaction has, without the one it waits for.
macro_rules! tables_held {
    () => {
        "(cast(`trx_tables_locked` AS SIGNED) - ifnull(`trx_requested_lock_id` NOT LIKE '%:%:%',0))"
    };
}

/// Sessions that wait.
macro_rules! waiters {
    () => {
        "(SELECT DISTINCT `trx_mysql_thread_id` AS `session`,`trx_id` AS `trx`,`trx_requested_lock_id` AS `wanted` \
         FROM `information_schema`.`INNODB_TRX` WHERE `trx_requested_lock_id` IS NOT NULL)"
    };
}

/// Number of sessions that wait for a lock, and number of locks of its kind they have.
macro_rules! queues {
    () => {
        concat!(
            "(SELECT `trx_requested_lock_id` AS `wanted`,count(*) AS `waiters`,sum(if(",
            of_record!("`trx_requested_lock_id`"),
            ",",
            records_held!(),
            ",",
            tables_held!(),
            ")) AS `has` FROM `information_schema`.`INNODB_TRX` WHERE `trx_requested_lock_id` IS NOT NULL \
             GROUP BY `trx_requested_lock_id`)"
        )
    };
}

/// Waits for locks of transactions with numbers.
macro_rules! numbered_waits {
    () => {
        concat!(
            "SELECT `r`.`session` AS `waiter`,`r`.`trx` AS `waiter_trx`,`r`.`wanted` AS `wanted`,\
             `b`.`session` AS `holder`,`p`.`holder_trx` AS `holder_trx`,`p`.`held` AS `held`,\
             if(`b`.`wanted` <=> `p`.`held`,1,0) AS `same`,ifnull(`b`.`serial`,1) AS `serial`,\
             if(`b`.`wanted` <=> `p`.`held` AND `p`.`times` <= `q`.`waiters`,2,1) AS `rung` FROM ",
            waiters!(),
            " `r` JOIN ",
            queues!(),
            " `q` ON `q`.`wanted` = `r`.`wanted` JOIN \
             (SELECT `requested_lock_id` AS `wanted`,`blocking_trx_id` AS `holder_trx`,`blocking_lock_id` AS `held`,\
             count(*) AS `times` FROM `information_schema`.`INNODB_LOCK_WAITS` WHERE `blocking_trx_id` <> 0 \
             GROUP BY `requested_lock_id`,`blocking_trx_id`,`blocking_lock_id`) `p` ON `p`.`wanted` = `r`.`wanted` \
             LEFT JOIN (SELECT DISTINCT `trx_mysql_thread_id` AS `session`,`trx_id` AS `trx`,\
             `trx_requested_lock_id` AS `wanted`,`trx_isolation_level` = 'SERIALIZABLE' AS `serial` \
             FROM `information_schema`.`INNODB_TRX` WHERE `trx_id` <> 0) `b` ON `b`.`trx` = `p`.`holder_trx`"
        )
    };
}

/// A derived table of the locks in the way of waiters whose transactions have no number. Its column `granted`
/// is the least number of those locks that are granted. The others may belong to sessions that wait, too
/// (`o`), but not to those that wait for this very waiter (`n`). A session that waits for another lock on the
/// same record, and blocks others by both, can only have gap locks.
macro_rules! nameless {
    () => {
        concat!(
            "(SELECT `p`.`wanted` AS `wanted`,`p`.`held` AS `held`,`q`.`waiters` AS `waiters`,`q`.`has` AS `has`,\
             `p`.`wanted` = `p`.`held` AS `own`,",
            of_record!("`p`.`held`"),
            " AS `record`,ifnull(`o`.`waiters`,0) - (`p`.`wanted` = `p`.`held`) AS `others`,\
             cast(`p`.`times` AS SIGNED) - if(`p`.`wanted` = `p`.`held`,\
             `q`.`waiters` * (`q`.`waiters` - 1) DIV 2,\
             greatest(ifnull(`o`.`waiters`,0) - ifnull(`n`.`times`,0),0)) AS `granted`,if(",
            of_record!("`p`.`held`"),
            ",`z`.`records`,`z`.`tables`) AS `total` FROM \
             (SELECT `requested_lock_id` AS `wanted`,`blocking_lock_id` AS `held`,count(*) AS `times` \
             FROM `information_schema`.`INNODB_LOCK_WAITS` WHERE `blocking_trx_id` = 0 \
             GROUP BY `requested_lock_id`,`blocking_lock_id`) `p` JOIN ",
            queues!(),
            " `q` ON `q`.`wanted` = `p`.`wanted` LEFT JOIN ",
            queues!(),
            " `o` ON `o`.`wanted` = `p`.`held` LEFT JOIN (SELECT `n`.`requested_lock_id` AS `wanted`,\
             `n`.`blocking_lock_id` AS `held`,count(*) AS `times` FROM `information_schema`.`INNODB_LOCK_WAITS` `n` \
             JOIN `information_schema`.`INNODB_LOCKS` `y` ON `y`.`lock_id` = `n`.`blocking_lock_id` \
             WHERE `n`.`requesting_trx_id` = 0 AND `y`.`lock_mode` NOT LIKE '%GAP' \
             GROUP BY `n`.`requested_lock_id`,`n`.`blocking_lock_id`) `n` \
             ON `n`.`wanted` = `p`.`held` AND `n`.`held` = `p`.`wanted` AND `p`.`wanted` <> `p`.`held` JOIN (SELECT sum(",
            records_held!(),
            ") AS `records`,sum(",
            tables_held!(),
            ") AS `tables` FROM `information_schema`.`INNODB_TRX` WHERE `trx_id` = 0) `z`)"
        )
    };
}

/// Number of locks of the kind in question that a session without a number may have.
macro_rules! may_hold {
    () => {
        "if(`g`.`record`,`c`.`records`,`c`.`tables`)"
    };
}

/// Waits for locks of transactions without a number. A session is named if all others together could not have
/// `granted` locks in the way of every waiter. A waiter is not in its own way.
macro_rules! nameless_waits {
    () => {
        concat!(
            "SELECT `r`.`session`,`r`.`trx`,`r`.`wanted`,`c`.`session`,0,`g`.`held`,\
             if(`c`.`wanted` <=> `g`.`held`,1,0),ifnull(`c`.`serial`,1),if(`g`.`granted` > 0,1,2) FROM ",
            nameless!(),
            " `g` JOIN ",
            waiters!(),
            " `r` ON `r`.`wanted` = `g`.`wanted` LEFT JOIN \
             (SELECT DISTINCT `trx_mysql_thread_id` AS `session`,`trx_requested_lock_id` AS `wanted`,\
             `trx_isolation_level` = 'SERIALIZABLE' AS `serial`,",
            records_held!(),
            " AS `records`,",
            tables_held!(),
            " AS `tables` FROM `information_schema`.`INNODB_TRX` WHERE `trx_id` = 0 AND `trx_lock_structs` > 0) `c` \
             ON `c`.`session` <> `r`.`session` AND if(`g`.`granted` > 0,",
            may_hold!(),
            " > 0 AND `g`.`granted` > `g`.`waiters` * (`g`.`total` - ",
            may_hold!(),
            ") - `g`.`own` * (`g`.`has` - if(`c`.`wanted` <=> `g`.`held`,",
            may_hold!(),
            ",0)),`c`.`wanted` <=> `g`.`held` AND `g`.`others` = 1)"
        )
    };
}

/// Waiters with the sessions that hold what they wait for, or else with those in front of them (`rung` 2).
/// `holder` is NULL where InnoDB does not tell. `wanted_id` and `held_id` are the locks' numbers made unique.
/// For transactions without a number the session's number is appended. For a lock whose owner waits for a
/// stronger one of the same number `:held` is appended.
macro_rules! waits {
    () => {
        concat!(
            "(SELECT `v`.`waiter` AS `waiter`,`v`.`waiter_trx` AS `waiter_trx`,`v`.`wanted` AS `wanted`,\
             if(`v`.`waiter_trx` = 0,concat(`v`.`wanted`,':',`v`.`waiter`),`v`.`wanted`) AS `wanted_id`,\
             `v`.`holder` AS `holder`,`v`.`holder_trx` AS `holder_trx`,`v`.`held` AS `held`,\
             concat(`v`.`held`,if(`v`.`holder_trx` = 0,ifnull(concat(':',`v`.`holder`),''),''),\
             if(`v`.`same` AND `v`.`rung` = 1,':held','')) AS `held_id`,\
             `v`.`same` AS `same`,`v`.`serial` AS `serial`,`v`.`rung` AS `rung` FROM \
             (SELECT `u`.*,min(`u`.`rung`) OVER (PARTITION BY `u`.`waiter`,`u`.`wanted`) AS `lowest` FROM (",
            numbered_waits!(),
            " UNION ALL ",
            nameless_waits!(),
            ") `u`) `v` WHERE `v`.`rung` = `v`.`lowest`)"
        )
    };
}
