//! CPU time and memory of the exporter's own process, under the names that all exporters use.

use procfs::process::Process;

use super::sample::{MetricDescription, MetricNumber, Samples};

static CPU: MetricDescription = MetricDescription::counter(
    "process_cpu_seconds_total",
    "Total user and system CPU time spent in seconds.",
);
static RESIDENT: MetricDescription =
    MetricDescription::gauge("process_resident_memory_bytes", "Resident memory size in bytes.");
static OPEN: MetricDescription =
    MetricDescription::gauge("process_open_fds", "Number of open file descriptors.");

/// Ticks per second in `/proc`, the same on every machine.
const TICKS: f64 = 100.0;
const KIB: u64 = 1024;

/// Adds the data of `/proc` about this process; unknown values are left out.
pub(super) fn add_to(samples: &mut Samples) {
    let Ok(process) = Process::myself() else { return };
    if let Ok(stat) = process.stat() {
        #[allow(clippy::cast_precision_loss)] // centuries of ticks
        samples.add(&CPU, &[], MetricNumber::Real((stat.utime + stat.stime) as f64 / TICKS));
    }
    if let Some(kib) = process.status().ok().and_then(|status| status.vmrss) {
        samples.add(&RESIDENT, &[], kib * KIB);
    }
    if let Ok(files) = process.fd_count() {
        samples.add(&OPEN, &[], files as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_takes_time_and_memory_and_has_files_open() {
        let mut samples = Samples::default();
        add_to(&mut samples);
        assert_eq!(samples.families(), 3);
    }
}
