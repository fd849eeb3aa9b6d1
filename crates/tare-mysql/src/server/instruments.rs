//! HOT PATH: the instruments of waits: from the built-in's to the engine's.
//!
//! The built-in numbers all instruments of waits, and keeps whether each is on: the server's own code tests
//! that before it calls. So here all are on.
#![allow(unsafe_code)]

use std::ffi::c_uint;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

use tare_engine::Registration;
use tare_engine::snapshot::{ClassId, Kind, Properties};
use tare_host::process::{ENGINE, guard};

use super::flags::{self, News};
use crate::abi::Class;

/// The most instruments of waits. Those with a higher number are not counted.
const MOST: usize = 4096;
/// By the built-in's number: the engine's. 0: not met yet.
static KNOWN: [AtomicU16; MOST] = [const { AtomicU16::new(0) }; MOST];

/// Returns the engine's number of an object's instrument; 0: its events are not counted.
#[inline(always)]
pub(crate) fn of(class: &Class) -> ClassId {
    let known = known(class);
    if known != 0 { known } else { meet(class) }
}

/// Returns the engine's number of an object's instrument; 0: it is not met yet, or not counted.
#[inline(always)]
pub(crate) fn known(class: &Class) -> ClassId {
    KNOWN[class.index as usize % MOST].load(Relaxed)
}

#[cold]
#[inline(never)]
fn meet(class: &Class) -> ClassId {
    guard(0, || {
        let Some(known) = KNOWN.get(class.index as usize) else { return 0 };
        let Some(id) = register(class, Kind::of_wait, Properties::default()) else { return 0 };
        let _first = flags::news(id, class);
        known.store(id, Relaxed);
        id
    })
}

/// Returns an instrument's name.
pub(crate) fn name(class: &Class) -> Option<&str> {
    str::from_utf8(class.name.get(..class.name_length as usize)?).ok()
}

/// Registers an instrument of the built-in's with the engine; `None`: it is of no kind. `kind` tells the kind
/// by the name.
pub(super) fn register(
    class: &Class,
    kind: impl FnOnce(&str) -> Option<Kind>,
    properties: Properties,
) -> Option<ClassId> {
    let name = name(class)?;
    Some(ENGINE.register(Registration { kind: kind(name)?, name, properties }))
}

/// Returns the built-in's instrument of a number from 1 on; null behind the last one.
pub(crate) type Find = unsafe extern "C" fn(c_uint) -> *const Class;

static FIND: OnceLock<Vec<Find>> = OnceLock::new();

/// Sets the built-in's functions that find its instruments.
///
/// # Safety
///
/// Each may be called from any thread with any number, and returns null or an instrument that is never
/// removed.
pub(crate) unsafe fn set_lists(find: Vec<Find>) {
    let _set_once = FIND.set(find);
}

/// The built-in's instruments of waits that are in no list.
static SINGLE: OnceLock<Vec<&'static Class>> = OnceLock::new();

/// Sets the instruments that are in no list.
pub(crate) fn set_single(classes: Vec<&'static Class>) {
    let _set_once = SINGLE.set(classes);
}

/// Returns the instruments of the built-in's lists.
fn listed() -> impl Iterator<Item = &'static Class> {
    // SAFETY: the promise of `set_lists`.
    let found = |find: &Find, number| unsafe { find(number).as_ref() };
    let lists = FIND.get().into_iter().flatten();
    lists.flat_map(move |find| (1..MOST as c_uint).map_while(move |number| found(find, number)))
}

/// Returns every instrument of waits.
pub(crate) fn all() -> impl Iterator<Item = &'static Class> {
    listed().chain(SINGLE.get().into_iter().flatten().copied())
}

/// Makes every instrument of the built-in's known to the engine, so that those without an event have rows,
/// too.
pub(crate) fn meet_all() {
    for class in listed() {
        of(class);
    }
}

/// Notes which instruments a person has switched. The engine has them on: what is off the server does not
/// call for.
pub(crate) fn follow() {
    for class in all() {
        let id = of(class);
        if let Some(News::Changed { enabled, .. }) = flags::news(id, class) {
            ENGINE.set_instrument(id, Some(true), None);
            // Without events nothing is there to hold, and the others of its kind may sleep.
            ENGINE.set_held(id, enabled);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_told_by_names() {
        for (name, expected) in [
            ("wait/synch/mutex/sql/LOCK_open", Some(Kind::Mutex)),
            ("wait/synch/prlock/sql/MDL_lock::rwlock", Some(Kind::Rwlock)),
            ("wait/synch/sxlock/innodb/hash_table_locks", Some(Kind::Sxlock)),
            ("wait/io/table/sql/handler", Some(Kind::TableIo)),
            ("wait/lock/table/sql/handler", Some(Kind::TableLock)),
            ("wait/lock/metadata/sql/mdl", Some(Kind::Metadata)),
            ("idle", Some(Kind::Idle)),
            ("stage/sql/init", None),
            ("", None),
        ] {
            assert_eq!(Kind::of_wait(name), expected, "{name}");
        }
    }
}
