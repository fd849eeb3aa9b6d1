//! Load on a server, driven by sysbench.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};

use crate::arrivals::{self, Arrivals};
use crate::datadir::last_lines;
use crate::definition::PASSWORD;
use crate::error::Tried;
use crate::installation::find_program;
use crate::interrupt::Interrupt;
use crate::process::as_pid;
use crate::record::Latency;
use crate::replay::study;
use crate::sidecar;
use crate::target::Target;
use crate::workload::{self, Options, Script};
use crate::{Error, Result};

/// How often a waiting reader looks at the interrupt flag.
const STEP: Duration = Duration::from_millis(50);
/// How long a load may go on after its time before it is given up.
const OVERTIME: Duration = Duration::from_secs(120);

/// What replays recordings.
const TARE: &str = "tare";

/// The load driver, with our scripts in a folder.
#[derive(Clone, Debug)]
pub struct Driver {
    sysbench: PathBuf,
    folder: PathBuf,
}

/// What to drive.
#[derive(Clone, Debug)]
pub struct Load {
    /// The script.
    pub script: Script,
    /// The schema its tables are in.
    pub schema: String,
    /// Connections, each a thread.
    pub users: u32,
    /// Options of the script.
    pub options: Options,
    /// Statements are prepared once and executed, or sent as text each time. MariaDB makes no digest of an execution.
    pub prepared: bool,
    /// When transactions arrive; without it every connection begins the next when its last one has ended.
    pub arrivals: Option<Arrivals>,
}

/// What the driver counted.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Transactions committed.
    pub transactions: u64,
    /// Statements.
    pub queries: u64,
    /// Errors it ignored.
    pub errors: u64,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// Latency of transactions.
    pub latency: Latency,
    /// Transactions per second, second by second.
    pub per_second: Vec<f64>,
    /// All it printed.
    pub output: String,
}

/// What the driver tells while it drives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Moment {
    /// Every connection is there; the clock starts.
    Started,
    /// A second has passed.
    Second(Progress),
    /// The time is over.
    Ended,
}

/// What the driver tells every second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Seconds since the load began.
    pub second: u64,
    /// Transactions per second, lately.
    pub transactions_per_second: f64,
    /// Statements per second, lately.
    pub queries_per_second: f64,
}

impl Driver {
    /// The installed sysbench; our scripts are written to a folder in `scratch`.
    pub fn new(scratch: &Path) -> Result<Driver> {
        let sysbench = find_program("sysbench", &[]).ok_or_else(|| Error::Missing {
            program: "sysbench".into(),
            hint: "on Debian, `apt-get install sysbench` brings it".into(),
        })?;
        let folder = scratch.join("workloads");
        fs::create_dir_all(&folder).tried(|| format!("making {}", folder.display()))?;
        workload::install(&folder)?;
        Ok(Driver { sysbench, folder })
    }

    /// Runs a command of the load's script, such as `prepare` or `check`; `line` hears what it prints.
    pub fn command(
        &self,
        load: &Load,
        target: &Target,
        command: &str,
        interrupt: &Interrupt,
        line: &mut dyn FnMut(&str),
    ) -> Result<()> {
        if load.script == Script::Recorded {
            return study::prepare(&load.options, target); // the only command it has
        }
        let mut driver = self.program(load.script, load, target)?;
        Drive::start(driver.arg(command), None, None)?.collect(interrupt, line).map(drop)
    }

    /// Runs a load for `seconds`; `moment` hears of its course as it happens.
    pub fn run(
        &self,
        load: &Load,
        target: &Target,
        seconds: u32,
        interrupt: &Interrupt,
        moment: &mut dyn FnMut(Moment) -> Result<()>,
    ) -> Result<Report> {
        self.start(load, target, seconds)?.finish(interrupt, moment)
    }

    /// Starts a load of `seconds`, which goes on by itself.
    pub fn start(&self, load: &Load, target: &Target, seconds: u32) -> Result<Drive> {
        let limit = Some(Duration::from_secs(seconds.into()) + OVERTIME);
        if load.script == Script::Recorded {
            return Drive::start(&mut self.replay(load, target, seconds)?, limit, None);
        }
        let script = if load.arrivals.is_some() { workload::PACED } else { load.script };
        let mut command = self.program(script, load, target)?;
        // One that is paced ends with its arrivals, when all have been served.
        let time = if load.arrivals.is_some() { 0 } else { seconds };
        command.env("TARE_WORKLOAD", load.script.module()).arg(format!("--time={time}"));
        command.args(["--report-interval=1", "--histogram=on", "--percentile=95", "run"]);
        Drive::start(&mut command, limit, load.arrivals.map(|arrivals| (arrivals, seconds)))
    }

    /// What replays a recording: the program that runs the study.
    fn replay(&self, load: &Load, target: &Target, seconds: u32) -> Result<Command> {
        let mut command = Command::new(sidecar::beside(TARE).ok_or_else(|| Error::Missing {
            program: TARE.into(),
            hint: "it replays recordings, and lies beside the program that runs the study".into(),
        })?);
        command.args(study::arguments(&load.options, load.users, target, seconds));
        command.env(PASSWORD, target.password.as_deref().unwrap_or_default());
        // By this a watchdog knows whose it is.
        command.env("TMPDIR", self.folder.parent().unwrap_or(&self.folder));
        Ok(command)
    }

    fn program(&self, script: Script, load: &Load, target: &Target) -> Result<Command> {
        let mut command = Command::new(&self.sysbench);
        command.arg(script.argument(&self.folder)).current_dir(&self.folder);
        // By this a watchdog knows whose it is.
        command.env("TMPDIR", self.folder.parent().unwrap_or(&self.folder));
        command.arg("--db-driver=mysql").args(target.driver_options());
        if let Some(password) = &target.password {
            command.arg(crate::datadir::option("--config-file=", &self.secret(password)?));
        }
        command.arg(format!("--mysql-db={}", load.schema)).arg(format!("--threads={}", load.users));
        command.arg(format!("--db-ps-mode={}", if load.prepared { "auto" } else { "disable" }));
        command.args(load.options.iter().map(|(name, value)| format!("--{name}={value}")));
        Ok(command)
    }

    /// A file with the password that only we can read: a command line is for everybody to see.
    fn secret(&self, password: &str) -> Result<PathBuf> {
        let path = self.folder.join("password.cnf");
        let what = || format!("writing {}", path.display());
        let mut options = fs::OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(0o600).open(&path).tried(what)?;
        file.set_permissions(fs::Permissions::from_mode(0o600)).tried(what)?;
        std::io::Write::write_all(&mut &file, format!("mysql-password={password}\n").as_bytes())
            .tried(what)?;
        Ok(path)
    }
}

/// The driver at work. Dropped, it ends.
#[derive(Debug)]
pub struct Drive {
    process: Process,
    lines: Receiver<String>,
    errors: JoinHandle<String>,
    output: String,
    begun: Instant,
    limit: Option<Duration>,
    /// What its arrivals are, until it has started.
    arrivals: Option<(Arrivals, u32)>,
}

impl Drive {
    fn start(
        command: &mut Command,
        limit: Option<Duration>,
        arrivals: Option<(Arrivals, u32)>,
    ) -> Result<Drive> {
        // A group of its own: Ctrl-C in a terminal must reach us, who then end it.
        let stdin = if arrivals.is_some() { Stdio::piped() } else { Stdio::null() };
        command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let program = command.get_program().to_owned();
        let what = || format!("starting {}", program.display());
        let mut child = command.spawn().tried(what)?;
        let pipes = child.stdout.take().zip(child.stderr.take());
        let process = Process { child };
        let (out, mut said) = pipes.ok_or_else(|| std::io::Error::other("it has no pipes")).tried(what)?;
        let errors = std::thread::spawn(move || {
            let mut text = String::new();
            let _ = said.read_to_string(&mut text); // what cannot be read is not shown
            text
        });
        Ok(Drive {
            process,
            lines: lines_of(out),
            errors,
            output: String::new(),
            begun: Instant::now(),
            limit,
            arrivals,
        })
    }

    /// Waits until every connection is there and the clock of the load has started.
    pub fn until_started(&mut self, interrupt: &Interrupt) -> Result<()> {
        while let Some(line) = self.line(interrupt)? {
            if moment_of(&line) == Some(Moment::Started) {
                return Ok(());
            }
        }
        Ok(()) // it ended; whoever collects its report hears why
    }

    /// Keeps it from sending anything; what the server is doing for it goes on. Its clock does not stop.
    pub fn hold(&mut self) {
        self.signal(Signal::SIGSTOP);
    }

    /// Lets it go on.
    pub fn release(&mut self) {
        self.signal(Signal::SIGCONT);
    }

    fn signal(&mut self, signal: Signal) {
        // A child that is not waited for keeps its number; one that is may have given it to somebody else.
        if matches!(self.process.child.try_wait(), Ok(None)) {
            let _ = kill(as_pid(self.process.child.id()), signal);
        }
    }

    /// Whether it has ended, which a load does when its time is over, or when something went wrong.
    pub fn ended(&mut self) -> Result<bool> {
        Ok(self.process.child.try_wait().tried(|| "waiting for sysbench".into())?.is_some())
    }

    /// Waits for its end and reads its report; `moment` hears of its course as it happens.
    pub fn finish(
        self,
        interrupt: &Interrupt,
        moment: &mut dyn FnMut(Moment) -> Result<()>,
    ) -> Result<Report> {
        let mut failed = Ok(());
        let output = self.collect(interrupt, &mut |line| {
            if let (Some(m), true) = (moment_of(line), failed.is_ok()) {
                failed = moment(m);
            }
        });
        let output = output.map_err(|error| match error {
            Error::Program { status, output, .. } => Error::LoadEnded { status, output },
            error => error,
        })?;
        failed.and_then(|()| report_of(output))
    }

    /// Waits for its end, giving each line it prints to `each`; ends it when interrupted or after its limit.
    fn collect(mut self, interrupt: &Interrupt, each: &mut dyn FnMut(&str)) -> Result<String> {
        while let Some(line) = self.line(interrupt)? {
            each(&line);
        }
        let status = self.process.child.wait().tried(|| "waiting for sysbench".into())?;
        let said = self.errors.join().unwrap_or_default();
        // A script's command that fails in one of several threads ends with 0 and says FATAL.
        if status.success() && !self.output.contains("FATAL") && !said.contains("FATAL") {
            return Ok(self.output);
        }
        let output = last_lines(&format!("{}\n{said}", self.output), 12);
        Err(Error::Program { program: "sysbench".into(), status: status.to_string(), output })
    }

    /// Begins to give it its arrivals, if it has any.
    fn feed(&mut self) {
        if let (Some(pipe), Some((arrivals, seconds))) =
            (self.process.child.stdin.take(), self.arrivals.take())
        {
            arrivals.feed(seconds, pipe);
        }
    }

    /// The next line it prints; none when there are no more.
    fn line(&mut self, interrupt: &Interrupt) -> Result<Option<String>> {
        loop {
            interrupt.check()?;
            if self.limit.is_some_and(|limit| self.begun.elapsed() > limit) {
                return Err(Error::LoadHangs { output: last_lines(&self.output, 12) });
            }
            match self.lines.recv_timeout(STEP) {
                Ok(line) => {
                    if moment_of(&line) == Some(Moment::Started) {
                        self.feed();
                    }
                    self.output.push_str(&line);
                    self.output.push('\n');
                    return Ok(Some(line));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
            }
        }
    }
}

/// The driver's process; ends with us, held or not.
#[derive(Debug)]
struct Process {
    child: Child,
}

impl Drop for Process {
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

fn moment_of(line: &str) -> Option<Moment> {
    match line {
        "Threads started!" => Some(Moment::Started),
        // Printed first when the time is over.
        "Latency histogram (values are in milliseconds)" => Some(Moment::Ended),
        _ => progress_of(line).map(Moment::Second),
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
fn report_of(output: String) -> Result<Report> {
    let missing = |why| Error::LoadReport { why, output: last_lines(&output, 20) };
    let first = |name: &str| {
        let rest = output.lines().find_map(|l| l.trim().strip_prefix(name))?;
        rest.split_whitespace().next()
    };
    let count = |name: &str| first(name).and_then(|number| number.parse().ok());
    Ok(Report {
        transactions: count("transactions:")
            .filter(|&n| n > 0)
            .ok_or_else(|| missing("it counts no transactions"))?,
        queries: count("queries:").ok_or_else(|| missing("it counts no queries"))?,
        errors: count("ignored errors:").ok_or_else(|| missing("it counts no errors"))?,
        seconds: first("total time:")
            .and_then(|time| time.trim_end_matches('s').parse().ok())
            .ok_or_else(|| missing("it has no line `total time:`"))?,
        latency: arrivals::latency_of(&output)
            .or_else(|| latency_of(&output))
            .ok_or_else(|| missing("it has no latency histogram"))?,
        per_second: output.lines().filter_map(progress_of).map(|p| p.transactions_per_second).collect(),
        output,
    })
}

/// Reads `0.499 |***************  417`, the middle of a bucket in milliseconds and how many were in it.
fn latency_of(output: &str) -> Option<Latency> {
    let lines = output.lines().skip_while(|l| !l.starts_with("Latency histogram")).skip(2);
    let buckets = lines.map_while(|line| {
        let (value, rest) = line.split_once('|')?;
        let milliseconds: f64 = value.trim().parse().ok()?;
        Some((milliseconds / 1000.0, rest.trim_start_matches(['*', ' ']).trim().parse().ok()?))
    });
    // Bounds are printed with three digits: those of short latencies come several times.
    let mut histogram: Vec<(f64, u64)> = vec![];
    for (bound, count) in buckets {
        match histogram.last_mut().filter(|last| last.0 == bound) {
            Some(last) => last.1 += count,
            None => histogram.push((bound, count)),
        }
    }
    // The mean is printed with two digits; the sum has more.
    let number =
        |name: &str| output.lines().find_map(|l| l.trim().strip_prefix(name))?.trim().parse::<f64>().ok();
    let mean = number("sum:")? / number("total number of events:")?;
    latency(mean / 1000.0, histogram)
}

pub(crate) fn latency(mean: f64, histogram: Vec<(f64, u64)>) -> Option<Latency> {
    let percentile = |share| percentile(&histogram, share);
    Some(Latency { mean, p50: percentile(0.50)?, p95: percentile(0.95)?, p99: percentile(0.99)?, histogram })
}

impl Latency {
    /// What a share of all are at most; not a number where there is none.
    pub fn at(&self, share: f64) -> f64 {
        percentile(&self.histogram, share).unwrap_or(f64::NAN)
    }

    /// What is left without transactions of `limit` seconds or more, of which at most so many are left out, the longest first.
    /// The mean is then that of the histogram.
    #[must_use]
    pub fn without(&self, limit: f64, at_most: u64) -> Latency {
        let (mut histogram, mut left) = (self.histogram.clone(), at_most);
        for (_, count) in histogram.iter_mut().rev().take_while(|(bound, _)| *bound >= limit) {
            let out = left.min(*count);
            *count -= out;
            left -= out;
        }
        histogram.retain(|(_, count)| *count > 0);
        #[allow(clippy::cast_precision_loss)] // counts of a slice are far below 2^53
        let (sum, all) =
            histogram.iter().fold((0.0, 0.0), |(sum, all), &(v, n)| (sum + v * n as f64, all + n as f64));
        latency(sum / all, histogram).unwrap_or_else(|| self.clone())
    }
}

/// What a bound may be off by, in seconds: half of its last digit.
const ROUNDING: f64 = 0.000_000_5;

/// The value that a share of a histogram is at most, interpolated within its bucket.
#[allow(clippy::cast_precision_loss)] // counts of a slice are far below 2^53
fn percentile(histogram: &[(f64, u64)], share: f64) -> Option<f64> {
    let wanted = share * histogram.iter().map(|b| b.1).sum::<u64>() as f64;
    let mut below = (0.0, 0.0);
    for &(bound, count) in histogram {
        let upto = below.1 + count as f64;
        if upto >= wanted {
            // What is known of a bucket's lower end is its neighbour; buckets grow by a fiftieth.
            let low = f64::max(below.0, bound * 0.98 - ROUNDING);
            return Some(low + (bound - low) * (wanted - below.1) / count as f64);
        }
        below = (bound, upto);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "Threads started!

[ 1s ] thds: 2 tps: 600.00 qps: 9600.00 (r/w/o: 1/0/1) lat (ms,95%): 5.1 err/s: 0.00 reconn/s: 0.00
[ 2s ] thds: 2 tps: 636.00 qps: 10176.00 (r/w/o: 1/0/1) lat (ms,95%): 5.1 err/s: 0.00 reconn/s: 0.00
Latency histogram (values are in milliseconds)
       value  ------------- distribution ------------- count
       0.490 |                                         36
       1.000 |*************************                400
       1.000 |*************************                600
       6.250 |****                                     200

SQL statistics:
    queries performed:
        read:                            17304
        total:                           19776
    transactions:                        1236   (617.65 per sec.)
    queries:                             19776  (9882.33 per sec.)
    ignored errors:                      3      (0.00 per sec.)

General statistics:
    total time:                          2.0017s
    total number of events:              1236

Latency (ms):
         avg:                                    0.62
         sum:                                 1545.00
";

    #[test]
    fn the_report_is_read() {
        let report = report_of(REPORT.into()).expect("a report");
        assert_eq!((report.transactions, report.queries, report.errors), (1236, 19776, 3));
        assert_eq!((report.seconds, report.per_second), (2.0017, vec![600.0, 636.0]));
        let latency = report.latency;
        assert_eq!(latency.histogram, [(0.000_49, 36), (0.001, 1000), (0.006_25, 200)]);
        assert!((0.000_98..0.001).contains(&latency.p50) && latency.mean == 0.001_25, "{latency:?}");
        assert!((0.006_12..0.006_25).contains(&latency.p95) && latency.p99 > latency.p95, "{latency:?}");
    }

    #[test]
    fn a_load_that_did_nothing_is_an_error() {
        assert!(report_of(String::new()).is_err());
        assert!(report_of(REPORT.replace("1236 ", "0 ")).is_err());
    }

    #[test]
    fn moments_are_told_from_other_lines() {
        let moments: Vec<Moment> = REPORT.lines().filter_map(moment_of).collect();
        let second = Progress { second: 2, transactions_per_second: 636.0, queries_per_second: 10176.0 };
        assert_eq!(moments.len(), 4);
        assert_eq!(
            (moments[0], moments[2], moments[3]),
            (Moment::Started, Moment::Second(second), Moment::Ended)
        );
    }

    #[test]
    fn an_interrupt_ends_the_driver() {
        let interrupt = Interrupt::default();
        let flag = interrupt.flag();
        let mut seen = vec![];
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "echo $$; exec sleep 3600"]);
        let driven =
            Drive::start(&mut command, None, None).expect("a shell").collect(&interrupt, &mut |line| {
                seen.push(line.to_owned());
                flag.store(true, std::sync::atomic::Ordering::Relaxed);
            });
        assert!(matches!(driven, Err(Error::Interrupted)), "{driven:?}");
        let pid: i32 = seen[0].parse().expect("the shell's pid");
        assert!(nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), None).is_err(), "{pid} still runs");
    }

    #[test]
    fn a_driver_that_is_held_does_nothing_until_it_is_released() {
        let script = "echo 'Threads started!'; for i in 1 2 3 4 5 6; do sleep 0.05; echo $i; done";
        let mut drive =
            Drive::start(Command::new("/bin/sh").args(["-c", script]), None, None).expect("a shell");
        let interrupt = Interrupt::default();
        drive.until_started(&interrupt).expect("it starts");
        drive.hold();
        std::thread::sleep(Duration::from_millis(600));
        assert!(!drive.ended().expect("its state"), "it went on");
        drive.release();
        let output = drive.collect(&interrupt, &mut |_| {}).expect("it ends");
        assert_eq!(output, "Threads started!\n1\n2\n3\n4\n5\n6\n");
    }

    #[test]
    fn what_was_held_up_is_not_taken_for_latency() {
        let report = report_of(REPORT.into()).expect("a report");
        let without = |limit, at_most| report.latency.without(limit, at_most).histogram;
        assert_eq!(without(0.006, 500), [(0.000_49, 36), (0.001, 1000)]);
        assert_eq!(without(0.006, 50), [(0.000_49, 36), (0.001, 1000), (0.006_25, 150)]);
        assert_eq!(without(0.01, 500), report.latency.histogram);
        let latency = report.latency.without(0.006, 500);
        assert!(latency.p99 <= 0.001 && latency.mean < 0.001, "{latency:?}");
    }

    #[test]
    fn a_driver_that_hangs_is_given_up() {
        let drive =
            Drive::start(Command::new("sleep").arg("3600"), Some(Duration::ZERO), None).expect("a sleep");
        let driven = drive.collect(&Interrupt::default(), &mut |_| {});
        assert!(matches!(driven, Err(Error::LoadHangs { .. })), "{driven:?}");
    }
}
