//! Load on a server, driven by sysbench.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use crate::datadir::last_lines;
use crate::error::Tried;
use crate::installation::find_program;
use crate::interrupt::Interrupt;
use crate::{Error, Result};

/// The schema the load's tables are in.
pub const SCHEMA: &str = "sbtest";

/// How often a waiting reader looks at the interrupt flag.
const STEP: Duration = Duration::from_millis(50);

/// The load driver and how it is to drive.
#[derive(Clone, Debug)]
pub struct Load {
    sysbench: PathBuf,
    /// Connections, each a thread.
    pub threads: u32,
    /// Tables.
    pub tables: u32,
    /// Rows in each table.
    pub rows: u32,
    /// Statements are prepared once and executed, or sent as text each time. MariaDB makes no digest of an execution.
    pub prepared: bool,
}

/// What the driver counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Report {
    /// Transactions committed.
    pub transactions: u64,
    /// Transactions per second.
    pub per_second: f64,
    /// Statements.
    pub queries: u64,
}

/// What the driver tells while it drives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Seconds since the load began.
    pub second: u64,
    /// Transactions per second, lately.
    pub transactions_per_second: f64,
    /// Statements per second, lately.
    pub queries_per_second: f64,
}

impl Load {
    /// A load of prepared statements on one table with `rows` rows.
    pub fn new(threads: u32, rows: u32) -> Result<Load> {
        let sysbench = find_program("sysbench", &[]).ok_or_else(|| Error::Missing {
            program: "sysbench".into(),
            hint: "on Debian, `apt-get install sysbench` brings it",
        })?;
        Ok(Load { sysbench, threads, tables: 1, rows, prepared: true })
    }

    /// Fills the tables; the schema must exist.
    pub fn prepare(&self, socket: &Path, interrupt: &Interrupt) -> Result<()> {
        let mut command = self.command("oltp_read_write", socket);
        self.drive(command.arg("prepare"), interrupt, &mut |_| {}).map(drop)
    }

    /// Runs a workload for `seconds`; `progress` hears of it every second.
    pub fn run(
        &self,
        workload: &str,
        socket: &Path,
        seconds: u64,
        interrupt: &Interrupt,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Report> {
        let mut command = self.command(workload, socket);
        command.arg(format!("--time={seconds}")).args(["--report-interval=1", "run"]);
        let output = self.drive(&mut command, interrupt, &mut |line| {
            if let Some(p) = progress_of(line) {
                progress(p);
            }
        })?;
        report_of(&output)
    }

    fn command(&self, workload: &str, socket: &Path) -> Command {
        let mut command = Command::new(&self.sysbench);
        command.args([workload, "--db-driver=mysql", "--mysql-user=root"]);
        command.arg(format!("--mysql-db={SCHEMA}"));
        command.arg(crate::datadir::option("--mysql-socket=", socket));
        command.arg(format!("--tables={}", self.tables)).arg(format!("--table-size={}", self.rows));
        command.arg(format!("--threads={}", self.threads));
        command.arg(format!("--db-ps-mode={}", if self.prepared { "auto" } else { "disable" }));
        command
    }

    /// Runs the driver to its end, giving each line it prints to `line`; ends it when interrupted.
    fn drive(
        &self,
        command: &mut Command,
        interrupt: &Interrupt,
        line: &mut dyn FnMut(&str),
    ) -> Result<String> {
        // A group of its own: Ctrl-C in a terminal must reach us, who then end it.
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let child = command.spawn().tried(|| format!("starting {}", self.sysbench.display()))?;
        let mut driver = Driver { child };
        let lines = driver.child.stdout.take().map(lines_of);
        let errors = driver.child.stderr.take().map(|mut pipe| {
            std::thread::spawn(move || {
                let mut text = String::new();
                let _ = pipe.read_to_string(&mut text); // what cannot be read is not shown
                text
            })
        });
        let output = lines.map_or(Ok(String::new()), |lines| collect(&lines, interrupt, line))?;
        let status = driver.child.wait().tried(|| "waiting for sysbench".into())?;
        if status.success() {
            return Ok(output);
        }
        let said = errors.and_then(|e| e.join().ok()).unwrap_or_default();
        let output = last_lines(&format!("{output}\n{said}"), 12);
        Err(Error::Program { program: "sysbench".into(), status: status.to_string(), output })
    }
}

/// The driver's process; ends with us.
struct Driver {
    child: Child,
}

impl Drop for Driver {
    fn drop(&mut self) {
        // Both fail when it has ended, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lines_of(pipe: ChildStdout) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let lines = BufReader::new(pipe).lines().map_while(std::result::Result::ok);
        lines.map(|l| sender.send(l)).take_while(std::result::Result::is_ok).for_each(drop);
    });
    receiver
}

fn collect(lines: &Receiver<String>, interrupt: &Interrupt, each: &mut dyn FnMut(&str)) -> Result<String> {
    let mut output = String::new();
    loop {
        interrupt.check()?;
        match lines.recv_timeout(STEP) {
            Ok(line) => {
                each(&line);
                output.push_str(&line);
                output.push('\n');
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(output),
        }
    }
}

/// Reads `[ 3s ] thds: 2 tps: 512.01 qps: 10240.20 (r/w/o: …) …`.
fn progress_of(line: &str) -> Option<Progress> {
    let (second, rest) = line.strip_prefix('[')?.split_once("s ]")?;
    let number = |name: &str| rest.split_once(name)?.1.split_whitespace().next()?.parse().ok();
    Some(Progress {
        second: second.trim().parse().ok()?,
        transactions_per_second: number("tps:")?,
        queries_per_second: number("qps:")?,
    })
}

/// Reads the closing report: `transactions:   1234   (617.00 per sec.)`.
fn report_of(output: &str) -> Result<Report> {
    let missing = |why| Error::LoadReport { why, output: last_lines(output, 20) };
    let line = |name: &str| output.lines().find_map(|l| l.trim().strip_prefix(name));
    let count = |rest: &str| rest.split_whitespace().next()?.parse().ok();
    let rate = |rest: &str| rest.split_once('(')?.1.split_whitespace().next()?.parse().ok();
    let transactions = line("transactions:").ok_or_else(|| missing("it has no line `transactions:`"))?;
    let queries = line("queries:").ok_or_else(|| missing("it has no line `queries:`"))?;
    Ok(Report {
        transactions: count(transactions)
            .filter(|&n| n > 0)
            .ok_or_else(|| missing("it counts no transactions"))?,
        per_second: rate(transactions).ok_or_else(|| missing("it has no rate of transactions"))?,
        queries: count(queries).ok_or_else(|| missing("it counts no queries"))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "SQL statistics:
    queries performed:
        read:                            17304
        total:                           19776
    transactions:                        1236   (617.65 per sec.)
    queries:                             19776  (9882.33 per sec.)
    ignored errors:                      0      (0.00 per sec.)
";

    #[test]
    fn the_report_is_read() {
        let report = report_of(REPORT).expect("a report");
        assert_eq!(report, Report { transactions: 1236, per_second: 617.65, queries: 19776 });
    }

    #[test]
    fn a_load_that_did_nothing_is_an_error() {
        assert!(report_of("").is_err());
        assert!(report_of(&REPORT.replace("1236 ", "0 ")).is_err());
    }

    #[test]
    fn progress_is_read_and_other_lines_are_not() {
        let line = "[ 3s ] thds: 2 tps: 512.01 qps: 10240.20 (r/w/o: 7168.1/2048.0/1024.0) lat (ms,95%): 5.1";
        let progress = progress_of(line).expect("progress");
        assert_eq!(
            progress,
            Progress { second: 3, transactions_per_second: 512.01, queries_per_second: 10240.20 }
        );
        assert_eq!(progress_of("Running the test with following options:"), None);
    }

    #[test]
    fn an_interrupt_ends_the_driver() {
        let load = Load { sysbench: "/bin/sh".into(), threads: 1, tables: 1, rows: 1, prepared: true };
        let interrupt = Interrupt::default();
        let flag = interrupt.flag();
        let mut seen = vec![];
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "echo $$; exec sleep 3600"]);
        let driven = load.drive(&mut command, &interrupt, &mut |line| {
            seen.push(line.to_owned());
            flag.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        assert!(matches!(driven, Err(Error::Interrupted)), "{driven:?}");
        let pid: i32 = seen[0].parse().expect("the shell's pid");
        assert!(nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), None).is_err(), "{pid} still runs");
    }
}
