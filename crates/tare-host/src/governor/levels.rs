//! The row `level` of `tare_status`: the option `level` at run time. One statement sets any number of
//! instruments; `tare_levels` takes an UPDATE of one row for each.

use std::sync::{Mutex, PoisonError};

use crate::options::{DEFAULT_LEVEL, LevelRule, LevelSetting, Options};
use crate::process::ENGINE;
use tare_tables::TableError;

/// The row's name.
pub const ROW: &str = "level";
/// The error text that lists the allowed values.
const ALLOWED: &str = "it may be exact, lean, sampled, sums, counts or off, alone or as pattern=LEVEL, or several of these with commas between";

/// The value set last at run time.
static SET: Mutex<Option<String>> = Mutex::new(None);

/// Returns the row's value: the one set last, or the option's. Instruments may have other levels since;
/// `tare_levels` shows them.
pub fn shown(options: &Options) -> String {
    let set = SET.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let text = set.unwrap_or_else(|| text(&options.levels));
    if text.is_empty() { DEFAULT_LEVEL.name().to_owned() } else { text }
}

fn text(rules: &[LevelRule]) -> String {
    rules.iter().map(LevelRule::to_string).collect::<Vec<_>>().join(", ")
}

/// Parses `LEVEL` or `pattern=LEVEL`, or several separated by commas. The last one that matches a name
/// decides.
fn read(value: &str) -> Option<Vec<LevelRule>> {
    value.split(',').map(LevelRule::read).collect()
}

/// Sets the levels of the instruments that `value` names. As with the option, instruments named by a pattern
/// are held, and the governor may move those named only together with all others. Instruments that a plugin
/// registers later start as the option says.
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
    drop(set);
    if let Some(server) = super::server() {
        server.levels_changed();
    }
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
