//! CPU time and memory of the exporter's own process, under the names that all exporters use.

use std::fs;

use super::sample::{Family, Figure, Samples};

static CPU: Family =
    Family::counter("process_cpu_seconds_total", "Total user and system CPU time spent in seconds.");
static RESIDENT: Family = Family::gauge("process_resident_memory_bytes", "Resident memory size in bytes.");
static OPEN: Family = Family::gauge("process_open_fds", "Number of open file descriptors.");

/// Ticks per second in `/proc`, the same on every machine.
const TICKS: f64 = 100.0;
const KIB: u64 = 1024;

/// Adds the data of `/proc` about this process; unknown values are left out.
pub(super) fn add_to(samples: &mut Samples) {
    if let Some(ticks) = cpu_ticks() {
        samples.add(&CPU, &[], Figure::Real(ticks / TICKS));
    }
    if let Some(bytes) = resident_bytes() {
        samples.add(&RESIDENT, &[], bytes);
    }
    if let Ok(files) = fs::read_dir("/proc/self/fd") {
        samples.add(&OPEN, &[], files.count() as u64);
    }
}

fn cpu_ticks() -> Option<f64> {
    let text = fs::read_to_string("/proc/self/stat").ok()?;
    // The name in parentheses may contain anything; user and system time are the 12th and 13th field after
    // it.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace().skip(11);
    Some(fields.next()?.parse::<f64>().ok()? + fields.next()?.parse::<f64>().ok()?)
}

fn resident_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * KIB)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_takes_time_and_memory() {
        assert!(cpu_ticks().is_some() && resident_bytes().is_some_and(|bytes| bytes > KIB));
    }
}
