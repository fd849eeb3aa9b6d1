//! HOT PATH: the built-in's functions that do their work as well.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

/// A function of the program that leads here, but can still be called: the address of a copy of its
/// beginning.
pub(crate) struct Original(AtomicPtr<c_void>);

impl Original {
    pub(crate) const fn new() -> Original {
        Original(AtomicPtr::new(std::ptr::null_mut()))
    }

    /// Sets the copy's address, before any call is led here.
    pub(crate) fn set(&self, copy: usize) {
        self.0.store(std::ptr::with_exposed_provenance_mut(copy), Relaxed);
    }

    /// Returns the function.
    ///
    /// # Safety
    ///
    /// `F` is the function's type, and [`Original::set`] has been called.
    #[inline(always)]
    pub(crate) unsafe fn function<F: Copy>(&self) -> F {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        let address = self.0.load(Relaxed);
        // SAFETY: an address of code, and the type is its own (the caller's promise).
        unsafe { std::mem::transmute_copy(&address) }
    }
}
