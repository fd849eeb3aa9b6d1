//! Threads of tare in the server's process.
#![allow(unsafe_code)]

use std::sync::{Mutex, PoisonError};

use super::log::{Severity, line};
use super::panic::caught;

/// A thread that a panic has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// Name of the thread.
    pub name: &'static str,
    /// What no longer works, in words.
    pub loss: &'static str,
    /// Text of the panic.
    pub why: String,
}

static STOPPED: Mutex<Vec<Stopped>> = Mutex::new(Vec::new());

/// Returns the threads that a panic has ended.
pub fn stopped() -> Vec<Stopped> {
    STOPPED.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Starts a thread of tare that a panic ends without hurting the server. See also [`guarded`].
pub fn spawn_guarded(
    name: &'static str,
    loss: &'static str,
    work: impl FnOnce() + Send + 'static,
) -> std::io::Result<()> {
    let work = move || {
        let _told = guarded(name, loss, work);
    };
    spawn(name, Box::new(work))
}

/// Runs the work of a thread; `None` if it panicked. One line of the error log and the row `stopped` of
/// `tare_status` then say so: `loss` is what no longer works, in words.
pub fn guarded<R>(name: &'static str, loss: &'static str, work: impl FnOnce() -> R) -> Option<R> {
    let stopped = || STOPPED.lock().unwrap_or_else(PoisonError::into_inner);
    // It may have been started again.
    stopped().retain(|it| it.name != name);
    let ended = caught(|| {
        #[cfg(debug_assertions)]
        super::panic::fault(name);
        work()
    });
    let why = match ended {
        Ok(result) => return Some(result),
        Err(why) => why,
    };
    let _ = caught(|| {
        line(Severity::Warning, &format!("{loss}, the server goes on: internal error in {name}: {why}"));
        stopped().push(Stopped { name, loss, why });
    });
    None
}

/// Starts a thread of tare with all signals blocked, because signals are the server's to handle.
pub fn spawn(name: &str, work: Box<dyn FnOnce() + Send>) -> std::io::Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_ends_its_thread_and_is_told_once() {
        let ended = std::sync::Arc::new(std::sync::Barrier::new(2));
        let waits = std::sync::Arc::clone(&ended);
        spawn_guarded("tare-of-a-test", "a test ends early", move || {
            /// Lets the test go on once the panic unwinds.
            struct Ends(std::sync::Arc<std::sync::Barrier>);
            impl Drop for Ends {
                fn drop(&mut self) {
                    self.0.wait();
                }
            }
            let _ends = Ends(waits);
            panic!("of {}", 7);
        })
        .expect("a thread");
        ended.wait();
        let of_the_test =
            || stopped().into_iter().filter(|it| it.name == "tare-of-a-test").collect::<Vec<_>>();
        while of_the_test().is_empty() {
            std::thread::yield_now();
        }
        let (name, loss, why) = ("tare-of-a-test", "a test ends early", "of 7".to_owned());
        assert_eq!(of_the_test(), [Stopped { name, loss, why }]);
        assert_eq!(guarded("tare-of-a-test", "a test ends early", || 7), Some(7));
        assert_eq!(of_the_test(), [], "it was started again");
    }
}
