//! What the operating system says about another process: CPU time and resident memory.

use std::fs;
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
