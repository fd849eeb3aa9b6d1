//! One block of load on one server, and what it cost.

use std::time::Duration;

use serde::{Serialize, Serializer};

/// What one block measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Sample {
    /// CPU time of the server's process over the block.
    #[serde(rename = "cpu_seconds", serialize_with = "as_seconds")]
    pub cpu: Duration,
    /// Transactions the load driver counted.
    pub transactions: u64,
    /// Transactions per second of wall time, as the load driver reports them.
    pub per_second: f64,
}

fn as_seconds<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(time.as_secs_f64())
}

impl Sample {
    /// CPU time per transaction, in seconds. Infinite for a block without a transaction.
    pub fn cpu_per_transaction(&self) -> f64 {
        #[allow(clippy::cast_precision_loss)] // counts of a block are far below 2^53
        let n = self.transactions as f64;
        self.cpu.as_secs_f64() / n
    }
}
