//! What the library does beside events, each part of it only where the server is as expected. The others go
//! on without it.

use tare_host::jumps::{Function, copies_for_lead};
use tare_host::process::log::{Severity, line};
use tare_host::process::panic::caught;

use super::checks::{self, Program};
use super::disable_reason::DisableReason;
use super::functions::{Families, OF_SESSIONS, OF_SOCKET};
use super::program;
use crate::abi::layout::{Layout, layout};

/// A part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Memory is counted.
    Memory,
    /// tare's socket, and its threads: the active session history, the rate of samples.
    Socket,
    /// Which sessions wait for a lock within InnoDB.
    RowLocks,
    /// The tables of sessions at the socket, and who is in the way of whom.
    Sessions,
    /// Whose locks within InnoDB sessions wait for.
    RowOwners,
}

impl Part {
    const ALL: [Part; 5] = [Part::Memory, Part::Socket, Part::RowLocks, Part::Sessions, Part::RowOwners];

    /// Returns what is missing without the part.
    fn loss(self) -> &'static str {
        match self {
            Part::Memory => "memory is not counted, the server counts it",
            Part::Socket => "there is no socket and no active session history",
            Part::RowLocks => "the active session history does not tell waits for rows",
            Part::Sessions => {
                "the socket has no threads, accounts, users, hosts and metadata_locks, and the active session history names nobody that \
                 others wait for"
            }
            Part::RowOwners => "the active session history names nobody whose rows others wait for",
        }
    }

    /// Checks what the part needs of the code.
    fn check(self, program: &Program<'_>, layout: &Layout) -> Result<(), DisableReason> {
        match self {
            Part::Memory => checks::memory(program, layout),
            Part::Socket => checks::socket(program, layout),
            Part::RowLocks => checks::row_locks(program, layout),
            Part::Sessions => checks::sessions(program, layout),
            Part::RowOwners => checks::row_owners(program, layout),
        }
    }

    /// Checks whatever the part needs, and finds it.
    fn find(self, program: &Program<'_>, families: &Families) -> Result<(), DisableReason> {
        #[cfg(debug_assertions)]
        tare_host::process::panic::fault(&format!("part {self:?}"));
        self.check(program, layout())?;
        match self {
            Part::Memory => {
                families.check_memory()?;
                program::connect_memory()
            }
            Part::Socket => can_be_told(&[OF_SOCKET.0]),
            Part::RowLocks => program::connect_row_locks(),
            Part::Sessions => {
                can_be_told(&[OF_SESSIONS.0])?;
                program::connect_sessions()
            }
            Part::RowOwners => program::connect_row_owners(),
        }
    }
}

/// Returns the parts for which the code of a program is not as expected, each as a sentence.
pub(super) fn losses(program: &Program<'_>, layout: &Layout) -> Vec<String> {
    let lost = |part: &Part| part.check(program, layout).err().map(|why| format!("{}: {why}", part.loss()));
    Part::ALL.iter().filter_map(lost).collect()
}

/// Checks that functions can lead here and still do their work.
fn can_be_told(names: &[&'static std::ffi::CStr]) -> Result<(), DisableReason> {
    let code = |error: &dyn std::fmt::Display| DisableReason::Code(error.to_string());
    let found = names.iter().map(|name| Function::find(name)).collect::<Result<Vec<_>, _>>();
    copies_for_lead(&found.map_err(|error| code(&error))?).map(drop).map_err(|error| code(&error))
}

/// The parts that are there.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Parts(u8);

impl Parts {
    /// Returns the parts for which everything is there, with what hinders the others.
    pub(super) fn find(program: &Program<'_>, families: &Families) -> (Parts, Vec<(Part, DisableReason)>) {
        let (mut parts, mut missing) = (Parts::default(), Vec::new());
        for part in Part::ALL {
            let found =
                caught(|| part.find(program, families)).unwrap_or_else(|why| Err(DisableReason::Panic(why)));
            match found {
                Ok(()) => parts.0 |= 1 << part as u8,
                Err(why) => missing.push((part, why)),
            }
        }
        (parts, missing)
    }

    /// Returns whether a part is there.
    pub(super) fn have(self, part: Part) -> bool {
        self.0 >> part as u8 & 1 != 0
    }
}

/// Writes a line into the log for each part that is missing.
pub(super) fn tell(missing: &[(Part, DisableReason)]) {
    for (part, why) in missing {
        line(Severity::Warning, &format!("{}: {why}", part.loss()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_there_or_says_what_is_missing() {
        let parts = Parts(1 << Part::Socket as u8 | 1 << Part::Sessions as u8);
        let have = Part::ALL.map(|part| parts.have(part));
        assert_eq!(have, [false, true, false, true, false]);
        let losses: std::collections::HashSet<_> = Part::ALL.iter().map(|part| part.loss()).collect();
        assert_eq!(losses.len(), Part::ALL.len());
    }
}
