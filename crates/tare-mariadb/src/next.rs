//! libc's own functions behind those this library stands in front of.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_void};
use std::ptr::{NonNull, null_mut, without_provenance_mut};
use std::sync::atomic::{AtomicPtr, Ordering};

/// A function of the next object that exports its name: libc, in most programs.
pub(crate) struct Next {
    name: &'static CStr,
    /// Null until it was looked up, [`ABSENT`] where nobody exports it.
    address: AtomicPtr<c_void>,
}

/// No function's address.
const ABSENT: *mut c_void = without_provenance_mut(1);

impl Next {
    pub(crate) const fn new(name: &'static CStr) -> Next {
        Next { name, address: AtomicPtr::new(null_mut()) }
    }

    /// Looks it up. The constructor does so, where `dlsym` is allowed: a signal handler must find it done.
    pub(crate) fn resolve(&self) {
        // SAFETY: a plain symbol lookup with a NUL-terminated name.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.address.store(if found.is_null() { ABSENT } else { found }, Ordering::Release);
    }

    /// Its address. Another library's constructor may ask before this one's has run.
    pub(crate) fn address(&self) -> Option<NonNull<c_void>> {
        if self.address.load(Ordering::Acquire).is_null() {
            self.resolve();
        }
        NonNull::new(self.address.load(Ordering::Acquire)).filter(|address| address.as_ptr() != ABSENT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_exports_is_absent_each_time() {
        let (there, absent) = (Next::new(c"getpid"), Next::new(c"tare_exports_no_such_thing"));
        assert_eq!(there.address(), there.address());
        assert!(there.address().is_some());
        assert_eq!((absent.address(), absent.address()), (None, None));
    }
}
