//! The known settings of one run of a server: original values, the governor's, and those of others. They
//! outlive a connection.

use std::collections::BTreeMap;
use std::path::PathBuf;

use tare_budget::Held;
use tare_server::sql::is_like;

use super::Error;
use super::hand::Notice;
use super::settings::{RowName, SettingsByRow};
use super::state::{ChangedRow, Debts, ServerIdentity, StateFile};

/// Prefix of instruments that no server switches: an UPDATE succeeds without effect.
const FIXED: &str = "memory/performance_schema/";

/// The known settings.
#[derive(Clone, Debug)]
pub(super) struct KnownSettings {
    /// The run of the server.
    pub(super) identity: ServerIdentity,
    /// Path of the file with the original values.
    pub(super) path: PathBuf,
    /// Values before any move, or those that a person has set since.
    pub(super) original: SettingsByRow,
    /// Values at the last reading, with the moves after it.
    pub(super) present: SettingsByRow,
    /// Rows that are left alone, and why.
    pub(super) held: BTreeMap<RowName, Held>,
    /// Rows to restore.
    pub(super) owed: Debts,
    /// Values that may have been written before a connection was lost.
    pub(super) unsure: SettingsByRow,
}

impl KnownSettings {
    /// Creates the known settings of a server that the governor has not changed yet.
    pub(super) fn new(identity: ServerIdentity, path: PathBuf, present: SettingsByRow) -> KnownSettings {
        let original = present.clone();
        let (held, owed, unsure) = (BTreeMap::new(), Debts::new(), SettingsByRow::new());
        KnownSettings { identity, path, original, present, held, owed, unsure }
    }

    /// Returns whether the known settings are still valid: the server has not been restarted, and the file
    /// lists the same rows to restore. If it does not, somebody has restored them meanwhile.
    pub(super) fn goes_on(&self, identity: &ServerIdentity, state: Option<&StateFile>) -> bool {
        let written = state.map_or(&[][..], |state| state.owed.as_slice());
        self.identity.is_same_run(identity) && written.iter().eq(self.owed.values())
    }

    /// Takes over the rows to restore from a killed governor, as far as its values are still there.
    pub(super) fn take_over(&mut self, state: StateFile) -> Vec<Notice> {
        let mut notices = vec![];
        self.held.extend(state.persons.into_iter().map(|name| (name, Held::Person)));
        for owed in state.owed {
            let name = (owed.table, owed.name.clone());
            match self.present.get(&name) {
                Some(now) if *now == owed.original => {}
                Some(now) if owed.given.contains(now) => {
                    self.original.insert(name.clone(), owed.original);
                    self.owed.insert(name, owed);
                }
                Some(_) => {
                    notices.push(Notice::Person { name: owed.name });
                    self.held.insert(name, Held::Person);
                }
                None => {}
            }
        }
        if !self.owed.is_empty() {
            notices.insert(0, Notice::TakenOver { rows: self.owed.len() });
        }
        notices
    }

    /// Leaves alone what one of these patterns matches, and what cannot be switched.
    pub(super) fn leave_alone(&mut self, patterns: &[String]) {
        for name in self.original.keys() {
            if patterns.iter().any(|pattern| is_like(pattern, &name.1)) {
                self.held.insert(name.clone(), Held::Person);
            } else if name.1.starts_with(FIXED) {
                self.held.insert(name.clone(), Held::Fixed);
            }
        }
    }

    /// Takes the current values. Differences from the known ones are somebody else's, except for results of
    /// an interrupted write.
    pub(super) fn see(&mut self, now: SettingsByRow) -> Vec<Notice> {
        let unsure = std::mem::take(&mut self.unsure);
        let mut notices = vec![];
        for (name, before) in &self.present {
            match now.get(name) {
                Some(setting) if setting == before || unsure.get(name) == Some(setting) => continue,
                Some(setting) => {
                    self.original.insert(name.clone(), *setting);
                    self.held.insert(name.clone(), Held::Person);
                    notices.push(Notice::Person { name: name.1.clone() });
                }
                None => {
                    self.original.remove(name);
                    notices.push(Notice::Vanished { name: name.1.clone() });
                }
            }
            self.owed.remove(name);
        }
        for (name, setting) in &now {
            self.original.entry(name.clone()).or_insert(*setting);
        }
        self.owed.retain(|name, owed| now.get(name) != Some(&owed.original));
        self.present = now;
        notices
    }

    /// Records the values that are about to be written.
    pub(super) fn owe(&mut self, wanted: &SettingsByRow) {
        for (name, setting) in wanted {
            let original = self.original[name];
            let fresh = || ChangedRow { table: name.0, name: name.1.clone(), original, given: vec![] };
            let owed = self.owed.entry(name.clone()).or_insert_with(fresh);
            if !owed.given.contains(setting) {
                owed.given.push(*setting);
            }
        }
    }

    /// Returns what to restore, given the current values, and the names of rows that somebody else has set.
    pub(super) fn due(&self, now: &SettingsByRow) -> (SettingsByRow, Vec<String>) {
        let (mut wanted, mut left) = (SettingsByRow::new(), vec![]);
        for (name, owed) in &self.owed {
            match now.get(name) {
                Some(setting) if *setting == owed.original => {}
                Some(setting) if owed.given.contains(setting) => {
                    wanted.insert(name.clone(), owed.original);
                }
                Some(_) => left.push(owed.name.clone()),
                None => {}
            }
        }
        (wanted, left)
    }

    /// Forgets all rows to restore, whatever their values. Returns their number.
    ///
    /// # Errors
    ///
    /// [`Error::State`].
    pub(super) fn leave(&mut self) -> Result<usize, Error> {
        let rows = self.owed.len();
        self.owed.clear();
        self.held.clear();
        self.write()?;
        Ok(rows)
    }

    /// Writes the rows to restore to the file; removes it if there are none.
    ///
    /// # Errors
    ///
    /// [`Error::State`].
    pub(super) fn write(&self) -> Result<(), Error> {
        let failed = |source| Error::State { path: self.path.clone(), source };
        if self.owed.is_empty() {
            return StateFile::remove(&self.path).map_err(failed);
        }
        let persons = self.held.iter().filter(|(_, held)| **held == Held::Person);
        let state = StateFile {
            server: self.identity.clone(),
            owed: self.owed.values().cloned().collect(),
            persons: persons.map(|(name, _)| name.clone()).collect(),
        };
        state.write(&self.path).map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::super::settings::{RowSetting, SetupTableName};
    use super::*;

    const ON: RowSetting = RowSetting { enabled: true, timed: Some(true) };
    const COUNTED: RowSetting = RowSetting { enabled: true, timed: Some(false) };
    const OFF: RowSetting = RowSetting { enabled: false, timed: Some(true) };

    fn run(started: i64) -> ServerIdentity {
        let text = format!(r#"{{"host":"db","port":3306,"data":"/data/","started":{started}}}"#);
        serde_json::from_str(&text).expect("an identity")
    }

    fn rows(rows: &[(&str, RowSetting)]) -> SettingsByRow {
        let row = |(name, setting): &(&str, RowSetting)| {
            ((SetupTableName::Instruments, (*name).to_owned()), *setting)
        };
        rows.iter().map(row).collect()
    }

    /// Returns the state of a server where all was on, after a write of these rows was started.
    fn writing(wanted: &SettingsByRow) -> KnownSettings {
        let present = rows(&[("a", ON), ("b", ON), ("c", ON), ("d", ON)]);
        let mut known = KnownSettings::new(run(1000), PathBuf::from("/nowhere"), present);
        known.owe(wanted);
        known.unsure = wanted.clone();
        known
    }

    fn owed(known: &KnownSettings) -> Vec<&str> {
        known.owed.keys().map(|name| name.1.as_str()).collect()
    }

    #[test]
    fn a_write_that_was_cut_off_is_nobody_elses_and_what_it_did_is_owed() {
        let mut known = writing(&rows(&[("a", OFF), ("b", OFF), ("c", OFF)]));
        // It wrote `a`; `c` and `d` were changed by others.
        let notices = known.see(rows(&[("a", OFF), ("b", ON), ("c", COUNTED), ("d", OFF)]));
        let person = |name: &str| Notice::Person { name: name.to_owned() };
        assert_eq!(notices, [person("c"), person("d")]);
        assert_eq!(owed(&known), ["a"]);
        assert_eq!(known.due(&known.present), (rows(&[("a", ON)]), vec![]));
        // From the next reading on, a value that the governor might have written is somebody else's.
        let notices = known.see(rows(&[("a", OFF), ("b", OFF), ("c", COUNTED), ("d", OFF)]));
        assert_eq!(notices, [person("b")]);
    }

    #[test]
    fn one_goes_on_in_the_same_run_while_the_file_says_what_is_owed() {
        let known = writing(&rows(&[("a", OFF)]));
        let state =
            StateFile { server: run(1000), owed: known.owed.values().cloned().collect(), persons: vec![] };
        assert!(known.goes_on(&run(1001), Some(&state)));
        assert!(!known.goes_on(&run(2000), Some(&state)), "it was started anew");
        assert!(!known.goes_on(&run(1000), None), "somebody has put it back");
        let other = StateFile { owed: vec![], ..state };
        assert!(!known.goes_on(&run(1000), Some(&other)));
        let nothing = writing(&SettingsByRow::new());
        assert!(nothing.goes_on(&run(1000), None) && !nothing.goes_on(&run(2000), None));
    }
}
