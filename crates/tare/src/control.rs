//! The control of commands that write until they are ended, and the options that such commands share.

use std::io::{self, Read as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use signal_hook::consts::{SIGHUP, SIGINT, SIGPIPE, SIGTERM, SIGXFSZ};
use signal_hook::low_level::pipe;
use tare_lab::interrupt::Interrupt;
use tare_outlets::notice;
use tare_outlets::slowlog::Control;

/// Signals within this time of the first one count as the same: `timeout` signals its child, and the child's
/// group.
const SAME: Duration = Duration::from_secs(1);

/// Parses a number of bytes, with K, M or G.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let (number, shift) = match text.as_bytes().last() {
        Some(b'K' | b'k') => (&text[..text.len() - 1], 10),
        Some(b'M' | b'm') => (&text[..text.len() - 1], 20),
        Some(b'G' | b'g') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let number: u64 = number.parse().map_err(|_| "a number of bytes is allowed, such as 4096 or 100M")?;
    number
        .checked_mul(1 << shift)
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| "between 1 byte and 2^64".to_owned())
}

/// Makes a later signal end the program at once. The first one takes effect when the
/// command checks for its end, which a hanging disk may prevent.
fn end_at_later_signal() -> io::Result<()> {
    let is_later = Arc::new(AtomicBool::new(false));
    let (mut heard, told) = UnixStream::pair()?;
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_default(signal, Arc::clone(&is_later))?;
        pipe::register(signal, told.try_clone()?)?;
    }
    std::thread::spawn(move || {
        if heard.read_exact(&mut [0]).is_ok() {
            std::thread::sleep(SAME);
            is_later.store(true, Ordering::SeqCst);
        }
    });
    Ok(())
}

/// Returns the end of a duration; `None` if the clock does not go that far.
fn end_after(time: Duration) -> Option<Instant> {
    Instant::now().checked_add(time)
}

/// The control of a command by signals and the clock.
pub(crate) struct Signals<'a> {
    /// The command, for messages.
    command: &'static str,
    interrupt: &'a Interrupt,
    reopen: Arc<AtomicBool>,
    end: Option<Instant>,
    quiet: bool,
}

impl<'a> Signals<'a> {
    /// Registers the signals. `time`: after which it ends.
    pub(crate) fn new(
        command: &'static str,
        interrupt: &'a Interrupt,
        time: Option<Duration>,
        quiet: bool,
    ) -> Result<Signals<'a>> {
        let reopen = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(SIGHUP, Arc::clone(&reopen))?;
        // A failed write returns an error instead of ending the program.
        for signal in [SIGXFSZ, SIGPIPE] {
            signal_hook::flag::register(signal, Arc::default())?;
        }
        end_at_later_signal()?;
        Ok(Signals { command, interrupt, reopen, end: time.and_then(end_after), quiet })
    }
}

impl Control for Signals<'_> {
    fn is_over(&self) -> bool {
        self.interrupt.is_set() || self.end.is_some_and(|end| Instant::now() >= end)
    }

    fn reopens(&self) -> bool {
        self.reopen.swap(false, Ordering::Relaxed)
    }

    fn tell(&self, line: &str) {
        if !self.quiet {
            notice::write(format_args!("{}: {line}", self.command));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    use nix::sys::signal::{Signal, raise};

    use super::*;

    #[test]
    fn a_time_that_is_too_long_for_the_clock_has_no_end() {
        assert_eq!(end_after(Duration::MAX), None);
        assert!(end_after(Duration::from_secs(60)).is_some_and(|end| end > Instant::now()));
    }

    /// Environment variable of the child process in the test below.
    const CHILD: &str = "TARE_TEST_HEARS";

    #[test]
    fn the_first_signal_is_heard_and_a_later_one_ends_it() {
        if std::env::var_os(CHILD).is_some() {
            end_at_later_signal().expect("handlers");
            // Sent twice, as `timeout` does.
            (0..2).for_each(|_| raise(Signal::SIGTERM).expect("raised"));
            println!("it goes on");
            for _ in 0..600 {
                std::thread::sleep(Duration::from_millis(100));
                raise(Signal::SIGINT).expect("raised");
            }
            return;
        }
        let name = "control::tests::the_first_signal_is_heard_and_a_later_one_ends_it";
        let mut child = Command::new(std::env::current_exe().expect("this program"));
        let output = child.args(["--exact", name, "--nocapture"]).env(CHILD, "").output().expect("a child");
        assert!(String::from_utf8_lossy(&output.stdout).contains("it goes on"), "{output:?}");
        assert_eq!(output.status.signal(), Some(SIGINT), "{output:?}");
    }
}
