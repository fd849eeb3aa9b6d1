//! HOT PATH: the instruments of statements, stages and transactions: from the built-in's to the engine's.
//!
//! The built-in's `setup_instruments` keeps their flags. The engine follows when somebody has updated them.
#![allow(unsafe_code)]

use std::ffi::c_uint;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

use tare_engine::fixed;
use tare_engine::snapshot::{ClassId, Kind, Properties};
use tare_host::process::{ENGINE, guard};

use super::flags::{self, News};
use super::instruments::{Find, name, register};
use super::presence::while_there;
use crate::abi::Class;
use crate::abi::events::PROGRESS;
use crate::abi::lists::STAGE_PREFIX_LENGTH;

/// The most instruments of a kind. Those with a higher number are not counted.
const MOST: usize = 1024;

/// The instruments of a kind, which the built-in finds by a key from 1 on.
pub(crate) struct Instruments {
    kind: Kind,
    /// By the built-in's key or number: the engine's. 0: not met yet.
    known: [AtomicU16; MOST],
    find: OnceLock<Find>,
}

/// The instruments of stages, by key.
pub(crate) static STAGES: Instruments = Instruments::new(Kind::Stage);
/// The instruments of statements, by number.
pub(crate) static STATEMENTS: Instruments = Instruments::new(Kind::Statement);

/// The built-in's instrument of transactions.
static TRANSACTION: OnceLock<&'static Class> = OnceLock::new();

impl Instruments {
    const fn new(kind: Kind) -> Instruments {
        Instruments { kind, known: [const { AtomicU16::new(0) }; MOST], find: OnceLock::new() }
    }

    /// Sets the built-in's function that finds one by its key.
    ///
    /// # Safety
    ///
    /// It may be called from any thread with any number, and returns null or an instrument that is never
    /// removed.
    pub(crate) unsafe fn set_list(&self, find: Find) {
        let _set_once = self.find.set(find);
    }

    /// Returns the instrument of a key.
    fn class(&self, key: c_uint) -> Option<&'static Class> {
        // SAFETY: the promise of `set_list`.
        self.find.get().and_then(|find| unsafe { find(key).as_ref() })
    }

    /// Returns every instrument with its key.
    fn all(&self) -> impl Iterator<Item = (c_uint, &'static Class)> {
        (1..MOST as c_uint).map_while(|key| Some((key, self.class(key)?)))
    }

    /// Returns the engine's number at a place; 0: its events are not counted.
    #[inline(always)]
    fn at(&self, at: usize, class: impl FnOnce() -> Option<&'static Class>) -> ClassId {
        let Some(known) = self.known.get(at) else { return 0 };
        match known.load(Relaxed) {
            0 => self.meet(at, class()),
            known => known,
        }
    }

    #[cold]
    #[inline(never)]
    fn meet(&self, at: usize, class: Option<&'static Class>) -> ClassId {
        guard(0, || {
            let Some(class) = class else { return 0 };
            let progress = class.flags & PROGRESS != 0;
            let properties = Properties { progress, ..Properties::default() };
            let Some(id) = register(class, |_| Some(self.kind), properties) else { return 0 };
            follow_one(id, class);
            self.known[at].store(id, Relaxed);
            id
        })
    }
}

/// Returns the engine's number of a stage's instrument; 0: its events are not counted.
#[inline(always)]
pub(crate) fn stage(key: c_uint) -> ClassId {
    STAGES.at(key as usize, || STAGES.class(key))
}

/// Returns the engine's number of a statement's instrument; 0: its events are not counted.
#[inline(always)]
pub(crate) fn statement(class: &'static Class) -> ClassId {
    STATEMENTS.at(class.index as usize, || Some(class))
}

/// Returns the engine's number of a stage's instrument; 0 for key 0. `None`: it is not known yet.
pub(crate) fn known_stage(key: c_uint) -> Option<ClassId> {
    let known = STAGES.known.get(key as usize)?.load(Relaxed);
    (known != 0 || key == 0).then_some(known)
}

/// Returns the state that a stage stands for in `threads`, of at most 64 characters; `None`: the key is of no
/// stage.
pub(crate) fn state(key: c_uint) -> Option<String> {
    let class = STAGES.class(key)?;
    let place = std::ptr::from_ref(class).addr() + STAGE_PREFIX_LENGTH;
    // SAFETY: an instrument of stages has a number of 32 bits at this place (`startup::checks`), which does
    // not change.
    let prefix = unsafe { *std::ptr::with_exposed_provenance::<u32>(place) };
    let state = name(class)?.get(prefix as usize..).filter(|state| !state.is_empty())?;
    Some(state.chars().take(64).collect())
}

/// Sets the built-in's instrument of transactions.
pub(crate) fn set_transaction(class: &'static Class) {
    let _set_once = TRANSACTION.set(class);
}

/// Returns every instrument of statements, stages and transactions.
pub(crate) fn all() -> impl Iterator<Item = &'static Class> {
    let listed = STAGES.all().chain(STATEMENTS.all()).map(|(_, class)| class);
    listed.chain(TRANSACTION.get().copied())
}

/// Makes every instrument known to the engine, so that those without an event have rows, too.
pub(crate) fn meet_all() {
    for (key, _) in STAGES.all() {
        stage(key);
    }
    for (_, class) in STATEMENTS.all() {
        statement(class);
    }
}

/// Sets the engine's flags of an instrument to the built-in's, if these are new.
pub(super) fn follow_one(id: ClassId, class: &Class) {
    match flags::news(id, class) {
        None => {}
        Some(News::First { enabled, timed }) => ENGINE.restrict_instrument(id, enabled, timed),
        Some(News::Changed { enabled, timed }) => ENGINE.set_instrument(id, Some(enabled), Some(timed)),
    }
}

/// Returns every instrument with the engine's number; 0: not met yet.
fn known() -> impl Iterator<Item = (ClassId, &'static Class)> {
    let stages = STAGES.all().map(|(key, class)| (STAGES.known.get(key as usize), class));
    let statements = STATEMENTS.all().map(|(_, class)| (STATEMENTS.known.get(class.index as usize), class));
    let known = |place: Option<&AtomicU16>| place.map_or(0, |known| known.load(Relaxed));
    let listed = stages.chain(statements).map(move |(place, class)| (known(place), class));
    listed.chain(TRANSACTION.get().map(|class| (fixed::TRANSACTION, *class)))
}

/// Sets the engine's flags of every instrument to the built-in's, after somebody has updated those.
pub(crate) fn follow() {
    for (id, class) in known() {
        follow_one(id, class);
    }
}

/// Switches off what the server has off, after somebody has set levels: the server calls for these
/// instruments, too.
pub(super) fn keep_off() {
    keep_off_of(|| known().collect());
}

/// Does that for these instruments.
pub(super) fn keep_off_of(known: impl FnOnce() -> Vec<(ClassId, &'static Class)>) {
    let are_off = |(id, class): &(ClassId, &'static Class)| *id != 0 && class.enabled.load(Relaxed) == 0;
    let off = while_there(|| known().into_iter().filter(are_off).collect::<Vec<_>>());
    for (id, _) in off.into_iter().flatten() {
        if !ENGINE.is_off(id) {
            ENGINE.restrict_instrument(id, false, true);
        }
    }
}

/// Sets the engine's flags of the instrument of transactions to the built-in's, which has read them from its
/// options before the first thread.
pub(super) fn follow_transactions() {
    if let Some(class) = TRANSACTION.get() {
        follow_one(fixed::TRANSACTION, class);
    }
}
