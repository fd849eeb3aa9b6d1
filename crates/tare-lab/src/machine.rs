//! The machine that a study runs on, and how much of it other processes use.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use procfs::{CpuInfo, CpuTime, Current, CurrentSI, KernelStats, Meminfo};

use crate::Result;
use crate::process::interrupt::Interrupt;
use crate::results::record::{Machine, Others};

/// How long other processes are observed before a study starts.
const WATCHED: Duration = Duration::from_secs(1);
/// Longest observation at a high load average, which may come from something that just ended, or from bursts.
const WATCHED_AFTER_LOAD: Duration = Duration::from_secs(10);
/// Longest observation as a share of the study's time.
const WATCHED_OF_STUDY: f64 = 0.01;
/// Share of all processors' time above which a warning is given.
const MOST_BUSY: f64 = 0.1;
pub(crate) const MOST_STOLEN: f64 = 0.02;
/// Load average per processor above which it is high.
const MOST_LOAD: f64 = 2.0;
/// The kernel's list of mitigations.
const VULNERABILITIES: &str = "/sys/devices/system/cpu/vulnerabilities";

/// Reads the facts about this machine from `/proc` and `/sys`; unknown ones stay empty.
pub fn facts() -> Machine {
    let processors = CpuInfo::current().ok();
    let processors = processors.as_ref();
    let model = processors.and_then(|it| it.model_name(0)).unwrap_or_default();
    let system = read("/etc/os-release")
        .lines()
        .find_map(|l| Some(l.strip_prefix("PRETTY_NAME=")?.trim_matches('"').to_owned()));
    let guest = processors.and_then(|it| it.flags(0)).is_some_and(|flags| flags.contains(&"hypervisor"));
    let product = read("/sys/class/dmi/id/product_name").trim().to_owned();
    Machine {
        cpu_model: model.to_owned(),
        cpus: cpus(),
        memory_bytes: Meminfo::current().map_or(0, |it| it.mem_total),
        kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        system: system.unwrap_or_default(),
        hypervisor: guest.then(|| if product.is_empty() { "unknown".into() } else { product }),
        clock_mhz: processors.map_or(0.0, clock),
        governor: Some(read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").trim().to_owned())
            .filter(|governor| !governor.is_empty()),
        vulnerabilities: vulnerabilities(Path::new(VULNERABILITIES)),
        others: Others::default(),
    }
}

fn cpus() -> u32 {
    std::thread::available_parallelism().map_or(0, |n| u32::try_from(n.get()).unwrap_or(0))
}

/// Returns the mean frequency of all processors, in MHz.
#[allow(clippy::cast_precision_loss)] // few
fn clock(processors: &CpuInfo) -> f64 {
    let of = |processor| processors.get_field(processor, "cpu MHz")?.parse().ok();
    let clocks: Vec<f64> = (0..processors.num_cores()).filter_map(of).collect();
    if clocks.is_empty() { 0.0 } else { clocks.iter().sum::<f64>() / clocks.len() as f64 }
}

/// Returns the state of each vulnerability, by name.
fn vulnerabilities(folder: &Path) -> BTreeMap<String, String> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let of = |file: fs::DirEntry| {
        let text = fs::read_to_string(file.path()).ok()?;
        Some((file.file_name().to_str()?.to_owned(), text.trim().to_owned()))
    };
    files.filter_map(of).collect()
}

impl Machine {
    /// Describes the kernel's mitigations by state: `mitigated: a, b; vulnerable: c; not affected by 9`.
    /// Empty where nothing is known.
    pub fn mitigations(&self) -> String {
        let with = |start: &str| {
            let names = self.vulnerabilities.iter().filter(|(_, state)| state.starts_with(start));
            names.map(|(name, _)| name.as_str()).collect::<Vec<_>>()
        };
        let (mitigated, open, not) = (with("Mitigation"), with("Vulnerable"), with("Not affected"));
        let known = |name: &&String| [&mitigated, &open, &not].iter().all(|l| !l.contains(&name.as_str()));
        let other: Vec<&str> = self.vulnerabilities.keys().filter(known).map(String::as_str).collect();
        let mut said = vec![];
        for (word, names) in [("mitigated", mitigated), ("vulnerable", open), ("unknown", other)] {
            if !names.is_empty() {
                said.push(format!("{word}: {}", names.join(", ")));
            }
        }
        if !not.is_empty() {
            said.push(format!("not affected by {}", not.len()));
        }
        said.join("; ")
    }
}

/// Observes other processes while the lab is idle, before a study of so many minutes.
pub fn others(minutes: f64, interrupt: &Interrupt) -> Result<Others> {
    let (load, cpus, before) = (load(), cpus(), Ticks::now());
    interrupt.sleep(watched(is_high(load, cpus), minutes))?;
    let now = Ticks::now();
    Ok(Others { load, busy: now.busy_since(before), steal: now.stolen_since(before), cpus })
}

/// Returns how long to observe.
fn watched(is_high: bool, minutes: f64) -> Duration {
    if !is_high {
        return WATCHED;
    }
    Duration::try_from_secs_f64(minutes * 60.0 * WATCHED_OF_STUDY)
        .unwrap_or(WATCHED_AFTER_LOAD)
        .clamp(WATCHED, WATCHED_AFTER_LOAD)
}

fn is_high(load: f64, cpus: u32) -> bool {
    load > MOST_LOAD * f64::from(cpus)
}

impl Others {
    /// Returns a warning if the machine is busy with other work; `None` otherwise. A load average alone is no
    /// reason: it covers minutes, and what has ended uses nothing.
    pub fn warning(&self) -> Option<String> {
        let percent = |share: f64| format!("{:.0}%", share * 100.0);
        let processors = if self.cpus == 1 { "processor" } else { "processors" };
        let mut seen = vec![];
        if self.busy > MOST_BUSY {
            seen.push(format!("other processes take {} of its processors' time", percent(self.busy)));
        }
        if self.steal > MOST_STOLEN {
            seen.push(format!("its hypervisor gives {} of it to others", percent(self.steal)));
        }
        if !seen.is_empty() && is_high(self.load, self.cpus) {
            seen.push(format!("its load average is {:.1} on {} {processors}", self.load, self.cpus));
        }
        (!seen.is_empty()).then(|| {
            format!(
                "Warning: this machine is busy: {}. Measure on one at rest; here intervals get wide, and what others do in \
                 bursts may look like a setting's cost.",
                seen.join(", ")
            )
        })
    }
}

/// Time of all processors so far in ticks, with the idle part and the part that the hypervisor gave to
/// others.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ticks {
    all: u64,
    idle: u64,
    steal: u64,
}

impl Ticks {
    /// Reads the time until now.
    pub fn now() -> Ticks {
        KernelStats::current().map_or_else(|_| Ticks::default(), |stats| ticks_of(&stats.total))
    }

    /// Returns the share of the time since `before` that the hypervisor gave to others.
    pub fn stolen_since(self, before: Ticks) -> f64 {
        self.share(before, self.steal.saturating_sub(before.steal))
    }

    /// Returns the share of the time since `before` in which processes of this machine ran.
    pub fn busy_since(self, before: Ticks) -> f64 {
        let all = self.all.saturating_sub(before.all);
        let not = self.idle.saturating_sub(before.idle) + self.steal.saturating_sub(before.steal);
        self.share(before, all.saturating_sub(not))
    }

    #[allow(clippy::cast_precision_loss)] // a share
    fn share(self, before: Ticks, part: u64) -> f64 {
        let all = self.all.saturating_sub(before.all);
        if all == 0 { 0.0 } else { part as f64 / all as f64 }
    }
}

fn ticks_of(time: &CpuTime) -> Ticks {
    let [waiting, irq, softirq, steal] =
        [time.iowait, time.irq, time.softirq, time.steal].map(Option::unwrap_or_default);
    // The time of guests is part of the first two.
    let busy = time.user + time.nice + time.system + irq + softirq;
    let idle = time.idle + waiting;
    Ticks { all: busy + idle + steal, idle, steal }
}

/// Returns the load average over one minute. Not through `procfs`, whose figure has 32 bits: 0.1 would be
/// recorded as 0.10000000149.
pub fn load() -> f64 {
    read("/proc/loadavg").split_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or(0.0)
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use procfs::FromBufRead;

    use super::*;

    #[test]
    fn this_machine_is_described() {
        let machine = facts();
        let now = Ticks::now();
        assert!(now.idle > 0 && now.all > now.idle, "{now:?}");
        assert!(machine.cpus > 0 && machine.memory_bytes > 0 && !machine.kernel.is_empty(), "{machine:?}");
    }

    #[test]
    fn steal_is_a_share_of_all_time() {
        let before = Ticks { all: 1000, idle: 700, steal: 100 };
        let after = Ticks { all: 2000, idle: 1300, steal: 300 };
        assert_eq!(after.stolen_since(before), 0.2);
        assert_eq!(after.busy_since(before), 0.2);
        assert_eq!((before.stolen_since(before), before.busy_since(before)), (0.0, 0.0));
    }

    #[test]
    fn after_a_load_it_is_watched_for_longer_before_a_long_study() {
        let seconds = |is_high, minutes| watched(is_high, minutes).as_secs_f64();
        assert_eq!([0.1, 5.0, 90.0, 1e9].map(|minutes| seconds(true, minutes)), [1.0, 3.0, 10.0, 10.0]);
        assert_eq!(seconds(false, 90.0), 1.0);
    }

    #[test]
    fn a_busy_machine_is_warned_of() {
        let rest = Others { load: 0.4, busy: 0.02, steal: 0.0, cpus: 2 };
        assert_eq!(rest.warning(), None);
        let said = Others { load: 45.0, busy: 0.87, steal: 0.05, cpus: 2 }.warning().expect("a warning");
        for words in ["take 87%", "gives 5%", "load average is 45.0 on 2 processors"] {
            assert!(said.contains(words), "{said}");
        }
        assert_eq!(Others { load: 45.0, ..rest }.warning(), None, "a load that has ended");
        let said = Others { steal: 0.05, ..rest }.warning().expect("a warning");
        assert!(!said.contains("load average") && said.contains("hypervisor"), "{said}");
    }

    #[test]
    fn the_clock_and_what_is_done_against_faults_are_told() {
        let processors = |text: &str| CpuInfo::from_buf_read(text.as_bytes()).expect("a list");
        let two = "processor\t: 0\ncpu MHz\t\t: 2000.0\n\nprocessor\t: 1\ncpu MHz\t\t: 3000.0\n\n";
        assert_eq!(clock(&processors(two)), 2500.0);
        assert_eq!(clock(&processors("processor\t: 0\n\n")), 0.0);
        let folder = tempfile::tempdir().expect("a folder");
        let states = [
            ("meltdown", "Not affected\n"),
            ("spectre_v2", "Mitigation: Retpolines; IBPB: conditional\n"),
            ("spec_store_bypass", "Vulnerable\n"),
            ("srbds", "Not affected\n"),
            ("mds", "Unknown: Dependent on hypervisor status\n"),
        ];
        for (name, state) in states {
            fs::write(folder.path().join(name), state).expect("written");
        }
        let machine = Machine { vulnerabilities: vulnerabilities(folder.path()), ..Machine::default() };
        let said = "mitigated: spectre_v2; vulnerable: spec_store_bypass; unknown: mds; not affected by 2";
        assert_eq!(machine.mitigations(), said);
    }
}
