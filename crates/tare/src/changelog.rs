//! The changelog: what it says of options between two versions.

/// The changelog of this version.
pub(crate) const TEXT: &str = include_str!("../../../CHANGELOG.md");
/// Sections about what worked in another way before.
const SECTIONS: [&str; 3] = ["Changed", "Deprecated", "Removed"];

/// Returns the entries about changes after version `from`, up to `to`, that name an option which `is_set`,
/// the newest first, each with its version.
pub(crate) fn changes(text: &str, from: &str, to: &str, is_set: impl Fn(&str) -> bool) -> Vec<String> {
    let Some((from, to)) = number(from).zip(number(to)) else { return vec![] };
    let (mut version, mut section, mut entries) = ("", "", vec![]);
    for line in text.lines() {
        if let Some(title) = line.strip_prefix("## [") {
            (version, section) = (title.split(']').next().unwrap_or_default(), "");
        } else if let Some(title) = line.strip_prefix("### ") {
            section = title.trim();
        } else if let Some(begin) = line.strip_prefix("- ") {
            let is_between = number(version).is_some_and(|it| it > from && it <= to);
            entries.push((is_between && SECTIONS.contains(&section), format!("{version}: {begin}")));
        } else if let Some((_, entry)) = entries.last_mut().filter(|_| line.starts_with("  ")) {
            *entry += &format!(" {}", line.trim());
        }
    }
    let is_meant = |(counts, entry): (bool, String)| (counts && names(&entry).any(&is_set)).then_some(entry);
    entries.into_iter().filter_map(is_meant).collect()
}

/// Returns the names in an entry that may be options': `name` or `name = value` as code, with hyphens.
fn names(entry: &str) -> impl Iterator<Item = &str> {
    let code = entry.split('`').skip(1).step_by(2);
    code.map(|code| code.split('=').next().unwrap_or_default().trim())
}

/// Returns a version's numbers; `None` for what is no release.
fn number(version: &str) -> Option<[u32; 3]> {
    let release = version.split(['-', '+']).next()?;
    let parts: Vec<u32> = release.split('.').map(str::parse).collect::<Result<_, _>>().ok()?;
    parts.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "# Changelog\n\n## [Unreleased]\n\n### Changed\n\n- `level`: not yet.\n\n\
        ## [0.3.0] - 2027-03-01\n\n### Removed\n\n- The option `old-size`. Use\n  `memory-max`.\n- `other` is gone.\n\n\
        ## [0.2.0] - 2027-01-01\n\n### Added\n\n- `level = new`.\n\n### Changed\n\n- `level = lean` records less.\n\n\
        ## [0.1.0] - 2026-11-23\n\n### Changed\n\n- `level` was another.\n";

    #[test]
    fn only_changes_between_the_versions_about_options_that_are_set() {
        let is_set = |name: &str| ["level", "old-size"].contains(&name);
        let all = changes(LOG, "0.1.0", "0.3.0", is_set);
        let [removed, changed] =
            ["0.3.0: The option `old-size`. Use `memory-max`.", "0.2.0: `level = lean` records less."];
        assert_eq!(all, [removed, changed]);
        assert_eq!(changes(LOG, "0.1.0", "0.2.5", is_set), [changed]);
        assert_eq!(changes(LOG, "0.2.0-1", "0.3.0", is_set), [removed]);
        for (from, to) in [("0.3.0", "0.3.0"), ("0.3.0", "0.1.0"), ("?", "0.3.0"), ("0.1", "0.3.0")] {
            assert_eq!(changes(LOG, from, to, is_set), [""; 0], "{from} to {to}");
        }
        assert_eq!(changes(LOG, "0.1.0", "0.3.0", |_| false), [""; 0]);
    }

    #[test]
    fn the_changelog_has_this_form() {
        let version = env!("CARGO_PKG_VERSION");
        assert!(TEXT.contains(&format!("\n## [{version}]")) && number(version).is_some());
    }
}
