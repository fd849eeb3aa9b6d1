//! Hardware counters of a process, instructions and misses, read by `perf stat`. Virtual machines often have
//! none.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use tare_server::process::as_pid;
use tare_server::program::find_program;

/// The requested events: `perf`'s name, and the name in records.
const EVENTS: [(&str, &str); 4] = [
    ("instructions", "instructions"),
    ("cycles", "cycles"),
    ("cache-misses", "cache_misses"),
    ("branch-misses", "branch_misses"),
];

/// Values by counter.
pub(crate) type CounterValues = BTreeMap<&'static str, f64>;

/// Access to the processor's counters.
#[derive(Clone, Debug)]
pub(crate) struct Counters {
    perf: PathBuf,
    folder: PathBuf,
}

/// A count in progress.
#[derive(Debug)]
pub(crate) struct Counting {
    child: Child,
    file: PathBuf,
}

impl Counters {
    /// Returns access to this machine's counters, or the reason why there are none. Temporary files go into
    /// `folder`.
    pub(crate) fn find(folder: &Path) -> Result<Counters, String> {
        let perf = find_program("perf", &[])
            .ok_or("`perf` was not found; on Debian, `apt-get install linux-perf` brings it")?;
        let counters = Counters { perf, folder: folder.into() };
        let file = folder.join("perf.counters.try");
        let tried = counters.command(&file).args(["--", "true"]).output();
        let tried = tried.map_err(|error| format!("`perf stat` does not start: {error}"))?;
        let said = fs::read_to_string(&file).unwrap_or_default();
        if counted(&said).is_empty() {
            return Err(why_not(&said, &String::from_utf8_lossy(&tried.stderr)));
        }
        Ok(counters)
    }

    /// Starts to count all threads of a process; `None` if that fails.
    pub(crate) fn start(&self, pid: u32) -> Option<Counting> {
        let file = self.folder.join("perf.counters");
        let mut command = self.command(&file);
        command.arg("-p").arg(pid.to_string()).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Some(Counting { child: command.spawn().ok()?, file })
    }

    fn command(&self, file: &Path) -> Command {
        let events: Vec<&str> = EVENTS.iter().map(|(event, _)| *event).collect();
        let mut command = Command::new(&self.perf);
        command.args(["stat", "-x", ";", "-e", &events.join(","), "-o"]).arg(file);
        command
    }
}

impl Counting {
    /// Ends the count and returns its values.
    pub(crate) fn finish(mut self) -> CounterValues {
        // On this signal `perf` writes its counts and ends.
        let _ = kill(as_pid(self.child.id()), Signal::SIGINT);
        let _ = self.child.wait();
        counted(&fs::read_to_string(&self.file).unwrap_or_default())
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        // Both fail once it has ended, which is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Parses lines such as `123456;;instructions;1000;100.00;;`, without those that say `<not supported>`. A
/// name may end in `:u`.
fn counted(said: &str) -> CounterValues {
    let fields = said.lines().map(|line| line.split(';').collect::<Vec<_>>());
    let known = fields.filter_map(|fields| {
        let event = fields.get(2)?.split(':').next()?;
        let name = EVENTS.iter().find(|(known, _)| *known == event)?.1;
        Some((name, fields.first()?.parse().ok()?))
    });
    known.collect()
}

/// Returns the reason why nothing was counted.
fn why_not(said: &str, complained: &str) -> String {
    if said.contains("<not supported>") {
        return "the processor shows none, as in many virtual machines (`perf stat` says <not supported>)"
            .into();
    }
    let line = complained.lines().find(|line| !line.trim().is_empty()).unwrap_or("it counted nothing");
    format!(
        "`perf stat` may not count here ({}); /proc/sys/kernel/perf_event_paranoid says who may",
        line.trim()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: &str = "# started on Mon Nov 23 10:15:02 2026\n\n<not supported>;;instructions;0;100.00;;\n\
                        <not supported>;;cycles;0;100.00;;\n<not counted>;;cache-misses;0;0.00;;\n";

    #[test]
    fn counters_are_read_and_those_that_are_not_there_left_out() {
        let said = "# started on x\n\n1200000;;instructions:u;5;100.00;1.50;insn per cycle\n800000;;cycles:u;5;100.00;;\n\
                    <not supported>;;cache-misses;0;100.00;;\n48;;page-faults;5;100.00;;\n";
        assert_eq!(counted(said), BTreeMap::from([("instructions", 1.2e6), ("cycles", 8e5)]));
        assert_eq!(counted(NONE), BTreeMap::new());
        assert_eq!(counted(""), BTreeMap::new());
    }

    #[test]
    fn it_is_said_why_there_are_none() {
        assert!(why_not(NONE, "").contains("virtual machines"));
        let refused = why_not("", "\nError: Access to performance monitoring is limited.\nmore\n");
        assert!(
            refused.contains("monitoring is limited") && refused.contains("perf_event_paranoid"),
            "{refused}"
        );
    }

    /// Works on any machine.
    #[test]
    fn a_machine_has_counters_or_says_why_not() {
        let folder = tempfile::tempdir().expect("a folder");
        match Counters::find(folder.path()) {
            Ok(counters) => {
                let counting = counters.start(std::process::id()).expect("perf starts");
                std::thread::sleep(std::time::Duration::from_millis(300));
                let counted = counting.finish();
                assert!(counted.values().all(|count| *count >= 0.0), "{counted:?}");
            }
            Err(why) => assert!(why.contains("perf"), "{why}"),
        }
    }
}
