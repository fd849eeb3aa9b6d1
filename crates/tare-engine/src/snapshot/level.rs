//! Levels: how much is kept of an instrument's events.

/// Level of an instrument: how much is kept of its events. It has no effect on an instrument that is not
/// ENABLED.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
#[repr(u8)]
pub enum Recording {
    /// Events are only counted.
    Counts,
    /// Events are counted and timed, except for uncontended locks, which are only counted.
    Sums,
    /// Events are kept as at [`Recording::Lean`], but in chosen statements only; sums are estimated from
    /// these. What people act on is counted exactly.
    Sampled,
    /// Events are counted, timed and recorded. Uncontended locks are not timed.
    #[default]
    Lean,
    /// Events are counted, timed and recorded, uncontended locks included.
    Exact,
}

impl Recording {
    /// All levels, the lowest first.
    pub const ALL: [Recording; 5] =
        [Recording::Counts, Recording::Sums, Recording::Sampled, Recording::Lean, Recording::Exact];

    /// Returns the level's name, in lower case.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Recording::Counts => "counts",
            Recording::Sums => "sums",
            Recording::Sampled => "sampled",
            Recording::Lean => "lean",
            Recording::Exact => "exact",
        }
    }

    /// Returns the level of this name, in either letter case.
    #[must_use]
    pub fn named(name: &str) -> Option<Recording> {
        Recording::ALL.into_iter().find(|level| level.name().eq_ignore_ascii_case(name))
    }
}
