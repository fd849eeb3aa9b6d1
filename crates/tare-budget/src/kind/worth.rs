//! Worth: the order in which things are given up.
//!
//! Worth is declared, not measured. A number is the worth of one instrument of a kind at a level, in addition
//! to the level below; for a family it is the worth of its histories. Only the proportions matter: the sums
//! of a statement are worth more than forty times those of a stage, and these more than those of a mutex.
//! `docs/explanation/budget.md` has the same table.

use super::{HistoryFamily, Kind, Level};

/// Worth of an instrument of a kind.
#[derive(Clone, Copy, Debug)]
pub struct Worth {
    /// The kind.
    pub kind: Kind,
    /// Worth of being counted.
    pub counts: u32,
    /// Additional worth of being timed.
    pub sums: u32,
    /// Additional worth of being recorded, where each instrument decides on that.
    pub recorded: u32,
}

/// Worth of a family's histories, where consumers decide on them.
#[derive(Clone, Copy, Debug)]
pub struct HistoryWorth {
    /// The family.
    pub family: HistoryFamily,
    /// Worth of events in progress.
    pub current: u32,
    /// Worth of each thread's latest events.
    pub history: u32,
    /// Worth of the latest events of all threads.
    pub all: u32,
}

const fn worth(kind: Kind, counts: u32, sums: u32, recorded: u32) -> Worth {
    Worth { kind, counts, sums, recorded }
}

/// Worth of instruments by kind, in descending order.
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

/// Worth of histories by family.
pub const RECORDING: [HistoryWorth; 4] = [
    HistoryWorth { family: HistoryFamily::Statements, current: 120, history: 60, all: 20 },
    HistoryWorth { family: HistoryFamily::Transactions, current: 20, history: 8, all: 3 },
    HistoryWorth { family: HistoryFamily::Stages, current: 8, history: 4, all: 1 },
    HistoryWorth { family: HistoryFamily::Waits, current: 12, history: 5, all: 2 },
];

/// Returns the worth of an instrument at a level.
#[must_use]
pub fn of_instrument(kind: Kind, level: Level) -> u32 {
    let row = WORTH.iter().find(|row| row.kind == kind);
    let Some(row) = row else { return 0 };
    match level {
        Level::Off => 0,
        Level::Counts => row.counts,
        Level::Sums | Level::Current | Level::History => row.counts + row.sums,
        // The time of an uncontended lock is worth little, but not nothing.
        Level::Sampled | Level::Lean => row.counts + row.sums + row.recorded,
        Level::Exact => row.counts + row.sums + row.recorded + 1,
    }
}

/// Returns the worth of a family's histories at a level.
#[must_use]
pub fn of_recording(family: HistoryFamily, level: Level) -> u32 {
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
        for family in HistoryFamily::ALL {
            let of: Vec<u32> = Level::ALL.into_iter().map(|level| of_recording(family, level)).collect();
            assert!(of.is_sorted() && of[7] > 0, "{family:?}: {of:?}");
        }
    }

    #[test]
    fn the_page_shows_this_table() {
        let page = include_str!("../../../../docs/explanation/budget.md");
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
