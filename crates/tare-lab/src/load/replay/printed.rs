//! The output of a replay in the format of the load driver, which [`crate::load`] parses.

use std::io::Write;

use super::ReplayResult;
use crate::load::sysbench::DriverSecond;

/// The line printed when sessions start.
pub const STARTED: &str = "Threads started!";

/// Prints the progress of a second.
pub fn progress(out: &mut impl Write, users: u32, it: &DriverSecond) -> std::io::Result<()> {
    let (tps, qps) = (it.transactions_per_second, it.queries_per_second);
    writeln!(out, "[ {}s ] thds: {users} tps: {tps:.2} qps: {qps:.2}", it.second)?;
    out.flush()
}

/// Prints the outcome. Each statement counts as a transaction.
pub fn outcome(out: &mut impl Write, it: &ReplayResult) -> std::io::Result<()> {
    writeln!(out, "Latency histogram (values are in milliseconds)")?;
    let (sum, count) = it.latencies.sum();
    writeln!(out, "paced sum {sum:.9} {count}")?;
    for (bound, count) in it.latencies.buckets() {
        writeln!(out, "paced {bound:.9} {count}")?;
    }
    writeln!(out, "transactions: {}", it.statements)?;
    writeln!(out, "queries: {}", it.statements)?;
    writeln!(out, "ignored errors: {}", it.errors())?;
    writeln!(out, "total time: {:.4}s", it.seconds)?;
    writeln!(out, "times_replayed: {:.4}", it.times)?;
    writeln!(out, "behind_seconds: {:.6}", it.behind)?;
    out.flush()
}
