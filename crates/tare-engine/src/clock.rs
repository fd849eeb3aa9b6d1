//! HOT PATH: the clock. Writers store ticks, readers convert them to picoseconds.
//!
//! A tick is one cycle of an invariant time-stamp counter, or a nanosecond where the processor has none. The
//! rate is measured from the start until the first reader asks, and is then frozen: an event has one duration
//! for ever. The system's clock is read at the start only, so an event also has one time of day.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Whether ticks are nanoseconds. Set once, before the first event, if the time-stamp counter cannot be
/// trusted.
static NANOSECONDS: AtomicBool = AtomicBool::new(false);

/// Returns the current time in ticks.
#[inline(always)]
#[must_use]
pub fn ticks() -> u64 {
    if NANOSECONDS.load(Relaxed) { monotonic_ns() } else { cycles() }
}

/// Returns the current time in ticks where it takes no call: where ticks are cycles.
#[inline(always)]
pub(crate) fn ticks_at_once() -> Option<u64> {
    (!NANOSECONDS.load(Relaxed)).then(cycles)
}

/// Returns the current time in cycles. Valid only where ticks are cycles; see [`Clock::counts_cycles`].
#[inline(always)]
pub(crate) fn cycles() -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        #[allow(unsafe_code)]
        // SAFETY: every x86-64 processor has RDTSC and the kernel leaves it to user space.
        return unsafe { core::arch::x86_64::_rdtsc() };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    monotonic_ns()
}

/// Returns CLOCK_MONOTONIC in nanoseconds.
#[cold]
#[inline(never)]
#[must_use]
pub(crate) fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// Returns microseconds since the Unix epoch.
#[must_use]
pub(crate) fn wall_us() -> u64 {
    clock_ns(libc::CLOCK_REALTIME) / 1000
}

#[allow(unsafe_code)]
pub(crate) fn clock_ns(id: libc::clockid_t) -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a local `timespec`, valid for the duration of the call.
    unsafe { libc::clock_gettime(id, &mut now) };
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
fn has_invariant_tsc() -> bool {
    use core::arch::x86_64::__cpuid;
    // CPUID 0x80000007, EDX bit 8: the counter has the same rate in every power state.
    __cpuid(0x8000_0000).eax >= 0x8000_0007 && __cpuid(0x8000_0007).edx & (1 << 8) != 0
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn has_invariant_tsc() -> bool {
    false
}

/// Conversion base of ticks: both clocks at the start, and the rate between them.
pub(crate) struct Clock {
    start_ticks: AtomicU64,
    start_ns: AtomicU64,
    start_wall_us: AtomicU64,
    /// Picoseconds per tick with 32 fractional bits; 0 until frozen.
    rate: AtomicU64,
}

/// Returns ticks and nanoseconds of the same instant.
fn now() -> (u64, u64) {
    least_disturbed((0..8).map(|_| (ticks(), monotonic_ns(), ticks())))
}

/// Returns the reading (ticks, nanoseconds, ticks again) whose ticks lie closest together. An interruption in
/// between would distort the rate.
fn least_disturbed(readings: impl Iterator<Item = (u64, u64, u64)>) -> (u64, u64) {
    let between = |(before, _, after): &(u64, u64, u64)| after.saturating_sub(*before);
    let best = readings.min_by_key(between).unwrap_or_default();
    (best.0 + between(&best) / 2, best.1)
}

/// Shortest time the rate is measured over, in nanoseconds. Each end is exact to some ten nanoseconds, so the
/// rate is known to less than a millionth. A server takes longer than this to start.
const CALIBRATION_NS: u64 = 20_000_000;

impl Clock {
    pub(crate) const fn new() -> Clock {
        Clock {
            start_ticks: AtomicU64::new(0),
            start_ns: AtomicU64::new(0),
            start_wall_us: AtomicU64::new(0),
            rate: AtomicU64::new(0),
        }
    }

    pub(crate) fn start(&self) {
        NANOSECONDS.store(!has_invariant_tsc(), Relaxed);
        let (ticks, ns) = now();
        self.start_ticks.store(ticks, Relaxed);
        self.start_ns.store(ns, Relaxed);
        self.start_wall_us.store(wall_us(), Relaxed);
        if NANOSECONDS.load(Relaxed) {
            self.rate.store(1000 << 32, Relaxed);
        }
    }

    /// Returns picoseconds per tick as a 32.32 fixed-point number, the same ever after. The first call may
    /// sleep until [`CALIBRATION_NS`] have passed.
    #[inline(always)]
    pub(crate) fn rate(&self) -> u64 {
        let frozen = self.rate.load(Relaxed);
        if frozen != 0 { frozen } else { self.measure_rate() }
    }

    /// Measures the rate, for the first caller of [`Clock::rate`].
    #[cold]
    #[inline(never)]
    fn measure_rate(&self) -> u64 {
        let start_ns = self.start_ns.load(Relaxed);
        let missing_ns = CALIBRATION_NS.saturating_sub(monotonic_ns() - start_ns);
        std::thread::sleep(std::time::Duration::from_nanos(missing_ns));
        let (ticks, ns) = now();
        let elapsed_ticks = ticks.saturating_sub(self.start_ticks.load(Relaxed)).max(1);
        let rate = ((u128::from(ns - start_ns) * 1000) << 32) / u128::from(elapsed_ticks);
        let rate = u64::try_from(rate).unwrap_or(u64::MAX).max(1);
        // If two readers ask first at the same time, the faster one decides.
        self.rate.compare_exchange(0, rate, Relaxed, Relaxed).map_or_else(|first| first, |_| rate)
    }

    /// Returns the conversion from ticks to times, the same ever after.
    pub(crate) fn scale(&self) -> Scale {
        Scale {
            rate: self.rate(),
            start: self.start_ticks.load(Relaxed),
            start_us: self.start_wall_us.load(Relaxed),
        }
    }

    /// Returns whether ticks are cycles.
    pub(crate) fn counts_cycles(&self) -> bool {
        !NANOSECONDS.load(Relaxed)
    }
}

/// Conversion from ticks to times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scale {
    /// Picoseconds per tick with 32 fractional bits.
    pub rate: u64,
    /// Start of the engine, in ticks.
    pub start: u64,
    /// Start of the engine, in microseconds since the Unix epoch.
    pub start_us: u64,
}

impl Scale {
    /// Converts a duration to picoseconds. Saturates at 213 days.
    #[must_use]
    pub fn ps(&self, ticks: u64) -> u64 {
        u64::try_from(self.sum_ps(ticks)).unwrap_or(u64::MAX)
    }

    /// Converts a sum of durations to picoseconds, which may exceed 64 bits.
    #[must_use]
    pub fn sum_ps(&self, ticks: u64) -> u128 {
        (u128::from(ticks) * u128::from(self.rate)) >> 32
    }

    /// Converts a point in time to picoseconds since the start. Wraps after 213 days, as the built-in's does.
    #[must_use]
    pub fn moment_ps(&self, at: u64) -> u64 {
        self.sum_ps(at.saturating_sub(self.start)) as u64
    }

    /// Converts a point in time to microseconds since the Unix epoch.
    #[must_use]
    pub fn wall_us(&self, at: u64) -> u64 {
        self.start_us.wrapping_add((self.sum_ps(at.saturating_sub(self.start)) / 1_000_000) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupted_reading_is_not_used() {
        let readings = [(100, 1000, 9100), (10_000, 2000, 10_050), (20_000, 3000, 20_400)];
        assert_eq!(least_disturbed(readings.into_iter()), (10_025, 2000));
    }

    #[test]
    fn the_rate_is_the_same_ever_after_and_close() {
        let clock = Clock::new();
        clock.start();
        let rates: Vec<u64> = std::thread::scope(|scope| {
            let readers: Vec<_> = (0..4).map(|_| scope.spawn(|| clock.rate())).collect();
            readers.into_iter().map(|reader| reader.join().unwrap()).collect()
        });
        let (ticks, ns) = now();
        let elapsed_ns = ns - clock.start_ns.load(Relaxed);
        assert!(rates.iter().all(|rate| *rate == clock.rate()), "{rates:?}");
        let told_ns = clock.scale().moment_ps(ticks) / 1000;
        assert!(told_ns.abs_diff(elapsed_ns) < elapsed_ns / 10_000, "{told_ns} of {elapsed_ns}");
    }

    /// A clock whose tick is a third of a nanosecond.
    const OF_3_GHZ: Scale = Scale { rate: (1000 << 32) / 3, start: 7, start_us: 1_000_000_000_000_000 };
    const SECOND: u64 = 3_000_000_000;
    const DAY: u64 = 86_400 * SECOND;

    #[test]
    fn time_goes_on_after_213_days() {
        for days in [1, 213, 214, 500, 5000] {
            let at = OF_3_GHZ.start + days * DAY;
            let told_us = OF_3_GHZ.wall_us(at) - OF_3_GHZ.start_us;
            assert!(told_us.abs_diff(days * 86_400_000_000) < 1000, "{told_us} of {days} days");
            let wait_ps = OF_3_GHZ.moment_ps(at + SECOND).wrapping_sub(OF_3_GHZ.moment_ps(at));
            assert!(wait_ps.abs_diff(1_000_000_000_000) < 1000, "{wait_ps} after {days} days");
        }
        assert!(
            OF_3_GHZ.moment_ps(OF_3_GHZ.start + 214 * DAY) < OF_3_GHZ.moment_ps(OF_3_GHZ.start + 213 * DAY)
        );
        assert_eq!(OF_3_GHZ.ps(214 * DAY), u64::MAX, "no duration is shorter for being longer");
    }

    #[test]
    fn a_moment_is_read_in_order() {
        let (earlier, later) = (now(), now());
        assert!(earlier.0 <= later.0 && earlier.1 <= later.1, "{earlier:?} {later:?}");
    }
}
