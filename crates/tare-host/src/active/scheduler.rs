//! The kernel's answers to the sampler: which threads of the server run, and in which call the others wait.

use std::time::Duration;

use tare_engine::snapshot::WaitClass;
use tare_engine::{Scheduler, ThreadState};

use super::thread_files::ThreadFiles;
use crate::process::clock;

/// The kernel of this machine.
pub(super) struct Kernel {
    /// The call that a thread is in.
    calls: ThreadFiles,
    /// What a thread does, as a letter.
    stats: ThreadFiles,
    /// Whether the kernel tells in which call a thread waits; it may not tell a process that has changed its
    /// user.
    tells_calls: bool,
}

impl Kernel {
    pub(super) fn new() -> Kernel {
        let (calls, stats) = (ThreadFiles::new("syscall"), ThreadFiles::new("stat"));
        Kernel { calls, stats, tells_calls: true }
    }

    /// Ends a sample: gives back what is not needed any more.
    pub(super) fn end_sample(&mut self) {
        self.calls.end_sample();
        self.stats.end_sample();
    }

    /// Returns the state of a thread by the call that it is in. `Err`: the kernel does not tell.
    fn by_call(&mut self, os_id: u64) -> std::io::Result<Option<ThreadState>> {
        let mut text = [0; 256];
        Ok(std::str::from_utf8(self.calls.read(os_id, &mut text)?).ok().and_then(state_of_call))
    }

    /// Returns the state of a thread, and not in which call it waits.
    fn by_letter(&mut self, os_id: u64) -> Option<ThreadState> {
        let mut text = [0; 128];
        Some(match letter_of(self.stats.read(os_id, &mut text).ok()?)? {
            b'R' => ThreadState::Ready,
            // It waits for a disk, mostly.
            b'D' => ThreadState::Waits(Some(WaitClass::File)),
            _ => ThreadState::Waits(None),
        })
    }
}

impl Scheduler for Kernel {
    fn cpu_time(&mut self, os_id: u64) -> Option<Duration> {
        clock::of_thread(os_id)
    }

    fn state(&mut self, os_id: u64) -> Option<ThreadState> {
        if self.tells_calls {
            match self.by_call(os_id) {
                Ok(state) => return state,
                // A thread that has ended says nothing about others, nor does a process with too many files.
                Err(error) if passes(&error) => return None,
                Err(_) => self.tells_calls = false,
            }
        }
        self.by_letter(os_id)
    }
}

/// Returns whether another thread, or the same one later, may be told of all the same.
fn passes(error: &std::io::Error) -> bool {
    let passing = [libc::ENOENT, libc::ESRCH, libc::EMFILE, libc::ENFILE, libc::ENOMEM, libc::EINTR];
    error.raw_os_error().is_some_and(|error| passing.contains(&error))
}

/// Returns the state in the text of `stat`: the letter behind the name, which may contain anything.
fn letter_of(text: &[u8]) -> Option<u8> {
    let end = text.iter().rposition(|byte| *byte == b')')?;
    text.get(end + 2).copied().filter(u8::is_ascii_alphabetic)
}

/// Returns the state in the text of `syscall`: `running`, or the number of the call that the thread waits in;
/// -1: in none, so for a page that is read.
fn state_of_call(text: &str) -> Option<ThreadState> {
    match text.split_whitespace().next()? {
        "running" => Some(ThreadState::Ready),
        number => Some(ThreadState::Waits(class_of_call(number.parse().ok()?))),
    }
}

/// Returns what a thread waits for in a call. Numbers of calls differ between architectures.
fn class_of_call(number: i64) -> Option<WaitClass> {
    match number {
        -1
        | libc::SYS_read
        | libc::SYS_write
        | libc::SYS_readv
        | libc::SYS_writev
        | libc::SYS_pread64
        | libc::SYS_pwrite64
        | libc::SYS_preadv
        | libc::SYS_pwritev
        | libc::SYS_fsync
        | libc::SYS_fdatasync
        | libc::SYS_msync
        | libc::SYS_sync_file_range
        | libc::SYS_copy_file_range
        | libc::SYS_openat
        | libc::SYS_close
        | libc::SYS_fallocate
        | libc::SYS_ftruncate
        | libc::SYS_unlinkat
        | libc::SYS_getdents64
        | libc::SYS_statx => Some(WaitClass::File),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_open
        | libc::SYS_unlink
        | libc::SYS_rename
        | libc::SYS_stat
        | libc::SYS_mkdir
        | libc::SYS_rmdir => Some(WaitClass::File),
        libc::SYS_recvfrom | libc::SYS_sendto | libc::SYS_recvmsg | libc::SYS_sendmsg | libc::SYS_ppoll => {
            Some(WaitClass::Network)
        }
        #[cfg(target_arch = "x86_64")]
        libc::SYS_poll => Some(WaitClass::Network),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use tare_testkit::eventually;

    use super::super::sleeper::{LIMIT, Sleeper};
    use super::*;

    #[test]
    fn the_state_stands_behind_the_name() {
        assert_eq!(letter_of(b"12 (mariadbd) S 1 2"), Some(b'S'));
        assert_eq!(letter_of(b"12 (a) R (b) D 1"), Some(b'D'));
        assert_eq!((letter_of(b""), letter_of(b"12 (x)"), letter_of(b"12 (x) ")), (None, None, None));
    }

    #[test]
    fn a_call_says_what_is_waited_for() {
        let of = |number: i64| state_of_call(&format!("{number} 0x3 0x7f 0x0 0x0 0x0 0x0 0x7ffc 0x7f12\n"));
        assert_eq!(of(libc::SYS_pread64), Some(ThreadState::Waits(Some(WaitClass::File))));
        assert_eq!(of(libc::SYS_recvfrom), Some(ThreadState::Waits(Some(WaitClass::Network))));
        assert_eq!(of(libc::SYS_futex), Some(ThreadState::Waits(None)));
        assert_eq!(of(-1), Some(ThreadState::Waits(Some(WaitClass::File))), "a page that is read");
        assert_eq!(state_of_call("running\n"), Some(ThreadState::Ready));
        assert_eq!((state_of_call(""), state_of_call("idle")), (None, None));
    }

    #[test]
    fn a_server_without_a_free_file_is_asked_again() {
        let of = |error| passes(&std::io::Error::from_raw_os_error(error));
        assert!(of(libc::EMFILE) && of(libc::ESRCH) && of(libc::ENOENT));
        assert!(!of(libc::EACCES) && !of(libc::EPERM));
    }

    #[test]
    fn a_thread_that_sleeps_waits_and_one_that_is_gone_has_no_state() {
        let sleeper = Sleeper::start();
        let number = sleeper.number;
        let mut kernel = Kernel::new();
        eventually("it sleeps", LIMIT, || kernel.state(number) == Some(ThreadState::Waits(None)));
        assert_eq!(kernel.by_letter(number), Some(ThreadState::Waits(None)), "where the calls are not told");
        sleeper.end();
        eventually("it is gone", LIMIT, || kernel.state(number).is_none());
        assert_eq!((kernel.state(u64::MAX), kernel.cpu_time(u64::MAX)), (None, None));
    }
}
