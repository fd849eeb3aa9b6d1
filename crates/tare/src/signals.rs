//! The signals that end a command.

use procfs::process::Process;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use tare_lab::interrupt::Interrupt;

/// Signals that end a command.
const ENDING: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// Turns signals into a flag, which every wait checks, so that servers are stopped and folders removed at the
/// end.
pub(crate) fn interrupt(hangs_up: bool) -> anyhow::Result<Interrupt> {
    let interrupt = Interrupt::default();
    for signal in ending(hangs_up) {
        signal_hook::flag::register(signal, interrupt.flag())?;
    }
    Ok(interrupt)
}

/// Returns the signals that end the program. A SIGHUP that was ignored at the start stays ignored, for
/// `nohup`.
pub(crate) fn ending(hangs_up: bool) -> impl Iterator<Item = i32> {
    // Without it, no signal is known to be ignored.
    let status = Process::myself().and_then(|process| process.status());
    let hangs_up = hangs_up && !status.is_ok_and(|status| is_ignored(status.sigign, SIGHUP));
    ENDING.into_iter().filter(move |signal| *signal != SIGHUP || hangs_up)
}

/// Returns whether a mask of ignored signals has a signal: bit n-1 stands for signal n.
fn is_ignored(mask: u64, signal: i32) -> bool {
    (mask >> (signal - 1)) & 1 == 1
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_is_ignored_is_read_from_a_mask() {
        // 1, 2 and 13.
        assert_eq!(ENDING.map(|signal| is_ignored(0x1003, signal)), [true, false, true], "INT, TERM, HUP");
        assert_eq!(ENDING.map(|signal| is_ignored(0, signal)), [false; 3]);
    }

    /// Starts a program as `nohup` does.
    #[test]
    fn a_hangup_that_is_ignored_is_seen_in_what_the_kernel_says() {
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", "trap '' HUP; exec sleep 60"]);
        let mut sleeper = shell.spawn().expect("sh runs");
        let process = tare_server::process::open(sleeper.id()).expect("it runs");
        let ignores = || is_ignored(process.status().expect("its status").sigign, SIGHUP);
        let is_seen = tare_server::poll(Duration::from_secs(60), ignores).is_some();
        sleeper.kill().and_then(|()| sleeper.wait()).expect("it ends");
        assert!(is_seen);
    }
}
