//! The CPU time of the server, and the governor's part of it.

use std::fmt;
use std::time::{Duration, Instant};

use super::{Error, ServerCounts};
use crate::source::{Address, Source};

/// A function that finds the process of the server at an address.
pub type Find = dyn Fn(&Address) -> Option<u32>;

/// Access to the machine that the server runs on, if it is this one.
pub struct ServerMachine {
    /// Finds the server's process again, as it changes with a restart.
    pub find: Box<Find>,
    /// Reads the CPU time of a process.
    pub cpu: fn(u32) -> Option<Duration>,
    /// Reads the CPU time of a thread of it, by the kernel's number.
    pub thread_cpu: fn(u32, u64) -> Option<Duration>,
    /// Runs [`Work`](tare_budget::Work) and returns its duration in nanoseconds.
    pub work_ns: Box<dyn Fn() -> f64>,
}

/// Reads the CPU time of a thread on this machine.
#[must_use]
pub fn thread_cpu(process: u32, thread: u64) -> Option<Duration> {
    tare_server::process::thread_cpu_time(process, thread.try_into().ok()?)
}

/// The source of CPU time.
#[derive(Clone, Debug)]
enum MeterClock {
    /// The clock of the process.
    Process(u32),
    /// The server's own count.
    Server,
    /// Unknown: the most that so many processors could have used.
    Cores { cores: f64, since: Instant },
}

/// The CPU time of a server, and of the governor's connection to it.
#[derive(Clone, Debug)]
pub struct CpuMeter {
    clock: MeterClock,
    /// The process and the connection's thread in it, if its CPU time can be read.
    thread: Option<(u32, u64)>,
    /// Duration of the governor's statements, an upper bound of their CPU time.
    spent: Duration,
}

impl CpuMeter {
    /// Determines how the server's CPU time can be read.
    ///
    /// # Errors
    ///
    /// [`Error::NoClock`], [`Error::Source`].
    pub fn find(source: &mut Source, machine: &ServerMachine, cores: Option<f64>) -> Result<CpuMeter, Error> {
        let process = (machine.find)(source.address()).filter(|pid| (machine.cpu)(*pid).is_some());
        if let Some(pid) = process {
            let thread = thread_of(source)?.map(|tid| (pid, tid));
            let thread = thread.filter(|(pid, tid)| thread_cpu(*pid, *tid).is_some());
            return Ok(CpuMeter { clock: MeterClock::Process(pid), thread, spent: Duration::ZERO });
        }
        let mut counts = ServerCounts::read(source)?;
        counts.read_cpu(source)?;
        let clock = match (counts.cpu, cores) {
            (Some(_), _) => MeterClock::Server,
            (None, Some(cores)) => MeterClock::Cores { cores, since: Instant::now() },
            (None, None) => return Err(Error::NoClock { address: source.address().to_string() }),
        };
        Ok(CpuMeter { clock, thread: None, spent: Duration::ZERO })
    }

    /// Returns the server's process, if it is on this machine.
    pub(super) fn process(&self) -> Option<u32> {
        match self.clock {
            MeterClock::Process(pid) => Some(pid),
            MeterClock::Server | MeterClock::Cores { .. } => None,
        }
    }

    /// Runs the reference work and returns its duration in nanoseconds, if the server is on this machine.
    pub(super) fn work_ns(&self, machine: &ServerMachine) -> Option<f64> {
        self.process().map(|_| (machine.work_ns)())
    }

    /// Returns whether the CPU time has to be queried from the server.
    pub(super) fn is_the_servers(&self) -> bool {
        matches!(self.clock, MeterClock::Server)
    }

    /// Returns whether it is the capacity rather than the use.
    pub(super) fn is_capacity(&self) -> bool {
        matches!(self.clock, MeterClock::Cores { .. })
    }

    /// Returns the CPU time so far in seconds, if no query is needed for it.
    pub(super) fn peek(&self, machine: &ServerMachine) -> Option<f64> {
        match &self.clock {
            MeterClock::Process(pid) => (machine.cpu)(*pid).map(|time| time.as_secs_f64()),
            MeterClock::Cores { cores, since } => Some(cores * since.elapsed().as_secs_f64()),
            MeterClock::Server => None,
        }
    }

    pub(super) fn read(
        &self,
        machine: &ServerMachine,
        counts: &ServerCounts,
        at: Instant,
    ) -> Result<f64, Error> {
        Ok(match &self.clock {
            MeterClock::Process(pid) => (machine.cpu)(*pid).map_or(0.0, |time| time.as_secs_f64()),
            MeterClock::Cores { cores, since } => cores * (at - *since).as_secs_f64(),
            MeterClock::Server => counts.cpu.unwrap_or(0.0),
        })
    }

    /// Adds the duration of a reading.
    pub(super) fn spent(&mut self, time: Duration) {
        self.spent += time;
    }

    /// Returns the cost of the governor's connection so far, in seconds of CPU time: that of its thread, or
    /// else the duration of its readings.
    pub(super) fn own(&self) -> f64 {
        self.thread.and_then(|(pid, tid)| thread_cpu(pid, tid)).unwrap_or(self.spent).as_secs_f64()
    }
}

impl fmt::Display for CpuMeter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.clock {
            MeterClock::Process(pid) => write!(f, "CPU time of process {pid}"),
            MeterClock::Server => f.write_str("CPU time as the server counts it"),
            MeterClock::Cores { cores, .. } => {
                write!(
                    f,
                    "all that {cores} processors could do: the server's CPU time is not known from here"
                )
            }
        }
    }
}

/// Returns the kernel's number of the connection's thread; `None` where the server does not tell, or has a
/// thread pool.
pub(super) fn thread_of(source: &mut Source) -> Result<Option<u64>, Error> {
    let pool = source.ask("SHOW GLOBAL VARIABLES LIKE 'thread_handling'")?;
    if pool.first().and_then(|row| row.text(1)).is_some_and(|it| it != "one-thread-per-connection") {
        return Ok(None);
    }
    let rows = source.rows("threads", &["THREAD_OS_ID"], "WHERE PROCESSLIST_ID = CONNECTION_ID()")?;
    Ok(rows.first().and_then(|row| row.number(0)))
}
