//! HOT PATH: the only module that names atomic types: the processor's, or the model checker's under `--cfg
//! loom`.

#[cfg(not(loom))]
pub use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// A relaxed load by the only writer of an atomic word.
pub(crate) trait OwnLoad {
    type Value;
    fn own(&self) -> Self::Value;
}

macro_rules! own {
    ($($atomic:ty = $value:ty),*) => {$(
        impl OwnLoad for $atomic {
            type Value = $value;

            #[cfg(not(loom))]
            #[inline(always)]
            fn own(&self) -> $value {
                self.load(Ordering::Relaxed)
            }

            // Loom records one access per word, so a counted load by the writer would hide a reader's access.
            // `unsync_load` is not counted.
            #[cfg(loom)]
            #[allow(unsafe_code)]
            fn own(&self) -> $value {
                // SAFETY: the calling thread is the only writer of the word, as `OwnLoad` requires of its
                // callers; loom checks it.
                unsafe { self.unsync_load() }
            }
        }
    )*};
}
own!(AtomicU32 = u32, AtomicU64 = u64);

/// Lets loom run another thread between two attempts of a loop. Does nothing on the processor.
#[inline(always)]
pub(crate) fn again() {
    #[cfg(loom)]
    loom::thread::yield_now();
}
