//! The signals that end a command.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use tare_lab::interrupt::Interrupt;

/// Signals that end a command.
const ENDING: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];
/// The kernel's data about this process.
const STATUS: &str = "/proc/self/status";

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
    let status = std::fs::read_to_string(STATUS).unwrap_or_default();
    let hangs_up = hangs_up && !is_ignored(&status, SIGHUP);
    ENDING.into_iter().filter(move |signal| *signal != SIGHUP || hangs_up)
}

/// Returns whether a process ignores a signal, by its [`STATUS`]: bit n-1 of a hexadecimal mask stands for
/// signal n.
fn is_ignored(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    (mask >> (signal - 1)) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ignored_is_read_from_a_mask() {
        // 1, 2 and 13; blocked or caught signals are not ignored.
        let status =
            "Name:\ttare\nSigBlk:\t0000000000004000\nSigIgn:\t0000000000001003\nSigCgt:\t0000000000004440\n";
        assert_eq!(ENDING.map(|signal| is_ignored(status, signal)), [true, false, true], "INT, TERM, HUP");
        for unknown in ["", "SigIgn:\n", "SigIgn:\tnone\n", "SigCgt:\t0000000000004003\n"] {
            assert_eq!(ENDING.map(|signal| is_ignored(unknown, signal)), [false; 3], "{unknown:?}");
        }
    }

    /// Starts a program as `nohup` does.
    #[test]
    fn a_hangup_that_is_ignored_is_seen_in_what_the_kernel_says() {
        let script = format!("trap '' HUP; exec cat {STATUS}");
        let output = std::process::Command::new("sh").args(["-c", &script]).output().expect("sh runs");
        let status = String::from_utf8_lossy(&output.stdout);
        assert!(is_ignored(&status, SIGHUP), "{status}");
    }
}
