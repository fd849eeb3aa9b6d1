//! What is known of the settings of one run of a server: what was, what we have given, what others have. It outlasts a
//! connection.

use std::collections::BTreeMap;
use std::path::PathBuf;

use tare_budget::Held;

use super::Error;
use super::hand::Notice;
use super::settings::{Name, Settings};
use super::state::{Debts, Identity, Owed, State};
use crate::sql::is_like;

/// What no built-in switches: it answers an UPDATE without an error, and stays as it is.
const FIXED: &str = "memory/performance_schema/";

/// What is known of them.
#[derive(Clone, Debug)]
pub(super) struct Known {
    /// Of which run.
    pub(super) identity: Identity,
    /// Where it is written what is owed.
    pub(super) path: PathBuf,
    /// What there was before anything was moved, or what a person has set since.
    pub(super) original: Settings,
    /// What there was at the last look, and what was moved after it.
    pub(super) present: Settings,
    /// What is left alone, and why.
    pub(super) held: BTreeMap<Name, Held>,
    /// What is to be put back.
    pub(super) owed: Debts,
    /// What may have been written: a connection that is lost does not tell.
    pub(super) unsure: Settings,
}

impl Known {
    /// Nothing was moved yet.
    pub(super) fn new(identity: Identity, path: PathBuf, present: Settings) -> Known {
        let original = present.clone();
        let (held, owed, unsure) = (BTreeMap::new(), Debts::new(), Settings::new());
        Known { identity, path, original, present, held, owed, unsure }
    }

    /// Whether one may go on by it: it is of this run, and what is written down is still what is owed. Otherwise somebody has put
    /// it back meanwhile.
    pub(super) fn goes_on(&self, identity: &Identity, state: Option<&State>) -> bool {
        let written = state.map_or(&[][..], |state| state.owed.as_slice());
        self.identity.is_same_run(identity) && written.iter().eq(self.owed.values())
    }

    /// Makes the debts of a governor that was killed ours, as far as its settings are still there.
    pub(super) fn take_over(&mut self, state: State) -> Vec<Notice> {
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

    /// Takes what is there now. What differs from what was known is somebody else's, but for what a write that was cut off has come
    /// to.
    pub(super) fn see(&mut self, now: Settings) -> Vec<Notice> {
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

    /// Notes what is about to be given.
    pub(super) fn owe(&mut self, wanted: &Settings) {
        for (name, setting) in wanted {
            let original = self.original[name];
            let fresh = || Owed { table: name.0, name: name.1.clone(), original, given: vec![] };
            let owed = self.owed.entry(name.clone()).or_insert_with(fresh);
            if !owed.given.contains(setting) {
                owed.given.push(*setting);
            }
        }
    }

    /// What is to be given back of what is there now, and the names of what somebody else has set.
    pub(super) fn due(&self, now: &Settings) -> (Settings, Vec<String>) {
        let (mut wanted, mut left) = (Settings::new(), vec![]);
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

    /// Nothing is owed any more, whatever the settings are. Returns how many rows were.
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

    /// Writes down what is owed; where nothing is, there is no file.
    ///
    /// # Errors
    ///
    /// [`Error::State`].
    pub(super) fn write(&self) -> Result<(), Error> {
        let failed = |source| Error::State { path: self.path.clone(), source };
        if self.owed.is_empty() {
            return State::remove(&self.path).map_err(failed);
        }
        let persons = self.held.iter().filter(|(_, held)| **held == Held::Person);
        let state = State {
            server: self.identity.clone(),
            owed: self.owed.values().cloned().collect(),
            persons: persons.map(|(name, _)| name.clone()).collect(),
        };
        state.write(&self.path).map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::super::settings::{Setting, Table};
    use super::*;

    const ON: Setting = Setting { enabled: true, timed: Some(true) };
    const COUNTED: Setting = Setting { enabled: true, timed: Some(false) };
    const OFF: Setting = Setting { enabled: false, timed: Some(true) };

    fn run(started: i64) -> Identity {
        let text = format!(r#"{{"host":"db","port":3306,"data":"/data/","started":{started}}}"#);
        serde_json::from_str(&text).expect("an identity")
    }

    fn rows(rows: &[(&str, Setting)]) -> Settings {
        let row = |(name, setting): &(&str, Setting)| ((Table::Instruments, (*name).to_owned()), *setting);
        rows.iter().map(row).collect()
    }

    /// Of a server where all was on, once a write of these rows was begun.
    fn writing(wanted: &Settings) -> Known {
        let present = rows(&[("a", ON), ("b", ON), ("c", ON), ("d", ON)]);
        let mut known = Known::new(run(1000), PathBuf::from("/nowhere"), present);
        known.owe(wanted);
        known.unsure = wanted.clone();
        known
    }

    fn owed(known: &Known) -> Vec<&str> {
        known.owed.keys().map(|name| name.1.as_str()).collect()
    }

    #[test]
    fn a_write_that_was_cut_off_is_nobody_elses_and_what_it_did_is_owed() {
        let mut known = writing(&rows(&[("a", OFF), ("b", OFF), ("c", OFF)]));
        // It came to `a`; `c` and `d` are somebody else's meanwhile.
        let notices = known.see(rows(&[("a", OFF), ("b", ON), ("c", COUNTED), ("d", OFF)]));
        let person = |name: &str| Notice::Person { name: name.to_owned() };
        assert_eq!(notices, [person("c"), person("d")]);
        assert_eq!(owed(&known), ["a"]);
        assert_eq!(known.due(&known.present), (rows(&[("a", ON)]), vec![]));
        // The next look knows what there was: what was sure to be ours then is somebody's now.
        let notices = known.see(rows(&[("a", OFF), ("b", OFF), ("c", COUNTED), ("d", OFF)]));
        assert_eq!(notices, [person("b")]);
    }

    #[test]
    fn one_goes_on_in_the_same_run_while_the_file_says_what_is_owed() {
        let known = writing(&rows(&[("a", OFF)]));
        let state =
            State { server: run(1000), owed: known.owed.values().cloned().collect(), persons: vec![] };
        assert!(known.goes_on(&run(1001), Some(&state)));
        assert!(!known.goes_on(&run(2000), Some(&state)), "it was started anew");
        assert!(!known.goes_on(&run(1000), None), "somebody has put it back");
        let other = State { owed: vec![], ..state };
        assert!(!known.goes_on(&run(1000), Some(&other)));
        let nothing = writing(&Settings::new());
        assert!(nothing.goes_on(&run(1000), None) && !nothing.goes_on(&run(2000), None));
    }
}
