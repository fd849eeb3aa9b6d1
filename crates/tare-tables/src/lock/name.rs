//! The SQL that takes the names of a lock's table out of what InnoDB tells.
//!
//! InnoDB tells "`schema`.`table` /* Partition `p`, Subpartition `s` */", the end only of some. It spells that for the
//! session that reads: in double quotes with ANSI_QUOTES, with sql_quote_show_create=0 quoting only names that need it,
//! and the two words in the language of lc_messages.

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

/// InnoDB's locks, with the names of their tables.
macro_rules! named_locks {
    () => {
        concat!(
            "(SELECT `i`.`lock_id` AS `lock_id`,`i`.`lock_mode` AS `lock_mode`,`i`.`lock_type` AS `lock_type`,",
            "`i`.`lock_index` AS `lock_index`,`i`.`lock_data` AS `lock_data`,",
            head!(),
            " AS `head`,",
            parts!(),
            " AS `parts` FROM `information_schema`.`INNODB_LOCKS` `i`)"
        )
    };
}

// Each name is quoted or not by itself; 96 is a backquote. One that is not holds neither points nor blanks nor commas.

macro_rules! schema {
    () => {
        "if(ascii(`l`.`head`) = 96,\
         replace(substring_index(substr(`l`.`head`,2),if(ascii(right(`l`.`head`,1)) = 96,'`.`','`.'),1),'``','`'),\
         substring_index(`l`.`head`,'.',1))"
    };
}

macro_rules! table {
    () => {
        "if(ascii(right(`l`.`head`,1)) = 96,\
         replace(trim(trailing '`' from \
         substring_index(`l`.`head`,if(ascii(`l`.`head`) = 96,'`.`','.`'),-1)),'``','`'),\
         substring_index(`l`.`head`,'.',-1))"
    };
}

macro_rules! partition {
    () => {
        "if(locate('`',substring_index(`l`.`parts`,', ',1)),\
         replace(trim(trailing '`' from \
         substring_index(substr(`l`.`parts`,locate('`',`l`.`parts`) + 1),'`, ',1)),'``','`'),\
         substring_index(substring_index(`l`.`parts`,', ',1),' ',-1))"
    };
}

macro_rules! subpartition {
    () => {
        "if(locate(if(locate('`',substring_index(`l`.`parts`,', ',1)),'`, ',', '),`l`.`parts`),\
         if(ascii(right(`l`.`parts`,1)) = 96,\
         replace(trim(trailing '`' from substring_index(`l`.`parts`,' `',-1)),'``','`'),\
         substring_index(`l`.`parts`,' ',-1)),nullif('',''))"
    };
}
