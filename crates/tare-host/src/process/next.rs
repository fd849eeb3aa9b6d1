//! libc's own functions, of which this library exports overrides.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_void};
use std::ptr::{NonNull, null_mut, without_provenance_mut};
use std::sync::atomic::{AtomicPtr, Ordering};

/// A function of the next object that exports its name, which is libc in most programs.
pub struct Next {
    name: &'static CStr,
    /// Null until it is looked up; [`ABSENT`] if nobody exports it.
    address: AtomicPtr<c_void>,
}

/// A marker that is not the address of any function.
const ABSENT: *mut c_void = without_provenance_mut(1);

impl Next {
    /// Creates the function of this name, which is not looked up yet.
    pub const fn new(name: &'static CStr) -> Next {
        Next { name, address: AtomicPtr::new(null_mut()) }
    }

    /// Looks the function up. The constructor does so, where `dlsym` is allowed; a signal handler must find
    /// it done.
    pub fn resolve(&self) {
        // SAFETY: a plain symbol lookup with a NUL-terminated name.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.address.store(if found.is_null() { ABSENT } else { found }, Ordering::Release);
    }

    /// Returns the function's address; `None` if nobody exports it. Another library's constructor may call
    /// this before ours has run.
    pub fn address(&self) -> Option<NonNull<c_void>> {
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
