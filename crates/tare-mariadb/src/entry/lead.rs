//! Slots of the function table that lead elsewhere while nobody wants events of their kind: what is wanted is not asked then,
//! and what is not costs one call.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use tare_engine::snapshot::Kind;

use super::ENGINE;

/// A slot, and where it leads.
struct Lead {
    kind: Kind,
    slot: &'static AtomicPtr<c_void>,
    wanted: *mut c_void,
    unwanted: *mut c_void,
}

// SAFETY: the pointers are functions' addresses, which are only stored.
unsafe impl Send for Lead {}
// SAFETY: as above.
unsafe impl Sync for Lead {}

static LEADS: OnceLock<[Lead; 1]> = OnceLock::new();

/// Keeps a function table for good, whose slot for a kind's events leads to the first or the second of two functions from now on,
/// as [`decide`] says. Either does what is right whenever it is called.
pub(super) fn keep<T, F: Copy>(
    table: T,
    kind: Kind,
    slot: impl FnOnce(&mut T) -> &mut F,
    [wanted, unwanted]: [F; 2],
    address: fn(F) -> *mut c_void,
) -> *const c_void {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    let table = Box::leak(Box::new(table));
    let place = std::ptr::from_mut(slot(table)).cast();
    // SAFETY: a word of the table, which stays; from here on nobody writes to it but `decide`.
    let slot = unsafe { AtomicPtr::from_ptr(place) };
    _ = LEADS.set([Lead { kind, slot, wanted: address(wanted), unwanted: address(unwanted) }]);
    decide(kind, ENGINE.wants(kind));
    std::ptr::from_mut(table).cast_const().cast()
}

/// Events of a kind are wanted, or not any more.
pub(crate) fn decide(kind: Kind, wanted: bool) {
    for lead in LEADS.get().into_iter().flatten().filter(|lead| lead.kind == kind) {
        let to = if wanted { lead.wanted } else { lead.unwanted };
        lead.slot.store(to, Relaxed);
    }
}
