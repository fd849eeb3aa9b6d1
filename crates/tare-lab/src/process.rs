//! What the operating system says about another process: CPU time and resident memory.

use std::fs;
use std::ops::AddAssign;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;

use crate::Result;
use crate::error::Error;
use crate::error::Tried;

/// CPU time of a whole process, user and system, all threads and those that ended.
///
/// Read from the process's own CPU clock (`clock_getcpuclockid`): the scheduler's run time in nanoseconds, where
/// `/proc/PID/stat` counts ticks of 10 ms.
pub fn cpu_time(pid: u32) -> Result<Duration> {
    let clock = ClockId::pid_cpu_clock_id(as_pid(pid));
    let now = clock.and_then(clock_gettime).tried(|| format!("reading the CPU clock of process {pid}"))?;
    Ok(now.into())
}

/// What a process has used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// CPU time, all threads and those that ended.
    pub cpu: Duration,
    /// Ticks in user mode and in the kernel: only their proportion is of use.
    pub ticks: (u64, u64),
    /// Context switches, voluntary and not, of the threads there are.
    pub switches: u64,
}

impl Usage {
    /// Of a process, until now.
    pub fn now(pid: u32) -> Result<Usage> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        Ok(Usage { cpu: cpu_time(pid)?, ticks: ticks_of(&stat), switches: switches(pid) })
    }

    /// What was used since `before`.
    pub fn since(&self, before: &Usage) -> Usage {
        let ticks = |of: fn(&Usage) -> u64| of(self).saturating_sub(of(before));
        Usage {
            cpu: self.cpu.saturating_sub(before.cpu),
            ticks: (ticks(|u| u.ticks.0), ticks(|u| u.ticks.1)),
            switches: self.switches.saturating_sub(before.switches),
        }
    }

    /// CPU time in user mode and in the kernel, in seconds.
    #[allow(clippy::cast_precision_loss)] // a proportion
    pub fn cpu_split(&self) -> (f64, f64) {
        let (all, user, system) = (self.cpu.as_secs_f64(), self.ticks.0 as f64, self.ticks.1 as f64);
        let share = if user + system > 0.0 { system / (user + system) } else { 0.0 };
        (all * (1.0 - share), all * share)
    }
}

/// Page faults of a process so far, all threads and those that ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// For which nothing was read.
    pub minor: u64,
    /// For which something was.
    pub major: u64,
}

impl Faults {
    /// Of a process, until now; `None` if it cannot be seen.
    pub fn now(pid: u32) -> Option<Faults> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        Some(Faults { minor: field_of(&stat, 10), major: field_of(&stat, 12) })
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, more: Usage) {
        self.cpu += more.cpu;
        self.ticks.0 += more.ticks.0;
        self.ticks.1 += more.ticks.1;
        self.switches += more.switches;
    }
}

/// `utime` and `stime`, the 14th and 15th field.
fn ticks_of(stat: &str) -> (u64, u64) {
    (field_of(stat, 14), field_of(stat, 15))
}

/// A field of `/proc/PID/stat`, from the third; the second is a name in parentheses and may hold anything.
fn field_of(stat: &str, number: usize) -> u64 {
    let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    rest.split_whitespace().nth(number - 3).and_then(|field| field.parse().ok()).unwrap_or(0)
}

fn switches(pid: u32) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    tasks.map(|task| switches_of(&fs::read_to_string(task.path().join("status")).unwrap_or_default())).sum()
}

fn switches_of(status: &str) -> u64 {
    let lines = status.lines().filter_map(|l| l.split_once("ctxt_switches:"));
    lines.filter_map(|(_, count)| count.trim().parse::<u64>().ok()).sum()
}

/// Resident memory of a process in bytes (`VmRSS`).
pub fn resident(pid: u32) -> Result<u64> {
    let path = format!("/proc/{pid}/status");
    let status = fs::read_to_string(&path).tried(|| format!("reading {path}"))?;
    resident_of(&status).ok_or_else(|| Error::Io {
        what: format!("reading {path}"),
        source: std::io::Error::other("it has no VmRSS line"),
    })
}

fn resident_of(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

pub(crate) fn as_pid(pid: u32) -> Pid {
    // The kernel's pids fit: pid_max is at most 2^22.
    Pid::from_raw(pid.cast_signed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_memory_is_read_in_bytes() {
        assert_eq!(resident_of("Name:\tx\nVmRSS:\t     123 kB\nThreads:\t1\n"), Some(123 * 1024));
        assert_eq!(resident_of("Name:\tx\n"), None);
    }

    #[test]
    fn ticks_and_switches_are_read_from_proc() {
        assert_eq!(ticks_of("7 (a ) b) S 1 2 3 4 5 6 7 8 9 10 141 151 0"), (141, 151));
        assert_eq!(switches_of("x:\t1\nvoluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t2\n"), 7);
        let usage = Usage::now(std::process::id()).expect("ours");
        assert!(usage.cpu > Duration::ZERO && usage.switches > 0, "{usage:?}");
    }

    #[test]
    fn the_proportion_of_ticks_divides_the_clocks_time() {
        let at = |seconds, user, system| Usage {
            cpu: Duration::from_secs(seconds),
            ticks: (user, system),
            switches: 0,
        };
        assert_eq!(at(12, 400, 200).since(&at(10, 250, 150)).cpu_split(), (1.5, 0.5));
        assert_eq!(at(10, 0, 0).since(&at(10, 0, 0)).cpu_split(), (0.0, 0.0));
        let mut sum = at(1, 2, 3);
        sum += at(10, 20, 30);
        assert_eq!(sum, at(11, 22, 33));
    }

    #[test]
    fn the_cpu_clock_of_a_process_counts_its_work_only() {
        let mut idle = std::process::Command::new("sleep").arg("60").spawn().expect("sleep");
        let mine = std::process::id();
        let (own, other) = (cpu_time(mine).expect("own"), cpu_time(idle.id()).expect("other"));
        let mut sum = 0u64;
        while cpu_time(mine).expect("own") - own < Duration::from_millis(20) {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        let grown = cpu_time(idle.id()).expect("other") - other;
        idle.kill().and_then(|()| idle.wait()).expect("ends");
        assert!(grown < Duration::from_millis(20), "a sleeping process used {grown:?}");
    }

    #[test]
    fn a_process_that_is_gone_is_an_error() {
        let mut child = std::process::Command::new("true").spawn().expect("true");
        child.wait().expect("ends");
        assert!(cpu_time(child.id()).is_err());
    }
}
