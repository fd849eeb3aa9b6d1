//! Summaries by event name: key columns (thread, account, user, host, global) combined with columns of a
//! statistic (waits, stages, statements, transactions, memory).

use std::marker::PhantomData;

use tare_engine::Engine;
use tare_engine::snapshot::{
    EventType, Grouping, MemoryStat, ReadRequest, Reset, Stat, StatementStat, Summary, TransactionStat,
};

use super::shared::{counter_columns, further_columns};
use crate::framework::column::{ColumnDef, column, nullable, number};
use crate::framework::definition::TableDef;
use crate::framework::statistic::{merged, stat_columns};
use crate::table::SqlType::{BigInt, BigIntUnsigned, Char, VarChar};

/// Declares the five tables of one statistic, one per level. `$user` and `$host` are the widths of the
/// built-in's key columns, which differ between the older and the newer summaries.
macro_rules! summary_tables {
    (
        $module:ident, $prefix:literal, $what:literal, $stat:ty, $read:path,
        reset: $level:ident => $reset:expr, user: $user:literal, host: $host:literal, further: $further:expr,
        $($columns:expr),+
    ) => {
        #[doc = concat!("`", $prefix, "_*_by_event_name`")]
        pub mod $module {
            use super::*;

            const EVENT_NAME: &[ColumnDef<Summary<$stat>>] = SummaryKeyColumns::EVENT_NAME;
            const THREAD_ID: &[ColumnDef<Summary<$stat>>] = SummaryKeyColumns::THREAD_ID;
            const USER: &[ColumnDef<Summary<$stat>>] = SummaryKeyColumns::<_, $user>::USER;
            const HOST: &[ColumnDef<Summary<$stat>>] = SummaryKeyColumns::<_, $host>::HOST;

            summary_tables!(@level GLOBAL, Global, "_global_by_event_name", "for the whole server",
                [["EVENT_NAME"]], $prefix, $what, $stat, $read, $level => $reset, $further,
                &[EVENT_NAME, $($columns),+]);
            summary_tables!(@level THREAD, Thread, "_by_thread_by_event_name", "for each live thread",
                [["THREAD_ID", "EVENT_NAME"], ["EVENT_NAME", "THREAD_ID"]], $prefix, $what, $stat, $read, $level => $reset, $further,
                &[THREAD_ID, EVENT_NAME, $($columns),+], found: &[("THREAD_ID", |engine, id, parts, emit| {
                    $read(engine, ReadRequest { what: Grouping::Thread, thread: Some(id), parts }, &mut |row| emit(&row));
                })]);
            summary_tables!(@level ACCOUNT, Account, "_by_account_by_event_name", "for each account",
                [["USER", "HOST", "EVENT_NAME"], ["EVENT_NAME", "USER", "HOST"]], $prefix, $what, $stat, $read, $level => $reset, $further,
                &[USER, HOST, EVENT_NAME, $($columns),+]);
            summary_tables!(@level USER_NAME, User, "_by_user_by_event_name", "for each user",
                [["USER", "EVENT_NAME"], ["EVENT_NAME", "USER"]], $prefix, $what, $stat, $read, $level => $reset, $further,
                &[USER, EVENT_NAME, $($columns),+]);
            summary_tables!(@level HOST_NAME, Host, "_by_host_by_event_name", "for each host",
                [["HOST", "EVENT_NAME"], ["EVENT_NAME", "HOST"]], $prefix, $what, $stat, $read, $level => $reset, $further,
                &[HOST, EVENT_NAME, $($columns),+]);
        }
    };
    (
        @level $table:ident, $variant:ident, $suffix:literal, $for_whom:literal, [$([$($key:literal),+]),+],
        $prefix:literal, $what:literal, $stat:ty, $read:path, $level:ident => $reset:expr, $further:expr, $columns:expr
        $(, found: $finders:expr)?
    ) => {
        #[doc = concat!("`", $prefix, $suffix, "`")]
        pub static $table: TableDef<Summary<$stat>> = TableDef::new(
            concat!($prefix, $suffix),
            concat!($what, " by instrument, ", $for_whom, ". Instruments without events appear with zeros."),
            $columns,
            |engine, parts, emit| $read(engine, ReadRequest { what: Grouping::$variant, thread: None, parts }, &mut |row| emit(&row)),
        )
        $(.found($finders))?
        .extended($further)
        .indexed(&[$(&[$($key),+]),+])
        .truncated({
            let $level = Grouping::$variant;
            $reset
        });
    };
}

summary_tables!(
    wait, "events_waits_summary", "Waits", Stat, Engine::wait_summary,
    reset: level => Reset::Summary(EventType::Wait, level),
    user: 128, host: 255, further: &[],
    TIMES
);

summary_tables!(
    stage, "events_stages_summary", "Stages", Stat, Engine::stage_summary,
    reset: level => Reset::Summary(EventType::Stage, level),
    user: 128, host: 255, further: &[],
    TIMES
);

summary_tables!(
    statement, "events_statements_summary", "Statements", StatementStat, Engine::statement_summary,
    reset: level => Reset::Summary(EventType::Statement, level),
    user: 128, host: 255, further: &[STATEMENT_FURTHER],
    STATEMENT_TIMES, STATEMENT_LOCK_TIME, STATEMENT_COUNTERS
);

summary_tables!(
    transaction, "events_transactions_summary", "Transactions", TransactionStat, Engine::transaction_summary,
    reset: level => Reset::Summary(EventType::Transaction, level),
    user: 32, host: 60, further: &[],
    ALL_TRANSACTIONS, READ_WRITE_TRANSACTIONS, READ_ONLY_TRANSACTIONS
);

summary_tables!(
    memory, "memory_summary", "Memory allocated and freed", MemoryStat, Engine::memory_summary,
    reset: level => Reset::Memory(level),
    user: 32, host: 60, further: &[],
    MEMORY
);

/// The key columns of a summary. `WIDTH` is that of USER or HOST.
pub(crate) struct SummaryKeyColumns<S, const WIDTH: u16 = 0>(PhantomData<S>);

impl<S: 'static> SummaryKeyColumns<S> {
    pub(crate) const THREAD_ID: &'static [ColumnDef<Summary<S>>] =
        &[column("THREAD_ID", BigIntUnsigned, "Thread the row is about.", |row: &Summary<S>| {
            row.owner.thread_id.into()
        })];

    const EVENT_NAME: &'static [ColumnDef<Summary<S>>] =
        &[column("EVENT_NAME", VarChar(128), "Name of the instrument.", |row: &Summary<S>| row.name.into())];
}

impl<S: 'static, const WIDTH: u16> SummaryKeyColumns<S, WIDTH> {
    pub(crate) const USER: &'static [ColumnDef<Summary<S>>] = &[nullable(
        "USER",
        Char(WIDTH),
        "User of the connections; NULL for background threads.",
        |row: &Summary<S>| row.owner.user.as_ref().into(),
    )];

    pub(crate) const HOST: &'static [ColumnDef<Summary<S>>] = &[nullable(
        "HOST",
        Char(WIDTH),
        "Host the connections come from; NULL for background threads.",
        |row: &Summary<S>| row.owner.host.as_ref().into(),
    )];
}

const TIMES: &[ColumnDef<Summary<Stat>>] = stat_columns!("STAR", "WAIT", "events", row => row.stat);

const STATEMENT_TIMES: &[ColumnDef<Summary<StatementStat>>] =
    stat_columns!("STAR", "WAIT", "statements", row => row.stat.stat);

const STATEMENT_LOCK_TIME: &[ColumnDef<Summary<StatementStat>>] = &[number(
    "SUM_LOCK_TIME",
    BigIntUnsigned,
    "Time spent waiting for table locks, in picoseconds.",
    |row| row.stat.sum.lock_time_ps,
)];

const STATEMENT_COUNTERS: &[ColumnDef<Summary<StatementStat>>] =
    counter_columns!("SUM_", row => row.stat.sum);

const STATEMENT_FURTHER: &[ColumnDef<Summary<StatementStat>>] = further_columns!(row => row.stat.sum);

const ALL_TRANSACTIONS: &[ColumnDef<Summary<TransactionStat>>] =
    stat_columns!("STAR", "WAIT", "transactions", row => merged([row.stat.read_write, row.stat.read_only]));

const READ_WRITE_TRANSACTIONS: &[ColumnDef<Summary<TransactionStat>>] =
    stat_columns!("READ_WRITE", "READ_WRITE", "read-write transactions", row => row.stat.read_write);

const READ_ONLY_TRANSACTIONS: &[ColumnDef<Summary<TransactionStat>>] =
    stat_columns!("READ_ONLY", "READ_ONLY", "read-only transactions", row => row.stat.read_only);

const MEMORY: &[ColumnDef<Summary<MemoryStat>>] = &[
    number("COUNT_ALLOC", BigIntUnsigned, "Blocks allocated so far.", |row| row.stat.count_alloc),
    number("COUNT_FREE", BigIntUnsigned, "Blocks freed so far.", |row| row.stat.count_free),
    number("SUM_NUMBER_OF_BYTES_ALLOC", BigIntUnsigned, "Bytes allocated so far.", |row| {
        row.stat.bytes_alloc
    }),
    number("SUM_NUMBER_OF_BYTES_FREE", BigIntUnsigned, "Bytes freed so far.", |row| row.stat.bytes_free),
    column("LOW_COUNT_USED", BigInt, "Fewest blocks in use at any moment.", |row: &Summary<MemoryStat>| {
        row.stat.low_count.into()
    })
    .of(MemoryStat::MARKS),
    column("CURRENT_COUNT_USED", BigInt, "Blocks allocated and not yet freed.", |row| {
        row.stat.current_count.into()
    }),
    column("HIGH_COUNT_USED", BigInt, "Most blocks in use at any moment.", |row: &Summary<MemoryStat>| {
        row.stat.high_count.into()
    })
    .of(MemoryStat::MARKS),
    column(
        "LOW_NUMBER_OF_BYTES_USED",
        BigInt,
        "Fewest bytes in use at any moment.",
        |row: &Summary<MemoryStat>| row.stat.low_bytes.into(),
    )
    .of(MemoryStat::MARKS),
    column("CURRENT_NUMBER_OF_BYTES_USED", BigInt, "Bytes allocated and not yet freed.", |row| {
        row.stat.current_bytes.into()
    }),
    column(
        "HIGH_NUMBER_OF_BYTES_USED",
        BigInt,
        "Most bytes in use at any moment.",
        |row: &Summary<MemoryStat>| row.stat.high_bytes.into(),
    )
    .of(MemoryStat::MARKS),
];
