//! Exit statuses: one table, which help, manual pages and docs/reference/exit-statuses.md are made of.

use std::fmt;

/// An error, also one that clap cannot see.
pub(crate) const ERROR: u8 = 1;
/// Wrong arguments; nothing was begun.
pub(crate) const WRONG: u8 = 2;
/// The exit status that a shell reports for a program ended by Ctrl-C.
pub(crate) const INTERRUPTED: u8 = 130;
/// The exit status that a shell reports for a program ended by SIGPIPE.
pub(crate) const CLOSED: u8 = 141;

/// `tare status`: tare is not active.
pub(crate) const NOT_ACTIVE: u8 = 3;
/// `tare doctor`: a problem was found.
pub(crate) const FOUND: u8 = 1;
/// `tare doctor`, `tare probe`: something could not be checked.
pub(crate) const NOT_LOOKED: u8 = 2;
/// `tare probe`: tare would disable itself.
pub(crate) const NOT_SUPPORTED: u8 = 1;
/// `tare install`: a server was left alone or put back.
pub(crate) const REFUSED: u8 = 1;
/// `tare preload`: the server starts without tare.
pub(crate) const FAILED: u8 = 1;
/// `tare lab run`: a cost is above the budget.
pub(crate) const ABOVE: u8 = 3;
/// `tare lab run`: whether a cost is above the budget is not known.
pub(crate) const NOT_KNOWN: u8 = 4;

/// A status and its meaning.
pub(crate) type Meaning = (u8, &'static str);

/// What statuses of every command mean, unless [`OWN`] says otherwise.
pub(crate) const COMMON: &[Meaning] = &[
    (0, "done"),
    (ERROR, "an error"),
    (WRONG, "wrong arguments; nothing was begun"),
    (INTERRUPTED, "interrupted; what was started has been stopped and removed"),
    (CLOSED, "standard output was closed while the command still ran"),
];

/// Of a budget for results.
const BUDGET: [Meaning; 3] = [
    (0, "done; with --fail-above: passed, everything that was compared is below the budget"),
    (ABOVE, "failed: with --fail-above, something is above the budget"),
    (
        NOT_KNOWN,
        "unknown: with --fail-above, nothing is above the budget, but not everything is certainly below it",
    ),
];

/// What statuses of a command mean.
pub(crate) const OWN: &[(&str, &[Meaning])] = &[
    ("status", &[(0, "tare is active"), (NOT_ACTIVE, "tare is not active; the reason is printed")]),
    (
        "doctor",
        &[
            (0, "all is well"),
            (FOUND, "a problem was found"),
            (NOT_LOOKED, "something could not be checked, or wrong arguments"),
        ],
    ),
    ("install", INSTALL),
    ("uninstall", INSTALL),
    (
        "probe",
        &[
            (0, "tare serves it"),
            (NOT_SUPPORTED, "tare would disable itself; the reason is printed"),
            (NOT_LOOKED, "the file could not be read, or wrong arguments"),
        ],
    ),
    ("preload", &[(0, "the server starts with tare"), (FAILED, "the server starts without tare")]),
    (
        "lab run",
        &[
            BUDGET[0],
            (ERROR, "an error: something could not be measured; there is no answer"),
            (WRONG, "wrong arguments: no such study, or its file is wrong; nothing was begun"),
            BUDGET[1],
            BUDGET[2],
            (INTERRUPTED, "interrupted; the same command with the same --output continues"),
        ],
    ),
    ("lab report", &BUDGET),
];

/// Those of `tare install` and `tare uninstall`.
const INSTALL: &[Meaning] = &[
    (0, "done, or nothing to do"),
    (
        REFUSED,
        "a server was left alone, or restored after an error (`failed`: not in full); the reason is printed",
    ),
    (INTERRUPTED, "interrupted; the server at work is restored, those after it are as they were"),
];

/// Returns the statuses of a command, in order. `command` is its name without the program's.
pub(crate) fn of(command: &str) -> Vec<Meaning> {
    let own = OWN.iter().find(|(name, _)| *name == command).map_or(&[][..], |(_, own)| own);
    let common = COMMON.iter().filter(|(status, _)| own.iter().all(|(it, _)| it != status));
    let mut all: Vec<Meaning> = own.iter().chain(common).copied().collect();
    all.sort_unstable_by_key(|(status, _)| *status);
    all
}

/// Wrong arguments that clap cannot see, such as a study that does not exist.
#[derive(Debug)]
pub(crate) struct Misuse(anyhow::Error);

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#}", self.0)
    }
}

impl std::error::Error for Misuse {}

/// Makes wrong arguments of an error.
pub(crate) fn wrong(error: impl Into<anyhow::Error>) -> anyhow::Error {
    anyhow::Error::new(Misuse(error.into()))
}

/// Ends a function with wrong arguments.
macro_rules! misuse {
    ($($text:tt)*) => {
        return Err($crate::exit::wrong(anyhow::anyhow!($($text)*)))
    };
}
pub(crate) use misuse;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_has_its_own_meanings_and_the_common_ones() {
        let statuses = |command: &str| of(command).into_iter().map(|(status, _)| status).collect::<Vec<_>>();
        assert_eq!(statuses("top"), [0, 1, 2, 130, 141]);
        assert_eq!(statuses("status"), [0, 1, 2, 3, 130, 141]);
        assert_eq!(statuses("lab run"), [0, 1, 2, 3, 4, 130, 141]);
        assert!(of("doctor").contains(&(FOUND, "a problem was found")));
    }
}
