//! Words as the processor has them, which `loom` follows where a model says so (`watch`).
//!
//! `loom` can't follow words that lie in a mapping, are laid over others, or come into being as zeros. So a watched word stays
//! where it is, and what it holds is kept under its address, for as long as one run of a model lasts.

use std::cell::RefCell;
use std::collections::HashMap;

pub(crate) use core::sync::atomic::{
    AtomicBool, AtomicI32, AtomicI64, AtomicPtr, AtomicU8, AtomicU16, AtomicUsize, Ordering,
};
pub(crate) use loom::hint::spin_loop;
pub(crate) use loom::sync::atomic::fence;

/// What a run of a model watches, by address. All of its threads are one thread of the system's.
#[derive(Default)]
struct Watched {
    u32s: HashMap<usize, &'static loom::sync::atomic::AtomicU32>,
    u64s: HashMap<usize, &'static loom::sync::atomic::AtomicU64>,
}

thread_local! { static WATCHED: RefCell<Watched> = RefCell::default(); }

/// Forgets what was watched: a run of a model begins.
pub(crate) fn begin() {
    WATCHED.with(|watched| *watched.borrow_mut() = Watched::default());
}

macro_rules! modelled {
    ($name:ident, $value:ty, $cells:ident) => {
        /// A word as the processor has it, in the same place, of the same size.
        #[repr(transparent)]
        #[derive(Debug, Default)]
        pub(crate) struct $name(core::sync::atomic::$name);

        impl $name {
            pub(crate) const fn new(value: $value) -> $name {
                $name(core::sync::atomic::$name::new(value))
            }

            /// The word is `loom`'s from now on, until the run ends. Said before other threads see it.
            pub(crate) fn watch(&self) {
                let cell = loom::sync::atomic::$name::new(self.0.load(Ordering::Relaxed));
                let address = std::ptr::from_ref(self).addr();
                WATCHED.with(|watched| {
                    watched.borrow_mut().$cells.insert(address, Box::leak(Box::new(cell)));
                });
            }

            /// The word of `loom`'s it stands for, if it is watched.
            fn cell(&self) -> Option<&'static loom::sync::atomic::$name> {
                let address = std::ptr::from_ref(self).addr();
                WATCHED.with(|watched| watched.borrow().$cells.get(&address).copied())
            }

            pub(crate) fn load(&self, order: Ordering) -> $value {
                self.cell().map_or_else(|| self.0.load(order), |cell| cell.load(order))
            }

            pub(crate) fn store(&self, value: $value, order: Ordering) {
                self.cell().map_or_else(|| self.0.store(value, order), |cell| cell.store(value, order));
            }

            modelled!(@rmw $value: swap fetch_add fetch_sub fetch_and fetch_or fetch_max);

            pub(crate) fn compare_exchange(
                &self,
                old: $value,
                new: $value,
                done: Ordering,
                failed: Ordering,
            ) -> Result<$value, $value> {
                match self.cell() {
                    Some(cell) => cell.compare_exchange(old, new, done, failed),
                    None => self.0.compare_exchange(old, new, done, failed),
                }
            }

            pub(crate) fn compare_exchange_weak(
                &self,
                old: $value,
                new: $value,
                done: Ordering,
                failed: Ordering,
            ) -> Result<$value, $value> {
                self.compare_exchange(old, new, done, failed)
            }

            pub(crate) fn fetch_update(
                &self,
                done: Ordering,
                failed: Ordering,
                change: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                match self.cell() {
                    Some(cell) => cell.fetch_update(done, failed, change),
                    None => self.0.fetch_update(done, failed, change),
                }
            }
        }
    };
    (@rmw $value:ty: $($method:ident)*) => {$(
        pub(crate) fn $method(&self, value: $value, order: Ordering) -> $value {
            self.cell().map_or_else(|| self.0.$method(value, order), |cell| cell.$method(value, order))
        }
    )*};
}
modelled!(AtomicU32, u32, u32s);
modelled!(AtomicU64, u64, u64s);
