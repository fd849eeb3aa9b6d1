//! Locks on data, as MySQL shows them: views over what InnoDB tells.

use crate::table::SqlType::{BigIntUnsigned, VarChar};
use crate::view::{ViewColumn, ViewDef, expressed, expressed_or_null};

const ENGINE: ViewColumn = expressed("ENGINE", VarChar(32), "Always INNODB.", "'INNODB'");
const NOWHERE: &str = "Always 0: InnoDB does not tell.";

/// `data_locks`
pub static DATA_LOCKS: ViewDef = ViewDef::new(
    "data_locks",
    "The locks on data that somebody waits for, and those in their way. InnoDB tells of no others, and it does not tell \
     which event took a lock, where it is in memory, and whether a lock on a record is on the gap before it, too \
     (REC_NOT_GAP, INSERT_INTENTION).",
    &[&[
        ENGINE,
        expressed("ENGINE_LOCK_ID", VarChar(128), "InnoDB's number of the lock.", "`l`.`lock_id`"),
        expressed_or_null(
            "ENGINE_TRANSACTION_ID",
            BigIntUnsigned,
            "InnoDB's number of the transaction.",
            "`l`.`lock_trx_id`",
        ),
        expressed_or_null("THREAD_ID", BigIntUnsigned, "Thread that asked for it.", "`h`.`THREAD_ID`"),
        expressed_or_null("EVENT_ID", BigIntUnsigned, NOWHERE, "0"),
        expressed_or_null("OBJECT_SCHEMA", VarChar(64), "Schema of the table.", SCHEMA),
        expressed_or_null("OBJECT_NAME", VarChar(64), "Name of the table, without the partition's.", TABLE),
        expressed_or_null("PARTITION_NAME", VarChar(64), "The partition; NULL without one.", PARTITION),
        expressed_or_null(
            "SUBPARTITION_NAME",
            VarChar(64),
            "The partition's part; NULL without one.",
            SUBPARTITION,
        ),
        expressed_or_null(
            "INDEX_NAME",
            VarChar(64),
            "Index of the record; NULL of a lock on a table.",
            "`l`.`lock_index`",
        ),
        expressed("OBJECT_INSTANCE_BEGIN", BigIntUnsigned, NOWHERE, "0"),
        expressed(
            "LOCK_TYPE",
            VarChar(32),
            "RECORD or TABLE.",
            "if(`l`.`lock_type` = 'TABLE','TABLE','RECORD')",
        ),
        expressed(
            "LOCK_MODE",
            VarChar(32),
            "How it is locked, such as X or S,GAP.",
            "ifnull(cast(`l`.`lock_mode` as char(32) charset utf8mb3),'')",
        ),
        expressed(
            "LOCK_STATUS",
            VarChar(32),
            "WAITING while it is waited for, else GRANTED.",
            "if(`x`.`trx_requested_lock_id` <=> `l`.`lock_id`,'WAITING','GRANTED')",
        ),
        expressed_or_null("LOCK_DATA", VarChar(8192), "The record's key.", "`l`.`lock_data`"),
    ]],
    "`information_schema`.`INNODB_LOCKS` `l` \
     LEFT JOIN `information_schema`.`INNODB_TRX` `x` ON `x`.`trx_id` = `l`.`lock_trx_id` \
     LEFT JOIN `performance_schema`.`threads` `h` ON `h`.`PROCESSLIST_ID` = `x`.`trx_mysql_thread_id`",
);

/// The parts of `lock_table`, which is "`schema`.`table` /* Partition `p`, Subpartition `s` */", the end only of some.
const SCHEMA: &str = "replace(substring_index(substr(`l`.`lock_table`,2),'`.`',1),'``','`')";
const TABLE: &str = "replace(trim(trailing '`' from substring_index(substring_index(`l`.`lock_table`,' /*',1),'`.`',-1)),\
     '``','`')";
const PARTITION: &str = "if(locate('/* Partition `',`l`.`lock_table`) = 0,nullif('',''),\
     substring_index(substring_index(`l`.`lock_table`,'/* Partition `',-1),'`',1))";
const SUBPARTITION: &str = "if(locate(', Subpartition `',`l`.`lock_table`) = 0,nullif('',''),\
     substring_index(substring_index(`l`.`lock_table`,', Subpartition `',-1),'`',1))";

/// `data_lock_waits`
pub static DATA_LOCK_WAITS: ViewDef = ViewDef::new(
    "data_lock_waits",
    "Who waits for whose lock on data. InnoDB tells neither which events took the locks nor where they are in memory.",
    &[&[
        ENGINE,
        expressed(
            "REQUESTING_ENGINE_LOCK_ID",
            VarChar(128),
            "InnoDB's number of the lock that is waited for.",
            "`w`.`requested_lock_id`",
        ),
        expressed_or_null(
            "REQUESTING_ENGINE_TRANSACTION_ID",
            BigIntUnsigned,
            "The transaction that waits.",
            "`w`.`requesting_trx_id`",
        ),
        expressed_or_null(
            "REQUESTING_THREAD_ID",
            BigIntUnsigned,
            "The connection that waits.",
            "`hr`.`THREAD_ID`",
        ),
        expressed_or_null("REQUESTING_EVENT_ID", BigIntUnsigned, NOWHERE, "0"),
        expressed("REQUESTING_OBJECT_INSTANCE_BEGIN", BigIntUnsigned, NOWHERE, "0"),
        expressed(
            "BLOCKING_ENGINE_LOCK_ID",
            VarChar(128),
            "InnoDB's number of the lock in its way.",
            "`w`.`blocking_lock_id`",
        ),
        expressed_or_null(
            "BLOCKING_ENGINE_TRANSACTION_ID",
            BigIntUnsigned,
            "The transaction that holds it.",
            "`w`.`blocking_trx_id`",
        ),
        expressed_or_null(
            "BLOCKING_THREAD_ID",
            BigIntUnsigned,
            "The connection that holds it.",
            "`hb`.`THREAD_ID`",
        ),
        expressed_or_null("BLOCKING_EVENT_ID", BigIntUnsigned, NOWHERE, "0"),
        expressed("BLOCKING_OBJECT_INSTANCE_BEGIN", BigIntUnsigned, NOWHERE, "0"),
    ]],
    "`information_schema`.`INNODB_LOCK_WAITS` `w` \
     LEFT JOIN `information_schema`.`INNODB_TRX` `r` ON `r`.`trx_id` = `w`.`requesting_trx_id` \
     LEFT JOIN `performance_schema`.`threads` `hr` ON `hr`.`PROCESSLIST_ID` = `r`.`trx_mysql_thread_id` \
     LEFT JOIN `information_schema`.`INNODB_TRX` `b` ON `b`.`trx_id` = `w`.`blocking_trx_id` \
     LEFT JOIN `performance_schema`.`threads` `hb` ON `hb`.`PROCESSLIST_ID` = `b`.`trx_mysql_thread_id`",
);
