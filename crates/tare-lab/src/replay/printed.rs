//! A replay in the words of the load driver: what [`crate::load`] reads.

use std::io::Write;

use super::Outcome;
use crate::load::Progress;

/// Said when sessions begin.
pub const STARTED: &str = "Threads started!";

/// A second of its course.
pub fn progress(out: &mut impl Write, users: u32, it: &Progress) -> std::io::Result<()> {
    let (tps, qps) = (it.transactions_per_second, it.queries_per_second);
    writeln!(out, "[ {}s ] thds: {users} tps: {tps:.2} qps: {qps:.2}", it.second)?;
    out.flush()
}

/// What came of it. A transaction is a statement.
pub fn outcome(out: &mut impl Write, it: &Outcome) -> std::io::Result<()> {
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
