//! The hand on a server: it knows what was, what it has set and what others have, and puts back what is its own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tare_budget::{Held, Move, Switch};

use super::Error;
use super::settings::{self, Name, Settings, Table};
use super::state::{Debts, Identity, Owed, State};
use crate::source::{Address, Kind, Source};
use crate::sql::is_like;

/// The named lock that one governor of a server holds.
const LOCK: &str = "tare_govern";
/// How long a governor that is busy elsewhere keeps its connection, in seconds.
const PATIENCE: u32 = 3600;
/// What no built-in switches: it answers an UPDATE without an error, and stays as it is.
const FIXED: &str = "memory/performance_schema/";

/// What was noticed about the settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A governor that was killed had set so many rows: they are put back with ours.
    TakenOver {
        /// The rows.
        rows: usize,
    },
    /// Somebody else has set a row: it is left alone from now on.
    Person {
        /// The row.
        name: String,
    },
    /// A row does not take what it is given.
    Fixed {
        /// The row.
        name: String,
    },
    /// A row is gone, as after UNINSTALL PLUGIN.
    Vanished {
        /// The row.
        name: String,
    },
}

/// What putting back came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PutBack {
    /// Rows that are as they were again.
    pub rows: usize,
    /// Rows that somebody else had set meanwhile.
    pub left: Vec<String>,
}

/// A connection that holds the lock, and what is known of the settings.
pub struct Hand {
    pub(super) source: Source,
    pub(super) identity: Identity,
    path: PathBuf,
    original: Settings,
    present: Settings,
    held: BTreeMap<Name, Held>,
    owed: Debts,
}

impl Hand {
    /// Takes hold of a server. Nothing is changed.
    ///
    /// # Errors
    ///
    /// [`Error::Busy`], [`Error::NoRight`], [`Error::NoSchema`], [`Error::State`], [`Error::Source`].
    pub fn new(address: Address, folder: &Path, keep: &[String]) -> Result<(Hand, Vec<Notice>), Error> {
        if let Address::Socket(path) = &address {
            return Err(Error::Endpoint { path: path.clone() });
        }
        let mut source = Source::open(address)?;
        check_schema(&mut source)?;
        source.execute(&format!("SET SESSION wait_timeout = {PATIENCE}"))?;
        settings::try_writing(&mut source).map_err(|error| Error::right(&mut source, error))?;
        lock(&mut source)?;
        let identity = Identity::read(&mut source)?;
        let path = State::path(folder, &identity);
        let state =
            State::read(&path, &identity).map_err(|source| Error::State { path: path.clone(), source })?;
        let present = settings::read(&mut source)?;
        let mut hand = Hand {
            source,
            identity,
            path,
            original: present.clone(),
            present,
            held: BTreeMap::new(),
            owed: Debts::new(),
        };
        let notices = hand.take_over(state);
        for name in hand.original.keys() {
            if keep.iter().any(|pattern| is_like(pattern, &name.1)) {
                hand.held.insert(name.clone(), Held::Person);
            } else if name.1.starts_with(FIXED) {
                hand.held.insert(name.clone(), Held::Fixed);
            }
        }
        Ok((hand, notices))
    }

    /// Makes the debts of a governor that was killed ours, as far as its settings are still there.
    fn take_over(&mut self, state: Option<State>) -> Vec<Notice> {
        let Some(state) = state else { return vec![] };
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

    /// The levels of everything that was on.
    #[must_use]
    pub fn board(&self) -> Vec<Switch> {
        settings::board(&self.original, &self.present, &self.held)
    }

    /// Looks whether somebody else has set something.
    ///
    /// # Errors
    ///
    /// As `settings::read`.
    pub fn refresh(&mut self) -> Result<Vec<Notice>, Error> {
        let now = settings::read(&mut self.source)?;
        let mut notices = vec![];
        for (name, before) in &self.present {
            match now.get(name) {
                Some(setting) if setting == before => continue,
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
        self.present = now;
        if !notices.is_empty() {
            self.write_state()?;
        }
        Ok(notices)
    }

    /// Carries moves out. What does not take its value is fixed from then on.
    ///
    /// # Errors
    ///
    /// When the server refuses; all is put back then, as far as it lets us.
    pub fn apply(&mut self, board: &[Switch], moves: &[Move]) -> Result<Vec<Notice>, Error> {
        let mut wanted = Settings::new();
        for it in moves {
            let switch = board.iter().find(|switch| switch.name == it.switch);
            let rows = switch.map(|switch| settings::rows(switch, it.to, &self.original));
            wanted.extend(rows.unwrap_or_default());
        }
        wanted.retain(|name, setting| self.present.get(name) != Some(setting));
        self.set(&wanted)
    }

    /// Gives a row back its original value, and leaves it alone: it does not do what it says.
    ///
    /// # Errors
    ///
    /// As [`Hand::apply`].
    pub fn fix(&mut self, instrument: &str) -> Result<Vec<Notice>, Error> {
        let name = (Table::Instruments, instrument.to_owned());
        let Some(original) = self.original.get(&name).copied() else { return Ok(vec![]) };
        let mut notices = self.set(&Settings::from([(name.clone(), original)]))?;
        self.held.insert(name, Held::Fixed);
        notices.push(Notice::Fixed { name: instrument.to_owned() });
        Ok(notices)
    }

    fn set(&mut self, wanted: &Settings) -> Result<Vec<Notice>, Error> {
        for (name, setting) in wanted {
            let original = self.original[name];
            let fresh = || Owed { table: name.0, name: name.1.clone(), original, given: vec![] };
            let owed = self.owed.entry(name.clone()).or_insert_with(fresh);
            if !owed.given.contains(setting) {
                owed.given.push(*setting);
            }
        }
        // Before the server hears of it: a kill may come at any moment.
        self.write_state()?;
        if let Err(error) = settings::write(&mut self.source, wanted) {
            if !error.is_passing() {
                // The first error is the one to tell; the file knows what may be left.
                let _ = self.put_back();
            }
            return Err(Error::right(&mut self.source, error));
        }
        let now = settings::read(&mut self.source)?;
        let mut notices = vec![];
        for (name, setting) in wanted {
            if now.get(name) == self.present.get(name) && now.get(name) != Some(setting) {
                self.held.insert(name.clone(), Held::Fixed);
                self.owed.remove(name);
                notices.push(Notice::Fixed { name: name.1.clone() });
            } else {
                // What differs from this at the next look is somebody else's, or gone.
                self.present.insert(name.clone(), *setting);
            }
        }
        self.owed.retain(|name, owed| now.get(name) != Some(&owed.original));
        self.write_state()?;
        Ok(notices)
    }

    /// Puts back everything that is still as we have set it.
    ///
    /// # Errors
    ///
    /// When the server refuses or is gone; the file is kept then.
    pub fn put_back(&mut self) -> Result<PutBack, Error> {
        let now = settings::read(&mut self.source)?;
        let mut wanted = Settings::new();
        let mut done = PutBack::default();
        for (name, owed) in &self.owed {
            match now.get(name) {
                Some(setting) if *setting == owed.original => {}
                Some(setting) if owed.given.contains(setting) => {
                    wanted.insert(name.clone(), owed.original);
                }
                Some(_) => done.left.push(owed.name.clone()),
                None => {}
            }
        }
        settings::write(&mut self.source, &wanted).map_err(|error| Error::right(&mut self.source, error))?;
        done.rows = wanted.len();
        self.present.extend(wanted);
        self.owed.clear();
        self.write_state()?;
        Ok(done)
    }

    /// Leaves the settings as they are, for good.
    ///
    /// # Errors
    ///
    /// [`Error::State`].
    pub fn leave(&mut self) -> Result<usize, Error> {
        let rows = self.owed.len();
        self.owed.clear();
        self.held.clear();
        self.write_state()?;
        Ok(rows)
    }

    /// Where it is written what is owed.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn write_state(&self) -> Result<(), Error> {
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

/// The schema has to be there and on.
fn check_schema(source: &mut Source) -> Result<(), Error> {
    let rows = source.ask("SELECT @@performance_schema")?;
    let is_on = rows.first().is_some_and(|row| row.count(0) == 1);
    if is_on || source.kind() == Kind::Tare {
        return Ok(());
    }
    Err(Error::NoSchema { address: source.address().to_string() })
}

fn lock(source: &mut Source) -> Result<(), Error> {
    // A second's time for a connection that has just ended.
    let rows = source.ask(&format!("SELECT GET_LOCK('{LOCK}', 1), IS_USED_LOCK('{LOCK}')"))?;
    let row = rows.first();
    if row.is_some_and(|row| row.count(0) == 1) {
        return Ok(());
    }
    let connection = row.and_then(|row| row.number(1)).unwrap_or(0);
    Err(Error::Busy { address: source.address().to_string(), connection })
}
