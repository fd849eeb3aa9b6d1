//! The active session history of this server: the thread that samples, the options `ash-interval`,
//! `ash-budget` and `ash-memory`, and the rows of `tare_status` about it.
//!
//! The engine says what threads are doing, and keeps the records ([`Engine::sample_active`]). Here is when
//! that is done, and what the kernel says.
//!
//! [`Engine::sample_active`]: tare_engine::Engine::sample_active

mod pace;
mod scheduler;
#[cfg(test)]
mod sleeper;
mod thread_files;

use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use tare_engine::Sampler;
use tare_engine::snapshot::WaitClass;
use tare_tables::TableError;

use crate::options::{Options, show_interval};
use crate::process::{ENGINE, clock, guarded, spawn};

use pace::Pace;
use scheduler::Kernel;

/// The row of `tare_status` that can be set.
const INTERVAL: &str = "ash_interval";

/// What the sampler is told, and what it tells.
struct Shared {
    /// The interval that was asked for.
    interval: Duration,
    pace: Pace,
    is_ending: bool,
    /// Whether the thread runs.
    is_running: bool,
    /// CPU time of the thread since it began.
    cpu: Duration,
}

impl Shared {
    /// Returns the time from one sample to the next.
    fn used_interval(&self) -> Duration {
        self.pace.interval(self.interval)
    }
}

static SHARED: Mutex<Shared> = Mutex::new(Shared {
    interval: Duration::ZERO,
    pace: Pace::new(None),
    is_ending: false,
    is_running: false,
    cpu: Duration::ZERO,
});
/// Signals a change of [`SHARED`] to the sampler.
static CHANGED: Condvar = Condvar::new();

/// Name of the thread that samples.
const THREAD: &str = "tare-ash";

/// Locks what is shared. A panic leaves nothing half done there.
fn shared() -> MutexGuard<'static, Shared> {
    SHARED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reserves the memory and starts the thread that samples. That calls `before` before each sample.
pub fn begin(options: &Options, before: fn()) -> std::io::Result<()> {
    ENGINE.start_active_history(usize::try_from(options.ash_memory).unwrap_or(usize::MAX))?;
    {
        let mut shared = shared();
        shared.interval = told_by_tests().unwrap_or(options.ash_interval);
        shared.pace = Pace::new(options.ash_budget.map(|budget| budget.share()));
        shared.is_running = true;
    }
    let work = move || {
        let _told = guarded(THREAD, "the active session history is not sampled any more", || sample(before));
        shared().is_running = false;
    };
    let begun = spawn(THREAD, Box::new(work));
    shared().is_running &= begun.is_ok();
    begun
}

/// Stops sampling. The history stays as it is.
pub fn end() {
    shared().is_ending = true;
    CHANGED.notify_all();
}

/// Returns how often to sample in tests that need more samples than anybody may ask for: what the environment
/// variable `TARE_ASH_INTERVAL` says in microseconds. It is read only in builds with debug assertions.
fn told_by_tests() -> Option<Duration> {
    let told = || std::env::var("TARE_ASH_INTERVAL").ok()?.parse().ok().map(Duration::from_micros);
    if cfg!(debug_assertions) { told() } else { None }
}

/// Samples until the server ends.
fn sample(before: fn()) {
    let (mut kernel, mut sampler) = (Kernel::new(), Sampler::default());
    let mut due = Instant::now();
    while let Some(interval) = next(&mut due) {
        before();
        ENGINE.sample_active(&mut sampler, &mut kernel, interval);
        kernel.end_sample();
        let cpu = clock::thread();
        let mut shared = shared();
        let cost = cpu.saturating_sub(shared.cpu);
        shared.pace.took(cost);
        shared.cpu = cpu;
    }
}

/// Waits for the next sample. Returns the interval in force; `None`: the server ends.
fn next(due: &mut Instant) -> Option<Duration> {
    let mut shared = shared();
    let mut interval = shared.used_interval();
    *due += interval;
    loop {
        if shared.is_ending {
            return None;
        }
        if shared.used_interval() != interval {
            interval = shared.used_interval();
            *due = Instant::now() + interval;
        }
        let now = Instant::now();
        let left = due.saturating_duration_since(now);
        if left.is_zero() && !interval.is_zero() {
            // Samples that were missed are not made up for: they would all see the same.
            if now.duration_since(*due) > interval {
                *due = now;
            }
            return Some(interval);
        }
        // While it is off, somebody has to switch it on.
        let left = if interval.is_zero() { Duration::from_secs(3600) } else { left };
        shared = CHANGED.wait_timeout(shared, left).unwrap_or_else(PoisonError::into_inner).0;
    }
}

/// Returns the rows of `tare_status` about the history.
pub fn status_rows() -> Vec<(&'static str, String)> {
    let state = ENGINE.active_history_state();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let reach = |oldest| now.saturating_sub(Duration::from_micros(oldest)).as_secs();
    let (interval, used, is_running, cpu) = {
        let shared = shared();
        (shared.interval, shared.used_interval(), shared.is_running, shared.cpu)
    };
    let shown = |interval| if is_running { show_interval(interval) } else { "OFF: not running".to_owned() };
    let processors = std::thread::available_parallelism().map_or(0, usize::from);
    let mut rows = vec![
        ("processors", processors.to_string()),
        (INTERVAL, shown(interval)),
        ("ash_interval_used", shown(used)),
        ("ash_samples", state.samples.to_string()),
        ("ash_rows", state.rows.to_string()),
        ("ash_rows_max", state.capacity.to_string()),
        ("ash_reach", format!("{}s", state.oldest_us.map_or(0, reach))),
        ("ash_cpu", format!("{}us", cpu.as_micros())),
    ];
    rows.extend(TIME_ROWS.iter().zip(state.times_us).map(|(name, us)| (name.as_str(), us.to_string())));
    rows
}

/// The names of the rows of the time that sessions have spent, in the order of the classes.
static TIME_ROWS: LazyLock<[String; WaitClass::ALL.len()]> =
    LazyLock::new(|| WaitClass::ALL.map(WaitClass::time_row));

/// Sets the row of this name; `None`: there is none that can be set.
pub fn set(name: &str, value: &str) -> Option<Result<(), TableError>> {
    if name != INTERVAL {
        return None;
    }
    let mut options = Options::defaults();
    if options.set("ash-interval", value.trim()).is_err() {
        let (name, value) = (name.to_owned(), value.to_owned());
        let allowed = "it may be OFF, or a duration such as 100ms or 1s, from 10ms to 60s";
        return Some(Err(TableError::WrongValue { name, value, allowed }));
    }
    shared().interval = options.ash_interval;
    CHANGED.notify_all();
    Some(Ok(()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_set_as_the_option_is_and_counts_at_once() {
        shared().is_running = true;
        let shown = || status_rows().into_iter().find(|(row, _)| *row == INTERVAL).map(|(_, value)| value);
        assert!(set("ash_rows", "1").is_none());
        assert!(set(INTERVAL, "250ms").is_some_and(|set| set.is_ok()));
        assert_eq!(shown().as_deref(), Some("250ms"));
        for wrong in ["", "5ms", "61s", "often", "-1s"] {
            assert!(set(INTERVAL, wrong).is_some_and(|set| set.is_err()), "{wrong}");
        }
        assert_eq!(shown().as_deref(), Some("250ms"), "what is wrong changes nothing");
        assert!(set(INTERVAL, "off").is_some_and(|set| set.is_ok()));
        assert_eq!(shown().as_deref(), Some("OFF"));
        let waiter = std::thread::spawn(|| next(&mut Instant::now()));
        assert!(set(INTERVAL, "10ms").is_some_and(|set| set.is_ok()));
        assert_eq!(waiter.join().unwrap(), Some(Duration::from_millis(10)), "it was off, and is on");
        end();
        assert_eq!(next(&mut Instant::now()), None);
    }

    #[test]
    fn every_class_has_its_row() {
        let rows: Vec<&str> = status_rows().into_iter().map(|(name, _)| name).collect();
        let times: Vec<&str> =
            rows.into_iter().filter(|name| name.starts_with(WaitClass::TIME_ROW)).collect();
        assert_eq!(times.len(), WaitClass::ALL.len());
        assert_eq!([times[0], times[1], times[5]], ["ash_us_cpu", "ash_us_row_lock", "ash_us_file_io"]);
    }
}
