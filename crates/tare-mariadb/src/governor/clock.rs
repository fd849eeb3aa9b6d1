//! What time it is for a governor: CPU time of the server's process and of the calling thread, and a clock that only
//! rises.
#![allow(unsafe_code)]

use std::time::Duration;

/// CPU time all threads of this process have used.
pub(super) fn process() -> Duration {
    read(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// CPU time the calling thread has used.
pub(super) fn thread() -> Duration {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Time since some moment.
pub(super) fn now() -> Duration {
    read(libc::CLOCK_MONOTONIC)
}

fn read(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call fills a record of its own type, which is a local; a clock there is not leaves it as it is.
    unsafe { libc::clock_gettime(clock, &mut time) };
    Duration::new(time.tv_sec.max(0).cast_unsigned(), u32::try_from(time.tv_nsec).unwrap_or(0))
}
