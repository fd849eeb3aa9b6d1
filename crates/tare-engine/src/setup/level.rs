//! Levels: how much is kept of an instrument's events, from all to nothing.

/// How much is kept of an instrument's events. An instrument that is not ENABLED is at no level, whatever it is set to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
#[repr(u8)]
pub enum Recording {
    /// They are counted, and that is all.
    Counts,
    /// They are counted and timed, but for locks that were free: nobody waited for these.
    Sums,
    /// As [`Recording::Lean`], for one statement in as many as the load asks for, and estimated of all from these. What people act
    /// on is counted exactly.
    Sampled,
    /// As [`Recording::Sums`], and recorded.
    #[default]
    Lean,
    /// They are counted, timed and recorded, free locks as all others.
    Exact,
}

impl Recording {
    /// All of them, the least first.
    pub const ALL: [Recording; 5] =
        [Recording::Counts, Recording::Sums, Recording::Sampled, Recording::Lean, Recording::Exact];

    /// Its name, in lower case.
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

    /// The one of this name, in letters of either case.
    #[must_use]
    pub fn named(name: &str) -> Option<Recording> {
        Recording::ALL.into_iter().find(|level| level.name().eq_ignore_ascii_case(name))
    }
}
