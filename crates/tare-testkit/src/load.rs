//! sysbench as a load: prepared, run, awaited, and killed when dropped.

use std::io::Read;
use std::process::{Child, Command, Stdio};

use mysql::prelude::Queryable;

use crate::server::Server;
use crate::{Failure, Result};

/// Path of the project's TPC-C script.
pub const TPCC: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../workloads/tpcc.lua");
/// Customers per district in TPC-C's specification.
const CUSTOMERS: f64 = 3000.0;

/// A workload: one of sysbench's own, or [`TPCC`].
#[derive(Clone, Debug)]
pub struct SysbenchLoad {
    /// Name such as `oltp_read_write`.
    pub workload: &'static str,
    /// Number of client threads.
    pub threads: u64,
    /// Number of tables; for TPC-C, of warehouses.
    pub tables: u64,
    /// Rows per table; for TPC-C, customers per district.
    pub rows: u64,
    /// Whether statements are prepared once and executed by the binary protocol, rather than sent as text
    /// each time.
    pub prepared: bool,
}

/// A running load.
#[derive(Debug)]
pub struct Running {
    child: Child,
}

/// sysbench's final report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SysbenchReport {
    /// Transactions done.
    pub transactions: u64,
    /// Errors other than expected ones such as deadlocks.
    pub errors: u64,
    /// The whole output.
    pub text: String,
}

impl SysbenchLoad {
    /// Creates and fills the tables.
    ///
    /// # Errors
    /// When sysbench fails.
    pub fn prepare(&self, server: &Server) -> Result<()> {
        server.client()?.query_drop("CREATE DATABASE IF NOT EXISTS sbtest")?;
        let output = self.command(server).arg("prepare").output().map_err(Failure::io("run sysbench"))?;
        if output.status.success() {
            return Ok(());
        }
        Err(Failure::Setup(format!("sysbench prepare: {}", String::from_utf8_lossy(&output.stdout))))
    }

    /// Starts it for some seconds.
    ///
    /// # Errors
    /// When sysbench is missing.
    pub fn start(&self, server: &Server, seconds: u64) -> Result<Running> {
        let mut command = self.command(server);
        command.arg(format!("--time={seconds}")).arg("--events=0").arg("run");
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        Ok(Running { child: child.map_err(Failure::io("run sysbench"))? })
    }

    fn command(&self, server: &Server) -> Command {
        let mut command = Command::new("sysbench");
        command.arg(self.workload).arg("--mysql-user=root");
        command.arg(format!("--mysql-socket={}", server.socket().display()));
        command.arg(format!("--threads={}", self.threads)).arg("--rand-type=uniform");
        let sizes = match self.workload {
            TPCC => {
                [format!("--warehouses={}", self.tables), format!("--scale={}", self.rows as f64 / CUSTOMERS)]
            }
            _ => [format!("--tables={}", self.tables), format!("--table-size={}", self.rows)],
        };
        command.args(sizes);
        command.arg(if self.prepared { "--db-ps-mode=auto" } else { "--db-ps-mode=disable" });
        command.stdin(Stdio::null());
        command
    }
}

impl Running {
    /// Returns whether it is running.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// When it fails.
    pub fn finish(mut self) -> Result<SysbenchReport> {
        let mut text = String::new();
        let failed = || Failure::io("read what sysbench says");
        if let Some(mut stream) = self.child.stdout.take() {
            stream.read_to_string(&mut text).map_err(failed())?;
        }
        if let Some(mut stream) = self.child.stderr.take() {
            stream.read_to_string(&mut text).map_err(failed())?;
        }
        let status = self.child.wait().map_err(Failure::io("wait for sysbench"))?;
        if !status.success() {
            return Err(Failure::Setup(format!("sysbench failed:\n{text}")));
        }
        Ok(SysbenchReport {
            transactions: count(&text, "transactions:"),
            errors: count(&text, "ignored errors:"),
            text,
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Either may fail only because it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn count(text: &str, what: &str) -> u64 {
    let line = text.lines().find_map(|line| line.trim().strip_prefix(what));
    line.and_then(|rest| rest.split_whitespace().next()).and_then(|n| n.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_from_the_report() {
        let text = "  transactions:                        1234   (61.70 per sec.)\n  ignored errors:  2 (0.1 per sec.)";
        assert_eq!((count(text, "transactions:"), count(text, "ignored errors:")), (1234, 2));
    }
}
