//! The kernel's data about processes: CPU time, memory, threads, mapped files.

use std::collections::BTreeMap;
use std::io;
use std::ops::AddAssign;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use nix::unistd::{Pid, getpgid};
use procfs::ProcError;
use procfs::process::{MMapPath, Process, Stat};

use crate::Result;
use crate::error::{Error, Tried};

/// A tick of `/proc/PID/stat`, in milliseconds; the same on every architecture.
const TICK: u64 = 10;

/// Opens a process's folder in `/proc`.
///
/// # Errors
/// When the process is gone.
pub fn open(pid: u32) -> Result<Process> {
    Process::new(pid.cast_signed()).map_err(|error| unread(pid, "", error))
}

/// Makes the error for a file in `/proc` that cannot be read.
fn unread(pid: u32, file: &str, error: ProcError) -> Error {
    let source = match error {
        ProcError::Io(source, _) => source,
        ProcError::NotFound(_) => io::ErrorKind::NotFound.into(),
        ProcError::PermissionDenied(_) => io::ErrorKind::PermissionDenied.into(),
        other => io::Error::other(other),
    };
    Error::Io { what: format!("reading /proc/{pid}/{file}"), source }
}

fn stat(pid: u32) -> Result<Stat> {
    open(pid)?.stat().map_err(|error| unread(pid, "stat", error))
}

/// Returns the CPU time of a process, user and system, including threads that ended.
///
/// It is read from the process's CPU clock (`clock_getcpuclockid`): the scheduler's run time in nanoseconds,
/// while `/proc/PID/stat` counts ticks of 10 ms.
pub fn cpu_time(pid: u32) -> Result<Duration> {
    let clock = ClockId::pid_cpu_clock_id(as_pid(pid));
    let now = clock.and_then(clock_gettime).tried(|| format!("reading the CPU clock of process {pid}"))?;
    Ok(now.into())
}

/// Returns the CPU time of the calling thread.
pub fn thread_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

/// The resources that a process has used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// CPU time, including threads that ended.
    pub cpu: Duration,
    /// Ticks in user mode and in the kernel, of which only the proportion is used.
    pub ticks: (u64, u64),
    /// Context switches of the living threads, voluntary and not.
    pub switches: u64,
}

impl Usage {
    /// Reads the usage of a process until now.
    pub fn now(pid: u32) -> Result<Usage> {
        let ticks = stat(pid).map_or((0, 0), |stat| (stat.utime, stat.stime));
        Ok(Usage { cpu: cpu_time(pid)?, ticks, switches: switches(pid) })
    }

    /// Returns the usage since `before`.
    pub fn since(&self, before: &Usage) -> Usage {
        let ticks = |of: fn(&Usage) -> u64| of(self).saturating_sub(of(before));
        Usage {
            cpu: self.cpu.saturating_sub(before.cpu),
            ticks: (ticks(|u| u.ticks.0), ticks(|u| u.ticks.1)),
            switches: self.switches.saturating_sub(before.switches),
        }
    }

    /// Returns the CPU time in user mode and in the kernel, in seconds.
    #[allow(clippy::cast_precision_loss)] // a proportion
    pub fn cpu_split(&self) -> (f64, f64) {
        let (all, user, system) = (self.cpu.as_secs_f64(), self.ticks.0 as f64, self.ticks.1 as f64);
        let share = if user + system > 0.0 { system / (user + system) } else { 0.0 };
        (all * (1.0 - share), all * share)
    }
}

/// Page faults of a process so far, including threads that ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Faults without I/O.
    pub minor: u64,
    /// Faults with I/O.
    pub major: u64,
}

impl Faults {
    /// Reads the faults of a process until now; `None` if it cannot be seen.
    pub fn now(pid: u32) -> Option<Faults> {
        let stat = stat(pid).ok()?;
        Some(Faults { minor: stat.minflt, major: stat.majflt })
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

/// Returns the context switches of the living threads.
fn switches(pid: u32) -> u64 {
    let tasks = open(pid).ok().and_then(|process| process.tasks().ok()).into_iter().flatten();
    let statuses = tasks.filter_map(|task| task.ok()?.status().ok());
    let counts = statuses.flat_map(|it| [it.voluntary_ctxt_switches, it.nonvoluntary_ctxt_switches]);
    counts.flatten().sum()
}

/// Returns the resident memory of a process in bytes (`VmRSS`).
///
/// # Errors
/// When the process is gone, or has no memory of its own as a thread of the kernel.
pub fn resident(pid: u32) -> Result<u64> {
    let status = open(pid)?.status().map_err(|error| unread(pid, "status", error))?;
    let none = || Error::Io {
        what: format!("reading /proc/{pid}/status"),
        source: io::Error::other("it has no VmRSS line"),
    };
    status.vmrss.map(|kib| kib * 1024).ok_or_else(none)
}

/// Returns the kernel's numbers of a process's threads whose names, of at most 15 bytes, start with `begin`.
///
/// # Errors
/// When the process is gone.
pub fn threads_named(pid: u32, begin: &str) -> Result<Vec<u32>> {
    let tasks = open(pid)?.tasks().map_err(|error| unread(pid, "task", error))?;
    // A thread that cannot be read has just ended.
    let named = tasks.filter_map(|task| {
        let task = task.ok()?;
        task.stat().ok()?.comm.starts_with(begin).then(|| task.tid.cast_unsigned())
    });
    Ok(named.collect())
}

/// Returns whether a process has threads whose names start with `begin`, and none of them runs or wants to.
///
/// # Errors
/// When the process is gone.
pub fn are_asleep(pid: u32, begin: &str) -> Result<bool> {
    let tasks = open(pid)?.tasks().map_err(|error| unread(pid, "task", error))?;
    let stats = tasks.filter_map(|task| task.ok()?.stat().ok());
    let states: Vec<char> =
        stats.filter(|stat| stat.comm.starts_with(begin)).map(|stat| stat.state).collect();
    Ok(!states.is_empty() && states.iter().all(|state| *state == 'S'))
}

/// Returns the CPU time of a thread of a process, as the scheduler counts it; `None` if it is gone.
pub fn thread_cpu_time(pid: u32, thread: u32) -> Option<Duration> {
    let task = open(pid).ok()?.task_from_tid(thread.cast_signed()).ok()?;
    Some(Duration::from_nanos(task.schedstat().ok()?.sum_exec_runtime))
}

/// Returns the paths of a process's mapped files that contain `part`.
///
/// # Errors
/// When the process is gone.
pub fn maps(pid: u32, part: &str) -> Result<Vec<String>> {
    let maps = open(pid)?.maps().map_err(|error| unread(pid, "maps", error))?;
    let files = maps.into_iter().filter_map(|map| match map.pathname {
        MMapPath::Path(path) => Some(path.to_string_lossy().into_owned()),
        _ => None,
    });
    let mut files: Vec<String> = files.filter(|file| file.contains(part)).collect();
    files.dedup();
    Ok(files)
}

/// CPU time of a process group, including its processes that ended.
///
/// A process that ended counts up to the last reading. If another process of the group waited for it, it
/// counts completely, in ticks of 10 ms: a shell is charged with the programs it runs.
#[derive(Debug, Default)]
pub struct GroupTime {
    /// CPU time of each process at the last reading.
    last: BTreeMap<u32, Worked>,
    sum: Duration,
}

/// CPU time of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Worked {
    own: Duration,
    /// CPU time of ended children that it waited for.
    waited_for: Duration,
}

impl GroupTime {
    /// Returns the group's time until now; `processes` are its living ones.
    pub fn until_now(&mut self, processes: &[u32]) -> Duration {
        self.look(processes.iter().filter_map(|&pid| Some((pid, Worked::of(pid)?))).collect());
        self.sum
    }

    fn look(&mut self, now: BTreeMap<u32, Worked>) {
        let (mut own, mut waited_for) = (Duration::ZERO, Duration::ZERO);
        for (pid, worked) in &now {
            let before = self.last.remove(pid).unwrap_or_default();
            own += worked.own.saturating_sub(before.own);
            waited_for += worked.waited_for.saturating_sub(before.waited_for);
        }
        // The remaining ones have ended. Those that were waited for are counted again in the parent's time.
        let seen: Duration = self.last.values().map(|ended| ended.own + ended.waited_for).sum();
        self.sum += own + waited_for.saturating_sub(seen);
        self.last = now;
    }
}

impl Worked {
    /// Reads the time until now; `None` if the process is gone.
    fn of(pid: u32) -> Option<Worked> {
        let own = cpu_time(pid).ok()?;
        let ticks = stat(pid).map_or(0, |stat| stat.cutime + stat.cstime);
        Some(Worked { own, waited_for: Duration::from_millis(ticks.unsigned_abs() * TICK) })
    }
}

/// Returns the processes of a group, which is named by its first process.
#[must_use]
pub fn of_group(group: u32) -> Vec<u32> {
    let is_member = |pid: &u32| getpgid(Some(as_pid(*pid))) == Ok(as_pid(group));
    all().filter(is_member).collect()
}

/// Returns the processes that are visible from here.
pub fn all() -> impl Iterator<Item = u32> {
    let processes = procfs::process::all_processes().into_iter().flatten();
    processes.filter_map(|process| Some(process.ok()?.pid().cast_unsigned()))
}

/// Returns a process id as the system's calls take it.
#[must_use]
pub fn as_pid(pid: u32) -> Pid {
    // The kernel's pids fit: pid_max is at most 2^22.
    Pid::from_raw(pid.cast_signed())
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;

    use nix::sys::signal::{Signal, killpg};

    use super::*;

    #[test]
    fn a_process_has_memory_switches_threads_and_files() {
        let own = std::process::id();
        assert!(resident(own).expect("ours") > 1024);
        let usage = Usage::now(own).expect("ours");
        assert!(usage.cpu > Duration::ZERO && usage.switches > 0, "{usage:?}");
        assert!(Faults::now(own).is_some_and(|faults| faults.minor > 0));
        assert!(maps(own, "libc.so").expect("ours").iter().all(|file| file.starts_with('/')));
        let (tell, told) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::Builder::new().name("named-here".into()).spawn(move || told.recv());
        let named = crate::eventually("the thread's name", Duration::from_secs(60), || {
            threads_named(own, "named-").expect("ours").first().copied()
        });
        assert!(thread_cpu_time(own, named).is_some() && named != own);
        crate::eventually("it waits", Duration::from_secs(60), || are_asleep(own, "named-").expect("ours"));
        assert!(!are_asleep(own, "nobody").expect("ours"), "there is no such thread");
        drop(tell);
        assert!(thread.expect("a thread").join().expect("it ends").is_err());
        assert_eq!(thread_cpu_time(own, u32::MAX >> 2), None);
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
    fn what_ended_in_a_group_counts_once_and_goes_on_to_count() {
        let worked = |own, waited_for| Worked {
            own: Duration::from_millis(own),
            waited_for: Duration::from_millis(waited_for),
        };
        let mut time = GroupTime::default();
        let mut sum_after = |now: &[(u32, Worked)]| {
            time.look(now.iter().copied().collect());
            time.sum.as_millis()
        };
        assert_eq!(sum_after(&[(1, worked(5, 0)), (2, worked(30, 0))]), 35);
        assert_eq!(sum_after(&[(1, worked(6, 0))]), 36, "nobody waited for the second");
        assert_eq!(sum_after(&[(1, worked(6, 20))]), 56, "one came and ended unseen");
        assert_eq!(sum_after(&[(1, worked(6, 20)), (4, worked(15, 0))]), 71);
        assert_eq!(
            sum_after(&[(1, worked(7, 40))]),
            77,
            "the fourth was seen, worked on, and was waited for"
        );
    }

    #[test]
    fn a_group_is_who_was_made_for_it_and_what_it_starts() {
        let mut command = std::process::Command::new("sh");
        command.args(["-c", "sleep 600 & wait"]).process_group(0);
        let mut shell = command.spawn().expect("a shell");
        let group = loop {
            let group = of_group(shell.id());
            if group.len() > 1 {
                break group;
            }
            assert!(shell.try_wait().expect("its state").is_none(), "it ended");
        };
        killpg(as_pid(shell.id()), Signal::SIGKILL).expect("it is there");
        shell.wait().expect("it ends");
        assert!(group.len() == 2 && group.contains(&shell.id()), "{group:?}");
        assert!(!group.contains(&std::process::id()), "{group:?}");
    }

    #[test]
    fn a_process_that_is_gone_is_an_error() {
        let mut child = std::process::Command::new("true").spawn().expect("true");
        child.wait().expect("ends");
        assert!(cpu_time(child.id()).is_err());
    }
}
