//! Calls of storage engines, by which table I/O is charged. Tables count the rows that are read and written. What costs is a wait,
//! and a scan of many rows is one.

/// Status variables that add up to the calls that begin to read, or write a row. Reading on is no new wait as a rule, and sorted
/// rows (`Handler_read_rnd`) are those of temporary tables as a rule, which have no instrument.
pub const BEGINNINGS: [&str; 6] = [
    "Handler_read_key",
    "Handler_read_first",
    "Handler_read_last",
    "Handler_write",
    "Handler_update",
    "Handler_delete",
];

/// The waits that so many rows took, of so many calls: no more than there were rows. Temporary tables have calls and no waits, and
/// the inner tables of a join are looked into many times in one.
#[must_use]
pub fn waits(rows: f64, calls: f64) -> f64 {
    rows.min(calls)
}
