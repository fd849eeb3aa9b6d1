//! HOT PATH: how the host refers to an instance: by the address of its slot, or by one word with its name.

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
        unsafe impl $crate::memory::arena::ArenaView for $handle {}

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
        unsafe impl $crate::memory::arena::ArenaView for $slot {}
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
        unsafe impl $crate::memory::arena::ArenaView for $slot {}
    };
}
pub(crate) use named;
