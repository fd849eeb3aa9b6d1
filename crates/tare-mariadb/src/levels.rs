//! The row `level` of `tare_status`: the option `level` at run time. One statement sets any number of instruments, where
//! `tare_levels` takes an UPDATE of a row for each.

use std::sync::{Mutex, PoisonError};

use tare_tables::TableError;

use crate::entry::ENGINE;
use crate::options::{DEFAULT_LEVEL, LevelRule, LevelSetting, Options};

/// Its name.
pub(crate) const ROW: &str = "level";
/// What it may be set to.
const ALLOWED: &str = "it may be exact, lean, sampled, sums, counts or off, alone or as pattern=LEVEL, or several of these with commas between";

/// What it was set to last.
static SET: Mutex<Option<String>> = Mutex::new(None);

/// What it shows: what it was set to, or what the option said. Instruments may have other levels since: `tare_levels` tells.
pub(crate) fn shown(options: &Options) -> String {
    let set = SET.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let text = set.unwrap_or_else(|| text(&options.levels));
    if text.is_empty() { DEFAULT_LEVEL.name().to_owned() } else { text }
}

fn text(rules: &[LevelRule]) -> String {
    rules.iter().map(LevelRule::to_string).collect::<Vec<_>>().join(", ")
}

/// `LEVEL` or `pattern=LEVEL`, or several with commas between; of those that match a name the last one decides.
fn read(value: &str) -> Option<Vec<LevelRule>> {
    value.split(',').map(LevelRule::read).collect()
}

/// Sets the instruments that it names. As with the option, those that a pattern names are held, and the governor may move
/// those that are named only together with all the others. What a plugin registers later begins as the option says.
pub(crate) fn set(value: &str) -> Result<(), TableError> {
    let Some(rules) = read(value) else {
        return Err(TableError::WrongValue {
            name: ROW.to_owned(),
            value: value.to_owned(),
            allowed: ALLOWED,
        });
    };
    let settings: Vec<_> = ENGINE
        .instruments()
        .into_iter()
        .filter_map(|instrument| {
            let rule = LevelRule::deciding(&rules, instrument.name)?;
            let level = match rule.setting {
                LevelSetting::Off => None,
                LevelSetting::At(level) => Some(level),
            };
            Some((instrument.id, level, rule.names()))
        })
        .collect();
    let mut set = SET.lock().unwrap_or_else(PoisonError::into_inner);
    ENGINE.set_levels(&settings);
    *set = Some(text(&rules));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_and_said_as_the_option_has_them() {
        let read = |value| read(value).map(|rules| text(&rules));
        assert_eq!(
            read(" Lean , wait/synch/% = COUNTS,%=off").as_deref(),
            Some("lean, wait/synch/%=counts, off")
        );
        assert_eq!(read("exact").as_deref(), Some("exact"));
        for wrong in ["", "lean,", "stage/%", "stage/%=some", "=lean"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_is_wrong_changes_nothing() {
        let error = set("lots").expect_err("no level");
        assert!(matches!(error, TableError::WrongValue { allowed, .. } if allowed == ALLOWED));
    }
}
