//! Errors by number.

use tare_engine::snapshot::{ErrorStat, Grouping, ReadRequest, Reset, Summary};

use super::summary::SummaryKeyColumns;
use crate::framework::column::{ColumnDef, column, nullable, signed};
use crate::framework::definition::TableDef;
use crate::table::SqlType::{BigIntUnsigned, Int, Timestamp, VarChar};
use crate::table::Value;

type ErrorSummary = Summary<ErrorStat>;

/// Declares the table of one level: its owner in words, and its key columns.
macro_rules! error_table {
    ($table:ident, $level:ident, $name:literal, $for_whom:literal, [$($key:literal),*], [$($keys:path),*] $(, found: $finders:expr)?) => {
        #[doc = concat!("`", $name, "`")]
        pub static $table: TableDef<ErrorSummary> = TableDef::new(
            $name,
            concat!(
                "Errors, warnings and notes by number, ", $for_whom, ": how many were raised, and how many were \
     handled by a stored program, which then do not count as raised. Errors that never \
     happened appear with zeros. Errors that have no name in the server, such as those of the operating system, are \
     added up in the row whose ERROR_NUMBER is NULL. If tare does not know the server's functions (row errors of \
     tare_status), only that row exists."
            ),
            &[$($keys,)* ERROR],
            |engine, _, emit| engine.error_summary(Grouping::$level, &mut |row| emit(&row)),
        )
        $(.found($finders))?
        .indexed(&[&[$($key,)* "ERROR_NUMBER"]])
        .truncated(Reset::Errors(Grouping::$level));
    };
}

error_table!(GLOBAL, Global, "events_errors_summary_global_by_error", "for the whole server", [], []);
error_table!(
    THREAD, Thread, "events_errors_summary_by_thread_by_error", "for each live thread", ["THREAD_ID"],
    [SummaryKeyColumns::<ErrorStat>::THREAD_ID],
    found: &[("THREAD_ID", |engine, id, parts, emit| {
        engine.error_summary(ReadRequest { what: Grouping::Thread, thread: Some(id), parts }, &mut |row| emit(&row));
    })]
);
error_table!(
    ACCOUNT,
    Account,
    "events_errors_summary_by_account_by_error",
    "for each account",
    ["USER", "HOST"],
    [User::USER, HostColumns::HOST]
);
error_table!(
    USER_NAME,
    User,
    "events_errors_summary_by_user_by_error",
    "for each user",
    ["USER"],
    [User::USER]
);
error_table!(
    HOST_NAME,
    Host,
    "events_errors_summary_by_host_by_error",
    "for each host",
    ["HOST"],
    [HostColumns::HOST]
);

type User = SummaryKeyColumns<ErrorStat, 32>;
type HostColumns = SummaryKeyColumns<ErrorStat, 255>;

const ERROR: &[ColumnDef<ErrorSummary>] = &[
    nullable("ERROR_NUMBER", Int, "Number of the error; NULL for all that have no name.", |row| {
        row.stat.error.map(|error| signed(error.number.into())).into()
    }),
    nullable("ERROR_NAME", VarChar(64), "What the server calls it.", |row| {
        row.stat.error.map(|error| error.name).into()
    }),
    nullable("SQL_STATE", VarChar(5), "Its SQLSTATE.", |row| {
        row.stat.error.map(|error| error.sqlstate).into()
    }),
    column("SUM_ERROR_RAISED", BigIntUnsigned, "How often it was raised and not handled.", |row| {
        row.stat.raised.into()
    }),
    column(
        "SUM_ERROR_HANDLED",
        BigIntUnsigned,
        "How often a handler of a stored program handled it, as an error.",
        |row| row.stat.handled.into(),
    ),
    nullable("FIRST_SEEN", Timestamp, "When it first happened; NULL if never.", |row| {
        row.stat.seen_us.map_or(Value::Null, |(first, _)| Value::Timestamp(first))
    }),
    nullable("LAST_SEEN", Timestamp, "When it last happened; NULL if never.", |row| {
        row.stat.seen_us.map_or(Value::Null, |(_, last)| Value::Timestamp(last))
    }),
];
