//! HOT PATH: instances: one mutex, file, socket, table, handle, metadata lock, program, prepared statement.
//!
//! The host keeps a reference to an instance for as long as the object lives. All instances are slots of
//! pools and are never unmapped, so a stale reference reads a free slot, never a fault. A block may leave its
//! pool unless [`Pool::stays`]. While it may, whoever writes through a reference of the host holds the block.
//! Prepared statements, which only their own session uses, say where that is not needed.

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

        /// Opaque object that the host refers to.
        #[repr(transparent)]
        pub struct $handle {
            slot: $slot,
        }

        #[allow(unsafe_code)]
        // SAFETY: `repr(transparent)` over the slot, which is a view.
        unsafe impl $crate::memory::arena::View for $handle {}

        impl $handle {
            /// Returns the address for the host to keep.
            #[inline(always)]
            pub fn address(&'static self) -> *mut std::ffi::c_void {
                std::ptr::from_ref(self).cast_mut().cast()
            }

            /// Returns the instance at an address kept by the host. `None`: null.
            ///
            /// # Safety
            /// `address` must be null or come from `address` of the same type in the same process.
            #[inline(always)]
            #[allow(unsafe_code)]
            pub unsafe fn from_address(address: *const std::ffi::c_void) -> Option<$name> {
                // SAFETY: the caller passes null or the address of a slot, and slots are never unmapped.
                unsafe { address.cast::<$handle>().as_ref() }
            }

            #[inline(always)]
            #[allow(dead_code)]
            pub(crate) fn slot(&'static self, _engine: &$crate::Engine) -> &'static $slot {
                &self.slot
            }
        }

        #[allow(unsafe_code)]
        // SAFETY: consists of atomics only, alignment 8; `Pools::carve` checks that it fits a block.
        unsafe impl $crate::memory::arena::View for $slot {}
    };
}
pub(crate) use reference;

/// Declares an instance of which the host keeps no address but the word by which records refer to it, an
/// [`Object`](crate::memory::pool::Object). The word has class and place, so using the instance need not read
/// its slot, which may be a cache miss.
macro_rules! named {
    ($(#[$doc:meta])* $name:ident, $slot:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(transparent)]
        pub struct $name(std::num::NonZeroU64);

        impl $name {
            /// Returns the word for the host to keep in place of a pointer; never null.
            #[inline(always)]
            pub fn address(self) -> *mut std::ffi::c_void {
                std::ptr::without_provenance_mut(self.0.get() as usize)
            }

            /// Returns the instance for a word kept by the host. `None`: null.
            ///
            /// # Safety
            /// `address` must be null or come from `address` of the same type in the same process.
            #[inline(always)]
            #[allow(unsafe_code)]
            pub unsafe fn from_address(address: *const std::ffi::c_void) -> Option<$name> {
                std::num::NonZeroU64::new(address.addr() as u64).map($name)
            }

            /// Returns the object, without the low bits that each type uses for itself.
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
        // SAFETY: consists of atomics only, alignment 8; `Pools::carve` checks that it fits a block.
        unsafe impl $crate::memory::arena::View for $slot {}
    };
}
pub(crate) use named;

impl Engine {
    /// Publishes a filled slot and returns the word that the host keeps. `None`: the slot lies beyond the
    /// reach of weak names and is given back.
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

/// Maximum number of indexes of a table. One more entry counts access without an index.
pub const MAX_INDEXES: usize = 64;

/// Schema and name of an object, each as words and number of bytes.
pub(crate) type NameWords<'a> = (&'a [AtomicU64], usize, &'a [AtomicU64], usize);

/// The `watch` of an object that is enabled and timed.
const WATCHED: u8 = ENABLED | TIMED;

#[inline(always)]
fn add(counts: &Counts, n: u64, taken: Option<u64>) {
    match taken {
        Some(taken) => counts.add(n, taken),
        None => counts.add_untimed(n),
    }
}
