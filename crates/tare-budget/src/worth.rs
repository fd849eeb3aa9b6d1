//! What is worth how much: the order in which something is given up.
//!
//! Worth is a declaration, not a measurement. A number is what one instrument of the kind is worth at a level, over the
//! level below; a family's is what its histories are worth. Only their proportions count: a statement's sums are worth
//! more than forty times the sums of a stage, those more than the sums of a mutex. `docs/explanation/budget.md` has the same table.

use crate::kind::{Family, Kind, Level};

/// What an instrument of a kind is worth.
#[derive(Clone, Copy, Debug)]
pub struct Worth {
    /// The kind.
    pub kind: Kind,
    /// To be counted.
    pub counts: u32,
    /// To be timed, too.
    pub sums: u32,
    /// To be recorded, too, where recording is a matter of the instrument.
    pub recorded: u32,
}

/// What a family's histories are worth, where consumers decide on them.
#[derive(Clone, Copy, Debug)]
pub struct Recording {
    /// The family.
    pub family: Family,
    /// What is in progress.
    pub current: u32,
    /// Each thread's last events.
    pub history: u32,
    /// The last events of all.
    pub all: u32,
}

const fn worth(kind: Kind, counts: u32, sums: u32, recorded: u32) -> Worth {
    Worth { kind, counts, sums, recorded }
}

/// The order of worth, from most to least.
pub const WORTH: [Worth; 16] = [
    worth(Kind::Query, 80, 140, 40),
    worth(Kind::Statement, 80, 140, 40),
    worth(Kind::Program, 30, 50, 15),
    worth(Kind::Transaction, 30, 30, 10),
    worth(Kind::Error, 50, 0, 0),
    worth(Kind::TableIo, 20, 25, 5),
    worth(Kind::FileIo, 8, 12, 3),
    worth(Kind::MetadataLock, 6, 10, 3),
    worth(Kind::TableLock, 5, 9, 3),
    worth(Kind::Memory, 4, 0, 0),
    worth(Kind::Stage, 2, 3, 1),
    worth(Kind::Socket, 2, 3, 1),
    worth(Kind::Idle, 1, 3, 1),
    worth(Kind::Condition, 1, 3, 1),
    worth(Kind::RwLock, 1, 2, 1),
    worth(Kind::Mutex, 1, 1, 1),
];

/// What histories are worth.
pub const RECORDING: [Recording; 4] = [
    Recording { family: Family::Statements, current: 120, history: 60, all: 20 },
    Recording { family: Family::Transactions, current: 20, history: 8, all: 3 },
    Recording { family: Family::Stages, current: 8, history: 4, all: 1 },
    Recording { family: Family::Waits, current: 12, history: 5, all: 2 },
];

/// What an instrument at a level is worth.
#[must_use]
pub fn of_instrument(kind: Kind, level: Level) -> u32 {
    let row = WORTH.iter().find(|row| row.kind == kind);
    let Some(row) = row else { return 0 };
    match level {
        Level::Off => 0,
        Level::Counts => row.counts,
        Level::Sums | Level::Current | Level::History => row.counts + row.sums,
        // The time of a lock that was free is little, but not nothing.
        Level::Sampled | Level::Lean => row.counts + row.sums + row.recorded,
        Level::Exact => row.counts + row.sums + row.recorded + 1,
    }
}

/// What a family's histories at a level are worth.
#[must_use]
pub fn of_recording(family: Family, level: Level) -> u32 {
    let row = RECORDING.iter().find(|row| row.family == family);
    let Some(row) = row else { return 0 };
    match level {
        Level::Off | Level::Counts | Level::Sums => 0,
        Level::Current => row.current,
        Level::History | Level::Sampled => row.current + row.history,
        Level::Lean | Level::Exact => row.current + row.history + row.all,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_place_and_more_is_never_worth_less() {
        let kinds: Vec<Kind> = WORTH.iter().map(|row| row.kind).collect();
        assert_eq!(kinds, Kind::ALL);
        for kind in Kind::ALL {
            let of: Vec<u32> = Level::ALL.into_iter().map(|level| of_instrument(kind, level)).collect();
            assert!(of.is_sorted() && of[1] > 0, "{kind}: {of:?}");
        }
        for family in Family::ALL {
            let of: Vec<u32> = Level::ALL.into_iter().map(|level| of_recording(family, level)).collect();
            assert!(of.is_sorted() && of[7] > 0, "{family:?}: {of:?}");
        }
    }

    #[test]
    fn the_page_shows_this_table() {
        let page = include_str!("../../../docs/explanation/budget.md");
        for row in WORTH {
            let line = format!("| {} | {} | {} | {} |", row.kind, row.counts, row.sums, row.recorded);
            assert!(page.contains(&line), "docs/explanation/budget.md lacks: {line}");
        }
        for row in RECORDING {
            let line = format!("| {} | {} | {} | {} |", row.family.name(), row.current, row.history, row.all);
            assert!(page.contains(&line), "docs/explanation/budget.md lacks: {line}");
        }
    }
}
