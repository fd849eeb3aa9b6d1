//! What remains to be measured of a cell.

use std::collections::BTreeSet;

use super::workload_of;
use crate::definition::{Definition, SettingDef};
use crate::results::record::Cell;

/// Returns the indexes of the settings that a cell continues with after so many blocks: those that are not
/// precise enough, their bases, and the A/A control. All settings while it lacks blocks.
pub(super) fn wanted(
    definition: &Definition,
    cell: &Cell,
    blocks: u32,
    is_known: impl Fn(&str) -> bool,
) -> Vec<usize> {
    if blocks >= definition.blocks {
        return vec![];
    }
    let goes_on = !definition.stop_early || owes(definition, cell, blocks);
    let runs = |s: &&SettingDef| definition.runs(workload_of(definition, cell), s);
    let open: BTreeSet<&str> = definition
        .settings
        .iter()
        .filter(runs)
        .map(|s| s.name.as_str())
        .filter(|name| goes_on || !is_known(name))
        .collect();
    let needed = |s: &SettingDef| {
        let serves = |open: &SettingDef| definition.base_of(open) == s.name;
        open.contains(s.name.as_str())
            || definition.settings.iter().any(|o| open.contains(o.name.as_str()) && serves(o))
            || (s.control && !open.is_empty() && runs(&s))
    };
    (0..definition.settings.len()).filter(|&i| needed(&definition.settings[i])).collect()
}

/// Returns whether a cell has fewer blocks than it gets in any case. One without a setting gets none.
pub(super) fn owes(definition: &Definition, cell: &Cell, blocks: u32) -> bool {
    let workload = workload_of(definition, cell);
    blocks < definition.least_blocks && definition.settings.iter().any(|s| definition.runs(workload, s))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The second workload has a server that no setting is on.
    const STUDY: &str = r#"
question = "What does it cost?"
slice_seconds = 5
blocks = 30
least_blocks = 8
minutes = 60
precision = 0.005
margin = 0.01

[[server]]
name = "ours"
program = "mariadbd"

[[server]]
name = "idle"
program = "mariadbd"

[[setting]]
name = "off"

[[setting]]
name = "on"
switch = ["SET GLOBAL slow_query_log = ON"]

[[setting]]
name = "more"
switch = ["SET GLOBAL general_log = ON"]

[[workload]]
name = "reads"
run = "oltp_read_only"
users = [2]

[[workload]]
name = "nowhere"
run = "oltp_read_only"
users = [2]
server = "idle"
"#;

    fn study(text: &str) -> (Definition, Vec<Cell>) {
        let definition = Definition::read(text, "s.toml", false).expect("a study");
        let names: Vec<&str> = definition.settings.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names, ["off", "off again", "on", "more"]);
        let cells = definition.cells();
        (definition, cells)
    }

    /// Otherwise it would never get them, and the study would ignore its time limit.
    #[test]
    fn a_cell_that_is_known_early_goes_on_until_it_has_its_least_blocks() {
        let (definition, cells) = study(STUDY);
        let places = |blocks: u32| wanted(&definition, &cells[0], blocks, |_| true);
        assert_eq!(places(7), [0, 1, 2, 3]);
        assert!(owes(&definition, &cells[0], 7));
        assert!(places(8).is_empty());
        assert!(!owes(&definition, &cells[0], 8));
    }

    #[test]
    fn what_is_not_known_is_measured_with_its_base_and_the_twin() {
        let (definition, cells) = study(STUDY);
        let without_on = |blocks: u32| wanted(&definition, &cells[0], blocks, |name| name != "on");
        assert_eq!(without_on(29), [0, 1, 2]);
        assert!(without_on(30).is_empty(), "there are no more blocks");
        let (definition, _) = study(&format!("stop_early = false\n{STUDY}"));
        assert_eq!(wanted(&definition, &cells[0], 29, |_| true), [0, 1, 2, 3]);
    }

    #[test]
    fn a_load_that_nothing_runs_owes_nothing() {
        let (definition, cells) = study(STUDY);
        assert!(!owes(&definition, &cells[1], 0));
        assert!(wanted(&definition, &cells[1], 0, |_| false).is_empty());
    }
}
