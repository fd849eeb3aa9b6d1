//! Threads of tare in the server's process.
#![allow(unsafe_code)]

/// Starts a thread of tare with all signals blocked, because signals are the server's to handle.
pub(crate) fn spawn(name: &str, work: Box<dyn FnOnce() + Send>) -> std::io::Result<()> {
    /// A guard that blocks every signal for the calling thread; dropping it restores the old mask.
    struct Blocked(libc::sigset_t);
    impl Blocked {
        fn all() -> Blocked {
            // SAFETY: sigset_t is plain integers, for which zero is valid; the calls fill and read it.
            unsafe {
                let mut all: libc::sigset_t = std::mem::zeroed();
                let mut old: libc::sigset_t = std::mem::zeroed();
                libc::sigfillset(&mut all);
                libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut old);
                Blocked(old)
            }
        }
    }
    impl Drop for Blocked {
        fn drop(&mut self) {
            // SAFETY: the mask was filled by pthread_sigmask.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, std::ptr::null_mut()) };
        }
    }
    let _blocked = Blocked::all();
    std::thread::Builder::new().name(name.to_owned()).stack_size(256 << 10).spawn(work).map(drop)
}
