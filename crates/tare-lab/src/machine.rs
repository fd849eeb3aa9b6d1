//! The machine a study runs on, and what others take of it.

use std::fs;

use crate::record::Machine;

/// What `/proc` and `/sys` say of this machine; what they do not say stays empty.
pub fn facts() -> Machine {
    let cpuinfo = read("/proc/cpuinfo");
    let field = |name: &str| {
        let line = cpuinfo.lines().find(|l| l.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let cpus = std::thread::available_parallelism().map_or(0, |n| u32::try_from(n.get()).unwrap_or(0));
    let memory = read("/proc/meminfo").lines().find_map(|l| kib(l.strip_prefix("MemTotal:")?));
    let system = read("/etc/os-release")
        .lines()
        .find_map(|l| Some(l.strip_prefix("PRETTY_NAME=")?.trim_matches('"').to_owned()));
    let guest = cpuinfo.lines().any(|l| l.starts_with("flags") && l.contains(" hypervisor"));
    let product = read("/sys/class/dmi/id/product_name").trim().to_owned();
    Machine {
        cpu_model: field("model name").unwrap_or_default(),
        cpus,
        memory_bytes: memory.unwrap_or(0),
        kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        system: system.unwrap_or_default(),
        hypervisor: guest.then(|| if product.is_empty() { "unknown".into() } else { product }),
    }
}

/// Time of all processors so far, and how much of it the hypervisor gave to others, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ticks {
    all: u64,
    steal: u64,
}

impl Ticks {
    /// Until now.
    pub fn now() -> Ticks {
        ticks_of(&read("/proc/stat"))
    }

    /// Share of the time since `before` that was given to others.
    #[allow(clippy::cast_precision_loss)] // a share
    pub fn stolen_since(self, before: Ticks) -> f64 {
        let all = self.all.saturating_sub(before.all);
        if all == 0 { 0.0 } else { self.steal.saturating_sub(before.steal) as f64 / all as f64 }
    }
}

fn ticks_of(stat: &str) -> Ticks {
    let first = stat.lines().next().unwrap_or("");
    // user nice system idle iowait irq softirq steal; what follows is part of the first two.
    let ticks: Vec<u64> = first.split_whitespace().skip(1).take(8).filter_map(|t| t.parse().ok()).collect();
    Ticks { all: ticks.iter().sum(), steal: ticks.get(7).copied().unwrap_or(0) }
}

/// The load average over a minute.
pub fn load() -> f64 {
    read("/proc/loadavg").split_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or(0.0)
}

fn kib(text: &str) -> Option<u64> {
    Some(text.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_described() {
        let machine = facts();
        assert!(machine.cpus > 0 && machine.memory_bytes > 0 && !machine.kernel.is_empty(), "{machine:?}");
    }

    #[test]
    fn steal_is_a_share_of_all_time() {
        let before = ticks_of("cpu  100 0 100 700 0 0 0 100 0 0\n");
        let after = ticks_of("cpu  200 0 200 1300 0 0 0 300 0 0\n");
        assert_eq!(after.stolen_since(before), 0.2);
        assert_eq!(before.stolen_since(before), 0.0);
    }
}
