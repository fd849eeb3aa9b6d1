//! Columns that tables of several files share.

use crate::table::SqlType;

/// Declares the counters of a statement after its lock time: `counter_columns!("SUM_", row => row.stat.sum)`.
macro_rules! counter_columns {
    ($prefix:literal, $row:ident => $counters:expr) => {
        $crate::declarations::shared::counter_columns!($prefix, $row => $counters,
            "ERRORS" errors "Statements that failed: 0 or 1 for a single one.",
            "WARNINGS" warnings "Warnings left in the diagnostics area.",
            "ROWS_AFFECTED" rows_affected "Rows inserted, changed or deleted.",
            "ROWS_SENT" rows_sent "Rows returned to the client.",
            "ROWS_EXAMINED" rows_examined "Rows read by the server layer.",
            "CREATED_TMP_DISK_TABLES" created_tmp_disk_tables "Internal temporary tables made on disk.",
            "CREATED_TMP_TABLES" created_tmp_tables "Internal temporary tables made.",
            "SELECT_FULL_JOIN" select_full_join "Joins that scanned a table for want of an index.",
            "SELECT_FULL_RANGE_JOIN" select_full_range_join "Joins that used a range on a later table.",
            "SELECT_RANGE" select_range "Joins that used a range on the first table.",
            "SELECT_RANGE_CHECK" select_range_check "Joins that chose the index anew for each row.",
            "SELECT_SCAN" select_scan "Joins that scanned the first table.",
            "SORT_MERGE_PASSES" sort_merge_passes "Merge passes of sorts that did not fit in memory.",
            "SORT_RANGE" sort_range "Sorts of rows found through a range.",
            "SORT_ROWS" sort_rows "Rows that were put in order by a sort.",
            "SORT_SCAN" sort_scan "Sorts of rows found by scanning a table.",
            "NO_INDEX_USED" no_index_used "Table scans done without an index.",
            "NO_GOOD_INDEX_USED" no_good_index_used "Executions for which no good index was found."
        )
    };
    ($prefix:literal, $row:ident => $counters:expr, $($name:literal $field:ident $doc:literal),*) => {
        &[$(
            $crate::framework::column::number(
                concat!($prefix, $name),
                $crate::table::SqlType::BigIntUnsigned,
                $doc,
                |$row| $counters.$field,
            ),
        )*]
    };
}
pub(crate) use counter_columns;

/// Declares the columns that only MySQL sums up for statements: `further_columns!(row => row.stat.sum)`.
macro_rules! further_columns {
    ($row:ident => $counters:expr) => {
        &[
            $crate::framework::column::number(
                "SUM_CPU_TIME",
                $crate::table::SqlType::BigIntUnsigned,
                "CPU time of those that were measured, in picoseconds: while the consumer `events_statements_cpu` was on.",
                |$row| $counters.cpu_time_ps,
            ),
            $crate::framework::column::number(
                "MAX_CONTROLLED_MEMORY",
                $crate::table::SqlType::BigIntUnsigned,
                "The largest MAX_CONTROLLED_MEMORY of such a statement, in bytes.",
                |$row| $counters.max_controlled_memory,
            ),
            $crate::framework::column::number(
                "MAX_TOTAL_MEMORY",
                $crate::table::SqlType::BigIntUnsigned,
                "The largest MAX_TOTAL_MEMORY of such a statement, in bytes.",
                |$row| $counters.max_total_memory,
            ),
            $crate::framework::column::number(
                "COUNT_SECONDARY",
                $crate::table::SqlType::BigIntUnsigned,
                "Always 0: there is no secondary engine.",
                |_| 0,
            ),
        ]
    };
}
pub(crate) use further_columns;

/// Documentation of the column of controlled memory.
pub(crate) const NO_CONTROLLED_MEMORY: &str =
    "Always 0: the server does not say which of its memory a limit controls.";

/// MySQL's engines that can run a statement.
pub(crate) const ENGINES: SqlType = SqlType::Enum(&["PRIMARY", "SECONDARY"]);
