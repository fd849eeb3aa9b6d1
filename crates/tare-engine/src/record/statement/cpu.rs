//! The CPU time of a thread. Asked for only while the consumer `events_statements_cpu` is on: it takes a system call.

/// What the calling thread has used, in nanoseconds.
#[cold]
#[inline(never)]
pub(super) fn thread_ns() -> u64 {
    crate::clock::clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}
