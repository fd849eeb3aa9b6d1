//! HOT PATH: instances: one mutex, file, socket, table, handle, metadata lock, program, prepared statement.
//!
//! The host keeps a reference to an instance for as long as the thing itself lives. All of them are slots of
//! pools: never unmapped, so a stale reference reads a free slot, never a fault. Where blocks do not stay their
//! pool's ([`Pool::stays`]), whoever writes through a reference of the host's holds the block meanwhile; prepared statements,
//! which only their own session uses, say themselves when that need not be.

mod file;
mod metadata;
mod prepared;
mod prepared_digest;
mod program;
mod socket;
mod synch;
mod table;
mod table_share;

use std::num::NonZeroU64;
use std::sync::atomic::AtomicU64;

use crate::Engine;
use crate::count::cell::Counts;
use crate::memory::arena::View;
use crate::memory::lost::Lost;
use crate::memory::pool::{Pool, SlotHead};
use crate::setup::instrument::{ENABLED, TIMED};

pub use file::{FileHandle, FileRef};
pub use metadata::{MetadataHandle, MetadataName, MetadataRef};
pub use prepared::PreparedRef;
pub use program::{ProgramHandle, ProgramRef};
pub use socket::{SocketHandle, SocketRef};
pub use synch::SynchRef;
pub use table::{TableHandleHandle, TableRef};
pub use table_share::{TableName, TableShareHandle, TableShareRef};

pub(crate) use file::File;
pub(crate) use metadata::MetadataLock;
pub(crate) use prepared::{PREPARED_WORDS, Prepared};
pub(crate) use prepared_digest::PreparedDigest;
pub(crate) use program::Program;
pub(crate) use socket::Socket;
pub(crate) use synch::{ReadLocks, Synch};
pub(crate) use table::{LOCK_KINDS, TableCounts, TableHandle, TableIo, TableLocks};
pub(crate) use table_share::{KEYS_PER_SLOT, KeyNames, TableShare};

macro_rules! reference {
    ($(#[$doc:meta])* $name:ident, $handle:ident, $slot:ident) => {
        $(#[$doc])*
        pub type $name = &'static $handle;

        /// What the host holds: opaque.
        #[repr(transparent)]
        pub struct $handle {
            slot: $slot,
        }

        #[allow(unsafe_code)]
        // SAFETY: nothing but the slot, which is a view.
        unsafe impl $crate::memory::arena::View for $handle {}

        impl $handle {
            /// What the host keeps.
            #[inline(always)]
            pub fn address(&'static self) -> *mut std::ffi::c_void {
                std::ptr::from_ref(self).cast_mut().cast()
            }

            /// The instance at an address the host kept.
            ///
            /// # Safety
            /// `address` is null or came from `address` of the same type in the same process.
            #[inline(always)]
            #[allow(unsafe_code)]
            pub unsafe fn from_address(address: *const std::ffi::c_void) -> Option<$name> {
                // SAFETY: the caller's promise; slots are never unmapped.
                unsafe { address.cast::<$handle>().as_ref() }
            }

            #[inline(always)]
            #[allow(dead_code)]
            pub(crate) fn slot(&'static self, _engine: &$crate::Engine) -> &'static $slot {
                &self.slot
            }
        }

        #[allow(unsafe_code)]
        // SAFETY: atomics only, alignment 8, `Pools::carve` checks that it fits a block.
        unsafe impl $crate::memory::arena::View for $slot {}
    };
}
pub(crate) use reference;

/// As [`reference`], where the host keeps no address but what a record says of the instance ([`Object`]). That has the class and
/// the place: so whoever begins to use it need not look at the slot first, which may lie cold.
macro_rules! named {
    ($(#[$doc:meta])* $name:ident, $slot:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(transparent)]
        pub struct $name(std::num::NonZeroU64);

        impl $name {
            /// What the host keeps, in the place of a pointer: never null.
            #[inline(always)]
            pub fn address(self) -> *mut std::ffi::c_void {
                std::ptr::without_provenance_mut(self.0.get() as usize)
            }

            /// The instance of which the host kept this.
            ///
            /// # Safety
            /// `address` is null or came from `address` of the same type in the same process.
            #[inline(always)]
            #[allow(unsafe_code)]
            pub unsafe fn from_address(address: *const std::ffi::c_void) -> Option<$name> {
                std::num::NonZeroU64::new(address.addr() as u64).map($name)
            }

            /// The bits below are the kind's own.
            #[inline(always)]
            pub(crate) fn object(self) -> $crate::memory::pool::Object {
                $crate::memory::pool::Object(self.0.get() & $crate::memory::pool::Object::BITS)
            }

            #[inline(always)]
            pub(crate) fn slot(self, engine: &$crate::Engine) -> &'static $slot {
                engine.arena.base().at(self.object().offset())
            }
        }

        #[allow(unsafe_code)]
        // SAFETY: atomics only, alignment 8, `Pools::carve` checks that it fits a block.
        unsafe impl $crate::memory::arena::View for $slot {}
    };
}
pub(crate) use named;

impl Engine {
    /// Publishes a slot that has been filled, and says what the host keeps of it. `None`: it lies behind what names reach, so that
    /// it could not be found again, and is given back.
    fn publish<T: View>(&self, pool: Pool, slot: &'static T, lost: Lost) -> Option<NonZeroU64> {
        let head: &SlotHead = self.arena.at(self.arena.offset_of(slot));
        head.publish();
        let object = head.object();
        if object.offset() == 0 {
            self.pools.give(&self.arena, pool, slot);
            self.losses.count(lost);
            return None;
        }
        NonZeroU64::new(object.0)
    }
}

/// Indexes a table can have; one more entry is for access without an index.
pub const MAX_INDEXES: usize = 64;

/// Schema and name of an object, each as words and bytes in use.
pub(crate) type NameWords<'a> = (&'a [AtomicU64], usize, &'a [AtomicU64], usize);

/// The usual `watch` of an object.
const WATCHED: u8 = ENABLED | TIMED;

#[inline(always)]
fn add(counts: &Counts, n: u64, taken: Option<u64>) {
    match taken {
        Some(taken) => counts.add(n, taken),
        None => counts.add_untimed(n),
    }
}
