//! A thread that sleeps, for tests of what the kernel says of threads.

use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Time limit for the kernel to say so. A thread that was joined may still be known for a moment.
pub(super) const LIMIT: Duration = Duration::from_secs(60);

/// The thread; it sleeps until it is told to end.
pub(super) struct Sleeper {
    /// The kernel's number of the thread.
    pub(super) number: u64,
    thread: JoinHandle<()>,
    until: Sender<()>,
}

impl Sleeper {
    pub(super) fn start() -> Sleeper {
        let (tell, told) = channel();
        let (until, ended) = channel();
        let thread = std::thread::spawn(move || {
            let own = std::fs::read_link("/proc/thread-self").unwrap();
            tell.send(own.file_name().unwrap().to_str().unwrap().parse().unwrap()).unwrap();
            let _ = ended.recv();
        });
        Sleeper { number: told.recv().unwrap(), thread, until }
    }

    /// Ends the thread and waits for it.
    pub(super) fn end(self) {
        drop(self.until);
        self.thread.join().unwrap();
    }
}
