//! Which server series a program is of: the layout of its interface depends on it.

use std::fmt;

/// A server series whose interface is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Series {
    /// MariaDB 10.11
    V10_11,
    /// MariaDB 11.4
    V11_4,
    /// MariaDB 11.8
    V11_8,
}

impl Series {
    /// Every known series, oldest first.
    pub const ALL: [Series; 3] = [Series::V10_11, Series::V11_4, Series::V11_8];

    /// As the server spells it, such as `10.11`.
    pub const fn name(self) -> &'static str {
        match self {
            Series::V10_11 => "10.11",
            Series::V11_4 => "11.4",
            Series::V11_8 => "11.8",
        }
    }

    /// The series of a version as the server reports it (`10.11.19-MariaDB-0+deb12u1`); `None` when it is
    /// not one of [`Series::ALL`] or not MariaDB's.
    pub fn of_version(version: &str) -> Option<Series> {
        let (numbers, flavour) = version.split_once('-')?;
        if !flavour.starts_with("MariaDB") {
            return None;
        }
        let (series, patch) = numbers.rsplit_once('.')?;
        if patch.is_empty() || !patch.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        Series::ALL.into_iter().find(|known| known.name() == series)
    }
}

impl fmt::Display for Series {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_the_known_servers_are_told_apart() {
        for (version, series) in [
            ("10.11.19-MariaDB-0+deb12u1", Some(Series::V10_11)),
            ("10.11.5-MariaDB", Some(Series::V10_11)),
            ("11.4.5-MariaDB", Some(Series::V11_4)),
            ("11.8.9-MariaDB-1 from Debian", Some(Series::V11_8)),
            ("11.8.9-MariaDB-log", Some(Series::V11_8)),
            ("10.1.1-MariaDB", None),
            ("10.110.1-MariaDB", None),
            ("11.80.1-MariaDB", None),
            ("10.6.18-MariaDB", None),
            ("12.0.2-MariaDB", None),
            ("10.11.19", None),
            ("10.11.x-MariaDB", None),
            ("11.4-MariaDB", None),
            ("9.7.4-commercial", None),
            ("11.4.5-Percona", None),
            ("", None),
        ] {
            assert_eq!(Series::of_version(version), series, "{version:?}");
        }
    }
}
