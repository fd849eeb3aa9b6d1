//! The hot-path promise: after a thread's first events no allocation, no system call, no lock, no panic.
//!
//! The same routine runs under a counting allocator, and in a child process that the kernel kills at its
//! first system call. It is long enough to wrap every ring, to exchange blocks of the long histories, to
//! overflow a thread's map of digests and the table behind it, and to pass TRUNCATEs of everything.

mod allocations;
mod routine;
mod source;
mod syscalls;
