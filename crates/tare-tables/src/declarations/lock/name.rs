//! SQL that extracts the names of a lock's table from InnoDB's text.
//!
//! InnoDB writes "`schema`.`table` /* Partition `p`, Subpartition `s` */", the end only for partitioned
//! tables. The spelling depends on the reading session: ANSI_QUOTES gives double quotes,
//! sql_quote_show_create=0 quotes only names that need it, and lc_messages sets the language of the two
//! words.

/// `lock_table` with backquotes around names, if they are quoted at all. A double quote (x'22') is the
/// quoting character if it comes before any backquote. No name contains a NUL (x'00').
macro_rules! backquoted {
    () => {
        concat!(
            "if(locate('`',substring_index(`i`.`lock_table`,x'22',1)) = 0,",
            "replace(replace(replace(replace(`i`.`lock_table`,'`','``'),x'2222',x'00'),x'22','`'),x'00',x'22'),",
            "`i`.`lock_table`)"
        )
    };
}

/// The part with the table: "`schema`.`table`".
macro_rules! head {
    () => {
        concat!("substring_index(", backquoted!(), ",' /* ',1)")
    };
}

/// The part with the partition: "Partition `p`, Subpartition `s`"; NULL without one.
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

// Each name is quoted or not by itself; 96 is a backquote. A name without quotes has neither points nor
// blanks nor commas.

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
