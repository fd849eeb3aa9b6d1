//! The CPU time of a thread. Read only while the consumer `events_statements_cpu` is on, as it takes a system
//! call.

/// Returns the CPU time of the calling thread in nanoseconds.
#[cold]
#[inline(never)]
pub(super) fn thread_ns() -> u64 {
    crate::clock::clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}
