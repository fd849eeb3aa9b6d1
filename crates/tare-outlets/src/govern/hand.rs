//! The hand on a server: it sets rows of `setup_%`, and puts back what is its own.

use std::path::{Path, PathBuf};

use tare_budget::{Held, Move, Switch};

use super::Error;
use super::known::Known;
use super::settings::{self, Settings, Table};
use super::state::{Identity, State};
use crate::source::{Address, Kind, Source};

/// The named lock that one governor of a server holds.
const LOCK: &str = "tare_govern";
/// How long the server keeps a connection that says nothing, in seconds. The lock goes with it.
const PATIENCE: u32 = 3600;

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

/// A connection that holds the lock, and what is written down of its server.
pub(super) struct Hold {
    source: Source,
    pub(super) identity: Identity,
    path: PathBuf,
    pub(super) state: Option<State>,
}

impl Hold {
    /// Takes hold of a server. Nothing is changed.
    ///
    /// # Errors
    ///
    /// [`Error::Busy`], [`Error::NoSchema`], [`Error::State`], [`Error::Source`].
    pub(super) fn take(address: Address, folder: &Path) -> Result<Hold, Error> {
        if let Address::Socket(path) = &address {
            return Err(Error::Endpoint { path: path.clone() });
        }
        let mut source = Source::open(address)?;
        check_schema(&mut source)?;
        source.execute(&format!("SET SESSION wait_timeout = {PATIENCE}"))?;
        lock(&mut source)?;
        let identity = Identity::read(&mut source)?;
        let path = State::path(folder, &identity);
        let state =
            State::read(&path, &identity).map_err(|source| Error::State { path: path.clone(), source })?;
        Ok(Hold { source, identity, path, state })
    }

    /// Whether everything may be written. Who puts back does not ask: what may be is put back.
    ///
    /// # Errors
    ///
    /// [`Error::NoRight`], [`Error::ReadOnly`], [`Error::Source`].
    pub(super) fn try_writing(&mut self) -> Result<(), Error> {
        settings::try_writing(&mut self.source).map_err(|error| Error::right(&mut self.source, error))
    }
}

/// A connection that holds the lock, and what is known of the settings.
pub struct Hand {
    pub(super) source: Source,
    pub(super) known: Known,
}

impl Hand {
    /// Goes on with what is known, where one may; else begins anew, and leaves alone what was left alone in this run. Nothing is
    /// changed.
    ///
    /// # Errors
    ///
    /// As `settings::read`.
    pub(super) fn new(
        hold: Hold,
        keep: &[String],
        known: Option<&Known>,
    ) -> Result<(Hand, Vec<Notice>), Error> {
        let Hold { mut source, identity, path, state } = hold;
        let known = known.filter(|known| known.identity.is_same_run(&identity));
        if let Some(known) = known
            && known.goes_on(&identity, state.as_ref())
        {
            return Ok((Hand { source, known: known.clone() }, vec![]));
        }
        let mut fresh = Known::new(identity, path, settings::read(&mut source)?);
        let notices = state.map(|state| fresh.take_over(state)).unwrap_or_default();
        fresh.leave_alone(keep);
        fresh.held.extend(known.into_iter().flat_map(|known| known.held.clone()));
        Ok((Hand { source, known: fresh }, notices))
    }

    /// The levels of everything that was on.
    #[must_use]
    pub fn board(&self) -> Vec<Switch> {
        settings::board(&self.known.original, &self.known.present, &self.known.held)
    }

    /// Looks whether somebody else has set something.
    ///
    /// # Errors
    ///
    /// As `settings::read`.
    pub fn refresh(&mut self) -> Result<Vec<Notice>, Error> {
        let now = settings::read(&mut self.source)?;
        let owed = self.known.owed.len();
        let notices = self.known.see(now);
        if !notices.is_empty() || self.known.owed.len() != owed {
            self.known.write()?;
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
            let rows = switch.map(|switch| settings::rows(switch, it.to, &self.known.original));
            wanted.extend(rows.unwrap_or_default());
        }
        wanted.retain(|name, setting| self.known.present.get(name) != Some(setting));
        self.set(&wanted)
    }

    /// Gives a row back its original value, and leaves it alone: it does not do what it says.
    ///
    /// # Errors
    ///
    /// As [`Hand::apply`].
    pub fn fix(&mut self, instrument: &str) -> Result<Vec<Notice>, Error> {
        let name = (Table::Instruments, instrument.to_owned());
        let Some(original) = self.known.original.get(&name).copied() else { return Ok(vec![]) };
        let mut notices = self.set(&Settings::from([(name.clone(), original)]))?;
        self.known.held.insert(name, Held::Fixed);
        notices.push(Notice::Fixed { name: instrument.to_owned() });
        Ok(notices)
    }

    fn set(&mut self, wanted: &Settings) -> Result<Vec<Notice>, Error> {
        self.known.owe(wanted);
        // Before the server hears of it: a kill may come at any moment.
        self.known.write()?;
        self.known.unsure = wanted.clone();
        if let Err(error) = settings::write(&mut self.source, wanted) {
            if !error.is_passing() {
                // The first error is the one to tell; the file knows what may be left.
                let _ = self.put_back();
            }
            return Err(Error::right(&mut self.source, error));
        }
        let now = settings::read(&mut self.source)?;
        let Known { present, held, owed, unsure, .. } = &mut self.known;
        unsure.clear();
        let mut notices = vec![];
        for (name, setting) in wanted {
            if now.get(name) == present.get(name) && now.get(name) != Some(setting) {
                held.insert(name.clone(), Held::Fixed);
                owed.remove(name);
                notices.push(Notice::Fixed { name: name.1.clone() });
            } else {
                // What differs from this at the next look is somebody else's, or gone.
                present.insert(name.clone(), *setting);
            }
        }
        owed.retain(|name, owed| now.get(name) != Some(&owed.original));
        self.known.write()?;
        Ok(notices)
    }

    /// Puts back everything that is still as we have set it, and may be.
    ///
    /// # Errors
    ///
    /// When the server refuses some of it, or is gone; the file has what is left then.
    pub fn put_back(&mut self) -> Result<PutBack, Error> {
        let now = settings::read(&mut self.source)?;
        let (mut wanted, left) = self.known.due(&now);
        let (written, refused) = settings::write_each(&mut self.source, &wanted);
        let rows = written.len();
        for name in written {
            if let Some(setting) = wanted.remove(&name) {
                self.known.present.insert(name, setting);
            }
        }
        self.known.owed.retain(|name, _| wanted.contains_key(name));
        let noted = self.known.write();
        match refused {
            Some(error) => Err(Error::right(&mut self.source, error)),
            None => noted.map(|()| PutBack { rows, left }),
        }
    }

    /// Leaves the settings as they are, for good.
    ///
    /// # Errors
    ///
    /// [`Error::State`].
    pub fn leave(&mut self) -> Result<usize, Error> {
        self.known.leave()
    }

    /// Where it is written what is owed.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.known.path
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
