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
    LOCKS,
);

/// `lock_table` with backquotes around names, where anything is around them. A double quote (x'22') is what quotes names if
/// it comes before any backquote. No name holds a NUL (x'00').
macro_rules! backquoted {
    () => {
        concat!(
            "if(locate('`',substring_index(`i`.`lock_table`,x'22',1)) = 0,",
            "replace(replace(replace(replace(`i`.`lock_table`,'`','``'),x'2222',x'00'),x'22','`'),x'00',x'22'),",
            "`i`.`lock_table`)"
        )
    };
}

/// The table, as in "`schema`.`table`".
macro_rules! head {
    () => {
        concat!("substring_index(", backquoted!(), ",' /* ',1)")
    };
}

/// Its partition, as in "Partition `p`, Subpartition `s`"; NULL without one.
macro_rules! parts {
    () => {
        concat!(
            "if(right(`i`.`lock_table`,3) = ' */',substring_index(substring_index(",
            backquoted!(),
            ",' /* ',-1),' */',1),nullif('',''))"
        )
    };
}

/// The locks. What is locked InnoDB tells as "`schema`.`table` /* Partition `p`, Subpartition `s` */", the end only of some,
/// and it spells that for the session that reads: in double quotes with ANSI_QUOTES, with sql_quote_show_create=0 quoting
/// only names that need it, and the two words in the language of lc_messages.
const LOCKS: &str = concat!(
    "(SELECT `i`.`lock_id` AS `lock_id`,`i`.`lock_trx_id` AS `lock_trx_id`,`i`.`lock_mode` AS `lock_mode`,\
     `i`.`lock_type` AS `lock_type`,`i`.`lock_index` AS `lock_index`,`i`.`lock_data` AS `lock_data`,",
    head!(),
    " AS `head`,",
    parts!(),
    " AS `parts` FROM `information_schema`.`INNODB_LOCKS` `i`) `l` \
     LEFT JOIN `information_schema`.`INNODB_TRX` `x` ON `x`.`trx_id` = `l`.`lock_trx_id` \
     LEFT JOIN `performance_schema`.`threads` `h` ON `h`.`PROCESSLIST_ID` = `x`.`trx_mysql_thread_id`"
);

// Each name is quoted or not by itself; 96 is a backquote. One that is not holds neither points nor blanks nor commas.

const SCHEMA: &str = "if(ascii(`l`.`head`) = 96,\
     replace(substring_index(substr(`l`.`head`,2),if(ascii(right(`l`.`head`,1)) = 96,'`.`','`.'),1),'``','`'),\
     substring_index(`l`.`head`,'.',1))";
const TABLE: &str = "if(ascii(right(`l`.`head`,1)) = 96,\
     replace(trim(trailing '`' from substring_index(`l`.`head`,if(ascii(`l`.`head`) = 96,'`.`','.`'),-1)),'``','`'),\
     substring_index(`l`.`head`,'.',-1))";
const PARTITION: &str = "if(locate('`',substring_index(`l`.`parts`,', ',1)),\
     replace(trim(trailing '`' from substring_index(substr(`l`.`parts`,locate('`',`l`.`parts`) + 1),'`, ',1)),'``','`'),\
     substring_index(substring_index(`l`.`parts`,', ',1),' ',-1))";
const SUBPARTITION: &str = "if(locate(if(locate('`',substring_index(`l`.`parts`,', ',1)),'`, ',', '),`l`.`parts`),\
     if(ascii(right(`l`.`parts`,1)) = 96,\
     replace(trim(trailing '`' from substring_index(`l`.`parts`,' `',-1)),'``','`'),\
     substring_index(`l`.`parts`,' ',-1)),nullif('',''))";

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

#[cfg(test)]
mod tests;
