//! Calls of storage engines, by which table I/O is charged. Tables count rows, but the cost is per wait, and
//! a scan of many rows is one wait.

/// Status variables that add up to the calls that begin to read, or that write a row. Reading on is usually
/// no new wait. Sorted rows (`Handler_read_rnd`) usually belong to temporary tables, which have no
/// instrument.
pub const BEGINNINGS: [&str; 6] = [
    "Handler_read_key",
    "Handler_read_first",
    "Handler_read_last",
    "Handler_write",
    "Handler_update",
    "Handler_delete",
];

/// Returns the number of waits, given rows and calls: at most one per row. Temporary tables have calls and no
/// waits, and a join reads its inner tables many times in one wait.
#[must_use]
pub fn waits(rows: f64, calls: f64) -> f64 {
    rows.min(calls)
}
