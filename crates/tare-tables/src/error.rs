//! Errors by number, and the server's log of errors.

use tare_engine::Engine;
use tare_engine::snapshot::{Asked, ErrorStat, Level, Reset, Summary};

use crate::column::{ColumnDef, column, nullable};
use crate::definition::TableDef;
use crate::summary::Key;
use crate::table::SqlType::{BigIntUnsigned, Int, Timestamp, VarChar};
use crate::table::Value;

type Row = Summary<ErrorStat>;

/// `events_errors_summary_*_by_error`.
macro_rules! error_tables {
    ($($table:ident $level:ident, $whom:literal, $name:literal, $for_whom:literal, [$($key:literal),*], $keys:expr $(, $finders:expr)?;)*) => {
        $(
            #[doc = concat!("`events_errors_summary_", $name, "`")]
            pub static $table: TableDef<Row> = TableDef::new(
                concat!("events_errors_summary_", $name),
                concat!(
                    "Errors, warnings and notes by number, ", $for_whom, ": how many were raised, and how many of them a handler of \
                     a stored program took. Errors nobody saw appear with zeros; those without a name of the server's, such as of \
                     the operating system, are added up in the row whose ERROR_NUMBER is NULL."
                ),
                &[$keys, ERROR],
                |engine, emit| engine.error_summary(Level::$level, &mut |row| emit(&row)),
            )
            $(.found($finders))?
            .indexed(&[&[$($key,)* "ERROR_NUMBER"]])
            .truncated(Reset::Errors(Level::$level));
        )*
    };
}

error_tables! {
    GLOBAL Global, "", "global_by_error", "for the whole server", [], &[];
    THREAD Thread, "", "by_thread_by_error", "for each live thread", ["THREAD_ID"], Key::<ErrorStat>::THREAD_ID,
        &[("THREAD_ID", of_thread)];
    ACCOUNT Account, "", "by_account_by_error", "for each account", ["USER", "HOST"], ACCOUNT_KEY;
    USER_NAME User, "", "by_user_by_error", "for each user", ["USER"], Key::<ErrorStat, 32>::USER;
    HOST_NAME Host, "", "by_host_by_error", "for each host", ["HOST"], Key::<ErrorStat, 255>::HOST;
}
