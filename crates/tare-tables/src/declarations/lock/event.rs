//! SQL that finds the statement which made a thread lock something.

/// The statement a thread is in. While the thread waits, it is the one that needs the lock.
macro_rules! running_event {
    ($thread:literal) => {
        concat!(
            "(SELECT max(`s`.`EVENT_ID`) FROM `performance_schema`.`events_statements_current` `s` \
             WHERE `s`.`THREAD_ID` = ",
            $thread,
            " AND `s`.`END_EVENT_ID` IS NULL)"
        )
    };
}

/// The event in which a thread began to use the table of `l` in the way the lock needs. A session locks no
/// record before it has the metadata lock on the table, and keeps that for as long as it has the record's.
/// `$unsure`: the lock's mode belongs to another lock.
macro_rules! first_use {
    ($thread:literal, $unsure:literal) => {
        concat!(
            "(SELECT min(`m`.`OWNER_EVENT_ID`) FROM `performance_schema`.`metadata_locks` `m` \
             WHERE `m`.`OWNER_THREAD_ID` = ",
            $thread,
            " AND `m`.`OBJECT_TYPE` = 'TABLE' AND `m`.`OBJECT_SCHEMA` = ",
            schema!(),
            " AND `m`.`OBJECT_NAME` = ",
            table!(),
            " AND `m`.`LOCK_STATUS` = 'GRANTED' AND (",
            $unsure,
            " OR `l`.`lock_mode` NOT LIKE 'X%' OR `m`.`LOCK_TYPE` NOT IN ('SHARED','SHARED_HIGH_PRIO','SHARED_READ')))"
        )
    };
}

/// Whether a statement may have locked records: not one that only sets, shows or reads by a snapshot. A text
/// of 200 letters is never truncated; a longer one may go on with FOR UPDATE.
macro_rules! may_lock {
    () => {
        concat!(
            "(`s`.`EVENT_NAME` NOT IN ('statement/sql/begin','statement/sql/set_option','statement/sql/do',\
             'statement/sql/savepoint','statement/sql/release_savepoint','statement/sql/change_db',\
             'statement/sql/empty_query','statement/sql/prepare_sql','statement/sql/dealloc_sql','statement/com/Ping',\
             'statement/com/Statistics','statement/com/Init DB','statement/com/Prepare','statement/com/Close stmt',\
             'statement/com/Reset stmt') \
             AND `s`.`EVENT_NAME` NOT LIKE 'statement/sql/show%' AND (`s`.`EVENT_NAME` <> 'statement/sql/select' OR ",
            "`e`.`serial`",
            " OR ifnull(`s`.`SQL_TEXT` LIKE '%update%' OR `s`.`SQL_TEXT` LIKE '%share%' \
             OR char_length(`s`.`SQL_TEXT`) > 200,1)))"
        )
    };
}

/// A statement that may have locked records, is outermost, and did not end before the table's first use.
macro_rules! suspect {
    () => {
        concat!("(`s`.`NESTING_EVENT_LEVEL` = 0 AND `s`.`END_EVENT_ID` >= `e`.`first` AND ", may_lock!(), ")")
    };
}

/// The statement that made a thread have a lock, if only one can have. That is the one the thread is in, if
/// it was the first to use the table. Else it is the only one of its history that may have locked something
/// since, if the history reaches back that far and no routine of another statement may have locked it. `e`
/// has, for the lock, `thread`, `first` (from `first_use`) and `serial`: whether the thread's plain reads
/// lock, too.
/// what the thread reads is locked without being asked for.
macro_rules! holding_event {
    () => {
        concat!(
            "ifnull((SELECT max(`s`.`EVENT_ID`) FROM `performance_schema`.`events_statements_current` `s` \
             WHERE `s`.`THREAD_ID` = `e`.`thread` AND `s`.`END_EVENT_ID` IS NULL AND `s`.`NESTING_EVENT_LEVEL` = 0 \
             AND `s`.`EVENT_ID` <= `e`.`first`),if((SELECT count(*) \
             FROM `performance_schema`.`events_statements_current` `s` \
             WHERE `s`.`THREAD_ID` = `e`.`thread` AND `s`.`END_EVENT_ID` IS NULL AND ",
            may_lock!(),
            ") = 0,(SELECT if(min(`s`.`EVENT_ID`) <= `e`.`first` AND sum(",
            suspect!(),
            ") = 1 AND max(if(",
            may_lock!(),
            ",`s`.`END_EVENT_ID`,0)) = max(if(",
            suspect!(),
            ",`s`.`END_EVENT_ID`,0)),max(if(",
            suspect!(),
            ",`s`.`EVENT_ID`,0)),NULL) FROM `performance_schema`.`events_statements_history` `s` \
             WHERE `s`.`THREAD_ID` = `e`.`thread`),NULL))"
        )
    };
}
