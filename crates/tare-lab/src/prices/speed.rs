//! The machine's speed while prices are measured or checked: a thread times [`Work`] now and then.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tare_budget::Work;

use crate::process::thread_time;

/// Time between two runs.
const EVERY: Duration = Duration::from_millis(250);

/// Runs [`Work`] once and returns its CPU time in nanoseconds.
#[must_use]
pub fn now(work: &mut Work) -> f64 {
    work.time(|| thread_time().as_secs_f64() * 1e9)
}

/// A thread that times runs until it is asked for the result.
#[derive(Debug)]
pub struct Speed {
    stop: Sender<()>,
    thread: JoinHandle<Vec<f64>>,
}

impl Speed {
    /// Starts the thread.
    #[must_use]
    pub fn begin() -> Speed {
        let (stop, stopped) = channel();
        Speed { stop, thread: thread::spawn(move || times(&stopped)) }
    }

    /// Ends the thread and appends its times to a file, a line each, which keeps them across interrupted
    /// measurements. Returns the median of the file's times in nanoseconds.
    ///
    /// # Errors
    ///
    /// When the file cannot be read or written.
    pub fn end(self, kept: &Path) -> io::Result<Option<f64>> {
        drop(self.stop);
        let mut file = File::options().create(true).append(true).open(kept)?;
        for time in self.thread.join().unwrap_or_default() {
            writeln!(file, "{time:.0}")?;
        }
        let mut times: Vec<f64> =
            fs::read_to_string(kept)?.lines().filter_map(|it| it.parse().ok()).collect();
        times.sort_unstable_by(f64::total_cmp);
        Ok(times.get(times.len() / 2).copied())
    }
}

fn times(stopped: &Receiver<()>) -> Vec<f64> {
    let mut work = Work::new();
    let mut times = vec![];
    loop {
        times.push(now(&mut work));
        if stopped.recv_timeout(EVERY) != Err(RecvTimeoutError::Timeout) {
            return times;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_has_a_speed() {
        let folder = tempfile::tempdir().unwrap();
        let kept = folder.path().join("work");
        let speed = Speed::begin().end(&kept).unwrap();
        assert!(speed.is_some_and(|ns| ns > 0.0), "{speed:?}");
        fs::write(&kept, "1\n3\n2\n1\n").unwrap();
        assert_eq!(Speed::begin().end(&kept).unwrap(), Some(2.0), "with those of before");
    }
}
