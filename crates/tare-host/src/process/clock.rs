//! Clocks: the CPU time of the server's process and of threads, and a monotonic clock.
#![allow(unsafe_code)]

use std::time::Duration;

/// Returns the CPU time that all threads of this process have used.
pub fn process() -> Duration {
    read(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Returns the CPU time that the calling thread has used.
pub fn thread() -> Duration {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Returns the monotonic time since an arbitrary start.
pub fn now() -> Duration {
    read(libc::CLOCK_MONOTONIC)
}

/// Returns the CPU time that a thread of this process has used; `None` if there is no such thread.
pub fn of_thread(os_id: u64) -> Option<Duration> {
    // The kernel's number of the scheduler's clock of one thread.
    const OF_A_THREAD: libc::clockid_t = 4 | 2;
    let number = libc::clockid_t::try_from(os_id).ok().filter(|it| *it > 0)?;
    try_read((!number).checked_mul(8)? | OF_A_THREAD)
}

fn read(clock: libc::clockid_t) -> Duration {
    try_read(clock).unwrap_or_default()
}

fn try_read(clock: libc::clockid_t) -> Option<Duration> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call fills a record of its own type, which is a local; a clock that does not exist leaves
    // it unchanged.
    let is_read = unsafe { libc::clock_gettime(clock, &mut time) } == 0;
    let time = Duration::new(time.tv_sec.max(0).cast_unsigned(), u32::try_from(time.tv_nsec).unwrap_or(0));
    is_read.then_some(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_threads_clock_is_read_by_its_number() {
        let (tell, told) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let busy = std::thread::spawn(move || {
            let begin = thread();
            while thread() < begin + Duration::from_millis(20) {}
            // SAFETY: `gettid` takes nothing and returns a number.
            tell.send((unsafe { libc::gettid() }, thread())).unwrap();
            let _ = ended.recv();
        });
        let (number, used) = told.recv().unwrap();
        let number = u64::try_from(number).unwrap();
        let seen = of_thread(number).unwrap();
        assert!(seen >= used && seen < used + Duration::from_secs(1), "{seen:?} {used:?}");
        drop(end);
        busy.join().unwrap();
        assert_eq!((of_thread(0), of_thread(u64::MAX)), (None, None));
    }
}
