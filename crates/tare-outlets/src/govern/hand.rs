//! Changes of a server's settings: it sets rows of `setup_%`, and restores its own changes.

use std::path::{Path, PathBuf};

use tare_budget::{Held, Move, Switch};

use super::Error;
use super::known::KnownSettings;
use super::settings::{self, SettingsByRow, SetupTableName};
use super::state::{ServerIdentity, StateFile};
use crate::source::{Address, Kind, Source};

/// The named lock that the single governor of a server holds.
const LOCK: &str = "tare_govern";
/// Seconds after which the server closes a silent connection, and releases its lock.
const PATIENCE: u32 = 3600;

/// An observation about the settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A killed governor had set so many rows, which will be restored together with this one's.
    TakenOver {
        /// Number of rows.
        rows: usize,
    },
    /// Somebody else has set a row, which is left alone from now on.
    Person {
        /// Name of the row.
        name: String,
    },
    /// A row does not take the value it is given.
    Fixed {
        /// Name of the row.
        name: String,
    },
    /// A row is gone, as after UNINSTALL PLUGIN.
    Vanished {
        /// Name of the row.
        name: String,
    },
}

/// The result of restoring settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PutBack {
    /// Number of restored rows.
    pub rows: usize,
    /// Names of rows that were not restored, because somebody else had set them meanwhile.
    pub left: Vec<String>,
}

/// A connection that holds the lock, with the saved state of its server.
pub(super) struct Hold {
    source: Source,
    pub(super) identity: ServerIdentity,
    path: PathBuf,
    pub(super) state: Option<StateFile>,
}

impl Hold {
    /// Connects to a server and takes the lock, without changing anything.
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
        let identity = ServerIdentity::read(&mut source)?;
        let path = StateFile::path(folder, &identity);
        let state = StateFile::read(&path, &identity)
            .map_err(|source| Error::State { path: path.clone(), source })?;
        Ok(Hold { source, identity, path, state })
    }

    /// Checks that everything may be written. Not needed for restoring, which does what it can.
    ///
    /// # Errors
    ///
    /// [`Error::NoRight`], [`Error::ReadOnly`], [`Error::Source`].
    pub(super) fn try_writing(&mut self) -> Result<(), Error> {
        settings::try_writing(&mut self.source).map_err(|error| Error::right(&mut self.source, error))
    }
}

/// A connection that holds the lock, with the known settings.
pub struct LockedConnection {
    pub(super) source: Source,
    pub(super) known: KnownSettings,
}

impl LockedConnection {
    /// Continues with the known settings if they are still valid; otherwise starts anew, and leaves alone
    /// what was left alone in this run of the server. Changes nothing.
    ///
    /// # Errors
    ///
    /// Those of `settings::read`.
    pub(super) fn new(
        hold: Hold,
        keep: &[String],
        known: Option<&KnownSettings>,
    ) -> Result<(LockedConnection, Vec<Notice>), Error> {
        let Hold { mut source, identity, path, state } = hold;
        let known = known.filter(|known| known.identity.is_same_run(&identity));
        if let Some(known) = known
            && known.goes_on(&identity, state.as_ref())
        {
            return Ok((LockedConnection { source, known: known.clone() }, vec![]));
        }
        let mut fresh = KnownSettings::new(identity, path, settings::read(&mut source)?);
        let notices = state.map(|state| fresh.take_over(state)).unwrap_or_default();
        fresh.leave_alone(keep);
        fresh.held.extend(known.into_iter().flat_map(|known| known.held.clone()));
        Ok((LockedConnection { source, known: fresh }, notices))
    }

    /// Returns the levels of everything that was on.
    #[must_use]
    pub fn board(&self) -> Vec<Switch> {
        settings::board(&self.known.original, &self.known.present, &self.known.held)
    }

    /// Checks whether somebody else has changed settings.
    ///
    /// # Errors
    ///
    /// Those of `settings::read`.
    pub fn refresh(&mut self) -> Result<Vec<Notice>, Error> {
        let now = settings::read(&mut self.source)?;
        let owed = self.known.owed.len();
        let notices = self.known.see(now);
        if !notices.is_empty() || self.known.owed.len() != owed {
            self.known.write()?;
        }
        Ok(notices)
    }

    /// Carries out moves. A row that does not take its value counts as fixed from then on.
    ///
    /// # Errors
    ///
    /// When the server refuses; then everything is restored as far as possible.
    pub fn apply(&mut self, board: &[Switch], moves: &[Move]) -> Result<Vec<Notice>, Error> {
        let mut wanted = SettingsByRow::new();
        for it in moves {
            let switch = board.iter().find(|switch| switch.name == it.switch);
            let rows = switch.map(|switch| settings::rows(switch, it.to, &self.known.original));
            wanted.extend(rows.unwrap_or_default());
        }
        wanted.retain(|name, setting| self.known.present.get(name) != Some(setting));
        self.set(&wanted)
    }

    /// Restores a row's original value and leaves it alone from then on, because it has no effect.
    ///
    /// # Errors
    ///
    /// Those of [`LockedConnection::apply`].
    pub fn fix(&mut self, instrument: &str) -> Result<Vec<Notice>, Error> {
        let name = (SetupTableName::Instruments, instrument.to_owned());
        let Some(original) = self.known.original.get(&name).copied() else { return Ok(vec![]) };
        let mut notices = self.set(&SettingsByRow::from([(name.clone(), original)]))?;
        self.known.held.insert(name, Held::Fixed);
        notices.push(Notice::Fixed { name: instrument.to_owned() });
        Ok(notices)
    }

    fn set(&mut self, wanted: &SettingsByRow) -> Result<Vec<Notice>, Error> {
        self.known.owe(wanted);
        // Before the server is changed, as a kill may come at any time.
        self.known.write()?;
        self.known.unsure = wanted.clone();
        if let Err(error) = settings::write(&mut self.source, wanted) {
            if !error.is_passing() {
                // The first error is reported; the file has what may be left.
                let _ = self.put_back();
            }
            return Err(Error::right(&mut self.source, error));
        }
        let now = settings::read(&mut self.source)?;
        let KnownSettings { present, held, owed, unsure, .. } = &mut self.known;
        unsure.clear();
        let mut notices = vec![];
        for (name, setting) in wanted {
            if now.get(name) == present.get(name) && now.get(name) != Some(setting) {
                held.insert(name.clone(), Held::Fixed);
                owed.remove(name);
                notices.push(Notice::Fixed { name: name.1.clone() });
            } else {
                // A difference at the next reading is somebody else's, or the row is gone.
                present.insert(name.clone(), *setting);
            }
        }
        owed.retain(|name, owed| now.get(name) != Some(&owed.original));
        self.known.write()?;
        Ok(notices)
    }

    /// Restores all rows that still have the governor's values and may be written.
    ///
    /// # Errors
    ///
    /// When the server refuses some of it, or is gone; then the file has what is left.
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

    /// Leaves the settings as they are, permanently.
    ///
    /// # Errors
    ///
    /// [`Error::State`].
    pub fn leave(&mut self) -> Result<usize, Error> {
        self.known.leave()
    }

    /// Returns the path of the file with the original values.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.known.path
    }
}

/// Checks that the Performance Schema exists and is on.
fn check_schema(source: &mut Source) -> Result<(), Error> {
    let rows = source.ask("SELECT @@performance_schema")?;
    let is_on = rows.first().is_some_and(|row| row.count(0) == 1);
    if is_on || source.kind() == Kind::Tare {
        return Ok(());
    }
    Err(Error::NoSchema { address: source.address().to_string() })
}

fn lock(source: &mut Source) -> Result<(), Error> {
    // Waits a second for a connection that has just ended.
    let rows = source.ask(&format!("SELECT GET_LOCK('{LOCK}', 1), IS_USED_LOCK('{LOCK}')"))?;
    let row = rows.first();
    if row.is_some_and(|row| row.count(0) == 1) {
        return Ok(());
    }
    let connection = row.and_then(|row| row.number(1)).unwrap_or(0);
    Err(Error::Busy { address: source.address().to_string(), connection })
}
